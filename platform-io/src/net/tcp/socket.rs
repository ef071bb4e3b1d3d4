//! A socket before it listens or connects.

use core::{fmt, net::SocketAddr};
use std::io;

use filch_std::task::consume_budget;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::net::{AddressFamily, SocketType, ipproto};
use socket2::Socket;

use super::{connect::Connecting, listener::TcpListener, stream::TcpStream};
use crate::{
    async_fd::Async,
    net::{options::inet, sys},
    shown::shows_file,
};

/// A TCP socket that neither listens nor is connected yet: for options that must be set before.
///
/// Options that have no method here, of this type and of the others, have one in the crate `socket2`, by its `SockRef`. Its own `Socket`
/// becomes one of these by way of an [`OwnedFd`], and one that listens or is connected by way of the standard library's type.
///
/// ```
/// # filch_io::Builder::new().build().unwrap().block_on(async {
/// use filch_io::net::TcpSocket;
/// let socket = TcpSocket::new_v4()?;
/// socket.set_reuseport(true)?;
/// socket.bind(([127, 0, 0, 1], 0).into())?;
/// let listener = socket.listen(128)?;
/// # let addr = listener.local_addr()?;
/// # TcpSocket::new_v4()?.connect(addr).await?;
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
///
/// Its options:
///
/// ```
/// # filch_io::Builder::new().build().unwrap().block_on(async {
/// use core::time::Duration;
/// use filch_io::net::{Keepalive, TcpSocket};
/// let socket = TcpSocket::new_v4()?;
/// # #[cfg(not(windows))]
/// socket.set_reuseaddr(true)?;
/// socket.bind(([127, 0, 0, 1], 0).into())?;
/// // Accepted connections inherit them.
/// socket.set_nodelay(true)?;
/// socket.set_ttl(9)?;
/// socket.set_linger(None)?;
/// socket.set_keepalive(Some(&Keepalive::new().idle(Duration::from_secs(60))))?;
/// socket.set_recv_buffer_size(1 << 16)?;
/// socket.set_send_buffer_size(1 << 16)?;
/// # #[cfg(not(windows))]
/// socket.set_traffic_class(0b10_1110 << 2)?;
/// # #[cfg(target_os = "linux")]
/// socket.set_user_timeout(Some(Duration::from_secs(30)))?;
/// # #[cfg(target_os = "linux")]
/// socket.bind_device(None)?;
/// let addr = socket.local_addr()?;
/// let listener = socket.listen(128)?;
/// let (_client, accepted) = futures::try_join!(TcpSocket::new_v4()?.connect(addr), listener.accept())?;
/// assert!(accepted.0.nodelay()?);
///
/// // Not for IPv4 too. (A system may be without IPv6.)
/// if let Ok(socket) = TcpSocket::new_v6() {
///     socket.set_only_v6(true)?;
/// }
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub struct TcpSocket {
    socket: Socket,
}

impl TcpSocket {
    /// A socket for IPv4.
    ///
    /// # Errors
    /// If the system has no more descriptors or memory.
    pub fn new_v4() -> io::Result<Self> {
        Self::new(AddressFamily::INET)
    }

    /// A socket for IPv6. Whether it is for IPv4 too depends on [`set_only_v6`](Self::set_only_v6)
    /// and on the system's default (`net.ipv6.bindv6only`).
    ///
    /// # Errors
    /// As [`new_v4`](Self::new_v4); the system is without IPv6.
    pub fn new_v6() -> io::Result<Self> {
        Self::new(AddressFamily::INET6)
    }

    /// A socket of the family of `addr`.
    pub(super) fn for_addr(addr: &SocketAddr) -> io::Result<Self> {
        if addr.is_ipv4() { Self::new_v4() } else { Self::new_v6() }
    }

    fn new(family: AddressFamily) -> io::Result<Self> {
        let socket = sys::socket(family, SocketType::STREAM, Some(ipproto::TCP))?;
        Ok(Self { socket: socket.into() })
    }

    /// `SO_REUSEADDR`: an address with old connections in `TIME_WAIT` can be bound again. On Windows that needs no option, and this one
    /// takes an address away from another program: do not set it there.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn set_reuseaddr(&self, on: bool) -> io::Result<()> {
        self.socket.set_reuse_address(on)
    }

    /// `SO_REUSEPORT` (not on Windows): several sockets of one user listen on one address; the system spreads connections over them.
    ///
    /// # Errors
    /// Errors of the operating system.
    #[cfg(not(windows))]
    pub fn set_reuseport(&self, on: bool) -> io::Result<()> {
        self.socket.set_reuse_port(on)
    }

    /// `IPV6_V6ONLY`: a socket for IPv6 does not accept IPv4.
    ///
    /// # Errors
    /// Errors of the operating system; the socket is for IPv4.
    pub fn set_only_v6(&self, on: bool) -> io::Result<()> {
        self.socket.set_only_v6(on)
    }

    /// Binds the socket to a local address; port 0 stands for any free port.
    ///
    /// # Errors
    /// Errors of the operating system, such as `AddrInUse`.
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        self.socket.bind(&addr.into())
    }

    /// The local address.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        inet(self.socket.local_addr()?)
    }

    /// Listens. At most `backlog` connections wait to be accepted; the system limits it
    /// (`net.core.somaxconn`).
    ///
    /// # Errors
    /// Errors of the operating system; the calling thread is in no runtime.
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        self.socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        Ok(TcpListener { io: Async::new_nonblocking(self.socket.into())? })
    }

    /// Connects.
    ///
    /// # Errors
    /// As [`TcpStream::connect_addr`].
    ///
    /// # Cancel safety
    /// Dropping it closes the socket.
    pub async fn connect(self, addr: SocketAddr) -> io::Result<TcpStream> {
        // The system may refuse at once.
        consume_budget().await;
        self.start(addr)?.connected().await
    }

    pub(super) fn start(self, addr: SocketAddr) -> io::Result<Connecting> {
        Connecting::start(self.socket.into(), addr)
    }
}

/// A socket of another crate, such as `socket2`. It must be a TCP socket, and is made non-blocking.
impl TryFrom<OwnedFd> for TcpSocket {
    type Error = io::Error;

    fn try_from(fd: OwnedFd) -> io::Result<Self> {
        let socket = Socket::from(fd);
        socket.set_nonblocking(true)?;
        Ok(Self { socket })
    }
}

shows_file!([] TcpSocket, socket);

impl fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpSocket").field("fd", &self.socket.as_raw_fd()).finish()
    }
}
