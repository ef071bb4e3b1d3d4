//! The halves of a connection, and the traits of `futures-io`: one waiter for each direction.
//!
//! Those of TCP and Unix differ only in the stream. The types are concrete nevertheless: an alias
//! of a generic type is not a constructor, and `ReuniteError` must be one.

use core::{error::Error, fmt};
use std::{
    io::{self, IoSlice, IoSliceMut},
    net::Shutdown,
    sync::Arc,
};

use crate::{async_read, async_write, read_exact, write_all};

/// Halves that borrow a connection. The example begins with the lines that make `stream` and its `peer`.
macro_rules! borrowed {
    ($(#[$connect:meta])* $stream:ident) => {
        impl $stream {
            /// Two halves that borrow the connection, to read and to write at the same time within a task.
            ///
            /// (The extension traits of `futures` have a method `split`, which takes the connection.)
            pub fn halves(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
                (ReadHalf(self), WriteHalf(self))
            }
        }

        #[doc = concat!("The half to read from, borrowed: [`", stringify!($stream), "::halves`].")]
        ///
        /// ```
        /// # filch_io::Builder::new().build().unwrap().block_on(async {
        $(#[$connect])*
        /// let mut stream = stream;
        /// let (mut reader, mut writer) = stream.halves();
        /// let mut answer = [0; 4];
        /// let ask = async { writer.write_all(b"ask").await };
        /// let serve = async { peer.read(&mut [0; 8]).await.map(drop)?; peer.write_all(b"answ").await };
        /// futures::try_join!(ask, serve, reader.read_exact(&mut answer))?;
        /// assert_eq!(&answer, b"answ");
        /// # Ok::<(), std::io::Error>(())
        /// # }).unwrap();
        /// ```
        #[derive(Debug)]
        pub struct ReadHalf<'a>(&'a $stream);

        #[doc = concat!("The half to write to, borrowed: [`", stringify!($stream), "::halves`]. Dropping it does nothing.")]
        ///
        #[derive(Debug)]
        pub struct WriteHalf<'a>(&'a $stream);

        read_half!(ReadHalf<'_>, $stream);
        write_half!(WriteHalf<'_>, $stream);
    };
}

/// Halves that own a connection together. The example begins as that of `borrowed`.
macro_rules! owned {
    ($(#[$connect:meta])* $stream:ident) => {
        impl $stream {
            /// Two halves that own the connection, for two tasks. The write half shuts its direction down
            /// when it is dropped; the connection is closed when both are. Allocates once.
            pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
                let stream = Arc::new(self);
                (OwnedReadHalf(Arc::clone(&stream)), OwnedWriteHalf(stream, OnDrop::ShutDown))
            }
        }

        #[doc = concat!("The half to read from, owned: [`", stringify!($stream), "::into_split`].")]
        ///
        /// ```
        /// # filch_io::Builder::new().build().unwrap().block_on(async {
        /// use std::io::{IoSlice, IoSliceMut};
        $(#[$connect])*
        /// let (mut reader, mut writer) = stream.into_split();
        /// let parts = [IoSlice::new(b"a"), IoSlice::new(b"b")];
        /// writer.write(b"1").await?;
        /// writer.write_all(b"23").await?;
        /// writer.write_vectored(&parts).await?;
        /// peer.read_exact(&mut [0; 5]).await?;
        /// peer.write(b"still heard").await?;
        /// let (mut head, mut tail) = ([0; 5], [0; 8]);
        /// reader.peek(&mut head).await?;
        /// reader.read_vectored(&mut [IoSliceMut::new(&mut head), IoSliceMut::new(&mut tail)]).await?;
        /// assert_eq!((&head, &tail[..6]), (b"still", &b" heard"[..]));
        ///
        /// // Together again, and apart for good: a half that is dropped ends its direction.
        /// let stream = reader.reunite(writer)?;
        /// let (mut reader, mut writer) = stream.into_split();
        /// writer.shutdown()?;
        /// assert_eq!(peer.read(&mut [0; 8]).await?, 0, "its end of the stream");
        /// writer.forget(); // so that the drop does not do it once more
        /// peer.write_all(b"bytes").await?;
        /// reader.read_exact(&mut head).await?;
        /// drop(peer);
        /// assert_eq!(reader.read(&mut head).await?, 0);
        /// # Ok::<(), std::io::Error>(())
        /// # }).unwrap();
        /// ```
        #[derive(Debug)]
        pub struct OwnedReadHalf(Arc<$stream>);

        #[doc = concat!("The half to write to, owned: [`", stringify!($stream), "::into_split`]. Dropping it shuts its")]
        /// direction down, so that the peer reads the end of the stream; [`forget`](Self::forget) does not.
        #[derive(Debug)]
        pub struct OwnedWriteHalf(Arc<$stream>, OnDrop);

        reunite!($stream);

        impl OwnedWriteHalf {
            /// Drops the half and leaves its direction open, until the read half is dropped too.
            pub fn forget(mut self) {
                self.1 = OnDrop::Nothing;
            }
        }

        impl Drop for OwnedWriteHalf {
            fn drop(&mut self) {
                if self.1 == OnDrop::ShutDown {
                    // No caller is left to receive an error.
                    drop(self.0.shutdown(Shutdown::Write));
                }
            }
        }

        read_half!(OwnedReadHalf, $stream);
        write_half!(OwnedWriteHalf, $stream);
    };
}

/// What happens to the direction when an owned write half is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnDrop {
    ShutDown,
    Nothing,
}

/// A connection from its owned halves.
macro_rules! reunite {
    ($stream:ident) => {
        impl OwnedReadHalf {
            /// Puts a connection together again.
            ///
            /// # Errors
            /// The halves, if they are of two connections.
            pub fn reunite(self, writer: OwnedWriteHalf) -> Result<$stream, ReuniteError> {
                if !Arc::ptr_eq(&self.0, &writer.0) {
                    return Err(ReuniteError(self, writer));
                }
                writer.forget();
                match Arc::try_unwrap(self.0) {
                    Ok(stream) => Ok(stream),
                    Err(_) => unreachable!("there are two halves, and both are here"),
                }
            }
        }

        impl OwnedWriteHalf {
            /// Puts a connection together again.
            ///
            /// # Errors
            /// The halves, if they are of two connections.
            pub fn reunite(self, reader: OwnedReadHalf) -> Result<$stream, ReuniteError> {
                reader.reunite(self)
            }
        }

        /// The halves belong to different connections; returns them.
        #[derive(Debug)]
        pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

        impl fmt::Display for ReuniteError {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the halves are not of one connection")
            }
        }

        impl Error for ReuniteError {}

        /// The halves are dropped.
        impl From<ReuniteError> for io::Error {
            fn from(error: ReuniteError) -> Self {
                Self::new(io::ErrorKind::InvalidInput, error.to_string())
            }
        }
    };
}

/// The methods of every read half; the rest is behind `as_ref`.
macro_rules! read_half {
    ($half:ty, $stream:ident) => {
        impl $half {
            #[doc = concat!("[`", stringify!($stream), "::read`].")]
            ///
            /// # Errors
            /// Errors of the operating system, such as `ConnectionReset`.
            ///
            /// # Cancel safety
            /// Loses no byte.
            pub async fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.read(buf).await
            }

            #[doc = concat!("[`", stringify!($stream), "::read_vectored`].")]
            ///
            /// # Errors
            /// Errors of the operating system, such as `ConnectionReset`.
            ///
            /// # Cancel safety
            /// Loses no byte.
            pub async fn read_vectored(
                &mut self,
                bufs: &mut [IoSliceMut<'_>],
            ) -> io::Result<usize> {
                self.0.read_vectored(bufs).await
            }

            #[doc = concat!("[`", stringify!($stream), "::peek`].")]
            ///
            /// # Errors
            /// Errors of the operating system, such as `ConnectionReset`.
            ///
            /// # Cancel safety
            /// Loses no byte.
            pub async fn peek(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.peek(buf).await
            }
        }

        /// The whole connection: its addresses and options.
        impl AsRef<$stream> for $half {
            fn as_ref(&self) -> &$stream {
                &self.0
            }
        }

        read_exact!($half, self: &mut Self);
        async_read!($half, half => half.as_ref());
    };
}

/// The methods of every write half; the rest is behind `as_ref`.
macro_rules! write_half {
    ($half:ty, $stream:ident) => {
        impl $half {
            #[doc = concat!("[`", stringify!($stream), "::write`].")]
            ///
            /// # Errors
            /// Errors of the operating system, such as `BrokenPipe` and `ConnectionReset`.
            ///
            /// # Cancel safety
            /// If it is dropped before it is ready, it has written nothing.
            pub async fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                self.0.write(buf).await
            }

            #[doc = concat!("[`", stringify!($stream), "::write_vectored`].")]
            ///
            /// # Errors
            /// Errors of the operating system, such as `BrokenPipe` and `ConnectionReset`.
            ///
            /// # Cancel safety
            /// If it is dropped before it is ready, it has written nothing.
            pub async fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                self.0.write_vectored(bufs).await
            }

            /// Shuts this direction down: the peer reads the end of the stream.
            ///
            /// # Errors
            #[doc = concat!("As [`", stringify!($stream), "::shutdown`].")]
            pub fn shutdown(&mut self) -> io::Result<()> {
                self.0.shutdown(Shutdown::Write)
            }
        }

        /// The whole connection: its addresses and options.
        impl AsRef<$stream> for $half {
            fn as_ref(&self) -> &$stream {
                &self.0
            }
        }

        write_all!($half, self: &mut Self);
        async_write!($half, half => half.as_ref());
    };
}

/// All of a buffer, for a whole connection, and both traits, for references to it too; and its halves.
macro_rules! whole {
    ($(#[$connect:meta])* $stream:ident) => {
        read_exact!($stream, self: &Self);
        write_all!($stream, self: &Self);
        async_read!($stream, stream => stream);
        async_write!($stream, stream => stream);
        async_read!(&$stream, stream => stream);
        async_write!(&$stream, stream => stream);
        borrowed!($(#[$connect])* $stream);
        owned!($(#[$connect])* $stream);
    };
}

pub(super) mod tcp {
    use super::*;
    use crate::net::TcpStream;

    whole! {
        /// use filch_io::net::{TcpListener, TcpStream};
        /// let listener = TcpListener::bind("127.0.0.1:0").await?;
        /// let stream = TcpStream::connect(listener.local_addr()?).await?;
        /// let (peer, _) = listener.accept().await?;
        TcpStream
    }
}

#[cfg(unix)]
pub(super) mod unix {
    use super::*;
    use crate::net::UnixStream;

    whole! {
        /// use filch_io::net::unix::UnixStream;
        /// let (stream, peer) = UnixStream::pair()?;
        UnixStream
    }
}
