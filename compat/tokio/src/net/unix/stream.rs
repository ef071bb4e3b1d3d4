//! A Unix connection.

use std::{io, os::unix::net, path::Path};

use socket2::{Domain, SockAddr, Socket, Type};

use super::{
    OwnedReadHalf, OwnedWriteHalf, ReadHalf, SocketAddr, UCred, WriteHalf, cred, listener::address,
};
use crate::{
    io::source::Source,
    net::macros::{of_std, poll_ready, readiness, stream_traits, try_stream},
    task::coop,
};

/// A Unix connection.
pub struct UnixStream {
    io: Source<net::UnixStream>,
}

of_std!(UnixStream, net::UnixStream);
stream_traits!(UnixStream, net::UnixStream, short: false);

impl AsRef<Self> for UnixStream {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl UnixStream {
    readiness!();
    try_stream!();
    poll_ready! {
        poll_read_ready: Read;
        poll_write_ready: Write;
    }

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
        Self::connected(socket, &socket_addr.0).await
    }

    /// Connects the socket.
    pub(crate) async fn connected(socket: Socket, addr: &net::SocketAddr) -> io::Result<Self> {
        coop::consume_budget().await;
        match socket.connect(&sock_addr(addr)?) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        let stream = Self::over(socket.into())?;
        stream.writable().await?;
        match stream.take_error()? {
            Some(error) => Err(error),
            None => Ok(stream),
        }
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

    /// The address of this end.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr().map(SocketAddr)
    }

    /// The address of the peer.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr().map(SocketAddr)
    }

    /// Which process is at the other end.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn peer_cred(&self) -> io::Result<UCred> {
        cred::peer(self)
    }

    /// Takes the pending error.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.take_error()
    }

    /// Two halves, for one task.
    pub fn split<'a>(&'a mut self) -> (ReadHalf<'a>, WriteHalf<'a>) {
        super::split(self)
    }

    /// Two halves, for two tasks.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        super::into_split(self)
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
