//! Unix datagrams.

use core::task::{Context, Poll};
use std::{io, net::Shutdown, os::unix::net, path::Path};

use filch_linux::io::Direction;

use super::{SocketAddr, listener::address};
use crate::{
    io::{Interest, source::Source},
    net::{datagram::datagram, macros::of_std},
    task::coop,
};

/// A Unix socket for datagrams.
pub struct UnixDatagram {
    io: Source<net::UnixDatagram>,
}

of_std!(UnixDatagram, net::UnixDatagram, SocketAddr);

impl UnixDatagram {
    datagram!(SocketAddr);

    /// A socket at a path, or at an abstract name: one that begins with a zero byte.
    ///
    /// # Errors
    /// Those of the operating system.
    ///
    /// # Panics
    /// If there is no runtime, or it has no I/O.
    #[track_caller]
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<Self> {
        let socket = net::UnixDatagram::bind_addr(&address(path.as_ref())?)?;
        socket.set_nonblocking(true)?;
        Self::over(socket)
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
        let (a, b) = net::UnixDatagram::pair()?;
        a.set_nonblocking(true)?;
        b.set_nonblocking(true)?;
        Ok((Self { io: Source::of_pair(a)? }, Self { io: Source::of_pair(b)? }))
    }

    /// A socket without an address.
    ///
    /// # Errors
    /// Those of the operating system.
    ///
    /// # Panics
    /// If there is no runtime, or it has no I/O.
    #[track_caller]
    pub fn unbound() -> io::Result<Self> {
        let socket = net::UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Self::over(socket)
    }

    /// Sets the peer.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        self.io.connect_addr(&address(path.as_ref())?)
    }

    /// Sends a datagram to a path.
    ///
    /// # Errors
    /// Those of the operating system; if the runtime has ended.
    pub async fn send_to<P: AsRef<Path>>(&self, buf: &[u8], target: P) -> io::Result<usize> {
        let target = coop::spend_if_failed(address(target.as_ref())).await?;
        self.io.async_io(Interest::WRITABLE, |io| io.send_to_addr(buf, &target)).await
    }

    /// As `send_to`, for use in a `poll` function; it wakes the task that called last.
    ///
    /// # Errors
    /// As there.
    pub fn poll_send_to<P: AsRef<Path>>(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: P,
    ) -> Poll<io::Result<usize>> {
        match address(target.as_ref()) {
            Ok(target) => self.io.poll_io(cx, Direction::Write, |io| io.send_to_addr(buf, &target)),
            Err(error) => coop::poll_spend(cx).map(|()| Err(error)),
        }
    }

    /// As `send_to`, if that does not block.
    ///
    /// # Errors
    /// `WouldBlock`; those of the operating system.
    pub fn try_send_to<P: AsRef<Path>>(&self, buf: &[u8], target: P) -> io::Result<usize> {
        let target = address(target.as_ref())?;
        self.io.try_io(Interest::WRITABLE, |io| io.send_to_addr(buf, &target))
    }

    /// Ends reads, writes or both.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.shutdown(how)
    }
}
