//! A Unix connection.

use std::{io, os::unix::net, path::Path};

use socket2::{Domain, SockAddr, Socket, Type};

use super::{SocketAddr, UCred, cred, listener::address};
use crate::{
    io::source::Source,
    net::macros::{of_std, stream},
    task::coop,
};

/// A Unix connection.
pub struct UnixStream {
    pub(super) io: Source<net::UnixStream>,
}

of_std!(UnixStream, net::UnixStream, SocketAddr);
stream!(UnixStream, net::UnixStream, SocketAddr, short: false);

impl UnixStream {
    /// Connects to the listener at a path, or at an abstract name: one that begins with a zero byte.
    ///
    /// # Errors
    /// Those of the operating system; if the runtime has ended.
    pub async fn connect<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        let addr = coop::spend_if_failed(address(path.as_ref())).await?;
        Self::connect_addr(&SocketAddr(addr)).await
    }

    /// Connects to that address.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_addr(socket_addr: &SocketAddr) -> io::Result<Self> {
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = coop::spend_if_failed(Socket::new_raw(Domain::UNIX, kind, None)).await?;
        Self::connect_socket(socket, &socket_addr.0).await
    }

    /// Connects the socket.
    pub(crate) async fn connect_socket(socket: Socket, addr: &net::SocketAddr) -> io::Result<Self> {
        coop::consume_budget().await;
        match socket.connect(&sock_addr(addr)?) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        Self::connected(socket.into()).await
    }

    /// Two ends.
    ///
    /// # Errors
    /// Those of the operating system.
    ///
    /// # Panics
    /// If there is no runtime, or it has no I/O.
    #[track_caller]
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = net::UnixStream::pair()?;
        a.set_nonblocking(true)?;
        b.set_nonblocking(true)?;
        Ok((Self { io: Source::of_pair(a)? }, Self { io: Source::of_pair(b)? }))
    }

    /// Which process is at the other end.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn peer_cred(&self) -> io::Result<UCred> {
        cred::peer(self)
    }
}

/// The address as the crate `socket2` has it.
pub(crate) fn sock_addr(addr: &net::SocketAddr) -> io::Result<SockAddr> {
    use std::os::linux::net::SocketAddrExt;
    if let Some(path) = addr.as_pathname() {
        return SockAddr::unix(path);
    }
    let mut name = vec![0];
    name.extend(addr.as_abstract_name().unwrap_or_default());
    use std::os::unix::ffi::OsStrExt;
    SockAddr::unix(std::ffi::OsStr::from_bytes(&name))
}
