//! A stream that records whether it was last read from or written to.

use core::{
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll, ready},
};
use std::{
    io::{self, IoSlice},
    sync::{Arc, OnceLock},
};

use axum::http::Version;
use filch_linux::net::TcpStream;
use hyper::rt::{Read, ReadBufCursor, Write};

/// A stream for hyper; [`Track`] holds its state.
pub(crate) struct Tracked(Arc<Track>);

/// The state of a connection, to decide whether to close it.
pub(crate) struct Track {
    stream: TcpStream,
    /// A part of a request has come since the last part of a response was sent.
    heard: AtomicBool,
    /// That of the first request.
    version: OnceLock<Version>,
}

impl Tracked {
    pub(crate) fn new(stream: TcpStream) -> Self {
        let (heard, version) = (AtomicBool::new(false), OnceLock::new());
        Self(Arc::new(Track { stream, heard, version }))
    }

    pub(crate) fn track(&self) -> Arc<Track> {
        Arc::clone(&self.0)
    }
}

impl Track {
    /// A request of this version has come.
    pub(crate) fn asked(&self, version: Version) {
        // It stays the same for all requests of a connection, but for the two that are HTTP/1.
        self.version.get_or_init(|| version);
    }

    /// The version, if there was a request.
    pub(crate) fn version(&self) -> Option<Version> {
        self.version.get().copied()
    }

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
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut &self.0.stream).poll_read(cx, buf))?;
        self.0.heard();
        Poll::Ready(Ok(()))
    }
}

impl Write for Tracked {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &self.0.stream).poll_write(cx, buf).map(|n| self.0.told(n))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &self.0.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &self.0.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &self.0.stream).poll_write_vectored(cx, bufs).map(|n| self.0.told(n))
    }
}
