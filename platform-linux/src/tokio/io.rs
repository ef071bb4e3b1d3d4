//! tokio's traits for this crate's streams.

use core::{
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::io;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stdio::{Stderr, Stdin, Stdout};

/// tokio's trait to read by, for types with a stream that has the method `poll_fill_buf`.
macro_rules! reads {
    ($($type:ty, $this:ident => $stream:expr;)+) => {$(
        /// Reads with one system call into the uninitialised buffer. One task waits at a time: the last caller.
        impl ::tokio::io::AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ::tokio::io::ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let $this = &*self;
                $stream.poll_fill_buf(cx, buf)
            }
        }
    )+};
}

/// tokio's trait to write by, for types with a stream that has the methods `poll_send`, `poll_send_vectored` and `shutdown`.
macro_rules! writes {
    ($($type:ty, $this:ident => $stream:expr;)+) => {$(
        /// One task waits at a time: the last caller. There is nothing to flush, and shutting down does not wait: it ends this direction
        /// of a connection; a pipe ends when it is dropped.
        impl ::tokio::io::AsyncWrite for $type {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                let $this = &*self;
                $stream.poll_send(cx, buf)
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                let $this = &*self;
                Poll::Ready($stream.shutdown(::std::net::Shutdown::Write))
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[::std::io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                let $this = &*self;
                $stream.poll_send_vectored(cx, bufs)
            }
        }
    )+};
}

pub(crate) use {reads, writes};

/// Has `op` read into the part of the buffer that is not filled; returns the number of bytes.
pub(crate) fn fill(
    buf: &mut ReadBuf<'_>,
    op: impl FnOnce(&mut [MaybeUninit<u8>]) -> rustix::io::Result<usize>,
) -> io::Result<usize> {
    // SAFETY: the callers, which are all in this crate, only have the system write to it.
    let n = op(unsafe { buf.unfilled_mut() })?;
    // SAFETY: the system has written that many bytes.
    unsafe { buf.assume_init(n) };
    buf.advance(n);
    Ok(n)
}

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
