//! A stream that records whether it was last read from or written to.

use core::{
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll, ready},
};
use std::{
    io::{self, IoSlice},
    sync::Arc,
};

use filch_linux::net::TcpStream;
use hyper::rt::{Read, ReadBufCursor, Write};

/// The first bytes of an HTTP/2 connection: RFC 9113, section 3.4.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream for hyper; [`Track`] holds its state.
pub(crate) struct Tracked {
    track: Arc<Track>,
    /// The bytes that [`Tracked::sniff`] has read, for hyper to read again.
    head: Head,
}

/// The state of a connection, to decide whether to close it.
pub(crate) struct Track {
    stream: TcpStream,
    /// A part of a request has come since the last part of a response was sent.
    heard: AtomicBool,
}

#[derive(Default)]
struct Head {
    bytes: [u8; PREFACE.len()],
    len: usize,
}

/// The versions of HTTP that differ on the wire.
pub(crate) enum Version {
    Http1,
    Http2,
}

impl Tracked {
    pub(crate) fn new(stream: TcpStream) -> Self {
        let track = Arc::new(Track { stream, heard: AtomicBool::new(false) });
        Self { track, head: Head::default() }
    }

    pub(crate) fn track(&self) -> Arc<Track> {
        Arc::clone(&self.track)
    }

    /// The version that the client uses, from as few bytes as possible; `None` if it sends nothing.
    pub(crate) async fn sniff(&mut self) -> io::Result<Option<Version>> {
        let Head { bytes, len } = &mut self.head;
        while *len < bytes.len() {
            let n = self.track.stream.read(&mut bytes[*len..]).await?;
            if n == 0 {
                return Ok((*len > 0).then_some(Version::Http1));
            }
            *len += n;
            self.track.heard();
            if !PREFACE.starts_with(&bytes[..*len]) {
                return Ok(Some(Version::Http1));
            }
        }
        Ok(Some(Version::Http2))
    }
}

impl Track {
    /// Whether no byte of another request has come, neither to hyper nor to the system.
    pub(crate) fn is_idle(&self) -> bool {
        // Ordering: Relaxed; the connection is one task, which also calls this.
        !self.heard.load(Ordering::Relaxed)
            && rustix::io::ioctl_fionread(&self.stream).is_ok_and(|unread| unread == 0)
    }

    fn heard(&self) {
        // Ordering: Relaxed; as above.
        self.heard.store(true, Ordering::Relaxed);
    }

    fn told(&self, written: io::Result<usize>) -> io::Result<usize> {
        // Ordering: Relaxed; as above.
        self.heard.store(false, Ordering::Relaxed);
        written
    }
}

impl Read for Tracked {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Head { bytes, len } = &mut self.head;
        if *len > 0 {
            let n = buf.remaining().min(*len);
            buf.put_slice(&bytes[..n]);
            bytes.copy_within(n.., 0);
            *len -= n;
            return Poll::Ready(Ok(()));
        }
        ready!(Pin::new(&mut &self.track.stream).poll_read(cx, buf))?;
        self.track.heard();
        Poll::Ready(Ok(()))
    }
}

impl Write for Tracked {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &self.track.stream).poll_write(cx, buf).map(|n| self.track.told(n))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &self.track.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &self.track.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &self.track.stream).poll_write_vectored(cx, bufs).map(|n| self.track.told(n))
    }
}
