//! The pipes to a child process.

use core::{
    pin::Pin,
    task::{Context, Poll},
};
use std::{
    fs::File,
    io::{self, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    process::{self, Stdio},
};

use filch_linux::Direction;

use crate::{
    io::{AsyncRead, AsyncWrite, ReadBuf, source::Source},
    task::coop,
};

macro_rules! pipe {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name {
            io: Source<File>,
        }

        impl $name {
            /// A pipe of the standard library, which does not block afterwards.
            ///
            /// # Errors
            /// Those of the operating system.
            ///
            /// # Panics
            /// If there is no runtime, or it has no I/O.
            #[track_caller]
            pub fn from_std(inner: process::$name) -> io::Result<Self> {
                let file = File::from(OwnedFd::from(inner));
                rustix::io::ioctl_fionbio(&file, true)?;
                Ok(Self { io: Source::new(file)? })
            }

            /// The file, which blocks.
            ///
            /// # Errors
            /// Those of the operating system.
            pub fn into_owned_fd(self) -> io::Result<OwnedFd> {
                let file = self.io.into_inner();
                rustix::io::ioctl_fionbio(&file, false)?;
                Ok(file.into())
            }
        }

        impl AsRawFd for $name {
            fn as_raw_fd(&self) -> RawFd {
                self.io.as_raw_fd()
            }
        }

        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.io.as_fd()
            }
        }

        impl TryFrom<$name> for Stdio {
            type Error = io::Error;

            fn try_from(pipe: $name) -> io::Result<Self> {
                pipe.into_owned_fd().map(Self::from)
            }
        }
    };
}

pipe! {
    /// The pipe to a child's standard input.
    ChildStdin
}
pipe! {
    /// The pipe from a child's standard output.
    ChildStdout
}
pipe! {
    /// The pipe from a child's standard error.
    ChildStderr
}

impl AsyncWrite for ChildStdin {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_io(cx, Direction::Write, |mut io| io.write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.poll_io(cx, Direction::Write, |mut io| io.write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        coop::poll_spend(cx).map(Ok)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        coop::poll_spend(cx).map(Ok)
    }
}

macro_rules! reads {
    ($name:ident) => {
        impl AsyncRead for $name {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.io.poll_read(cx, buf, true)
            }
        }
    };
}

reads!(ChildStdout);
reads!(ChildStderr);
