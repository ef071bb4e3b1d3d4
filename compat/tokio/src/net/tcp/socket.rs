//! A TCP socket that is not connected yet.

use core::{fmt, net::SocketAddr, time::Duration};
use std::{io, net};

use socket2::{Domain, Protocol, Socket, Type};

use super::{listener::TcpListener, stream::TcpStream};
use crate::{
    net::{
        macros::of_socket2,
        options::{internet_options, option},
    },
    task::coop,
};

/// A TCP socket that is not connected yet, for its options.
pub struct TcpSocket {
    inner: Socket,
}

impl TcpSocket {
    internet_options!();

    option! {
        /// Whether idle connections are probed.
        keepalive, set_keepalive: bool, keepalive, set_keepalive
    }

    option! {
        /// Whether an address can be bound that is in use still.
        reuseaddr, set_reuseaddr: bool, reuse_address, set_reuse_address
    }

    option! {
        /// Whether several sockets may be bound to one address.
        reuseport, set_reuseport: bool, reuse_port, set_reuse_port
    }

    option! {
        /// Whether small packets are sent at once.
        nodelay, set_nodelay: bool, tcp_nodelay, set_tcp_nodelay
    }

    /// A socket for IPv4.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn new_v4() -> io::Result<Self> {
        Self::new(Domain::IPV4)
    }

    /// A socket for IPv6.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn new_v6() -> io::Result<Self> {
        Self::new(Domain::IPV6)
    }

    fn new(domain: Domain) -> io::Result<Self> {
        let kind = Type::STREAM.nonblocking().cloexec();
        Ok(Self { inner: Socket::new_raw(domain, kind, Some(Protocol::TCP))? })
    }

    /// The size of the buffer for sends, in bytes.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn send_buffer_size(&self) -> io::Result<u32> {
        self.inner.send_buffer_size().map(|n| n as u32)
    }

    /// Sets the size of the buffer for sends, in bytes.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn set_send_buffer_size(&self, size: u32) -> io::Result<()> {
        self.inner.set_send_buffer_size(size as usize)
    }

    /// The size of the buffer for receipts, in bytes.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn recv_buffer_size(&self) -> io::Result<u32> {
        self.inner.recv_buffer_size().map(|n| n as u32)
    }

    /// Sets the size of the buffer for receipts, in bytes.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn set_recv_buffer_size(&self, size: u32) -> io::Result<()> {
        self.inner.set_recv_buffer_size(size as usize)
    }

    /// How long `close` waits for what is not sent.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        self.inner.linger()
    }

    /// Sets how long `close` waits for what is not sent.
    ///
    /// # Errors
    /// Those of the operating system.
    #[deprecated(note = "`SO_LINGER` causes the socket to block the thread on drop")]
    pub fn set_linger(&self, dur: Option<Duration>) -> io::Result<()> {
        self.inner.set_linger(dur)
    }

    /// Has `close` reset the connection.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.inner.set_linger(Some(Duration::ZERO))
    }

    /// The address of this end.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let addr = self.inner.local_addr()?;
        addr.as_socket().ok_or_else(|| io::Error::other("not an address of the internet"))
    }

    /// Takes the pending error.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.inner.take_error()
    }

    /// Binds this end.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        self.inner.bind(&addr.into())
    }

    /// Connects.
    ///
    /// # Errors
    /// Those of the operating system; if the runtime has ended.
    pub async fn connect(self, addr: SocketAddr) -> io::Result<TcpStream> {
        coop::consume_budget().await;
        match self.inner.connect(&addr.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        TcpStream::connected(self.inner.into()).await
    }

    /// Listens; `backlog` streams wait to be accepted.
    ///
    /// # Errors
    /// Those of the operating system.
    ///
    /// # Panics
    /// If there is no runtime, or it has no I/O.
    #[track_caller]
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        self.inner.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        TcpListener::over(self.inner.into())
    }

    /// A socket of the standard library, which need not be connected.
    pub fn from_std_stream(std_stream: net::TcpStream) -> Self {
        Self { inner: std_stream.into() }
    }
}

impl fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.inner, f)
    }
}

of_socket2!(TcpSocket);
