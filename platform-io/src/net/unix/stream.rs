//! A connection.

use core::time::Duration;
use std::{
    io,
    os::unix::net::{self, SocketAddr},
    path::Path,
};

use filch_std::task::consume_budget;
use rustix::{fd::OwnedFd, io::Errno, net::SocketType};

use super::{
    addr,
    cred::{self, UCred},
};
use crate::{
    Async,
    net::{pause, sys},
};

/// A connection between Unix sockets. Dropping it closes it.
///
/// The methods take `&self`, so that tasks may share one connection: any number of them may wait in
/// [`read`](Self::read) and [`write`](Self::write). The traits of `futures-io` (for `UnixStream`,
/// `&UnixStream` and the halves) keep one waiter for each direction instead: a later caller
/// replaces an earlier one.
///
/// No write raises `SIGPIPE`. An operation that is ready at once spends the task's budget, see
/// [`filch_std::task::consume_budget`].
///
/// ```
/// # filch_io::Builder::new().build().unwrap().block_on(async {
/// use std::{io::{IoSlice, IoSliceMut}, net::Shutdown};
/// use filch_io::net::unix::{UCred, UnixStream};
/// let (a, b) = UnixStream::pair()?; // or `connect` to a listener
/// a.write_all(b"hel").await?;
/// a.write(b"lo").await?;
/// let (mut head, mut tail) = ([0; 2], [0; 8]);
/// b.read_exact(&mut head).await?;
/// assert_eq!(b.peek(&mut tail).await?, b.read(&mut tail).await?);
///
/// b.write_vectored(&[IoSlice::new(b"an"), IoSlice::new(b"swer")]).await?;
/// let n = a.read_vectored(&mut [IoSliceMut::new(&mut head), IoSliceMut::new(&mut tail)]).await?;
/// assert_eq!((n, &head, &tail[..4]), (6, b"an", &b"swer"[..]));
/// assert!(a.local_addr()?.is_unnamed() && a.peer_addr()?.is_unnamed());
/// let peer: UCred = a.peer_cred()?;
/// println!("user {}, group {}, process {:?}", peer.uid, peer.gid, peer.pid);
/// b.shutdown(Shutdown::Write)?;
/// assert_eq!(a.read(&mut tail).await?, 0, "the end");
/// assert!(a.take_error()?.is_none());
/// let a: std::os::unix::net::UnixStream = a.into_std()?;
/// let a = UnixStream::from_std(a)?;
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub struct UnixStream {
    pub(in crate::net) io: Async<net::UnixStream>,
}

impl UnixStream {
    /// Connects to the socket at this path. Waits while the listener's backlog is full, without a
    /// limit: use a timeout.
    ///
    /// # Errors
    /// `NotFound` if there is no such file, `ConnectionRefused` if there is no listener any more,
    /// and other errors of the operating system, with the path in the text; the calling thread is
    /// in no runtime.
    ///
    /// # Cancel safety
    /// Dropping it closes the socket.
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        consume_budget().await;
        Self::connect_to(&SocketAddr::from_pathname(path)?).await
    }

    /// As [`connect`](Self::connect), also to abstract names.
    ///
    /// # Errors
    /// `NotFound` or `ConnectionRefused` if no socket listens there, and other errors of the operating system, with the name in the
    /// text; the calling thread is in no runtime.
    ///
    /// # Cancel safety
    /// Dropping it closes the socket.
    pub async fn connect_addr(addr: &SocketAddr) -> io::Result<Self> {
        consume_budget().await;
        Self::connect_to(addr).await
    }

    /// After a unit of budget: it may be ready at once.
    async fn connect_to(addr: &SocketAddr) -> io::Result<Self> {
        let socket = addr::socket(SocketType::STREAM)?;
        let to = addr::for_system(addr)?;
        let mut rest = Duration::from_millis(1);
        loop {
            match rustix::net::connect(&socket, &to) {
                Ok(()) => return Ok(Self { io: Async::new_nonblocking(socket.into())? }),
                // The backlog is full. A connection is made at once or not at all, so there is no
                // event for it.
                Err(Errno::AGAIN) => {
                    pause::sleep(rest).await?;
                    rest = (rest * 2).min(Duration::from_millis(100));
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(addr::cannot_connect(addr, error.into())),
            }
        }
    }

    /// Two sockets that are connected to each other.
    ///
    /// # Errors
    /// Errors of the operating system; the calling thread is in no runtime.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = sys::pair(SocketType::STREAM)?;
        let watched = |fd: OwnedFd| Async::new_nonblocking(fd.into());
        Ok((Self { io: watched(one)? }, Self { io: watched(other)? }))
    }

    /// The credentials of the peer: of the process that connected, or of the one that made the
    /// listener.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn peer_cred(&self) -> io::Result<UCred> {
        cred::peer_cred(self)
    }
}
