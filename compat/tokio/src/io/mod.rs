//! Asynchronous input and output: tokio's own traits and adapters, the standard streams, and `unix::AsyncFd`.

#[doc(no_inline)]
pub use std::io::{Error, ErrorKind, Result, SeekFrom};

pub use real::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
#[cfg(feature = "io-util")]
pub use real::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, AsyncWriteExt, BufReader, BufStream, BufWriter,
    Chain, DuplexStream, Empty, Join, Lines, ReadHalf, Repeat, SimplexStream, Sink, Split, Take,
    WriteHalf, copy, copy_bidirectional, copy_bidirectional_with_sizes, copy_buf, duplex, empty,
    join, repeat, simplex, sink, split,
};

#[cfg(feature = "net")]
mod async_fd;
#[cfg(any(feature = "net", feature = "process", feature = "signal"))]
mod ready;
#[cfg(any(feature = "net", feature = "process", feature = "signal"))]
pub(crate) mod source;
#[cfg(any(feature = "fs", feature = "io-std"))]
mod standard;

#[cfg(any(feature = "net", feature = "process", feature = "signal"))]
pub use self::ready::{Interest, Ready};
#[cfg(feature = "io-std")]
pub use self::standard::{Stderr, Stdin, Stdout, stderr, stdin, stdout};

#[cfg(any(feature = "fs", feature = "io-std"))]
pub(crate) use self::standard::{Buffer, CHUNK};

/// Any file that epoll supports.
#[cfg(feature = "net")]
pub mod unix {
    pub use super::async_fd::{
        AsyncFd, AsyncFdReadyGuard, AsyncFdReadyMutGuard, AsyncFdRegisterError, AsyncFdTryNewError,
        TryIoError,
    };
}
