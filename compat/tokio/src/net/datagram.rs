//! What sockets for datagrams have in common.

/// Operations with the connected peer.
macro_rules! datagram {
    ($addr:ty) => {
        $crate::net::macros::readiness!();
        $crate::net::macros::poll_ready! {
            poll_recv_ready: Read;
            poll_send_ready: Write;
        }

        /// Sends a datagram to the connected peer.
        ///
        /// # Errors
        /// Those of the operating system; if the runtime has ended.
        ///
        /// # Cancel safety
        /// Dropped before it is ready, it has sent nothing.
        pub async fn send(&self, buf: &[u8]) -> ::std::io::Result<usize> {
            self.io.async_io($crate::io::Interest::WRITABLE, |io| io.send(buf)).await
        }

        /// As `send`, for use in a `poll` function; it wakes the task that called last.
        ///
        /// # Errors
        /// As there.
        pub fn poll_send(
            &self,
            cx: &mut ::core::task::Context<'_>,
            buf: &[u8],
        ) -> ::core::task::Poll<::std::io::Result<usize>> {
            self.io.poll_io(cx, ::filch_linux::io::Direction::Write, |io| io.send(buf))
        }

        /// As `send`, if that does not block.
        ///
        /// # Errors
        /// `WouldBlock`; those of the operating system.
        pub fn try_send(&self, buf: &[u8]) -> ::std::io::Result<usize> {
            self.io.try_io($crate::io::Interest::WRITABLE, |io| io.send(buf))
        }

        /// Receives a datagram; what has no room in the buffer is lost.
        ///
        /// # Errors
        /// Those of the operating system; if the runtime has ended.
        ///
        /// # Cancel safety
        /// Dropped before it is ready, it has received nothing.
        pub async fn recv(&self, buf: &mut [u8]) -> ::std::io::Result<usize> {
            self.io.async_io($crate::io::Interest::READABLE, |io| io.recv(buf)).await
        }

        /// As `recv`, for use in a `poll` function; it wakes the task that called last.
        ///
        /// # Errors
        /// As there.
        pub fn poll_recv(
            &self,
            cx: &mut ::core::task::Context<'_>,
            buf: &mut $crate::io::ReadBuf<'_>,
        ) -> ::core::task::Poll<::std::io::Result<()>> {
            use ::std::os::fd::AsFd;
            let flags = ::rustix::net::RecvFlags::empty();
            self.io
                .poll_io(cx, ::filch_linux::io::Direction::Read, |io| {
                    $crate::io::source::receive(io.as_fd(), buf, flags)
                })
                .map_ok(drop)
        }

        /// As `recv`, if that does not block.
        ///
        /// # Errors
        /// `WouldBlock`; those of the operating system.
        pub fn try_recv(&self, buf: &mut [u8]) -> ::std::io::Result<usize> {
            self.io.try_io($crate::io::Interest::READABLE, |io| io.recv(buf))
        }

        /// As `try_recv`, into the room of a buffer.
        ///
        /// # Errors
        /// As there.
        pub fn try_recv_buf<B: ::bytes::BufMut>(&self, buf: &mut B) -> ::std::io::Result<usize> {
            self.io.try_io($crate::io::Interest::READABLE, |io| {
                $crate::net::datagram::receive_into(io, buf)
            })
        }

        /// As `recv`, into the room of a buffer.
        ///
        /// # Errors
        /// As there.
        pub async fn recv_buf<B: ::bytes::BufMut>(&self, buf: &mut B) -> ::std::io::Result<usize> {
            self.io
                .async_io($crate::io::Interest::READABLE, |io| {
                    $crate::net::datagram::receive_into(io, buf)
                })
                .await
        }

        /// Receives a datagram, and returns its length and its sender's address. Bytes that do not fit the buffer are lost.
        ///
        /// # Errors
        /// Those of the operating system; if the runtime has ended.
        ///
        /// # Cancel safety
        /// Dropped before it is ready, it has received nothing.
        pub async fn recv_from(&self, buf: &mut [u8]) -> ::std::io::Result<(usize, $addr)> {
            let op = self.io.async_io($crate::io::Interest::READABLE, |io| io.recv_from(buf));
            op.await.map(|(n, from)| (n, from.into()))
        }

        /// As `recv_from`, for use in a `poll` function; it wakes the task that called last.
        ///
        /// # Errors
        /// As there.
        pub fn poll_recv_from(
            &self,
            cx: &mut ::core::task::Context<'_>,
            buf: &mut $crate::io::ReadBuf<'_>,
        ) -> ::core::task::Poll<::std::io::Result<$addr>> {
            self.io.poll_fill(cx, buf, |io, room| io.recv_from(room)).map_ok(Into::into)
        }

        /// As `recv_from`, if that does not block.
        ///
        /// # Errors
        /// `WouldBlock`; those of the operating system.
        pub fn try_recv_from(&self, buf: &mut [u8]) -> ::std::io::Result<(usize, $addr)> {
            let received = self.io.try_io($crate::io::Interest::READABLE, |io| io.recv_from(buf));
            received.map(|(n, from)| (n, from.into()))
        }

        /// As `try_recv_from`, into the room of a buffer.
        ///
        /// # Errors
        /// As there.
        pub fn try_recv_buf_from<B: ::bytes::BufMut>(
            &self,
            buf: &mut B,
        ) -> ::std::io::Result<(usize, $addr)> {
            let received = self.io.try_io($crate::io::Interest::READABLE, |io| {
                $crate::net::datagram::receive_from(buf, |room| io.recv_from(room))
            });
            received.map(|(n, from)| (n, from.into()))
        }

        /// As `recv_from`, into the room of a buffer.
        ///
        /// # Errors
        /// As there.
        pub async fn recv_buf_from<B: ::bytes::BufMut>(
            &self,
            buf: &mut B,
        ) -> ::std::io::Result<(usize, $addr)> {
            let op = self.io.async_io($crate::io::Interest::READABLE, |io| {
                $crate::net::datagram::receive_from(buf, |room| io.recv_from(room))
            });
            op.await.map(|(n, from)| (n, from.into()))
        }

        /// The address of the peer.
        ///
        /// # Errors
        /// If there is none.
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
    };
}

/// Receives into the room of a buffer.
pub(crate) fn receive_into<B: bytes::BufMut>(
    io: &impl std::os::fd::AsFd,
    buf: &mut B,
) -> std::io::Result<usize> {
    crate::io::source::fill(buf, |room| {
        let flags = rustix::net::RecvFlags::empty();
        crate::io::source::receive(io.as_fd(), room, flags).map(drop)
    })
}

/// Receives with `op` into the unfilled part of a buffer, and returns the sender too.
pub(crate) fn receive_from<B: bytes::BufMut, A>(
    buf: &mut B,
    op: impl FnOnce(&mut [u8]) -> std::io::Result<(usize, A)>,
) -> std::io::Result<(usize, A)> {
    let mut from = None;
    let n = crate::io::source::fill(buf, |room| {
        let (n, addr) = op(room.initialize_unfilled())?;
        room.advance(n);
        from = Some(addr);
        Ok(())
    })?;
    match from {
        Some(from) => Ok((n, from)),
        None => Err(std::io::ErrorKind::WouldBlock.into()),
    }
}

pub(crate) use datagram;
