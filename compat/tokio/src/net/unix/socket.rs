//! A Unix socket that is not connected yet.

use core::fmt;
use std::{io, path::Path};

use socket2::{Domain, Socket, Type};

use super::{
    datagram::UnixDatagram,
    listener::{UnixListener, address},
    stream::{UnixStream, sock_addr},
};
use crate::{net::macros::of_socket2, task::coop};

/// A Unix socket that is not connected yet.
pub struct UnixSocket {
    inner: Socket,
}

impl UnixSocket {
    fn new(kind: Type) -> io::Result<Self> {
        Ok(Self { inner: Socket::new_raw(Domain::UNIX, kind.nonblocking().cloexec(), None)? })
    }

    /// A socket for datagrams.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn new_datagram() -> io::Result<Self> {
        Self::new(Type::DGRAM)
    }

    /// A socket for streams.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn new_stream() -> io::Result<Self> {
        Self::new(Type::STREAM)
    }

    /// Binds it to a path, or to an abstract name: one that begins with a zero byte.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn bind(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.inner.bind(&sock_addr(&address(path.as_ref())?)?)
    }

    fn is(&self, kind: Type, what: &'static str) -> io::Result<()> {
        if self.inner.r#type()? == kind { Ok(()) } else { Err(io::Error::other(what)) }
    }

    /// Listens; `backlog` streams wait to be accepted.
    ///
    /// # Errors
    /// For a socket for datagrams; those of the operating system.
    pub fn listen(self, backlog: u32) -> io::Result<UnixListener> {
        self.is(Type::STREAM, "listen cannot be called on a datagram socket")?;
        self.inner.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        UnixListener::over(self.inner.into())
    }

    /// Connects to the listener at a path.
    ///
    /// # Errors
    /// For a socket for datagrams; those of the operating system.
    pub async fn connect(self, path: impl AsRef<Path>) -> io::Result<UnixStream> {
        let is_stream = self.is(Type::STREAM, "connect cannot be called on a datagram socket");
        let addr = is_stream.and_then(|()| address(path.as_ref()));
        UnixStream::connect_socket(self.inner, &coop::spend_if_failed(addr).await?).await
    }

    /// The socket for datagrams.
    ///
    /// # Errors
    /// For a socket for streams; those of the operating system.
    pub fn datagram(self) -> io::Result<UnixDatagram> {
        self.is(Type::DGRAM, "datagram cannot be called on a stream socket")?;
        UnixDatagram::over(self.inner.into())
    }
}

impl fmt::Debug for UnixSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixSocket").field("inner", &self.inner).finish()
    }
}

of_socket2!(UnixSocket);
