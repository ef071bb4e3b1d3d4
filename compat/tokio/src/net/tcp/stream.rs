//! A TCP connection.

use core::{
    net::SocketAddr,
    task::{Context, Poll, ready},
    time::Duration,
};
use std::{io, net, os::fd::AsFd};

use filch_linux::Direction;
use rustix::net::RecvFlags;
use socket2::SockRef;

use super::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf, socket::TcpSocket};
use crate::{
    io::{
        Interest, ReadBuf,
        source::{Source, receive},
    },
    net::{
        addr::{ToSocketAddrs, addrs, none},
        macros::{of_std, poll_ready, readiness, stream_traits, try_stream},
    },
};

/// A TCP connection.
pub struct TcpStream {
    io: Source<net::TcpStream>,
}

of_std!(TcpStream, net::TcpStream);
stream_traits!(TcpStream, net::TcpStream, short: true);

impl AsRef<Self> for TcpStream {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl TcpStream {
    readiness!();
    try_stream!();
    poll_ready! {
        poll_read_ready: Read;
        poll_write_ready: Write;
    }

    /// Connects to the first address that answers.
    ///
    /// # Errors
    /// The last one, if none answers.
    pub async fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<Self> {
        let mut last = None;
        for addr in addrs(addr).await? {
            match Self::connect_one(addr).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(none))
    }

    async fn connect_one(addr: SocketAddr) -> io::Result<Self> {
        let socket = match addr {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.connect(addr).await
    }

    /// A socket whose connect is under way: waits for its end.
    pub(crate) async fn connected(socket: net::TcpStream) -> io::Result<Self> {
        let stream = Self::over(socket)?;
        stream.writable().await?;
        match stream.take_error()? {
            Some(error) => Err(error),
            None => Ok(stream),
        }
    }

    /// The address of this end.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// The address of the peer.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.peer_addr()
    }

    /// Takes the pending error.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.take_error()
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

    /// As [`peek`](Self::peek), for callers with a context; one task waits at a time.
    ///
    /// # Errors
    /// As there.
    pub fn poll_peek(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let n = ready!(self.io.poll_io(cx, Direction::Read, |io| receive(
            io.as_fd(),
            buf,
            RecvFlags::PEEK
        )))?;
        Poll::Ready(Ok(n))
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

    /// Two halves, for one task.
    pub fn split<'a>(&'a mut self) -> (ReadHalf<'a>, WriteHalf<'a>) {
        super::split(self)
    }

    /// Two halves, for two tasks.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        super::into_split(self)
    }
}
