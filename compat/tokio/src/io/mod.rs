//! Asynchronous input and output: tokio's own traits and adapters, the standard streams, and `unix::AsyncFd`.

pub use ::tokio::io::*;

mod async_fd;
mod ready;
pub(crate) mod source;
mod standard;

pub use self::{
    ready::{Interest, Ready},
    standard::{Stderr, Stdin, Stdout, stderr, stdin, stdout},
};

pub(crate) use self::standard::{Buffer, CHUNK};

/// Any file that epoll supports.
pub mod unix {
    pub use super::async_fd::{
        AsyncFd, AsyncFdReadyGuard, AsyncFdReadyMutGuard, AsyncFdRegisterError, AsyncFdTryNewError,
        TryIoError,
    };
}
