//! The traits of `futures-io`: one waiter for each direction of a connection.

use core::{
    pin::Pin,
    task::{Context, Poll},
};
use std::{
    io::{self, IoSlice, IoSliceMut},
    net::Shutdown,
};

use futures_io::{AsyncRead, AsyncWrite};

use super::{
    owned::{OwnedReadHalf, OwnedWriteHalf},
    split::{ReadHalf, WriteHalf},
    stream::UnixStream,
};

macro_rules! async_read {
    ($type:ty, $this:ident => $stream:expr) => {
        impl AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                let $this = &*self;
                $stream.poll_receive(cx, buf)
            }

            fn poll_read_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &mut [IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                let $this = &*self;
                $stream.poll_receive_vectored(cx, bufs)
            }
        }
    };
}

macro_rules! async_write {
    ($type:ty, $this:ident => $stream:expr) => {
        /// Closing shuts this direction down and does not wait. There is nothing to flush.
        impl AsyncWrite for $type {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                let $this = &*self;
                $stream.poll_send(cx, buf)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                let $this = &*self;
                $stream.poll_send_vectored(cx, bufs)
            }

            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                let $this = &*self;
                Poll::Ready($stream.shutdown(Shutdown::Write))
            }
        }
    };
}

async_read!(UnixStream, stream => stream);
async_write!(UnixStream, stream => stream);
async_read!(&UnixStream, stream => stream);
async_write!(&UnixStream, stream => stream);
async_read!(ReadHalf<'_>, half => half.as_ref());
async_write!(WriteHalf<'_>, half => half.as_ref());
async_read!(OwnedReadHalf, half => half.as_ref());
async_write!(OwnedWriteHalf, half => half.as_ref());
