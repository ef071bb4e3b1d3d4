//! A connection.

use core::{
    fmt,
    net::SocketAddr,
    task::{Context, Poll},
};
use std::{
    io::{self, IoSlice, IoSliceMut},
    net::{self, Shutdown},
};

use rustix::net::RecvFlags;

use super::{connect, socket::TcpSocket};
use crate::{
    async_fd::Async,
    net::{
        addrs::ToSocketAddrs,
        halves::tcp::{self as halves, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf},
        transfer::{receive, receive_vectored, room, send, send_vectored},
    },
    nothing,
    shown::shows_file,
};

/// A TCP connection. Dropping it closes it.
///
/// The methods take `&self`, so that tasks may share one connection: any number of them may wait in
/// [`read`](Self::read) and [`write`](Self::write). The traits of `futures-io` (for `TcpStream`,
/// `&TcpStream` and the halves) keep one waiter for each direction instead: a later caller replaces
/// an earlier one.
///
/// No write raises `SIGPIPE`. An operation that is ready at once spends the task's budget, see
/// [`filch_std::consume_budget`].
///
/// ```
/// # filch_io::builder().build().unwrap().block_on(async {
/// use std::{io::{IoSlice, IoSliceMut}, net::Shutdown};
/// use filch_io::net::{TcpListener, TcpStream};
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let addr = listener.local_addr()?;
/// let stream = TcpStream::connect("127.0.0.1:".to_owned() + &addr.port().to_string()).await?;
/// let (peer, from) = listener.accept().await?;
/// assert_eq!((stream.local_addr()?, stream.peer_addr()?), (from, addr));
///
/// stream.write(b"hello").await?;
/// let (mut head, mut tail) = ([0; 2], [0; 8]);
/// peer.read_exact(&mut head).await?;
/// assert_eq!(peer.peek(&mut tail).await?, peer.read(&mut tail).await?);
/// stream.write_all(b"more").await?;
/// peer.read_exact(&mut tail[..4]).await?;
///
/// peer.write_vectored(&[IoSlice::new(b"an"), IoSlice::new(b"swer")]).await?;
/// let n = stream.read_vectored(&mut [IoSliceMut::new(&mut head), IoSliceMut::new(&mut tail)]).await?;
/// assert_eq!((n, &head, &tail[..4]), (6, b"an", &b"swer"[..]));
/// peer.shutdown(Shutdown::Write)?;
/// assert_eq!(stream.read(&mut tail).await?, 0, "the end");
/// assert!(stream.take_error()?.is_none());
/// let stream: std::net::TcpStream = stream.into_std()?;
///
/// // Errors of a connection to one address have no text of ours.
/// drop(listener);
/// assert!(TcpStream::connect_addr(addr).await.is_err());
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
///
/// Its options:
///
/// ```
/// # filch_io::builder().build().unwrap().block_on(async {
/// use core::time::Duration;
/// use filch_io::net::{Keepalive, TcpListener, TcpStream};
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let stream = TcpStream::connect(listener.local_addr()?).await?;
/// stream.set_nodelay(true)?;
/// stream.set_keepalive(Some(&Keepalive::new().idle(Duration::from_secs(60))))?;
/// stream.set_linger(None)?;
/// stream.set_ttl(9)?;
/// assert_eq!((stream.nodelay()?, stream.linger()?, stream.ttl()?), (true, None, 9));
/// assert!(stream.keepalive()?.is_some());
/// stream.set_recv_buffer_size(1 << 16)?;
/// stream.set_send_buffer_size(1 << 16)?;
/// assert!(stream.recv_buffer_size()? > 0 && stream.send_buffer_size()? > 0);
/// # #[cfg(not(windows))]
/// stream.set_traffic_class(0b10_1110 << 2)?;
/// # #[cfg(not(windows))]
/// assert_eq!(stream.traffic_class()?, 0xB8);
/// # #[cfg(target_os = "linux")]
/// stream.set_user_timeout(Some(Duration::from_secs(30)))?;
/// # #[cfg(target_os = "linux")]
/// assert_eq!(stream.user_timeout()?, Some(Duration::from_secs(30)));
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub struct TcpStream {
    pub(in crate::net) io: Async<net::TcpStream>,
}

impl TcpStream {
    /// Connects to the first address that answers.
    ///
    /// The addresses are tried as in RFC 8305 ("happy eyeballs"): IPv6 and IPv4 in turns. The next
    /// attempt starts 250 ms after the one before, or as soon as that one has failed; the other
    /// attempts are closed. The system decides how long an attempt lasts, perhaps minutes: use a
    /// timeout.
    ///
    /// # Errors
    /// Errors of the operating system, such as `ConnectionRefused`, with each address in the text,
    /// and the last address's error as the source; a name that cannot be looked up; the calling
    /// thread is in no runtime.
    ///
    /// # Cancel safety
    /// Dropping it closes every socket that it has opened.
    pub async fn connect(addrs: impl ToSocketAddrs) -> io::Result<Self> {
        connect::connect_first(addrs.to_addrs().resolve().await?).await
    }

    /// Connects to one address.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), but the operating system's error is returned unchanged.
    ///
    /// # Cancel safety
    /// Dropping it closes the socket.
    pub async fn connect_addr(addr: SocketAddr) -> io::Result<Self> {
        TcpSocket::for_addr(&addr)?.connect(addr).await
    }

    pub(super) fn from_async(io: Async<net::TcpStream>) -> Self {
        Self { io }
    }

    /// The socket is connected, and does not block.
    pub(super) fn from_nonblocking(socket: net::TcpStream) -> io::Result<Self> {
        Ok(Self { io: Async::from_nonblocking(socket)? })
    }

    /// Reads what there is, at least one byte; returns the number of bytes, 0 at the end of the
    /// stream (or if `buf` is empty). Cost: one system call.
    ///
    /// # Errors
    /// Errors of the operating system, such as `ConnectionReset`.
    ///
    /// # Cancel safety
    /// Loses no byte.
    pub async fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let len = buf.len();
        if len == 0 {
            // The system would wait for a byte, and leave it.
            return nothing::moved().await;
        }
        self.io.read_stream_with(len, |socket| receive(socket, buf, RecvFlags::empty())).await
    }

    /// As [`read`](Self::read), into several buffers, one after the other.
    ///
    /// # Errors
    /// Errors of the operating system, such as `ConnectionReset`.
    ///
    /// # Cancel safety
    /// Loses no byte.
    pub async fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let len = room(bufs);
        if len == 0 {
            return nothing::moved().await;
        }
        self.io.read_stream_with(len, |socket| receive_vectored(socket, bufs)).await
    }

    /// As [`read`](Self::read), but leaves the bytes to be read again.
    ///
    /// # Errors
    /// Errors of the operating system, such as `ConnectionReset`.
    ///
    /// # Cancel safety
    /// Loses no byte.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return nothing::moved().await;
        }
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
        let len = buf.len();
        if len == 0 {
            return nothing::poll_moved(cx);
        }
        let receive = |socket: &net::TcpStream| receive(socket, buf, RecvFlags::empty());
        self.io.poll_read_stream_with(cx, len, receive)
    }

    pub(in crate::net) fn poll_receive_vectored(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = room(bufs);
        if len == 0 {
            return nothing::poll_moved(cx);
        }
        self.io.poll_read_stream_with(cx, len, |socket| receive_vectored(socket, bufs))
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
    /// was written, and then the end of the stream. A connection that the peer has reset counts as
    /// shut down.
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
    /// use filch_io::net::{ReadHalf, TcpListener, TcpStream, WriteHalf};
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let mut stream = TcpStream::connect(listener.local_addr()?).await?;
    /// let (peer, _) = listener.accept().await?;
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

    /// The address at this end.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().local_addr()
    }

    /// The address at the other end.
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
    pub fn into_std(self) -> io::Result<net::TcpStream> {
        self.io.into_inner()
    }
}

impl TryFrom<net::TcpStream> for TcpStream {
    type Error = io::Error;

    /// Makes the socket non-blocking, and registers it with the current runtime.
    fn try_from(socket: net::TcpStream) -> io::Result<Self> {
        Ok(Self { io: Async::new(socket)? })
    }
}

shows_file!([] TcpStream, io);

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io.get_ref().fmt(f)
    }
}
