//! The traits of `futures-io` for every object that can be read from or written to by reference.

use core::{
    pin::Pin,
    task::{Context, Poll},
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};

use futures_io::{AsyncRead, AsyncWrite};
use rustix::fd::AsFd;

use crate::Async;

macro_rules! reads_and_writes {
    ($type:ty) => {
        /// One task reads at a time: the last caller.
        impl<T: AsFd> AsyncRead for $type
        where
            for<'a> &'a T: Read,
        {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                self.poll_read_with(cx, |mut io| io.read(buf))
            }

            fn poll_read_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &mut [IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                self.poll_read_with(cx, |mut io| io.read_vectored(bufs))
            }
        }

        /// One task writes at a time: the last caller. Closing flushes; the file stays open until this is
        /// dropped.
        impl<T: AsFd> AsyncWrite for $type
        where
            for<'a> &'a T: Write,
        {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.poll_write_with(cx, |mut io| io.write(buf))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.poll_write_with(cx, |mut io| io.write_vectored(bufs))
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_write_with(cx, |mut io| io.flush())
            }

            fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_flush(cx)
            }
        }
    };
}

reads_and_writes!(Async<T>);
reads_and_writes!(&Async<T>);
