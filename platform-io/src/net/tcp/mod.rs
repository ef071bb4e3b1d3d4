//! TCP.

mod connect;
pub(super) mod keepalive;
mod listener;
mod socket;
mod stream;

pub(super) use self::listener::accept_on;
pub use self::{keepalive::Keepalive, listener::TcpListener, socket::TcpSocket, stream::TcpStream};
pub use super::{
    halves::tcp::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf},
    listener::tcp::Incoming,
};
