//! A listening socket.

use core::{
    fmt,
    task::{Context, Poll},
};
use std::{
    io,
    os::unix::net::{self, SocketAddr},
    path::Path,
};

use rustix::net::SocketType;

use super::{addr, incoming::Incoming, stream::UnixStream};
use crate::{Async, net::sys, shown::shows_file};

/// How many connections may wait to be accepted; the system limits it to `net.core.somaxconn`,
/// 4,096 by default.
const BACKLOG: i32 = 4_096;

/// A Unix socket that accepts connections.
///
/// Dropping it closes the socket. The file stays: see [the module](super).
///
/// ```
/// # filch_io::builder().workers(1).build().unwrap().block_on(async {
/// # let dir = std::env::temp_dir().join(format!("filch-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// # let path = dir.join("socket");
/// use filch_io::net::unix::{Incoming, UnixListener, UnixStream};
/// let listener = UnixListener::bind(&path)?;
/// let client = UnixStream::connect(&path).await?;
/// let (stream, _from) = listener.accept().await?;
/// client.write(b"hello").await?;
/// assert_eq!(stream.read(&mut [0; 16]).await?, 5);
/// println!("greeted by user {}", stream.peer_cred()?.uid);
///
/// // One after the other:
/// let addr = listener.local_addr()?;
/// assert_eq!(addr.as_pathname(), Some(&*path));
/// let _client = UnixStream::connect_addr(&addr).await?;
/// let mut incoming: Incoming<'_> = listener.incoming();
/// let (stream, _from) = incoming.next().await?;
///
/// // In a `poll` of one's own:
/// let _client = UnixStream::connect(&path).await?;
/// let (stream, _from) = core::future::poll_fn(|cx| listener.poll_accept(cx)).await?;
/// assert!(listener.take_error()?.is_none());
/// let listener: std::os::unix::net::UnixListener = listener.into_std()?;
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub struct UnixListener {
    io: Async<net::UnixListener>,
}

impl UnixListener {
    /// Creates the file at this path, and listens there, with a backlog of 4,096 (or what the
    /// system allows).
    ///
    /// # Errors
    /// `AddrInUse` if the file exists, even if no program listens there any more: see [the
    /// module](super). Other errors of the operating system, with the path in the text; the calling
    /// thread is in no runtime.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// As [`bind`](Self::bind), also to abstract names.
    ///
    /// # Errors
    /// `AddrInUse` if there is such a file, or a socket of that abstract name, and other errors of the operating system, with the
    /// name in the text; the calling thread is in no runtime.
    ///
    /// ```
    /// # filch_io::builder().workers(1).build().unwrap().block_on(async {
    /// use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
    /// # let name = format!("filch-doc-{}", std::process::id());
    /// let listener = filch_io::net::UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn bind_addr(addr: &SocketAddr) -> io::Result<Self> {
        let socket = addr::socket(SocketType::STREAM)?;
        addr::bind(&socket, addr)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(Self { io: Async::from_nonblocking(socket.into())? })
    }

    /// Accepts a connection; returns it and the peer's address, which usually has no name. Any
    /// number of tasks may wait. Cost: one system call, two to set the connection up, one more if
    /// the peer has a name.
    ///
    /// # Errors
    /// Errors of the operating system. After `EMFILE`, `ENFILE`, `ENOBUFS` and `ENOMEM` it does not
    /// help to call again at once: [`incoming`](Self::incoming) pauses as it should. An accepted
    /// connection that cannot be registered (no memory) is closed.
    ///
    /// # Cancel safety
    /// Loses no connection.
    pub async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        self.io.read_with(accept_on).await.and_then(watched)
    }

    /// As [`accept`](Self::accept), for one caller at a time: a later caller replaces an earlier
    /// one.
    ///
    /// # Errors
    /// Errors of the operating system; after a shortage it does not help to call again at once.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        self.io.poll_read_with(cx, accept_on).map(|accepted| accepted.and_then(watched))
    }

    /// The connections one after the other, with pauses when the system runs short of descriptors
    /// or memory.
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
    pub fn into_std(self) -> io::Result<net::UnixListener> {
        self.io.into_inner()
    }
}

fn accept_on(socket: &net::UnixListener) -> io::Result<(net::UnixStream, SocketAddr)> {
    let (fd, peer) = sys::accept(socket)?;
    let stream = net::UnixStream::from(fd);
    let peer = addr::of_peer(&stream, peer.as_ref())?;
    Ok((stream, peer))
}

fn watched((stream, peer): (net::UnixStream, SocketAddr)) -> io::Result<(UnixStream, SocketAddr)> {
    Ok((UnixStream::from_nonblocking(stream)?, peer))
}

impl TryFrom<net::UnixListener> for UnixListener {
    type Error = io::Error;

    /// Makes the socket non-blocking, and registers it with the current runtime.
    fn try_from(socket: net::UnixListener) -> io::Result<Self> {
        Ok(Self { io: Async::new(socket)? })
    }
}

shows_file!([] UnixListener, io);

impl fmt::Debug for UnixListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io.get_ref().fmt(f)
    }
}
