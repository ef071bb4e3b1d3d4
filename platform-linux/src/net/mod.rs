//! Sockets, and the names of those to talk to.

mod addrs;
mod failures;
mod pause;
mod tcp;

pub use addrs::{Addrs, ToSocketAddrs, lookup};
pub use tcp::{
    Incoming, Keepalive, OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, TcpListener,
    TcpSocket, TcpStream, WriteHalf,
};
