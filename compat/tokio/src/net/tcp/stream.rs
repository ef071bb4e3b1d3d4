//! A TCP connection.

use core::{
    net::SocketAddr,
    task::{Context, Poll},
    time::Duration,
};
use std::{io, net, os::fd::AsFd};

use filch_linux::io::Direction;
use rustix::net::RecvFlags;
use socket2::SockRef;

use super::socket::TcpSocket;
use crate::{
    io::{
        Interest, ReadBuf,
        source::{Source, receive},
    },
    net::{
        addr::{ToSocketAddrs, first},
        macros::{of_std, stream},
    },
};

/// A TCP connection.
pub struct TcpStream {
    pub(super) io: Source<net::TcpStream>,
}

of_std!(TcpStream, net::TcpStream, SocketAddr);
stream!(TcpStream, net::TcpStream, SocketAddr, short: true);

impl TcpStream {
    /// Connects to the first address that answers.
    ///
    /// # Errors
    /// The last one, if none answers.
    pub async fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<Self> {
        first(addr, Self::connect_one).await
    }

    async fn connect_one(addr: SocketAddr) -> io::Result<Self> {
        let socket = match addr {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.connect(addr).await
    }

    /// Waits for bytes, and leaves them there.
    ///
    /// # Errors
    /// Those of the operating system; if the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.async_io(Interest::READABLE, |io| io.peek(buf)).await
    }

    /// As [`peek`](Self::peek), for use in a `poll` function; it wakes the task that called last.
    ///
    /// # Errors
    /// As there.
    pub fn poll_peek(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let peek = |io: &net::TcpStream| receive(io.as_fd(), buf, RecvFlags::PEEK);
        self.io.poll_io(cx, Direction::Read, peek)
    }

    crate::net::options::option! {
        /// Whether small packets are sent at once.
        nodelay, set_nodelay: bool, tcp_nodelay, set_tcp_nodelay
    }

    crate::net::options::option! {
        /// How many hops packets may make.
        ttl, set_ttl: u32, ttl_v4, set_ttl_v4
    }

    /// Whether packets are acknowledged at once. The kernel may set it back by itself.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn quickack(&self) -> io::Result<bool> {
        SockRef::from(self).tcp_quickack()
    }

    /// Sets whether packets are acknowledged at once. The kernel may set it back by itself.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn set_quickack(&self, quickack: bool) -> io::Result<()> {
        SockRef::from(self).set_tcp_quickack(quickack)
    }

    /// How long `close` waits for what is not sent.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        SockRef::from(self).linger()
    }

    /// Sets how long `close` waits for what is not sent.
    ///
    /// # Errors
    /// Those of the operating system.
    #[deprecated(note = "`SO_LINGER` causes the socket to block the thread on drop")]
    pub fn set_linger(&self, dur: Option<Duration>) -> io::Result<()> {
        SockRef::from(self).set_linger(dur)
    }

    /// Has `close` reset the connection.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        SockRef::from(self).set_linger(Some(Duration::ZERO))
    }
}
