//! The halves of streams.

/// The four halves of a stream.
macro_rules! halves {
    ($stream:ident, $addr:ty, short: $short:literal, { $($peek:tt)* }) => {
        use core::{error::Error, fmt};
        use std::{io, sync::Arc};

        use $crate::{
            io::{Interest, Ready},
            net::macros::{read_trait, write_trait},
        };

        /// The half of a stream that reads. It borrows the stream.
        #[derive(Debug)]
        pub struct ReadHalf<'a>(&'a $stream);

        /// The half of a stream that writes. It borrows the stream.
        #[derive(Debug)]
        pub struct WriteHalf<'a>(&'a $stream);

        /// The half of a stream that reads.
        #[derive(Debug)]
        pub struct OwnedReadHalf(Arc<$stream>);

        /// The half of a stream that writes. Its drop shuts the stream down for writes.
        #[derive(Debug)]
        pub struct OwnedWriteHalf {
            stream: Arc<$stream>,
            shutdown_on_drop: bool,
        }

        /// The halves are of two streams. They are given back.
        #[derive(Debug)]
        pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

        impl fmt::Display for ReuniteError {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tried to reunite halves that are not from the same socket")
            }
        }

        impl Error for ReuniteError {}

        pub(crate) fn split(stream: &mut $stream) -> (ReadHalf<'_>, WriteHalf<'_>) {
            (ReadHalf(stream), WriteHalf(stream))
        }

        pub(crate) fn into_split(stream: $stream) -> (OwnedReadHalf, OwnedWriteHalf) {
            let stream = Arc::new(stream);
            let read = OwnedReadHalf(Arc::clone(&stream));
            (read, OwnedWriteHalf { stream, shutdown_on_drop: true })
        }

        impl OwnedReadHalf {
            /// The stream, from both halves.
            ///
            /// # Errors
            /// If they are of two streams.
            pub fn reunite(self, other: OwnedWriteHalf) -> Result<$stream, ReuniteError> {
                if !Arc::ptr_eq(&self.0, &other.stream) {
                    return Err(ReuniteError(self, other));
                }
                drop(self);
                let mut other = other;
                other.shutdown_on_drop = false;
                let stream = Arc::clone(&other.stream);
                drop(other);
                match Arc::try_unwrap(stream) {
                    Ok(stream) => Ok(stream),
                    Err(_) => unreachable!("there are two halves"),
                }
            }
        }

        impl OwnedWriteHalf {
            /// As [`OwnedReadHalf::reunite`].
            ///
            /// # Errors
            /// As there.
            pub fn reunite(self, other: OwnedReadHalf) -> Result<$stream, ReuniteError> {
                other.reunite(self)
            }

            /// Drops it, and leaves the stream open for writes.
            pub fn forget(mut self) {
                self.shutdown_on_drop = false;
            }

            fn shut_down(&mut self) -> io::Result<()> {
                let result = self.stream.shutdown_write();
                if result.is_ok() {
                    self.shutdown_on_drop = false;
                }
                result
            }
        }

        impl Drop for OwnedWriteHalf {
            fn drop(&mut self) {
                if self.shutdown_on_drop {
                    // The peer may have gone already.
                    let _ = self.stream.shutdown_write();
                }
            }
        }

        impl WriteHalf<'_> {
            fn shut_down(&mut self) -> io::Result<()> {
                self.0.shutdown_write()
            }
        }

        impl AsRef<$stream> for ReadHalf<'_> {
            fn as_ref(&self) -> &$stream {
                self.0
            }
        }

        impl AsRef<$stream> for WriteHalf<'_> {
            fn as_ref(&self) -> &$stream {
                self.0
            }
        }

        impl AsRef<$stream> for OwnedReadHalf {
            fn as_ref(&self) -> &$stream {
                &self.0
            }
        }

        impl AsRef<$stream> for OwnedWriteHalf {
            fn as_ref(&self) -> &$stream {
                &self.stream
            }
        }

        macro_rules! both {
            () => {
                /// Waits for any of it: as the stream's.
                ///
                /// # Errors
                /// If the runtime has ended.
                pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
                    self.as_ref().ready(interest).await
                }

                /// The address of the peer.
                ///
                /// # Errors
                /// Those of the operating system.
                pub fn peer_addr(&self) -> io::Result<$addr> {
                    self.as_ref().peer_addr()
                }

                /// The address of this end.
                ///
                /// # Errors
                /// Those of the operating system.
                pub fn local_addr(&self) -> io::Result<$addr> {
                    self.as_ref().local_addr()
                }
            };
        }

        macro_rules! reads {
            ($half:ty) => {
                impl $half {
                    both!();
                    $($peek)*

                    /// Waits for reads.
                    ///
                    /// # Errors
                    /// If the runtime has ended.
                    pub async fn readable(&self) -> io::Result<()> {
                        self.as_ref().readable().await
                    }

                    /// Reads, if that does not block.
                    ///
                    /// # Errors
                    /// `WouldBlock`; those of the operating system.
                    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
                        self.as_ref().try_read(buf)
                    }

                    /// As [`try_read`](Self::try_read), into several buffers.
                    ///
                    /// # Errors
                    /// As there.
                    pub fn try_read_vectored(
                        &self,
                        bufs: &mut [io::IoSliceMut<'_>],
                    ) -> io::Result<usize> {
                        self.as_ref().try_read_vectored(bufs)
                    }

                    /// As [`try_read`](Self::try_read), into the room of a buffer.
                    ///
                    /// # Errors
                    /// As there.
                    pub fn try_read_buf<B: bytes::BufMut>(&self, buf: &mut B) -> io::Result<usize> {
                        self.as_ref().try_read_buf(buf)
                    }
                }

                read_trait!($half, |this| this.as_ref().io, short: $short);
            };
        }

        macro_rules! writes {
            ($half:ty) => {
                impl $half {
                    both!();

                    /// Waits for writes.
                    ///
                    /// # Errors
                    /// If the runtime has ended.
                    pub async fn writable(&self) -> io::Result<()> {
                        self.as_ref().writable().await
                    }

                    /// Writes, if that does not block.
                    ///
                    /// # Errors
                    /// `WouldBlock`; those of the operating system.
                    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
                        self.as_ref().try_write(buf)
                    }

                    /// As [`try_write`](Self::try_write), from several buffers.
                    ///
                    /// # Errors
                    /// As there.
                    pub fn try_write_vectored(&self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
                        self.as_ref().try_write_vectored(bufs)
                    }
                }

                write_trait!($half, |this| this.as_ref().io, shut_down);
            };
        }

        reads!(ReadHalf<'_>);
        reads!(OwnedReadHalf);
        writes!(WriteHalf<'_>);
        writes!(OwnedWriteHalf);
    };
}

pub(crate) use halves;
