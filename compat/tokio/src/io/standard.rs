//! The standard streams, on threads that may block.

use core::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::{
    io::{self, Read, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
};

use super::{AsyncRead, AsyncWrite, ReadBuf};
use crate::{
    runtime::{Handle, shutting_down},
    task::{JoinHandle, coop, spawn_blocking},
};

/// The most bytes of one operation.
pub(crate) const CHUNK: usize = 2 << 20;

/// Bytes on their way to or from a file.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    pub(crate) bytes: Vec<u8>,
    begin: usize,
}

impl Buffer {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.begin
    }

    /// Moves bytes out.
    pub(crate) fn take(&mut self, out: &mut ReadBuf<'_>) {
        let n = self.len().min(out.remaining());
        out.put_slice(&self.bytes[self.begin..self.begin + n]);
        self.begin += n;
        if self.len() == 0 {
            self.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.begin = 0;
    }

    /// Reads once, at most so many bytes, into the empty buffer.
    pub(crate) fn read(&mut self, io: &mut impl Read, most: usize) -> io::Result<usize> {
        self.begin = 0;
        self.bytes.resize(most, 0);
        let read = loop {
            match io.read(&mut self.bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        self.bytes.truncate(*read.as_ref().unwrap_or(&0));
        read
    }

    /// Copies bytes in, at most so many, for a write.
    pub(crate) fn fill(&mut self, from: &[u8], most: usize) -> usize {
        let n = from.len().min(most);
        self.clear();
        self.bytes.extend_from_slice(&from[..n]);
        n
    }
}

/// A stream that blocks.
enum Blocking<T> {
    Idle(T, Buffer),
    Busy(JoinHandle<(io::Result<usize>, T, Buffer)>),
    /// The thread has panicked, or the runtime has ended.
    Lost,
}

fn lost() -> io::Error {
    io::Error::other("background task failed")
}

impl<T: Send + 'static> Blocking<T> {
    fn new(io: T) -> Self {
        Self::Idle(io, Buffer::default())
    }

    /// Waits for the operation under way.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Self::Busy(task) = self else { return Poll::Ready(Ok(0)) };
        let ended = ready!(Pin::new(task).poll(cx));
        match ended {
            Ok((result, io, buffer)) => {
                *self = Self::Idle(io, buffer);
                Poll::Ready(result)
            }
            Err(error) => {
                *self = Self::Lost;
                Poll::Ready(Err(error.into()))
            }
        }
    }

    fn begin(
        &mut self,
        op: impl FnOnce(&mut T, &mut Buffer) -> io::Result<usize> + Send + 'static,
    ) -> io::Result<()> {
        let Self::Idle(mut io, mut buffer) = core::mem::replace(self, Self::Lost) else {
            return Err(lost());
        };
        let run = move || {
            let result = op(&mut io, &mut buffer);
            (result, io, buffer)
        };
        *self = Self::Busy(match Handle::try_current() {
            Ok(handle) => handle.try_spawn_blocking(run).ok_or_else(shutting_down)?,
            Err(_) => spawn_blocking(run),
        });
        Ok(())
    }
}

impl<T: Read + Send + 'static> Blocking<T> {
    fn poll_read(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let busy = matches!(self, Self::Busy(_));
            let n = ready!(self.poll_idle(cx))?;
            let Self::Idle(_, buffer) = self else { return Poll::Ready(Err(lost())) };
            if buffer.len() > 0 || (busy && n == 0) || out.remaining() == 0 {
                buffer.take(out);
                return Poll::Ready(Ok(()));
            }
            let most = out.remaining().min(CHUNK);
            self.begin(move |io, buffer| buffer.read(io, most))?;
        }
    }
}

impl<T: Write + Send + 'static> Blocking<T> {
    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_idle(cx))?;
        let Self::Idle(_, buffer) = self else { return Poll::Ready(Err(lost())) };
        let n = buffer.fill(from, CHUNK);
        self.begin(move |io, buffer| {
            let result = io.write_all(&buffer.bytes);
            buffer.clear();
            result.map(|()| n)
        })?;
        Poll::Ready(Ok(n))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The first wait is for the write, the second for the flush.
        ready!(self.poll_idle(cx))?;
        let Self::Idle(io, _) = self else { return Poll::Ready(Err(lost())) };
        // What a standard stream buffers it writes fast: a thread would cost more.
        Poll::Ready(io.flush())
    }
}

/// The standard input. Reads are on threads that may block: a read that waits keeps the program from its end.
pub struct Stdin(Blocking<io::Stdin>);

/// The standard output. Writes are on threads that may block: flush it before the program ends.
pub struct Stdout(Blocking<io::Stdout>);

/// The standard error. Writes are on threads that may block: flush it before the program ends.
pub struct Stderr(Blocking<io::Stderr>);

/// The standard input.
pub fn stdin() -> Stdin {
    Stdin(Blocking::new(io::stdin()))
}

/// The standard output.
pub fn stdout() -> Stdout {
    Stdout(Blocking::new(io::stdout()))
}

/// The standard error.
pub fn stderr() -> Stderr {
    Stderr(Blocking::new(io::stderr()))
}

impl AsyncRead for Stdin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        coop::poll_spending(cx, |cx| self.0.poll_read(cx, buf))
    }
}

macro_rules! output {
    ($name:ident) => {
        impl AsyncWrite for $name {
            fn poll_write(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                coop::poll_spending(cx, |cx| self.0.poll_write(cx, buf))
            }

            fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                coop::poll_spending(cx, |cx| self.0.poll_flush(cx))
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_flush(cx)
            }
        }
    };
}

output!(Stdout);
output!(Stderr);

macro_rules! stream {
    ($name:ident, $std:expr) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }

        impl AsRawFd for $name {
            fn as_raw_fd(&self) -> RawFd {
                $std.as_raw_fd()
            }
        }

        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                // SAFETY: the standard streams stay open.
                unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
            }
        }
    };
}

stream!(Stdin, io::stdin());
stream!(Stdout, io::stdout());
stream!(Stderr, io::stderr());
