//! Reads that fill a buffer and writes that empty one, for each type that reads and writes parts, and the traits of `futures-io`, in the
//! crates of this workspace.

/// `read_exact`, over the type's own `read`. Called with `self: &Self` or `self: &mut Self`, as that takes it, and a line on its example.
#[doc(hidden)]
#[macro_export]
macro_rules! read_exact {
    ($type:ty, $this:ident: $self:ty) => {
        impl $type {
            /// Reads until the buffer is full.
            ///
            /// # Errors
            /// [`UnexpectedEof`](std::io::ErrorKind::UnexpectedEof) if the end comes before; otherwise as [`read`](Self::read). What was
            /// read until then is lost.
            ///
            /// # Cancel safety
            /// Not cancel safe: if it is dropped before it is ready, it may have read some of the bytes.
            pub async fn read_exact($this: $self, mut buf: &mut [u8]) -> std::io::Result<()> {
                if buf.is_empty() {
                    return $crate::nothing::moved().await;
                }
                while !buf.is_empty() {
                    match $this.read(buf).await? {
                        0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                        n => buf = buf.get_mut(n..).unwrap_or_default(),
                    }
                }
                Ok(())
            }
        }
    };
}

/// `write_all`, over the type's own `write`.
#[doc(hidden)]
#[macro_export]
macro_rules! write_all {
    ($type:ty, $this:ident: $self:ty) => {
        impl $type {
            /// Writes all of the buffer.
            ///
            /// # Errors
            /// As [`write`](Self::write). Part of the buffer may be written by then.
            ///
            /// # Cancel safety
            /// Not cancel safe: if it is dropped before it is ready, it may have written some of the bytes.
            pub async fn write_all($this: $self, mut buf: &[u8]) -> std::io::Result<()> {
                if buf.is_empty() {
                    return $crate::nothing::moved().await;
                }
                while !buf.is_empty() {
                    let n = $this.write(buf).await?;
                    buf = buf.get(n..).unwrap_or_default();
                }
                Ok(())
            }
        }
    };
}

/// The trait of `futures-io` to read by, for a type with a stream that has the methods `poll_receive` and `poll_receive_vectored`.
#[doc(hidden)]
#[macro_export]
macro_rules! async_read {
    ($type:ty, $this:ident => $stream:expr) => {
        /// One task waits at a time: the last caller.
        impl ::futures_io::AsyncRead for $type {
            fn poll_read(
                self: ::core::pin::Pin<&mut Self>,
                cx: &mut ::core::task::Context<'_>,
                buf: &mut [u8],
            ) -> ::core::task::Poll<::std::io::Result<usize>> {
                let $this = &*self;
                $stream.poll_receive(cx, buf)
            }

            fn poll_read_vectored(
                self: ::core::pin::Pin<&mut Self>,
                cx: &mut ::core::task::Context<'_>,
                bufs: &mut [::std::io::IoSliceMut<'_>],
            ) -> ::core::task::Poll<::std::io::Result<usize>> {
                let $this = &*self;
                $stream.poll_receive_vectored(cx, bufs)
            }
        }
    };
}

/// The trait to write by, for a type with a stream that has the methods `poll_send`, `poll_send_vectored` and `shutdown`.
#[doc(hidden)]
#[macro_export]
macro_rules! async_write {
    ($type:ty, $this:ident => $stream:expr) => {
        /// One task waits at a time: the last caller. There is nothing to flush. Closing does not wait: it shuts this direction of a
        /// connection down; a pipe ends when it is dropped.
        impl ::futures_io::AsyncWrite for $type {
            fn poll_write(
                self: ::core::pin::Pin<&mut Self>,
                cx: &mut ::core::task::Context<'_>,
                buf: &[u8],
            ) -> ::core::task::Poll<::std::io::Result<usize>> {
                let $this = &*self;
                $stream.poll_send(cx, buf)
            }

            fn poll_write_vectored(
                self: ::core::pin::Pin<&mut Self>,
                cx: &mut ::core::task::Context<'_>,
                bufs: &[::std::io::IoSlice<'_>],
            ) -> ::core::task::Poll<::std::io::Result<usize>> {
                let $this = &*self;
                $stream.poll_send_vectored(cx, bufs)
            }

            fn poll_flush(
                self: ::core::pin::Pin<&mut Self>,
                cx: &mut ::core::task::Context<'_>,
            ) -> ::core::task::Poll<::std::io::Result<()>> {
                $crate::nothing::poll_moved(cx)
            }

            fn poll_close(
                self: ::core::pin::Pin<&mut Self>,
                cx: &mut ::core::task::Context<'_>,
            ) -> ::core::task::Poll<::std::io::Result<()>> {
                let $this = &*self;
                $crate::nothing::poll_done(cx, || $stream.shutdown(::std::net::Shutdown::Write))
            }
        }
    };
}
