//! Sockets and pipes.

#[cfg(feature = "net")]
use std::os::fd::AsFd;

#[cfg(feature = "net")]
pub(crate) mod addr;
#[cfg(feature = "net")]
pub(crate) mod datagram;
#[cfg(feature = "net")]
mod halves;
#[cfg(any(feature = "fs", feature = "net", feature = "process"))]
pub(crate) mod macros;
#[cfg(feature = "net")]
mod options;
#[cfg(feature = "net")]
pub mod tcp;
#[cfg(feature = "net")]
mod udp;
#[cfg(feature = "net")]
pub mod unix;

#[cfg(feature = "net")]
pub use self::{
    addr::{ToSocketAddrs, lookup_host},
    tcp::{listener::TcpListener, socket::TcpSocket, stream::TcpStream},
    udp::UdpSocket,
    unix::{
        datagram::UnixDatagram, listener::UnixListener, socket::UnixSocket, stream::UnixStream,
    },
};

/// A socket that blocks would block the whole runtime: in debug builds it is refused.
///
/// # Panics
/// If it blocks, in debug builds.
#[cfg(feature = "net")]
#[track_caller]
pub(crate) fn check_nonblocking(socket: &impl AsFd) {
    if cfg!(debug_assertions) {
        let flags = rustix::fs::fcntl_getfl(socket.as_fd());
        let blocks = flags.is_ok_and(|flags| !flags.contains(rustix::fs::OFlags::NONBLOCK));
        assert!(
            !blocks,
            "Registering a blocking socket with the tokio runtime is unsupported. If you wish to do anyways, please add \
             `--cfg tokio_allow_from_blocking_fd` to your RUSTFLAGS. See github.com/tokio-rs/tokio/issues/7172 for details."
        );
    }
}
