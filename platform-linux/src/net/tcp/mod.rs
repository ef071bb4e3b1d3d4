//! TCP.

mod connect;
#[cfg(feature = "hyper")]
mod hyper;
mod incoming;
mod keepalive;
mod listener;
mod options;
mod socket;
mod stream;
#[cfg(feature = "tokio")]
mod tokio;

pub use self::{
    incoming::Incoming, keepalive::Keepalive, listener::TcpListener, socket::TcpSocket,
    stream::TcpStream,
};
pub use super::halves::tcp::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
