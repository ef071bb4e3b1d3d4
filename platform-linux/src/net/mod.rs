//! Sockets, addresses and name lookup.

mod addrs;
mod failures;
mod halves;
mod mmsg;
#[cfg(feature = "udp-offload")]
mod offload;
mod pause;
mod ready;
mod tcp;
mod transfer;
mod udp;
pub mod unix;

pub use addrs::{Addrs, ToSocketAddrs, lookup};
pub use mmsg::{Inbound, Outbound};
#[cfg(feature = "udp-offload")]
pub use offload::{Ecn, Received, Transmit, UdpOffload};
pub use tcp::{
    Incoming, Keepalive, OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, TcpListener,
    TcpSocket, TcpStream, WriteHalf,
};
pub use udp::UdpSocket;
pub use unix::{UnixDatagram, UnixListener, UnixStream};
