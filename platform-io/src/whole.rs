//! Reads that fill a buffer and writes that empty one, for each type that reads and writes parts, in the crates of this workspace.

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
