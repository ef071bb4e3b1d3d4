//! How tokio's traits come to this workspace's streams, and a tokio runtime beside a runtime.

use core::mem::MaybeUninit;
use std::io;

use tokio::io::ReadBuf;

mod companion;

pub use self::companion::Companion;

/// tokio's trait to read by, for types with a stream that has the method `poll_fill_buf`.
#[doc(hidden)]
#[macro_export]
macro_rules! tokio_reads {
    ($($type:ty, $this:ident => $stream:expr;)+) => {$(
        /// Reads with one system call into the uninitialised buffer. One task waits at a time: the last caller.
        impl ::tokio::io::AsyncRead for $type {
            fn poll_read(
                self: ::core::pin::Pin<&mut Self>,
                cx: &mut ::core::task::Context<'_>,
                buf: &mut ::tokio::io::ReadBuf<'_>,
            ) -> ::core::task::Poll<::std::io::Result<()>> {
                let $this = &*self;
                $stream.poll_fill_buf(cx, buf)
            }
        }
    )+};
}

/// tokio's trait to write by, for types with a stream that has the methods `poll_send`, `poll_send_vectored` and `shutdown`.
#[doc(hidden)]
#[macro_export]
macro_rules! tokio_writes {
    ($($type:ty, $this:ident => $stream:expr;)+) => {$(
        /// One task waits at a time: the last caller. There is nothing to flush, and shutting down does not wait: it ends this direction
        /// of a connection; a pipe ends when it is dropped.
        impl ::tokio::io::AsyncWrite for $type {
            fn poll_write(
                self: ::core::pin::Pin<&mut Self>,
                cx: &mut ::core::task::Context<'_>,
                buf: &[u8],
            ) -> ::core::task::Poll<::std::io::Result<usize>> {
                let $this = &*self;
                $stream.poll_send(cx, buf)
            }

            fn poll_flush(self: ::core::pin::Pin<&mut Self>, cx: &mut ::core::task::Context<'_>) -> ::core::task::Poll<::std::io::Result<()>> {
                $crate::nothing::poll_moved(cx)
            }

            fn poll_shutdown(self: ::core::pin::Pin<&mut Self>, cx: &mut ::core::task::Context<'_>) -> ::core::task::Poll<::std::io::Result<()>> {
                let $this = &*self;
                $crate::nothing::poll_done(cx, || $stream.shutdown(::std::net::Shutdown::Write))
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_write_vectored(
                self: ::core::pin::Pin<&mut Self>,
                cx: &mut ::core::task::Context<'_>,
                bufs: &[::std::io::IoSlice<'_>],
            ) -> ::core::task::Poll<::std::io::Result<usize>> {
                let $this = &*self;
                $stream.poll_send_vectored(cx, bufs)
            }
        }
    )+};
}

/// Has `op` read into the part of the buffer that is not filled; returns the number of bytes.
///
/// # Safety
/// `op` only has the system write to the bytes, and returns how many of the first ones that has written.
#[doc(hidden)]
pub unsafe fn fill(
    buf: &mut ReadBuf<'_>,
    op: impl FnOnce(&mut [MaybeUninit<u8>]) -> rustix::io::Result<usize>,
) -> io::Result<usize> {
    // SAFETY: the caller's promise: nothing that is initialised is made uninitialised.
    let n = op(unsafe { buf.unfilled_mut() })?;
    // SAFETY: the caller's promise: the system has written that many bytes.
    unsafe { buf.assume_init(n) };
    buf.advance(n);
    Ok(n)
}
