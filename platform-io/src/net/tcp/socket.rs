//! A socket before it listens or connects.

use core::{fmt, net::SocketAddr, time::Duration};
use std::{io, net};

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SocketType, ipproto, sockopt};

use super::{
    connect::Connecting,
    keepalive::{self, Keepalive},
    listener::TcpListener,
    stream::TcpStream,
};
use crate::{net::sys, shown::shows_file};

/// A TCP socket that neither listens nor is connected yet: for options that must be set before.
///
/// ```
/// # filch_io::builder().build().unwrap().block_on(async {
/// use filch_io::net::TcpSocket;
/// let socket = TcpSocket::new_v4()?;
/// socket.set_reuse_port(true)?;
/// socket.bind(([127, 0, 0, 1], 0).into())?;
/// let listener = socket.listen(128)?;
/// # let addr = listener.local_addr()?;
/// # TcpSocket::new_v4()?.connect(addr).await?;
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub struct TcpSocket {
    fd: OwnedFd,
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
        Ok(Self { fd: sys::socket(family, SocketType::STREAM, Some(ipproto::TCP))? })
    }

    /// `SO_REUSEADDR`: an address with old connections in `TIME_WAIT` can be bound again. On Windows that needs no option, and this one
    /// takes an address away from another program: do not set it there.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn set_reuse_address(&self, on: bool) -> io::Result<()> {
        Ok(sockopt::set_socket_reuseaddr(&self.fd, on)?)
    }

    /// `SO_REUSEPORT` (not on Windows): several sockets of one user listen on one address; the system spreads connections over them.
    ///
    /// # Errors
    /// Errors of the operating system.
    #[cfg(not(windows))]
    pub fn set_reuse_port(&self, on: bool) -> io::Result<()> {
        Ok(sockopt::set_socket_reuseport(&self.fd, on)?)
    }

    /// `IPV6_V6ONLY`: a socket for IPv6 does not accept IPv4.
    ///
    /// # Errors
    /// Errors of the operating system; the socket is for IPv4.
    pub fn set_only_v6(&self, on: bool) -> io::Result<()> {
        Ok(sockopt::set_ipv6_v6only(&self.fd, on)?)
    }

    /// How many hops packets live: `IP_TTL`, or `IPV6_UNICAST_HOPS`. Accepted connections inherit it.
    ///
    /// # Errors
    /// Errors of the operating system; not 1 to 255; on Windows, a socket that is not bound yet.
    pub fn set_ttl(&self, hops: u32) -> io::Result<()> {
        set_ttl(self.fd.as_fd(), hops)
    }

    /// `TCP_NODELAY`, see [`TcpStream::set_nodelay`]. Accepted connections inherit it.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(&self.fd, on)?)
    }

    /// See [`TcpStream::set_keepalive`]. Accepted connections inherit it.
    ///
    /// # Errors
    /// Errors of the operating system, also for values out of range.
    pub fn set_keepalive(&self, keepalive: Option<&Keepalive>) -> io::Result<()> {
        keepalive::set(self.fd.as_fd(), keepalive)
    }

    /// See [`TcpStream::set_linger`]. Accepted connections inherit it.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn set_linger(&self, time: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_linger(&self.fd, time)?)
    }

    /// `SO_RCVBUF` in bytes; the system doubles it, and limits it. Before the connection it also
    /// determines the window scale.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn set_recv_buffer_size(&self, bytes: usize) -> io::Result<()> {
        Ok(sockopt::set_socket_recv_buffer_size(&self.fd, bytes)?)
    }

    /// `SO_SNDBUF` in bytes; the system doubles it, and limits it.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn set_send_buffer_size(&self, bytes: usize) -> io::Result<()> {
        Ok(sockopt::set_socket_send_buffer_size(&self.fd, bytes)?)
    }

    /// Binds the socket to a local address; port 0 stands for any free port.
    ///
    /// # Errors
    /// Errors of the operating system, such as `AddrInUse`.
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        Ok(rustix::net::bind(&self.fd, &addr)?)
    }

    /// The local address.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(rustix::net::getsockname(&self.fd)?.try_into()?)
    }

    /// Listens. At most `backlog` connections wait to be accepted; the system limits it
    /// (`net.core.somaxconn`).
    ///
    /// # Errors
    /// Errors of the operating system; the calling thread is in no runtime.
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        rustix::net::listen(&self.fd, i32::try_from(backlog).unwrap_or(i32::MAX))?;
        TcpListener::from_nonblocking(self.fd.into())
    }

    /// Connects.
    ///
    /// # Errors
    /// As [`TcpStream::connect_addr`].
    ///
    /// # Cancel safety
    /// Dropping it closes the socket.
    pub async fn connect(self, addr: SocketAddr) -> io::Result<TcpStream> {
        self.start(addr)?.connected().await
    }

    pub(super) fn start(self, addr: SocketAddr) -> io::Result<Connecting> {
        Connecting::start(self.fd.into(), addr)
    }
}

/// The family of a socket.
#[cfg(not(any(windows, target_vendor = "apple", target_os = "dragonfly", target_os = "netbsd")))]
fn family(fd: BorrowedFd<'_>) -> io::Result<AddressFamily> {
    Ok(sockopt::socket_domain(fd)?)
}

/// The family of a socket. On Windows only one with an address has one.
#[cfg(any(windows, target_vendor = "apple", target_os = "dragonfly", target_os = "netbsd"))]
fn family(fd: BorrowedFd<'_>) -> io::Result<AddressFamily> {
    Ok(rustix::net::getsockname(fd)?.address_family())
}

/// Each family has its own option.
pub(super) fn set_ttl(fd: BorrowedFd<'_>, hops: u32) -> io::Result<()> {
    if family(fd)? == AddressFamily::INET {
        return Ok(sockopt::set_ip_ttl(fd, hops)?);
    }
    let hops = u8::try_from(hops).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(sockopt::set_ipv6_unicast_hops(fd, Some(hops))?)
}

pub(super) fn ttl(fd: BorrowedFd<'_>) -> io::Result<u32> {
    if family(fd)? == AddressFamily::INET {
        return Ok(sockopt::ip_ttl(fd)?);
    }
    Ok(sockopt::ipv6_unicast_hops(fd)?.into())
}

/// For options that have no method here: through [`net::TcpStream`] and other crates. The socket
/// must be a TCP socket; it is made non-blocking.
impl TryFrom<OwnedFd> for TcpSocket {
    type Error = io::Error;

    fn try_from(fd: OwnedFd) -> io::Result<Self> {
        let socket = net::TcpStream::from(fd);
        socket.set_nonblocking(true)?;
        Ok(Self { fd: socket.into() })
    }
}

shows_file!([] TcpSocket, fd);

impl fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpSocket").field("fd", &self.fd.as_raw_fd()).finish()
    }
}
