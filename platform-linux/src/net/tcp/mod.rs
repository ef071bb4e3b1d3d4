//! TCP.

mod connect;
#[cfg(feature = "hyper")]
mod hyper;
mod incoming;
mod keepalive;
mod listener;
mod options;
mod owned;
mod socket;
mod split;
mod stream;
mod traits;

pub use self::{
    incoming::Incoming,
    keepalive::Keepalive,
    listener::TcpListener,
    owned::{OwnedReadHalf, OwnedWriteHalf, ReuniteError},
    socket::TcpSocket,
    split::{ReadHalf, WriteHalf},
    stream::TcpStream,
};
