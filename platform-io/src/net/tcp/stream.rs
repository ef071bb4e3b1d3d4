//! A connection.

use core::net::SocketAddr;
use std::{io, net};

use super::{connect, socket::TcpSocket};
use crate::{async_fd::Async, net::addrs::ToSocketAddrs};

/// A TCP connection. Dropping it closes it.
///
/// The methods take `&self`, so that tasks may share one connection: any number of them may wait in
/// [`read`](Self::read) and [`write`](Self::write). The traits of `futures-io` (for `TcpStream`,
/// `&TcpStream` and the halves) keep one waiter for each direction instead: a later caller replaces
/// an earlier one.
///
/// No write raises `SIGPIPE`. An operation that is ready at once spends the task's budget, see
/// [`filch_std::task::consume_budget`].
///
/// ```
/// # filch_io::Builder::new().build().unwrap().block_on(async {
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
/// let stream = TcpStream::from_std(stream)?;
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
/// # filch_io::Builder::new().build().unwrap().block_on(async {
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
}
