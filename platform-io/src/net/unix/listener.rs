//! A listening socket.

use std::{
    io,
    os::unix::net::{self, SocketAddr},
    path::Path,
};

use rustix::net::SocketType;

use super::addr;
use crate::{
    Async,
    net::{listener::BACKLOG, sys},
};

/// A Unix socket that accepts connections.
///
/// Dropping it closes the socket. The file stays: see [the module](super).
///
/// ```
/// # filch_io::Builder::new().workers(1).build().unwrap().block_on(async {
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
/// let listener = UnixListener::from_std(listener)?;
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub struct UnixListener {
    pub(in crate::net) io: Async<net::UnixListener>,
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
    /// # filch_io::Builder::new().workers(1).build().unwrap().block_on(async {
    /// use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
    /// # let name = format!("filch-doc-{}", std::process::id());
    /// let listener = filch_io::net::UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn bind_addr(addr: &SocketAddr) -> io::Result<Self> {
        let socket = addr::socket(SocketType::STREAM)?;
        addr::bind(&socket, addr)?;
        rustix::net::listen(&socket, BACKLOG.into())?;
        Ok(Self { io: Async::new_nonblocking(socket.into())? })
    }
}

pub(in crate::net) fn accept_on(
    socket: &net::UnixListener,
) -> io::Result<(net::UnixStream, SocketAddr)> {
    let (fd, peer) = sys::accept(socket)?;
    let stream = net::UnixStream::from(fd);
    let peer = addr::of_peer(&stream, peer.as_ref())?;
    Ok((stream, peer))
}
