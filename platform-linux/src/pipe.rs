//! Pipes.
//!
//! ```
//! # filch_linux::builder().workers(1).build().unwrap().block_on(async {
//! let (sender, receiver) = filch_linux::pipe::pipe()?;
//! sender.write(b"hello").await?;
//! drop(sender);
//! let mut buffer = [0; 16];
//! assert_eq!(receiver.read(&mut buffer).await?, 5);
//! assert_eq!(receiver.read(&mut buffer).await?, 0, "the end");
//! # Ok::<(), std::io::Error>(())
//! # }).unwrap();
//! ```

#[cfg(feature = "tokio")]
mod tokio;

use core::{
    pin::Pin,
    task::{Context, Poll},
};
use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    process::{ChildStderr, ChildStdin, ChildStdout},
};

use futures_io::{AsyncRead, AsyncWrite};
use rustix::{
    fs::{FileType, OFlags},
    pipe::PipeFlags,
};

use filch_io::{nothing, read_exact, write_all};

use crate::Async;

/// Makes a pipe: what is written to the sender is read from the receiver. Child processes inherit
/// neither.
///
/// # Errors
/// The calling thread is in no runtime; errors of the operating system.
///
/// ```
/// # filch_linux::builder().workers(1).build().unwrap().block_on(async {
/// use std::io::{IoSlice, IoSliceMut, Write};
/// use filch_linux::pipe::{Receiver, Sender, pipe};
/// let (sender, receiver): (Sender, Receiver) = pipe()?;
/// sender.write(b"a").await?;
/// sender.write_all(b"bc").await?;
/// sender.write_vectored(&[IoSlice::new(b"d"), IoSlice::new(b"e")]).await?;
/// let (mut one, mut two) = ([0; 1], [0; 2]);
/// receiver.read_exact(&mut one).await?;
/// receiver.read_vectored(&mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)]).await?;
/// assert_eq!((&one, &two), (b"b", b"cd"));
/// assert_eq!(receiver.read(&mut one).await?, 1);
///
/// // A thread writes, and blocks meanwhile.
/// let mut file = std::fs::File::from(sender.into_blocking_fd()?);
/// let writes = std::thread::spawn(move || file.write_all(&[7; 100_000]));
/// let mut all = Vec::new();
/// assert_eq!(receiver.read_to_end(&mut all).await?, 100_000);
/// assert!(writes.join().is_ok_and(|written| written.is_ok()));
/// let end = receiver.into_blocking_fd()?; // for a child process
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub fn pipe() -> io::Result<(Sender, Receiver)> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let sender = Sender { io: Async::from_nonblocking(writer)? };
    Ok((sender, Receiver { io: Async::from_nonblocking(reader)?, plain: true }))
}

/// The end of a pipe to write to. When all senders of a pipe are dropped, the receiver reads the
/// end.
///
/// A write to a pipe without receivers is a `BrokenPipe` error; for that the process must ignore
/// `SIGPIPE`, as Rust programs do from their start. A write of up to 4,096 bytes is atomic: all or
/// nothing.
#[derive(Debug)]
pub struct Sender {
    io: Async<OwnedFd>,
}

/// The end of a pipe to read from. When it is dropped, writes fail.
#[derive(Debug)]
pub struct Receiver {
    io: Async<OwnedFd>,
    /// Made by this crate, so that it cannot be in packet mode (`O_DIRECT`), where a short read
    /// does not mean an empty pipe.
    plain: bool,
}

read_exact!(Receiver, self: &Self);
write_all!(Sender, self: &Self);

impl Sender {
    /// Writes as much as there is room for, at least one byte unless `buf` is empty; returns the
    /// number of bytes. Any number of tasks may wait. Cost: one system call.
    ///
    /// # Errors
    /// `BrokenPipe` if there is no receiver, and other errors of the operating system.
    ///
    /// # Cancel safety
    /// If it is dropped before it is ready, it has written nothing.
    pub async fn write(&self, buf: &[u8]) -> io::Result<usize> {
        self.io.write_with(|fd| Ok(rustix::io::write(fd, buf)?)).await
    }

    /// As [`write`](Self::write), from several buffers, one after the other.
    ///
    /// # Errors
    /// `BrokenPipe` if there is no receiver, and other errors of the operating system.
    ///
    /// # Cancel safety
    /// If it is dropped before it is ready, it has written nothing.
    pub async fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.io.write_with(|fd| Ok(rustix::io::writev(fd, bufs)?)).await
    }

    /// Converts it to its descriptor, in blocking mode: for a child process, or for a thread.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn into_blocking_fd(self) -> io::Result<OwnedFd> {
        into_blocking(self.io)
    }
}

impl Receiver {
    /// Reads what there is, at least one byte; returns the number of bytes, 0 at the end (or if
    /// `buf` is empty). Any number of tasks may wait. Cost: one system call.
    ///
    /// # Errors
    /// Errors of the operating system.
    ///
    /// # Cancel safety
    /// Loses no byte.
    pub async fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io
            .read_stream_with(self.room(buf.len()), |fd| Ok(rustix::io::read(fd, &mut *buf)?))
            .await
    }

    /// As [`read`](Self::read), into several buffers, one after the other.
    ///
    /// # Errors
    /// Errors of the operating system.
    ///
    /// # Cancel safety
    /// Loses no byte.
    pub async fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.io.read_with(|fd| Ok(rustix::io::readv(fd, bufs)?)).await
    }

    /// Reads to the end, and appends the bytes to `all`; returns their number. All of it must fit
    /// into memory.
    ///
    /// # Errors
    /// Errors of the operating system. The bytes that were read before are in `all`.
    ///
    /// # Cancel safety
    /// The bytes that it has read are in `all`.
    pub async fn read_to_end(&self, all: &mut Vec<u8>) -> io::Result<usize> {
        /// The default capacity of a pipe.
        const PIECE: usize = 65_536;
        let before = all.len();
        loop {
            all.try_reserve(PIECE.min(all.capacity().max(512)))?;
            let read =
                |fd: &OwnedFd| Ok(rustix::io::read(fd, rustix::buffer::spare_capacity(all))?);
            if self.io.read_with(read).await? == 0 {
                return Ok(all.len() - before);
            }
        }
    }

    /// Converts it to its descriptor, in blocking mode: for a child process, or for a thread.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn into_blocking_fd(self) -> io::Result<OwnedFd> {
        into_blocking(self.io)
    }

    /// The length below which a read counts as short; 0 if a short read does not mean that the pipe
    /// is empty.
    fn room(&self, len: usize) -> usize {
        if self.plain { len } else { 0 }
    }
}

fn into_blocking(io: Async<OwnedFd>) -> io::Result<OwnedFd> {
    let fd = io.into_inner()?;
    rustix::io::ioctl_fionbio(&fd, false)?;
    Ok(fd)
}

/// One task waits at a time: a later caller replaces an earlier one.
impl AsyncRead for &Receiver {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let room = self.room(buf.len());
        self.io.poll_read_stream_with(cx, room, |fd| Ok(rustix::io::read(fd, &mut *buf)?))
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_read_with(cx, |fd| Ok(rustix::io::readv(fd, bufs)?))
    }
}

/// As for `&Receiver`.
impl AsyncRead for Receiver {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_read(cx, buf)
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_read_vectored(cx, bufs)
    }
}

/// One task waits at a time: a later caller replaces an earlier one. There is nothing to flush; a
/// pipe is closed when it is dropped.
impl AsyncWrite for &Sender {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_write_with(cx, |fd| Ok(rustix::io::write(fd, buf)?))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_write_with(cx, |fd| Ok(rustix::io::writev(fd, bufs)?))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        nothing::poll_moved(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        nothing::poll_moved(cx)
    }
}

/// As for `&Sender`.
impl AsyncWrite for Sender {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write_vectored(cx, bufs)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        nothing::poll_moved(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        nothing::poll_moved(cx)
    }
}

impl TryFrom<OwnedFd> for Sender {
    type Error = io::Error;

    /// From any pipe or FIFO that is open for writing. Makes it non-blocking, for all processes
    /// that share it, and registers it with the current runtime.
    fn try_from(fd: OwnedFd) -> io::Result<Self> {
        check(&fd, OFlags::WRONLY)?;
        Ok(Self { io: Async::new(fd)? })
    }
}

impl TryFrom<OwnedFd> for Receiver {
    type Error = io::Error;

    /// From any pipe or FIFO that is open for reading. Makes it non-blocking, for all processes
    /// that share it, and registers it with the current runtime.
    fn try_from(fd: OwnedFd) -> io::Result<Self> {
        check(&fd, OFlags::RDONLY)?;
        Ok(Self { io: Async::new(fd)?, plain: false })
    }
}

fn check(fd: &OwnedFd, wanted: OFlags) -> io::Result<()> {
    let refuse = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) != FileType::Fifo {
        return refuse("this file is no pipe");
    }
    let mode = rustix::fs::fcntl_getfl(fd)? & OFlags::RWMODE;
    if mode != wanted && mode != OFlags::RDWR {
        return refuse("this is the other end of a pipe");
    }
    Ok(())
}

/// Conversions from the standard library's types for one end of a pipe.
macro_rules! ends {
    ($($from:ty => $to:ident),+) => {$(
        impl TryFrom<$from> for $to {
            type Error = io::Error;

            /// As from its descriptor.
            fn try_from(end: $from) -> io::Result<Self> {
                OwnedFd::from(end).try_into()
            }
        }
    )+};
}

ends!(ChildStdin => Sender, File => Sender, ChildStdout => Receiver, ChildStderr => Receiver, File => Receiver);

/// The descriptor of both types.
macro_rules! fds {
    ($($type:ty),+) => {$(
        impl AsFd for $type {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.io.as_fd()
            }
        }

        impl AsRawFd for $type {
            fn as_raw_fd(&self) -> RawFd {
                self.io.as_raw_fd()
            }
        }
    )+};
}

fds!(Sender, Receiver);
