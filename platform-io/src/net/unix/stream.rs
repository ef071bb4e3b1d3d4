//! A connection.

use core::{
    fmt,
    task::{Context, Poll},
    time::Duration,
};
use std::{
    io::{self, IoSlice, IoSliceMut},
    net::Shutdown,
    os::unix::net::{self, SocketAddr},
    path::Path,
};

use filch_std::consume_budget;
use rustix::{
    io::Errno,
    net::{RecvFlags, SocketType},
};

use super::{
    addr,
    cred::{self, PeerCred},
};
use crate::{
    Async,
    net::{
        halves::unix::{self as halves, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf},
        pause, sys,
        transfer::{self, room, send, send_vectored},
    },
    shown::shows_file,
};

/// A connection between Unix sockets. Dropping it closes it.
///
/// The methods take `&self`, so that tasks may share one connection: any number of them may wait in
/// [`read`](Self::read) and [`write`](Self::write). The traits of `futures-io` (for `UnixStream`,
/// `&UnixStream` and the halves) keep one waiter for each direction instead: a later caller
/// replaces an earlier one.
///
/// No write raises `SIGPIPE`. An operation that is ready at once spends the task's budget, see
/// [`filch_std::consume_budget`].
///
/// ```
/// # filch_io::builder().build().unwrap().block_on(async {
/// use std::{io::{IoSlice, IoSliceMut}, net::Shutdown};
/// use filch_io::net::unix::{PeerCred, UnixStream};
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
/// let peer: PeerCred = a.peer_cred()?;
/// println!("user {}, group {}, process {:?}", peer.uid, peer.gid, peer.pid);
/// b.shutdown(Shutdown::Write)?;
/// assert_eq!(a.read(&mut tail).await?, 0, "the end");
/// assert!(a.take_error()?.is_none());
/// let a: std::os::unix::net::UnixStream = a.into_std()?;
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
                Ok(()) => return Self::from_nonblocking(socket.into()),
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
        Ok((Self::from_nonblocking(one.into())?, Self::from_nonblocking(other.into())?))
    }

    /// The socket is connected, and does not block.
    pub(super) fn from_nonblocking(socket: net::UnixStream) -> io::Result<Self> {
        Ok(Self { io: Async::from_nonblocking(socket)? })
    }

    /// Reads what there is, at least one byte; returns the number of bytes, 0 at the end of the
    /// stream (or if `buf` is empty). File descriptors that come with the bytes are closed. Cost:
    /// one system call.
    ///
    /// # Errors
    /// Errors of the operating system, such as `ConnectionReset`.
    ///
    /// # Cancel safety
    /// Loses no byte.
    pub async fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.read_with(|socket| receive(socket, buf, RecvFlags::empty())).await
    }

    /// As [`read`](Self::read), into several buffers, one after the other.
    ///
    /// # Errors
    /// Errors of the operating system, such as `ConnectionReset`.
    ///
    /// # Cancel safety
    /// Loses no byte.
    pub async fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.io.read_with(|socket| receive_vectored(socket, bufs)).await
    }

    /// As [`read`](Self::read), but leaves the bytes to be read again.
    ///
    /// # Errors
    /// Errors of the operating system, such as `ConnectionReset`.
    ///
    /// # Cancel safety
    /// Loses no byte.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.read_with(|socket| receive(socket, buf, RecvFlags::PEEK)).await
    }

    /// Writes as much as there is room for, at least one byte unless `buf` is empty; returns the
    /// number of bytes. Cost: one system call.
    ///
    /// # Errors
    /// Errors of the operating system, such as `BrokenPipe` and `ConnectionReset`.
    ///
    /// # Cancel safety
    /// If it is dropped before it is ready, it has written nothing.
    pub async fn write(&self, buf: &[u8]) -> io::Result<usize> {
        self.io.write_with(|socket| send(socket, buf)).await
    }

    /// As [`write`](Self::write), from several buffers, one after the other.
    ///
    /// # Errors
    /// Errors of the operating system, such as `BrokenPipe` and `ConnectionReset`.
    ///
    /// # Cancel safety
    /// If it is dropped before it is ready, it has written nothing.
    pub async fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.io.write_with(|socket| send_vectored(socket, bufs)).await
    }

    pub(in crate::net) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_read_with(cx, |socket| receive(socket, buf, RecvFlags::empty()))
    }

    pub(in crate::net) fn poll_receive_vectored(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_read_with(cx, |socket| receive_vectored(socket, bufs))
    }

    pub(in crate::net) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_write_with(cx, |socket| send(socket, buf))
    }

    pub(in crate::net) fn poll_send_vectored(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_write_with(cx, |socket| send_vectored(socket, bufs))
    }

    /// Shuts one direction down, or both, without waiting. After `Write` the peer reads all that
    /// was written, and then the end of the stream. A connection that has ended counts as shut
    /// down.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self.io.get_ref().shutdown(how) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            result => result,
        }
    }

    /// Two halves that borrow the connection, to read and to write at the same time within a task.
    ///
    /// (The extension traits of `futures` have a method `split`, which takes the connection.)
    ///
    /// ```
    /// # filch_io::builder().build().unwrap().block_on(async {
    /// use filch_io::net::unix::{ReadHalf, UnixStream, WriteHalf};
    /// let (mut stream, peer) = UnixStream::pair()?;
    /// let (mut reader, mut writer): (ReadHalf<'_>, WriteHalf<'_>) = stream.halves();
    /// let mut answer = [0; 4];
    /// let ask = async { writer.write_all(b"ask").await };
    /// let serve = async { peer.read(&mut [0; 8]).await.map(drop)?; peer.write_all(b"answ").await };
    /// futures::try_join!(ask, serve, reader.read_exact(&mut answer))?;
    /// assert_eq!(&answer, b"answ");
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn halves(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        halves::borrow(self)
    }

    /// Two halves that own the connection, for two tasks. The write half shuts its direction down
    /// when it is dropped; the connection is closed when both are. Allocates once.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        halves::into_split(self)
    }

    /// The credentials of the peer: of the process that connected, or of the one that made the
    /// listener.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn peer_cred(&self) -> io::Result<PeerCred> {
        cred::peer_cred(self)
    }

    /// The address at this end; without a name, unless this end comes from a listener.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().local_addr()
    }

    /// The address at the other end; without a name, unless that is a listener's.
    ///
    /// # Errors
    /// Errors of the operating system; the connection has ended.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().peer_addr()
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
    pub fn into_std(self) -> io::Result<net::UnixStream> {
        self.io.into_inner()
    }
}

// A short read does not mean that the stream is empty: a read ends where file descriptors come with
// the bytes, or where another sender's bytes begin.

fn receive(socket: &net::UnixStream, buf: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    if buf.is_empty() {
        // The system would wait for a byte, and leave it.
        return Ok(0);
    }
    transfer::receive(socket, buf, flags)
}

fn receive_vectored(socket: &net::UnixStream, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    if room(bufs) == 0 {
        return Ok(0);
    }
    transfer::receive_vectored(socket, bufs)
}

impl TryFrom<net::UnixStream> for UnixStream {
    type Error = io::Error;

    /// Makes the socket non-blocking, and registers it with the current runtime.
    fn try_from(socket: net::UnixStream) -> io::Result<Self> {
        Ok(Self { io: Async::new(socket)? })
    }
}

shows_file!([] UnixStream, io);

impl fmt::Debug for UnixStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io.get_ref().fmt(f)
    }
}
