//! Sockets, addresses and name lookup.

mod addrs;
mod failures;
mod halves;
mod listener;
#[cfg(feature = "udp-offload")]
mod offload;
mod options;
mod pause;
mod socket;
mod stream;
mod sys;
mod tcp;
#[cfg(feature = "tokio")]
mod tokio;
mod transfer;
mod udp;
#[cfg(unix)]
pub mod unix;

pub use addrs::{Addrs, ToSocketAddrs, lookup_host};
#[cfg(feature = "udp-offload")]
pub use offload::{Ecn, Received, Transmit, UdpOffload};
pub use tcp::{
    Incoming, Keepalive, OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, TcpListener,
    TcpSocket, TcpStream, WriteHalf,
};
pub use udp::UdpSocket;
#[cfg(unix)]
pub use unix::{UnixDatagram, UnixListener, UnixStream};
