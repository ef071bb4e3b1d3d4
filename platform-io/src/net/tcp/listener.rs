//! A listening socket.

use core::{
    fmt,
    net::SocketAddr,
    task::{Context, Poll},
};
use std::{io, net};

use rustix::io::Errno;

use super::{incoming::Incoming, socket::TcpSocket, stream::TcpStream};
use crate::{
    async_fd::Async,
    net::{addrs::ToSocketAddrs, failures::Failures, sys},
    shown::shows_file,
};

/// How many connections may wait to be accepted; the system limits it to `net.core.somaxconn`,
/// 4,096 by default.
const BACKLOG: u32 = 4_096;

/// A TCP socket that accepts connections.
///
/// ```
/// # filch_io::builder().build().unwrap().block_on(async {
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
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub struct TcpListener {
    io: Async<net::TcpListener>,
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

    /// The socket listens, and does not block.
    pub(super) fn from_nonblocking(socket: net::TcpListener) -> io::Result<Self> {
        Ok(Self { io: Async::from_nonblocking(socket)? })
    }

    /// Accepts a connection; returns it and the peer's address. Any number of tasks may wait.
    /// Connections that ended before they were accepted are skipped. Cost: one system call, two to
    /// set the connection up.
    ///
    /// # Errors
    /// Errors of the operating system. After `EMFILE`, `ENFILE`, `ENOBUFS` and `ENOMEM` it does not
    /// help to call again at once: [`incoming`](Self::incoming) pauses as it should. An accepted
    /// connection that cannot be registered (no memory) is closed.
    ///
    /// # Cancel safety
    /// Loses no connection.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.io.read_with(accept_on).await.and_then(watched)
    }

    /// As [`accept`](Self::accept), for one caller at a time: a later caller replaces an earlier
    /// one.
    ///
    /// # Errors
    /// Errors of the operating system; after a shortage it does not help to call again at once.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        self.io.poll_read_with(cx, accept_on).map(|accepted| accepted.and_then(watched))
    }

    /// The connections one after the other, with pauses when the system runs short of descriptors
    /// or memory.
    ///
    /// ```
    /// # use filch_io::net::TcpListener;
    /// # async fn serve(listener: TcpListener) -> std::io::Result<()> {
    /// use filch_io::net::Incoming;
    /// let mut incoming: Incoming<'_> = listener.incoming();
    /// loop {
    ///     let (stream, _from) = incoming.next().await?;
    ///     println!("{} pauses so far", incoming.shortages());
    ///     filch_io::spawn(async move { stream.write(b"hello").await });
    /// }
    /// # }
    /// ```
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming::new(self)
    }

    /// The address that the socket listens on.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().local_addr()
    }

    /// Takes the socket's pending error (`SO_ERROR`), if there is one.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.io.get_ref().take_error()
    }

    /// Converts it to the socket of the standard library, which stays non-blocking.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn into_std(self) -> io::Result<net::TcpListener> {
        self.io.into_inner()
    }
}

fn listen_on(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::for_addr(&addr)?;
    // On Windows it would take the address away from another program.
    #[cfg(not(windows))]
    socket.set_reuse_address(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

fn accept_on(socket: &net::TcpListener) -> io::Result<(net::TcpStream, SocketAddr)> {
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

fn watched((stream, peer): (net::TcpStream, SocketAddr)) -> io::Result<(TcpStream, SocketAddr)> {
    Ok((TcpStream::from_nonblocking(stream)?, peer))
}

impl TryFrom<net::TcpListener> for TcpListener {
    type Error = io::Error;

    /// Makes the socket non-blocking, and registers it with the current runtime.
    fn try_from(socket: net::TcpListener) -> io::Result<Self> {
        Ok(Self { io: Async::new(socket)? })
    }
}

shows_file!([] TcpListener, io);

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io.get_ref().fmt(f)
    }
}
