//! Standard input, output and error of the process.
//!
//! ```
//! # filch_linux::builder().workers(1).build().unwrap().block_on(async {
//! let mut out = filch_linux::stdio::stdout()?;
//! out.write_all(b"hello\n").await?;
//! # Ok::<(), std::io::Error>(())
//! # }).unwrap();
//! ```
//!
//! These files are shared with other processes: a shell, a pager, whoever is at the other end of a pipeline of siblings. To set
//! `O_NONBLOCK` would set it for them too, since it belongs to the open file and not to the descriptor, and they would fail with
//! errors that they do not expect; also after this process has ended. So it is never set. Instead:
//!
//! | the file is | operations |
//! |---|---|
//! | a pipe, a FIFO or a terminal | wait in the reactor, on the same file opened anew (by way of `/proc/self/fd`), which is non-blocking for this process alone |
//! | a socket | wait in the reactor, and ask not to be blocked each time (`MSG_DONTWAIT`) |
//! | anything else (regular files, `/dev/null`), or cannot be opened anew (a terminal of another user, no `/proc`) | block a thread of the blocking pool |
//!
//! Nothing is read ahead, and nothing is held back to be written later except where a thread writes ([`Stdout::flush`]). Have one
//! object for each file: several of them take the bytes out of each other's mouths. `print!` and `std::io` may be used beside
//! them; the order of what both write is the order of the calls, if `std::io` is flushed.

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

/// Standard input.
///
/// # Errors
/// The calling thread is in no runtime; it is closed.
pub fn stdin() -> io::Result<Stdin> {
    Ok(Stdin(Input::open(io::stdin())?))
}

/// Standard output.
///
/// # Errors
/// As [`stdin`].
pub fn stdout() -> io::Result<Stdout> {
    Ok(Stdout(Output::open(io::stdout())?))
}

/// Standard error.
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
    /// Reads what there is, at least one byte; gives how many, 0 at the end (or for no room). A terminal gives a line at a time.
    ///
    /// # Errors
    /// The system's; the runtime has ended.
    ///
    /// # Cancel safety
    /// Loses no byte: a read that has begun on a thread goes on, and the next call gives what it has read. If this is dropped in
    /// the meantime, that is lost.
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
            /// Writes what there is room for, at least one byte if there is one; gives how many. Where a thread writes, it has only
            /// begun: see [`flush`](Self::flush).
            ///
            /// # Errors
            /// The system's, `BrokenPipe` for instance; where a thread writes, those of the write before. The runtime has ended.
            ///
            /// # Cancel safety
            /// Dropped before it is ready it has written nothing.
            pub async fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                poll_fn(|cx| self.0.poll_write(cx, buf)).await
            }

            /// Writes all of it, and flushes.
            ///
            /// # Errors
            /// As [`write`](Self::write).
            ///
            /// # Cancel safety
            /// Dropped before it is ready it has written a part, and does not tell which.
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

            /// Waits until everything is written. Before the end of the program this is needed for output that a thread writes (to a
            /// regular file); it does nothing else.
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
