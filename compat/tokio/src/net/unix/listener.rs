//! A socket that Unix streams come from.

use core::task::{Context, Poll, ready};
use std::{
    io,
    os::{linux::net::SocketAddrExt, unix::net},
    path::Path,
};

use filch_linux::io::Direction;

use super::{SocketAddr, stream::UnixStream};
use crate::{
    io::{Interest, source::Source},
    net::macros::of_std,
};

/// A socket that Unix streams come from.
pub struct UnixListener {
    io: Source<net::UnixListener>,
}

of_std!(UnixListener, net::UnixListener, SocketAddr);

impl UnixListener {
    /// A listener at a path, or at an abstract name: one that begins with a zero byte.
    ///
    /// # Errors
    /// Those of the operating system.
    ///
    /// # Panics
    /// If there is no runtime, or it has no I/O.
    #[track_caller]
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        Self::bind_addr(&address(path.as_ref())?.into())
    }

    /// A listener at that address.
    ///
    /// # Errors
    /// Those of the operating system.
    ///
    /// # Panics
    /// If there is no runtime, or it has no I/O.
    #[track_caller]
    pub fn bind_addr(socket_addr: &SocketAddr) -> io::Result<Self> {
        let listener = net::UnixListener::bind_addr(&socket_addr.0)?;
        listener.set_nonblocking(true)?;
        Self::over(listener)
    }

    /// Takes the pending error.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.take_error()
    }

    /// The next stream, and its address.
    ///
    /// # Errors
    /// Those of the operating system; if the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping it loses no stream.
    pub async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (stream, addr) = self.io.async_io(Interest::READABLE, accept).await?;
        Ok((UnixStream::accepted(stream)?, SocketAddr(addr)))
    }

    /// As [`accept`](Self::accept), for use in a `poll` function; it wakes the task that called last.
    ///
    /// # Errors
    /// As there.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        let (stream, addr) = ready!(self.io.poll_io(cx, Direction::Read, accept))?;
        Poll::Ready(Ok((UnixStream::accepted(stream)?, SocketAddr(addr))))
    }
}

fn accept(listener: &net::UnixListener) -> io::Result<(net::UnixStream, net::SocketAddr)> {
    let (stream, addr) = listener.accept()?;
    stream.set_nonblocking(true)?;
    Ok((stream, addr))
}

/// The address of a path; of an abstract name, if it begins with a zero byte.
pub(crate) fn address(path: &Path) -> io::Result<net::SocketAddr> {
    use std::os::unix::ffi::OsStrExt;
    match path.as_os_str().as_bytes() {
        [0, name @ ..] => net::SocketAddr::from_abstract_name(name),
        _ => net::SocketAddr::from_pathname(path),
    }
}
