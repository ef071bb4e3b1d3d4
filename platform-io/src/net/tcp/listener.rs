//! A listening socket.

use core::net::SocketAddr;
use std::{io, net};

use rustix::io::Errno;

use super::socket::TcpSocket;
use crate::{
    async_fd::Async,
    net::{addrs::ToSocketAddrs, failures::Failures, listener::BACKLOG, sys},
};

/// A TCP socket that accepts connections.
///
/// ```
/// # filch_io::Builder::new().build().unwrap().block_on(async {
/// use filch_io::net::{TcpListener, TcpStream};
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let addr = listener.local_addr()?;
/// let client = filch_io::spawn(async move { TcpStream::connect(addr).await?.write(b"hello").await });
///
/// let (stream, _from) = listener.accept().await?;
/// let mut greeting = [0; 5];
/// assert_eq!(stream.read(&mut greeting).await?, 5);
/// assert_eq!(&greeting, b"hello");
/// # assert_eq!(client.await.unwrap()?, 5);
///
/// // In a `poll` of one's own:
/// let _client = TcpStream::connect(addr).await?;
/// let (stream, _from) = core::future::poll_fn(|cx| listener.poll_accept(cx)).await?;
/// assert!(listener.take_error()?.is_none());
/// let listener: std::net::TcpListener = listener.into_std()?;
/// let listener = TcpListener::from_std(listener)?;
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub struct TcpListener {
    pub(in crate::net) io: Async<net::TcpListener>,
}

impl TcpListener {
    /// Listens on the first of the addresses that can be bound, with `SO_REUSEADDR` (not on Windows) and a backlog
    /// of 4,096 (or what the system allows). For other options see [`TcpSocket`].
    ///
    /// # Errors
    /// `AddrInUse` and other errors of the operating system, with each address in the text; a name
    /// that cannot be looked up; the calling thread is in no runtime.
    ///
    /// # Cancel safety
    /// Dropping it closes what it has opened.
    pub async fn bind(addrs: impl ToSocketAddrs) -> io::Result<Self> {
        let addrs = addrs.to_addrs().resolve().await?;
        let mut failures = Failures::default();
        for addr in addrs {
            match listen_on(addr) {
                Ok(listener) => return Ok(listener),
                Err(error) => failures.push(addr, error),
            }
        }
        Err(failures.into_error("cannot listen on"))
    }
}

fn listen_on(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::for_addr(&addr)?;
    // On Windows it would take the address away from another program.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG.into())
}

pub(in crate::net) fn accept_on(
    socket: &net::TcpListener,
) -> io::Result<(net::TcpStream, SocketAddr)> {
    let mut patience = 64;
    loop {
        match sys::accept(socket) {
            Ok((fd, peer)) => {
                let stream = net::TcpStream::from(fd);
                let peer = match peer {
                    Some(peer) => peer.try_into()?,
                    None => stream.peer_addr()?,
                };
                return Ok((stream, peer));
            }
            // Each such error took one connection from the backlog, so the loop ends. The limit is
            // for systems that behave otherwise.
            Err(error) if is_connections_own(error) && patience > 0 => patience -= 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Errors that were pending on the new connection. Most are returned by Linux's accept(2) alone.
fn is_connections_own(error: Errno) -> bool {
    #[cfg(target_os = "linux")]
    if matches!(
        error,
        Errno::PROTO
            | Errno::NOPROTOOPT
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NONET
    ) {
        return true;
    }
    matches!(error, Errno::CONNABORTED | Errno::CONNRESET)
}
