//! Operations on streams that do not wait, and waits without an operation: what protocols with loops of their own use.

use std::io;

use rustix::net::RecvFlags;

#[cfg(unix)]
use super::UnixStream;
use super::{TcpStream, transfer};

macro_rules! ready {
    ($($stream:ident)*) => {$(
        impl $stream {
            /// Waits until there is something to read, the end or an error. True once: after it call [`try_read`](Self::try_read) until that would
            /// block.
            ///
            /// # Errors
            /// If the runtime has ended.
            ///
            /// # Cancel safety
            /// Dropping it loses nothing.
            ///
            /// ```
            #[doc = concat!("async fn read(a: &filch_io::net::", stringify!($stream), ", buf: &mut [u8]) -> std::io::Result<usize> {")]
            ///     loop {
            ///         a.readable().await?;
            ///         match a.try_read(buf) {
            ///             Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            ///             read => return read,
            ///         }
            ///     }
            /// }
            #[doc = concat!("async fn write(a: &filch_io::net::", stringify!($stream), ", buf: &[u8]) -> std::io::Result<usize> {")]
            ///     loop {
            ///         a.writable().await?;
            ///         match a.try_write(buf) {
            ///             Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            ///             written => return written,
            ///         }
            ///     }
            /// }
            /// ```
            pub async fn readable(&self) -> io::Result<()> {
                self.io.readable().await
            }

            /// As [`readable`](Self::readable), for [`try_write`](Self::try_write).
            ///
            /// # Errors
            /// If the runtime has ended.
            ///
            /// # Cancel safety
            /// Dropping it loses nothing.
            pub async fn writable(&self) -> io::Result<()> {
                self.io.writable().await
            }

            /// Reads what there is; returns the number of bytes, 0 at the end of the stream (or if `buf` is empty). Does not wait. From any
            /// thread; spends no budget. Cost: one system call.
            ///
            /// # Errors
            /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing; those of [`read`](Self::read).
            pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
                if buf.is_empty() {
                    // The system would look for a byte.
                    return Ok(0);
                }
                self.io.try_read_with(|socket| transfer::receive(socket, buf, RecvFlags::empty()))
            }

            /// Writes as much as there is room for; returns the number of bytes. As [`try_read`](Self::try_read).
            ///
            /// # Errors
            /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room; those of [`write`](Self::write).
            pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
                self.io.try_write_with(|socket| transfer::send(socket, buf))
            }
        }
    )*};
}

ready!(TcpStream);
#[cfg(unix)]
ready!(UnixStream);
