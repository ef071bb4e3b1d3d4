//! Halves that own a connection together.

use core::{error::Error, fmt};
use std::{
    io::{self, IoSlice, IoSliceMut},
    net::Shutdown,
    sync::Arc,
};

use super::{
    split::{read_half, write_half},
    stream::UnixStream,
};

pub(super) fn split(stream: UnixStream) -> (OwnedReadHalf, OwnedWriteHalf) {
    let stream = Arc::new(stream);
    (OwnedReadHalf(Arc::clone(&stream)), OwnedWriteHalf(stream, OnDrop::ShutDown))
}

/// The half to read from, owned: [`UnixStream::into_split`].
///
/// ```
/// # filch_linux::builder().build().unwrap().block_on(async {
/// # use filch_linux::net::UnixStream;
/// let (one, peer) = UnixStream::pair()?;
/// let (mut reader, writer) = one.into_split();
/// drop(writer);
/// assert_eq!(peer.read(&mut [0; 8]).await?, 0, "its end of the stream");
/// peer.write(b"still heard").await?;
/// assert_eq!(reader.read(&mut [0; 16]).await?, 11);
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct OwnedReadHalf(Arc<UnixStream>);

/// The half to write to, owned: [`UnixStream::into_split`]. Dropping it shuts its direction down, so that the peer reads the end
/// of the stream; [`forget`](Self::forget) does not.
#[derive(Debug)]
pub struct OwnedWriteHalf(Arc<UnixStream>, OnDrop);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnDrop {
    ShutDown,
    Nothing,
}

impl OwnedReadHalf {
    /// Puts a connection together again.
    ///
    /// # Errors
    /// The halves, if they are of two connections.
    pub fn reunite(self, writer: OwnedWriteHalf) -> Result<UnixStream, ReuniteError> {
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
    pub fn reunite(self, reader: OwnedReadHalf) -> Result<UnixStream, ReuniteError> {
        reader.reunite(self)
    }

    /// Drops the half and leaves its direction open, until the read half is dropped too.
    pub fn forget(mut self) {
        self.1 = OnDrop::Nothing;
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if self.1 == OnDrop::ShutDown {
            // Nobody is left to be told.
            drop(self.0.shutdown(Shutdown::Write));
        }
    }
}

read_half!(OwnedReadHalf);
write_half!(OwnedWriteHalf);

/// The halves are not of one connection; here they are again.
#[derive(Debug)]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

impl fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the halves are not of one connection")
    }
}

impl Error for ReuniteError {}
