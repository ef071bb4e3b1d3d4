//! Standard input, output and error of the process.
//!
//! ```
//! # filch_linux::Builder::new().workers(1).build().unwrap().block_on(async {
//! let mut out = filch_linux::stdio::stdout()?;
//! out.write_all(b"hello\n").await?;
//! # Ok::<(), std::io::Error>(())
//! # }).unwrap();
//! ```
//!
//! ```no_run
//! use filch_linux::stdio::{Stderr, Stdin, Stdout, stderr, stdin, stdout};
//! # filch_linux::Builder::new().workers(1).build().unwrap().block_on(async {
//! let (mut input, mut out, mut log): (Stdin, Stdout, Stderr) = (stdin()?, stdout()?, stderr()?);
//! let mut piece = [0; 4096];
//! loop {
//!     let n = input.read(&mut piece).await?;
//!     if n == 0 {
//!         break;
//!     }
//!     let begun = out.write(&piece[..n]).await?;
//!     out.write_all(&piece[begun..n]).await?;
//! }
//! out.flush().await?;
//! log.write_all(b"the end\n").await?;
//! # Ok::<(), std::io::Error>(())
//! # }).unwrap();
//! ```
//!
//! These files are shared with other processes: a shell, a pager, the other commands of a pipeline.
//! `O_NONBLOCK` belongs to the open file and not to the descriptor, so setting it would set it for
//! them too. They would fail with unexpected errors, also after this process has ended. So it is
//! never set. Instead:
//!
//! | the file is | operations |
//! |---|---|
//! | a pipe, a FIFO or a terminal | wait in the reactor, on the same file opened anew (by way of `/proc/self/fd`), which is non-blocking for this process alone |
//! | a socket | wait in the reactor, with `MSG_DONTWAIT` in each call |
//! | anything else (regular files, `/dev/null`), or cannot be opened anew (a terminal of another user, no `/proc`) | block a thread, of those that the runtime has beside its blocking pool |
//!
//! Nothing is read ahead, and no write is delayed except where a thread writes ([`Stdout::flush`]).
//! Use one object for each file: several readers of one file get parts of the input each. `print!`
//! and `std::io` may be used beside them; the order of what both write is the order of the calls,
//! if `std::io` is flushed.

mod pooled;
mod way;

use core::{
    fmt,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};
use std::io;

use futures_io::{AsyncRead, AsyncWrite};

use self::way::{Input, Output};

/// Opens the standard input.
///
/// # Errors
/// The calling thread is in no runtime; it is closed.
pub fn stdin() -> io::Result<Stdin> {
    Ok(Stdin(Input::open(io::stdin())?))
}

/// Opens the standard output.
///
/// # Errors
/// As [`stdin`].
pub fn stdout() -> io::Result<Stdout> {
    Ok(Stdout(Output::open(io::stdout())?))
}

/// Opens the standard error.
///
/// # Errors
/// As [`stdin`].
pub fn stderr() -> io::Result<Stderr> {
    Ok(Stderr(Output::open(io::stderr())?))
}

/// Standard input: [`stdin`].
pub struct Stdin(Input);

/// Standard output: [`stdout`].
pub struct Stdout(Output);

/// Standard error: [`stderr`].
pub struct Stderr(Output);

impl Stdin {
    /// Reads what there is, at least one byte; returns the number of bytes, 0 at the end (or if
    /// `buf` is empty). A terminal returns a line at a time.
    ///
    /// # Errors
    /// Errors of the operating system; the runtime has ended.
    ///
    /// # Cancel safety
    /// Loses no byte: a read that has begun on a thread goes on, and the next call returns its
    /// bytes. If the object is dropped before, they are lost.
    pub async fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.0.poll_read(cx, buf)).await
    }
}

impl AsyncRead for Stdin {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_read(cx, buf)
    }
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stdin").field(&self.0).finish()
    }
}

/// What both outputs have.
macro_rules! output {
    ($type:ident) => {
        impl $type {
            /// Writes as much as there is room for, at least one byte unless `buf` is empty;
            /// returns the number of bytes. If a thread writes, the write has only begun: see
            /// [`flush`](Self::flush).
            ///
            /// # Errors
            /// Errors of the operating system, such as `BrokenPipe`; if a thread writes, those of
            /// the write before; the runtime has ended.
            ///
            /// # Cancel safety
            /// If it is dropped before it is ready, it has written nothing.
            pub async fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                poll_fn(|cx| self.0.poll_write(cx, buf)).await
            }

            /// Writes all of it, and flushes.
            ///
            /// # Errors
            /// As [`write`](Self::write).
            ///
            /// # Cancel safety
            /// Not cancel safe: if it is dropped before it is ready, it has written an unknown
            /// part.
            pub async fn write_all(&mut self, mut buf: &[u8]) -> io::Result<()> {
                while !buf.is_empty() {
                    let n = self.write(buf).await?;
                    if n == 0 {
                        return Err(io::ErrorKind::WriteZero.into());
                    }
                    buf = &buf[n..];
                }
                self.flush().await
            }

            /// Waits until everything is written, which shows an error. For output that a thread
            /// writes (to a regular file); for other files it does nothing. The end of the runtime
            /// waits for such output too, five seconds at most.
            ///
            /// # Errors
            /// Those of the write before.
            ///
            /// # Cancel safety
            /// Loses nothing.
            pub async fn flush(&mut self) -> io::Result<()> {
                poll_fn(|cx| self.0.poll_flush(cx)).await
            }
        }

        /// Closing flushes; the file stays open.
        impl AsyncWrite for $type {
            fn poll_write(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.0.poll_write(cx, buf)
            }

            fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.0.poll_flush(cx)
            }

            fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_flush(cx)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($type)).field(&self.0).finish()
            }
        }
    };
}

output!(Stdout);
output!(Stderr);
