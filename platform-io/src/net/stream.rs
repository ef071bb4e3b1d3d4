//! What the streams of TCP and of Unix sockets both do. They differ in how they connect, in their addresses, and in what a short read
//! means.

use core::{
    net::SocketAddr,
    task::{Context, Poll},
};
#[cfg(unix)]
use std::os::unix::net as unix;
use std::{
    io::{self, IoSlice, IoSliceMut},
    net::{self, Shutdown},
};

use rustix::net::RecvFlags;

#[cfg(unix)]
use super::UnixStream;
use super::{
    TcpStream,
    transfer::{receive, receive_vectored, room, send, send_vectored},
};
use crate::nothing;

macro_rules! stream {
    ($stream:ident, $std:ty, $addr:ty, short_is_empty: $short_is_empty:literal) => {
        impl $stream {
            /// Reads what there is, at least one byte; returns the number of bytes, 0 at the end of the
            /// stream (or if `buf` is empty). Cost: one system call.
            ///
            /// # Errors
            /// Errors of the operating system, such as `ConnectionReset`.
            ///
            /// # Cancel safety
            /// Loses no byte.
            pub async fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
                let len = buf.len();
                if len == 0 {
                    // The system would wait for a byte, and leave it.
                    return nothing::moved().await;
                }
                let receive = |socket: &$std| receive(socket, buf, RecvFlags::empty());
                self.io.read_stream_with(Self::drained(len), receive).await
            }

            /// As [`read`](Self::read), into several buffers, one after the other.
            ///
            /// # Errors
            /// Errors of the operating system, such as `ConnectionReset`.
            ///
            /// # Cancel safety
            /// Loses no byte.
            pub async fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                let len = room(bufs);
                if len == 0 {
                    return nothing::moved().await;
                }
                let receive = |socket: &$std| receive_vectored(socket, bufs);
                self.io.read_stream_with(Self::drained(len), receive).await
            }

            /// As [`read`](Self::read), but leaves the bytes to be read again.
            ///
            /// # Errors
            /// Errors of the operating system, such as `ConnectionReset`.
            ///
            /// # Cancel safety
            /// Loses no byte.
            pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
                if buf.is_empty() {
                    return nothing::moved().await;
                }
                self.io.read_with(|socket| receive(socket, buf, RecvFlags::PEEK)).await
            }

            /// Writes as much as there is room for, at least one byte unless `buf` is empty; returns the
            /// number of bytes. Cost: one system call.
            ///
            /// # Errors
            /// Errors of the operating system, such as `BrokenPipe` and `ConnectionReset`.
            ///
            /// # Cancel safety
            /// If it is dropped before it is ready, it has written nothing.
            pub async fn write(&self, buf: &[u8]) -> io::Result<usize> {
                self.io.write_with(|socket| send(socket, buf)).await
            }

            /// As [`write`](Self::write), from several buffers, one after the other.
            ///
            /// # Errors
            /// Errors of the operating system, such as `BrokenPipe` and `ConnectionReset`.
            ///
            /// # Cancel safety
            /// If it is dropped before it is ready, it has written nothing.
            pub async fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                self.io.write_with(|socket| send_vectored(socket, bufs)).await
            }

            /// Waits until there is something to read, the end or an error. True once: after it call [`try_read`](Self::try_read) until
            /// that would block.
            ///
            /// # Errors
            /// If the runtime has ended.
            ///
            /// # Cancel safety
            /// Dropping it loses nothing.
            ///
            /// ```
            #[doc = concat!("async fn read(a: &filch_io::net::", stringify!($stream), ", buf: &mut [u8]) -> std::io::Result<usize> {")]
            ///     loop {
            ///         a.readable().await?;
            ///         match a.try_read(buf) {
            ///             Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            ///             read => return read,
            ///         }
            ///     }
            /// }
            /// ```
            pub async fn readable(&self) -> io::Result<()> {
                self.io.readable().await
            }

            /// As [`readable`](Self::readable), for [`try_write`](Self::try_write).
            ///
            /// # Errors
            /// If the runtime has ended.
            ///
            /// # Cancel safety
            /// Dropping it loses nothing.
            pub async fn writable(&self) -> io::Result<()> {
                self.io.writable().await
            }

            /// Reads what there is; returns the number of bytes, 0 at the end of the stream (or if `buf` is empty). Does not wait. From any
            /// thread; spends no budget. Cost: one system call.
            ///
            /// # Errors
            /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing; those of [`read`](Self::read).
            pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
                if buf.is_empty() {
                    return Ok(0);
                }
                self.io.try_read_with(|socket| receive(socket, buf, RecvFlags::empty()))
            }

            /// Writes as much as there is room for; returns the number of bytes. As [`try_read`](Self::try_read).
            ///
            /// # Errors
            /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room; those of [`write`](Self::write).
            pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
                self.io.try_write_with(|socket| send(socket, buf))
            }

            /// For [`Async::read_stream_with`](crate::Async::read_stream_with): a read of less has emptied the stream.
            fn drained(len: usize) -> usize {
                if $short_is_empty { len } else { 0 }
            }

            /// Reads with `receive`, which reads at most `len` bytes.
            pub(crate) fn poll_fill(
                &self,
                cx: &mut Context<'_>,
                len: usize,
                receive: impl FnMut(&$std) -> io::Result<usize>,
            ) -> Poll<io::Result<usize>> {
                if len == 0 {
                    return nothing::poll_moved(cx);
                }
                self.io.poll_read_stream_with(cx, Self::drained(len), receive)
            }

            pub(crate) fn poll_receive(
                &self,
                cx: &mut Context<'_>,
                buf: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                self.poll_fill(cx, buf.len(), |socket| receive(socket, buf, RecvFlags::empty()))
            }

            pub(crate) fn poll_receive_vectored(
                &self,
                cx: &mut Context<'_>,
                bufs: &mut [IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                self.poll_fill(cx, room(bufs), |socket| receive_vectored(socket, bufs))
            }

            pub(crate) fn poll_send(
                &self,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.io.poll_write_with(cx, |socket| send(socket, buf))
            }

            pub(crate) fn poll_send_vectored(
                &self,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.io.poll_write_with(cx, |socket| send_vectored(socket, bufs))
            }

            /// Shuts one direction down, or both, without waiting. After `Write` the peer reads all that
            /// was written, and then the end of the stream. A connection that has ended, also by a reset, counts as
            /// shut down.
            ///
            /// # Errors
            /// Errors of the operating system.
            pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
                match self.io.get_ref().shutdown(how) {
                    Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
                    result => result,
                }
            }

            /// The address at the other end. Of two connected Unix sockets only one that comes from a listener has a name.
            ///
            /// # Errors
            /// Errors of the operating system; the connection has ended.
            pub fn peer_addr(&self) -> io::Result<$addr> {
                self.io.get_ref().peer_addr()
            }
        }
    };
}

stream!(TcpStream, net::TcpStream, SocketAddr, short_is_empty: true);
// A read also ends where file descriptors come with the bytes, or where another sender's bytes begin.
#[cfg(unix)]
stream!(UnixStream, unix::UnixStream, unix::SocketAddr, short_is_empty: false);
