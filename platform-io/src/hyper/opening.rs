//! A limit to the time in which a client shows which version of HTTP it speaks.

use core::{
    fmt,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use std::io::{self, IoSlice};

use filch_std::time::{Sleep, Timers};
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

use super::executor::current;

/// What a connection of HTTP/2 begins with.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A server's stream whose client has to show in time which version of HTTP it speaks.
///
/// hyper-util's `server::conn::auto` reads until it knows the version, and has no limit of time for that: a client that sends nothing, or a
/// part of what HTTP/2 begins with, would keep its connection for ever. A read of this stream fails with
/// [`TimedOut`](io::ErrorKind::TimedOut) instead, and the connection ends. The version is known after the first byte that HTTP/2 does not
/// begin with, after all 24 bytes that it begins with, or at the stream's end. From then on this is the stream as it is: hyper has limits
/// for what follows.
///
/// [`serve`](super::serve) and its like use it. [`Upgraded::downcast`](hyper::upgrade::Upgraded::downcast) finds this type, and
/// [`into_inner`](Self::into_inner) returns the stream.
///
/// Cost: a timer and an allocation, if the first read has to wait.
///
/// ```
/// use core::time::Duration;
/// use filch_io::{hyper::Opening, net::{TcpListener, TcpStream}};
/// use hyper::{body::Incoming, service::service_fn, Request, Response};
/// use hyper_util::server::conn::auto;
///
/// async fn hello(_: Request<Incoming>) -> Result<Response<String>, core::convert::Infallible> {
///     Ok(Response::new("hello".into()))
/// }
///
/// # let runtime = filch_io::Builder::new().workers(1).build_pausable().unwrap();
/// # runtime.block_on(async {
/// # filch_io::time::pause();
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let silent = TcpStream::connect(listener.local_addr()?).await?;
/// let (stream, _from) = listener.accept().await?;
/// let stream = Opening::new(stream, Duration::from_secs(5));
/// assert_eq!(stream.get_ref().peer_addr()?, silent.local_addr()?);
/// let http = auto::Builder::new(filch_io::hyper::Executor::new());
/// let served = http.serve_connection(stream, service_fn(hello)).await;
/// assert!(served.is_err(), "the client was silent for five seconds");
/// # let _ = |stream: Opening<TcpStream>| -> TcpStream { stream.into_inner() };
/// # Ok::<_, std::io::Error>(()) }).unwrap();
/// ```
pub struct Opening<S> {
    stream: S,
    stage: Stage,
}

enum Stage {
    /// So many bytes were read, all as HTTP/2 begins.
    Open { read: usize, limit: Limit },
    /// The version is known, or there is no limit.
    Past,
}

enum Limit {
    /// No read has had to wait.
    Unused(Timers, Duration),
    Runs(Pin<Box<Sleep>>),
}

impl Limit {
    /// Ready once the time is over, which begins with the first call.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Self::Unused(timers, limit) = self {
            *self = Self::Runs(Box::pin(timers.sleep(*limit)));
        }
        match self {
            Self::Runs(sleep) => sleep.as_mut().poll(cx),
            Self::Unused(..) => Poll::Pending,
        }
    }
}

impl<S> Opening<S> {
    /// Wraps a stream. The time begins with the first read.
    ///
    /// # Panics
    /// If the calling thread is in no runtime.
    #[track_caller]
    pub fn new(stream: S, limit: Duration) -> Self {
        let limit = Limit::Unused(current().timers(), limit);
        Self { stream, stage: Stage::Open { read: 0, limit } }
    }

    /// Without a limit.
    pub(super) fn unlimited(stream: S) -> Self {
        Self { stream, stage: Stage::Past }
    }

    /// The stream.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The stream. Nothing is buffered in between.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: Read + Unpin> Read for Opening<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let stream = Pin::new(&mut this.stream);
        let Stage::Open { read, limit } = &mut this.stage else {
            return stream.poll_read(cx, buf);
        };
        // No more than what decides: a few bytes, which cost nothing to copy.
        let expected = &PREFACE[*read..];
        let mut room = [MaybeUninit::uninit(); PREFACE.len()];
        let most = expected.len().min(buf.remaining());
        let mut own = ReadBuf::uninit(&mut room[..most]);
        if let Poll::Ready(read) = stream.poll_read(cx, own.unfilled()) {
            read?;
        } else {
            ready!(limit.poll(cx));
            let what = "the client has not shown in time which version of HTTP it speaks";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, what)));
        }
        let bytes = own.filled();
        *read += bytes.len();
        // An empty buffer reads nothing, which is no end.
        let has_ended = bytes.is_empty() && most > 0;
        if has_ended || !expected.starts_with(bytes) || *read == PREFACE.len() {
            this.stage = Stage::Past;
        }
        buf.put_slice(bytes);
        Poll::Ready(Ok(()))
    }
}

impl<S: Write + Unpin> Write for Opening<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
}

impl<S: fmt::Debug> fmt::Debug for Opening<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_known = matches!(self.stage, Stage::Past);
        f.debug_struct("Opening")
            .field("stream", &self.stream)
            .field("is_known", &is_known)
            .finish_non_exhaustive()
    }
}
