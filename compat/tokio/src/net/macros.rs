//! Methods that several kinds of sockets have.

/// Waits and attempts, of a type whose field `io` is a `Source`.
macro_rules! readiness {
    () => {
        /// Waits for any of it. A hint: the operation may still block.
        ///
        /// # Errors
        /// If the runtime has ended.
        ///
        /// # Cancel safety
        /// Dropping it loses nothing.
        pub async fn ready(
            &self,
            interest: $crate::io::Interest,
        ) -> ::std::io::Result<$crate::io::Ready> {
            self.io.ready(interest).await
        }

        /// Waits for reads: see [`ready`](Self::ready).
        ///
        /// # Errors
        /// As there.
        ///
        /// # Cancel safety
        /// As there.
        pub async fn readable(&self) -> ::std::io::Result<()> {
            self.ready($crate::io::Interest::READABLE).await?;
            Ok(())
        }

        /// Waits for writes: see [`ready`](Self::ready).
        ///
        /// # Errors
        /// As there.
        ///
        /// # Cancel safety
        /// As there.
        pub async fn writable(&self) -> ::std::io::Result<()> {
            self.ready($crate::io::Interest::WRITABLE).await?;
            Ok(())
        }

        /// Calls `f` once, if the socket is ready as far as is known. If `f` would have blocked, the next wait waits for an event.
        ///
        /// # Errors
        /// Those of `f`; `WouldBlock` if the socket is not ready.
        pub fn try_io<R>(
            &self,
            interest: $crate::io::Interest,
            f: impl FnOnce() -> ::std::io::Result<R>,
        ) -> ::std::io::Result<R> {
            self.io.try_io(interest, |_| f())
        }

        /// Calls `f` until it does not block.
        ///
        /// # Errors
        /// Those of `f`; if the runtime has ended.
        pub async fn async_io<R>(
            &self,
            interest: $crate::io::Interest,
            mut f: impl FnMut() -> ::std::io::Result<R>,
        ) -> ::std::io::Result<R> {
            self.io.async_io(interest, |_| f()).await
        }
    };
}

/// A wait for one direction with a context.
macro_rules! poll_ready {
    ($($name:ident: $direction:ident;)*) => {$(
        /// Waits for this direction, for use in a `poll` function; it wakes the task that called last.
        ///
        /// # Errors
        /// If the runtime has ended.
        pub fn $name(
            &self,
            cx: &mut ::core::task::Context<'_>,
        ) -> ::core::task::Poll<::std::io::Result<()>> {
            self.io.poll_ready(cx, ::filch_linux::io::Direction::$direction)
        }
    )*};
}

/// Attempts to read from a stream or pipe.
macro_rules! try_reads {
    () => {
        /// Reads, if that does not block.
        ///
        /// # Errors
        /// `WouldBlock`; those of the operating system.
        pub fn try_read(&self, buf: &mut [u8]) -> ::std::io::Result<usize> {
            use ::std::io::Read;
            self.io.try_io($crate::io::Interest::READABLE, |mut io| io.read(buf))
        }

        /// As [`try_read`](Self::try_read), into several buffers.
        ///
        /// # Errors
        /// As there.
        pub fn try_read_vectored(
            &self,
            bufs: &mut [::std::io::IoSliceMut<'_>],
        ) -> ::std::io::Result<usize> {
            use ::std::io::Read;
            self.io.try_io($crate::io::Interest::READABLE, |mut io| io.read_vectored(bufs))
        }

        /// As [`try_read`](Self::try_read), into the room of a buffer.
        ///
        /// # Errors
        /// As there.
        pub fn try_read_buf<B: ::bytes::BufMut>(&self, buf: &mut B) -> ::std::io::Result<usize> {
            use ::std::os::fd::AsFd;
            self.io.try_io($crate::io::Interest::READABLE, |io| {
                $crate::io::source::fill(buf, |room| {
                    $crate::io::source::read(io.as_fd(), room).map(drop)
                })
            })
        }
    };
}

/// Attempts to write to a stream or pipe.
macro_rules! try_writes {
    () => {
        /// Writes, if that does not block.
        ///
        /// # Errors
        /// `WouldBlock`; those of the operating system.
        pub fn try_write(&self, buf: &[u8]) -> ::std::io::Result<usize> {
            use ::std::io::Write;
            self.io.try_io($crate::io::Interest::WRITABLE, |mut io| io.write(buf))
        }

        /// As [`try_write`](Self::try_write), from several buffers.
        ///
        /// # Errors
        /// As there.
        pub fn try_write_vectored(
            &self,
            bufs: &[::std::io::IoSlice<'_>],
        ) -> ::std::io::Result<usize> {
            use ::std::io::Write;
            self.io.try_io($crate::io::Interest::WRITABLE, |mut io| io.write_vectored(bufs))
        }
    };
}

/// The descriptor of a type that has it in a field.
macro_rules! fds {
    ($type:ty, $field:ident) => {
        impl ::std::os::fd::AsRawFd for $type {
            fn as_raw_fd(&self) -> ::std::os::fd::RawFd {
                self.$field.as_raw_fd()
            }
        }

        impl ::std::os::fd::AsFd for $type {
            fn as_fd(&self) -> ::std::os::fd::BorrowedFd<'_> {
                self.$field.as_fd()
            }
        }
    };
}

/// Conversions between a descriptor and a type that wraps a `socket2::Socket` in its field `inner`.
macro_rules! of_socket2 {
    ($socket:ident) => {
        $crate::net::macros::fds!($socket, inner);

        impl ::std::os::fd::FromRawFd for $socket {
            unsafe fn from_raw_fd(fd: ::std::os::fd::RawFd) -> Self {
                // SAFETY: the caller's contract.
                Self { inner: unsafe { ::socket2::Socket::from_raw_fd(fd) } }
            }
        }

        impl ::std::os::fd::IntoRawFd for $socket {
            fn into_raw_fd(self) -> ::std::os::fd::RawFd {
                self.inner.into_raw_fd()
            }
        }
    };
}

/// Conversions of a type whose field `io` is a `Source` of a socket of the standard library.
macro_rules! of_std {
    ($name:ident, $std:ty, $addr:ty) => {
        impl $name {
            /// Takes a socket of the standard library, which does not block, into the current runtime.
            ///
            /// # Errors
            /// If the socket blocks; those of the operating system.
            ///
            /// # Panics
            /// If there is no runtime, or it has no I/O.
            #[track_caller]
            pub fn from_std(socket: $std) -> ::std::io::Result<Self> {
                $crate::net::check_nonblocking(&socket);
                Self::over(socket)
            }

            #[track_caller]
            pub(crate) fn over(socket: $std) -> ::std::io::Result<Self> {
                Ok(Self { io: $crate::io::source::Source::new(socket)? })
            }

            /// The socket, which stays non-blocking.
            ///
            /// # Errors
            /// None at present.
            pub fn into_std(self) -> ::std::io::Result<$std> {
                Ok(self.io.into_inner())
            }

            /// The address of this end.
            ///
            /// # Errors
            /// Those of the operating system.
            pub fn local_addr(&self) -> ::std::io::Result<$addr> {
                self.io.local_addr().map(<$addr>::from)
            }
        }

        impl TryFrom<$std> for $name {
            type Error = ::std::io::Error;

            /// As `from_std`.
            fn try_from(socket: $std) -> ::std::io::Result<Self> {
                Self::from_std(socket)
            }
        }

        impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Debug::fmt(&*self.io, f)
            }
        }

        $crate::net::macros::fds!($name, io);
    };
}

/// What streams have; with their halves, which are in `super`.
macro_rules! stream {
    ($name:ident, $std:ty, $addr:ty, short: $short:literal) => {
        impl $name {
            $crate::net::macros::readiness!();
            $crate::net::macros::try_reads!();
            $crate::net::macros::try_writes!();
            $crate::net::macros::poll_ready! {
                poll_read_ready: Read;
                poll_write_ready: Write;
            }

            /// One that a listener has accepted: often there are bytes already.
            pub(crate) fn accepted(socket: $std) -> ::std::io::Result<Self> {
                Ok(Self { io: $crate::io::source::Source::ready_at_first(socket)? })
            }

            /// A socket whose connect is under way: waits for its end.
            pub(crate) async fn connected(socket: $std) -> ::std::io::Result<Self> {
                let stream = Self::over(socket)?;
                stream.writable().await?;
                match stream.take_error()? {
                    Some(error) => Err(error),
                    None => Ok(stream),
                }
            }

            pub(crate) fn shutdown_write(&self) -> ::std::io::Result<()> {
                match self.io.shutdown(::std::net::Shutdown::Write) {
                    Err(error) if error.kind() == ::std::io::ErrorKind::NotConnected => Ok(()),
                    other => other,
                }
            }

            /// The address of the peer.
            ///
            /// # Errors
            /// Those of the operating system.
            pub fn peer_addr(&self) -> ::std::io::Result<$addr> {
                self.io.peer_addr().map(<$addr>::from)
            }

            /// Takes the pending error.
            ///
            /// # Errors
            /// Those of the operating system.
            pub fn take_error(&self) -> ::std::io::Result<Option<::std::io::Error>> {
                self.io.take_error()
            }

            /// Two halves, for one task.
            pub fn split<'a>(&'a mut self) -> (super::ReadHalf<'a>, super::WriteHalf<'a>) {
                super::split(self)
            }

            /// Two halves, for two tasks.
            pub fn into_split(self) -> (super::OwnedReadHalf, super::OwnedWriteHalf) {
                super::into_split(self)
            }
        }

        impl AsRef<Self> for $name {
            fn as_ref(&self) -> &Self {
                self
            }
        }

        $crate::net::macros::read_trait!($name, |this| this.io, short: $short);
        $crate::net::macros::write_trait!($name, |this| this.io, shutdown_write);
    };
}

/// `AsyncRead` of what leads to a `Source`.
macro_rules! read_trait {
    ($name:ty, |$this:ident| $source:expr, short: $short:literal) => {
        impl $crate::io::AsyncRead for $name {
            fn poll_read(
                self: ::core::pin::Pin<&mut Self>,
                cx: &mut ::core::task::Context<'_>,
                buf: &mut $crate::io::ReadBuf<'_>,
            ) -> ::core::task::Poll<::std::io::Result<()>> {
                let $this = &*self;
                $source.poll_read(cx, buf, $short)
            }
        }
    };
}

/// `AsyncWrite` of what leads to a `Source`.
macro_rules! write_trait {
    ($name:ty, |$this:ident| $source:expr $(, $shutdown:ident)?) => {
        impl $crate::io::AsyncWrite for $name {
            fn poll_write(
                self: ::core::pin::Pin<&mut Self>,
                cx: &mut ::core::task::Context<'_>,
                buf: &[u8],
            ) -> ::core::task::Poll<::std::io::Result<usize>> {
                let $this = &*self;
                $source.poll_write(cx, buf)
            }

            fn poll_write_vectored(
                self: ::core::pin::Pin<&mut Self>,
                cx: &mut ::core::task::Context<'_>,
                bufs: &[::std::io::IoSlice<'_>],
            ) -> ::core::task::Poll<::std::io::Result<usize>> {
                let $this = &*self;
                $source.poll_write_vectored(cx, bufs)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(
                self: ::core::pin::Pin<&mut Self>,
                cx: &mut ::core::task::Context<'_>,
            ) -> ::core::task::Poll<::std::io::Result<()>> {
                $crate::task::coop::poll_spend(cx).map(Ok)
            }

            #[allow(unused_mut)]
            fn poll_shutdown(
                mut self: ::core::pin::Pin<&mut Self>,
                cx: &mut ::core::task::Context<'_>,
            ) -> ::core::task::Poll<::std::io::Result<()>> {
                ::core::task::ready!($crate::task::coop::poll_spend(cx));
                $(self.$shutdown()?;)?
                ::core::task::Poll::Ready(Ok(()))
            }
        }
    };
}

pub(crate) use {
    fds, of_socket2, of_std, poll_ready, read_trait, readiness, stream, try_reads, try_writes,
    write_trait,
};
