//! tokio's traits for the standard streams.

use core::{
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::io;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stdio::{Stderr, Stdin, Stdout};

/// What a thread has read is copied; otherwise the buffer is initialised first.
impl AsyncRead for Stdin {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let n = ready!(futures_io::AsyncRead::poll_read(self, cx, buf.initialize_unfilled()))?;
        buf.advance(n);
        Poll::Ready(Ok(()))
    }
}

macro_rules! outputs {
    ($($type:ty),+) => {$(
        /// Shutting down flushes; the file stays open.
        impl AsyncWrite for $type {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                futures_io::AsyncWrite::poll_write(self, cx, buf)
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                futures_io::AsyncWrite::poll_flush(self, cx)
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                futures_io::AsyncWrite::poll_flush(self, cx)
            }
        }
    )+};
}

outputs!(Stdout, Stderr);
