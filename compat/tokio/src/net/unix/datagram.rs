//! Unix datagrams.

use core::task::{Context, Poll, ready};
use std::{io, net::Shutdown, os::unix::net, path::Path};

use filch_linux::Direction;

use super::{SocketAddr, listener::address};
use crate::{
    io::{Interest, ReadBuf, source::Source},
    net::{
        datagram::{datagram, receive_from},
        macros::{of_std, readiness},
    },
    task::coop,
};

/// A Unix socket for datagrams.
pub struct UnixDatagram {
    io: Source<net::UnixDatagram>,
}

of_std!(UnixDatagram, net::UnixDatagram);

impl UnixDatagram {
    readiness!();
    datagram!();

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

    /// As `send_to`, for callers with a context; one task waits at a time.
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

    /// Receives a datagram, and its sender; what has no room in the buffer is lost.
    ///
    /// # Errors
    /// Those of the operating system; if the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it has received nothing.
    pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (n, from) = self.io.async_io(Interest::READABLE, |io| io.recv_from(buf)).await?;
        Ok((n, SocketAddr(from)))
    }

    /// As `recv_from`, for callers with a context; one task waits at a time.
    ///
    /// # Errors
    /// As there.
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        let op = |io: &net::UnixDatagram| io.recv_from(buf.initialize_unfilled());
        let (n, from) = ready!(self.io.poll_io(cx, Direction::Read, op))?;
        buf.advance(n);
        Poll::Ready(Ok(SocketAddr(from)))
    }

    /// As `recv_from`, if that does not block.
    ///
    /// # Errors
    /// `WouldBlock`; those of the operating system.
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (n, from) = self.io.try_io(Interest::READABLE, |io| io.recv_from(buf))?;
        Ok((n, SocketAddr(from)))
    }

    /// As `try_recv_from`, into the room of a buffer.
    ///
    /// # Errors
    /// As there.
    pub fn try_recv_buf_from<B: bytes::BufMut>(
        &self,
        buf: &mut B,
    ) -> io::Result<(usize, SocketAddr)> {
        let op = |io: &net::UnixDatagram| receive_from(buf, |room| io.recv_from(room));
        let (n, from) = self.io.try_io(Interest::READABLE, op)?;
        Ok((n, SocketAddr(from)))
    }

    /// As `recv_from`, into the room of a buffer.
    ///
    /// # Errors
    /// As there.
    pub async fn recv_buf_from<B: bytes::BufMut>(
        &self,
        buf: &mut B,
    ) -> io::Result<(usize, SocketAddr)> {
        let op = |io: &net::UnixDatagram| receive_from(buf, |room| io.recv_from(room));
        let (n, from) = self.io.async_io(Interest::READABLE, op).await?;
        Ok((n, SocketAddr(from)))
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
    /// If there is none.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr().map(SocketAddr)
    }

    /// Ends reads, writes or both.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.shutdown(how)
    }
}
