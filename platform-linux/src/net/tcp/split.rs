//! Halves that borrow a connection.

use std::{
    io::{self, IoSlice, IoSliceMut},
    net::Shutdown,
};

use super::stream::TcpStream;

pub(super) fn split(stream: &mut TcpStream) -> (ReadHalf<'_>, WriteHalf<'_>) {
    (ReadHalf(stream), WriteHalf(stream))
}

/// The half to read from, borrowed: [`TcpStream::split`].
#[derive(Debug)]
pub struct ReadHalf<'a>(&'a TcpStream);

/// The half to write to, borrowed: [`TcpStream::split`]. Dropping it does nothing.
#[derive(Debug)]
pub struct WriteHalf<'a>(&'a TcpStream);

/// What every half to read from has; the rest is behind `as_ref`.
macro_rules! read_half {
    ($half:ty) => {
        impl $half {
            /// [`TcpStream::read`].
            ///
            /// # Errors
            /// As there.
            ///
            /// # Cancel safety
            /// As there.
            pub async fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.read(buf).await
            }

            /// [`TcpStream::read_vectored`].
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

            /// [`TcpStream::peek`].
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
        impl AsRef<TcpStream> for $half {
            fn as_ref(&self) -> &TcpStream {
                &self.0
            }
        }
    };
}

/// What every half to write to has; the rest is behind `as_ref`.
macro_rules! write_half {
    ($half:ty) => {
        impl $half {
            /// [`TcpStream::write`].
            ///
            /// # Errors
            /// As there.
            ///
            /// # Cancel safety
            /// As there.
            pub async fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                self.0.write(buf).await
            }

            /// [`TcpStream::write_vectored`].
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
            /// As [`TcpStream::shutdown`].
            pub fn shutdown(&mut self) -> io::Result<()> {
                self.0.shutdown(Shutdown::Write)
            }
        }

        /// The whole connection: its addresses and options.
        impl AsRef<TcpStream> for $half {
            fn as_ref(&self) -> &TcpStream {
                &self.0
            }
        }
    };
}

pub(super) use {read_half, write_half};

read_half!(ReadHalf<'_>);
write_half!(WriteHalf<'_>);
