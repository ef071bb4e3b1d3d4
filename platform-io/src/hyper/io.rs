//! This crate's streams as hyper's, and other streams between hyper's traits and those of
//! `futures-io`.

use core::{
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::{
    io::{self, IoSlice, IoSliceMut},
    net::Shutdown,
};

use futures_io::{AsyncRead, AsyncWrite};
use hyper::rt::{Read, ReadBufCursor, Write};
use pin_project_lite::pin_project;
use rustix::{fd::AsFd, net::RecvFlags};

#[cfg(unix)]
use crate::net::UnixStream;
use crate::{net::TcpStream, nothing};

/// Implements hyper's traits for a stream or a reference to one.
macro_rules! streams {
    ($($type:ty),+) => {$(
        /// Reads with one system call into the uninitialised buffer. One task waits at a time: the
        /// last caller.
        impl Read for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                mut buf: ReadBufCursor<'_>,
            ) -> Poll<io::Result<()>> {
                self.poll_fill(cx, buf.remaining(), |socket| receive(socket, &mut buf)).map_ok(drop)
            }
        }

        /// Shutting down ends this direction without waiting. There is nothing to flush.
        impl Write for $type {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.poll_send(cx, buf)
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                nothing::poll_moved(cx)
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                nothing::poll_done(cx, || self.shutdown(Shutdown::Write))
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.poll_send_vectored(cx, bufs)
            }
        }
    )+};
}

streams!(TcpStream, &TcpStream);
#[cfg(unix)]
streams!(UnixStream, &UnixStream);

/// Receives into the uninitialised buffer; returns the number of bytes.
fn receive(socket: impl AsFd, buf: &mut ReadBufCursor<'_>) -> io::Result<usize> {
    // SAFETY: the system only writes to it, and this function does not read it.
    let room = unsafe { buf.as_mut() };
    let ((filled, _), _) = rustix::net::recv(socket, room, RecvFlags::empty())?;
    let n = filled.len();
    // SAFETY: the system has written that many bytes.
    unsafe { buf.advance(n) };
    Ok(n)
}

pin_project! {
    /// Converts a stream between the two sets of traits: a stream with those of `futures-io` becomes
    /// one of hyper's, and the reverse.
    ///
    /// For streams of other crates: TLS, a stream of a test, hyper's own `Upgraded`. A read for hyper
    /// initialises the buffer first; streams of this crate avoid that.
    ///
    /// ```
    /// use filch_io::hyper::Io;
    /// fn is_for_hyper<S: hyper::rt::Read + hyper::rt::Write>(_: &S) {}
    /// let mut io = Io::new(futures::io::Cursor::new(vec![0; 16]));
    /// is_for_hyper(&io);
    /// io.get_mut().set_position(4);
    /// assert_eq!(io.get_ref().position(), 4);
    /// assert_eq!(io.into_inner().into_inner().len(), 16);
    /// ```
    #[derive(Clone, Copy, Debug)]
    pub struct Io<S> {
        #[pin]
        stream: S,
    }
}

impl<S> Io<S> {
    /// Wraps a stream.
    pub fn new(stream: S) -> Self {
        Self { stream }
    }

    /// The stream.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The stream.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Returns the stream. Nothing is buffered in between.
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead> Read for Io<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buf.initialize_unfilled();
        let n = ready!(self.project().stream.poll_read(cx, room))?;
        let n = n.min(room.len());
        // SAFETY: all of the room is initialised, and `n` is at most its length.
        unsafe { buf.advance(n) };
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite> Write for Io<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.project().stream.poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_close(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().stream.poll_write_vectored(cx, bufs)
    }
}

impl<S: Read> AsyncRead for Io<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buf = hyper::rt::ReadBuf::new(buf);
        ready!(self.project().stream.poll_read(cx, buf.unfilled()))?;
        Poll::Ready(Ok(buf.filled().len()))
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = bufs.iter_mut().find(|buf| !buf.is_empty());
        self.poll_read(cx, first.map_or(&mut [][..], |buf| &mut **buf))
    }
}

impl<S: Write> AsyncWrite for Io<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.project().stream.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().stream.poll_write_vectored(cx, bufs)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_shutdown(cx)
    }
}
