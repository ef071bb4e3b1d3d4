//! Halves that borrow a connection.

use std::{
    io::{self, IoSlice, IoSliceMut},
    net::Shutdown,
};

use super::stream::UnixStream;

pub(super) fn split(stream: &mut UnixStream) -> (ReadHalf<'_>, WriteHalf<'_>) {
    (ReadHalf(stream), WriteHalf(stream))
}

/// The half to read from, borrowed: [`UnixStream::split`].
#[derive(Debug)]
pub struct ReadHalf<'a>(&'a UnixStream);

/// The half to write to, borrowed: [`UnixStream::split`]. Dropping it does nothing.
#[derive(Debug)]
pub struct WriteHalf<'a>(&'a UnixStream);

/// What every half to read from has; the rest is behind `as_ref`.
macro_rules! read_half {
    ($half:ty) => {
        impl $half {
            /// [`UnixStream::read`].
            ///
            /// # Errors
            /// As there.
            ///
            /// # Cancel safety
            /// As there.
            pub async fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.read(buf).await
            }

            /// [`UnixStream::read_vectored`].
            ///
            /// # Errors
            /// As there.
            ///
            /// # Cancel safety
            /// As there.
            pub async fn read_vectored(
                &mut self,
                bufs: &mut [IoSliceMut<'_>],
            ) -> io::Result<usize> {
                self.0.read_vectored(bufs).await
            }

            /// [`UnixStream::peek`].
            ///
            /// # Errors
            /// As there.
            ///
            /// # Cancel safety
            /// As there.
            pub async fn peek(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.peek(buf).await
            }
        }

        /// The whole connection: its addresses and options.
        impl AsRef<UnixStream> for $half {
            fn as_ref(&self) -> &UnixStream {
                &self.0
            }
        }
    };
}

/// What every half to write to has; the rest is behind `as_ref`.
macro_rules! write_half {
    ($half:ty) => {
        impl $half {
            /// [`UnixStream::write`].
            ///
            /// # Errors
            /// As there.
            ///
            /// # Cancel safety
            /// As there.
            pub async fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                self.0.write(buf).await
            }

            /// [`UnixStream::write_vectored`].
            ///
            /// # Errors
            /// As there.
            ///
            /// # Cancel safety
            /// As there.
            pub async fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                self.0.write_vectored(bufs).await
            }

            /// Shuts this direction down: the peer reads the end of the stream.
            ///
            /// # Errors
            /// As [`UnixStream::shutdown`].
            pub fn shutdown(&mut self) -> io::Result<()> {
                self.0.shutdown(Shutdown::Write)
            }
        }

        /// The whole connection: its addresses and options.
        impl AsRef<UnixStream> for $half {
            fn as_ref(&self) -> &UnixStream {
                &self.0
            }
        }
    };
}

pub(super) use {read_half, write_half};

read_half!(ReadHalf<'_>);
write_half!(WriteHalf<'_>);
