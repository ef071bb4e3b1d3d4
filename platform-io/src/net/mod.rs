//! Sockets, addresses and name lookup.

mod addrs;
mod failures;
mod halves;
mod mmsg;
mod pause;
mod ready;
mod tcp;
mod transfer;
mod udp;
pub mod unix;

pub use addrs::{Addrs, ToSocketAddrs, lookup};
pub use mmsg::{Inbound, Outbound};
pub use tcp::{
    Incoming, Keepalive, OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, TcpListener,
    TcpSocket, TcpStream, WriteHalf,
};
pub use udp::UdpSocket;
pub use unix::{UnixDatagram, UnixListener, UnixStream};
