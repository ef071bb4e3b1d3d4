//! Pipes.
//!
//! ```
//! # filch_linux::Builder::new().workers(1).build().unwrap().block_on(async {
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

use core::task::{Context, Poll};
use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    net::Shutdown,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    process::{ChildStderr, ChildStdin, ChildStdout},
};

use rustix::{
    fs::{FileType, OFlags},
    pipe::PipeFlags,
};

use filch_io::{async_read, async_write, read_exact, write_all};

use crate::Async;

/// Makes a pipe: what is written to the sender is read from the receiver. Child processes inherit
/// neither.
///
/// # Errors
/// The calling thread is in no runtime; errors of the operating system.
///
/// ```
/// # filch_linux::Builder::new().workers(1).build().unwrap().block_on(async {
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
    let sender = Sender { io: Async::new_nonblocking(writer)? };
    Ok((sender, Receiver { io: Async::new_nonblocking(reader)?, plain: true }))
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
async_read!(Receiver, pipe => pipe);
async_read!(&Receiver, pipe => pipe);
async_write!(Sender, pipe => pipe);
async_write!(&Sender, pipe => pipe);

impl Sender {
    /// From any pipe or FIFO that is open for writing. Makes it non-blocking, for all processes that share it, and registers it with
    /// the current runtime.
    ///
    /// # Errors
    /// `InvalidInput` if the file is no such end; the calling thread is in no runtime; errors of the operating system. The file is
    /// closed then.
    pub fn from_owned_fd(fd: OwnedFd) -> io::Result<Self> {
        check(&fd, OFlags::WRONLY)?;
        Ok(Self { io: Async::new(fd)? })
    }

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

    fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.io.poll_write_with(cx, |fd| Ok(rustix::io::write(fd, buf)?))
    }

    fn poll_send_vectored(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_write_with(cx, |fd| Ok(rustix::io::writev(fd, bufs)?))
    }

    /// A pipe is closed when it is dropped.
    fn shutdown(&self, _: Shutdown) -> io::Result<()> {
        Ok(())
    }
}

impl Receiver {
    /// From any pipe or FIFO that is open for reading. Makes it non-blocking, for all processes that share it, and registers it with
    /// the current runtime.
    ///
    /// # Errors
    /// As [`Sender::from_owned_fd`].
    pub fn from_owned_fd(fd: OwnedFd) -> io::Result<Self> {
        check(&fd, OFlags::RDONLY)?;
        Ok(Self { io: Async::new(fd)?, plain: false })
    }

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

    fn poll_receive(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let room = self.room(buf.len());
        self.io.poll_read_stream_with(cx, room, |fd| Ok(rustix::io::read(fd, &mut *buf)?))
    }

    fn poll_receive_vectored(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_read_with(cx, |fd| Ok(rustix::io::readv(fd, bufs)?))
    }

    /// The length below which a read counts as short; 0 if a short read does not mean that the pipe
    /// is empty.
    fn room(&self, len: usize) -> usize {
        if self.plain { len } else { 0 }
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

/// What both ends have, and conversions from the standard library's types for one.
macro_rules! end {
    ($end:ident: $($from:ty)*) => {
        impl $end {
            /// Converts it to its descriptor, in blocking mode: for a child process, or for a thread.
            ///
            /// # Errors
            /// Errors of the operating system.
            pub fn into_blocking_fd(self) -> io::Result<OwnedFd> {
                let fd = self.io.into_inner()?;
                rustix::io::ioctl_fionbio(&fd, false)?;
                Ok(fd)
            }

            /// Converts it to its descriptor, which stays non-blocking.
            ///
            /// # Errors
            /// None at present.
            pub fn into_nonblocking_fd(self) -> io::Result<OwnedFd> {
                self.io.into_inner()
            }
        }

        $(
            /// As [`from_owned_fd`](Self::from_owned_fd).
            impl TryFrom<$from> for $end {
                type Error = io::Error;

                fn try_from(end: $from) -> io::Result<Self> {
                    Self::from_owned_fd(end.into())
                }
            }
        )*

        impl AsFd for $end {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.io.as_fd()
            }
        }

        impl AsRawFd for $end {
            fn as_raw_fd(&self) -> RawFd {
                self.io.as_raw_fd()
            }
        }
    };
}

end!(Sender: OwnedFd File ChildStdin);
end!(Receiver: OwnedFd File ChildStdout ChildStderr);
