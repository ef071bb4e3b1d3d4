//! What every socket has: a socket of the standard library inside, which comes in, goes out and is shown.

use core::{fmt, net::SocketAddr};
#[cfg(unix)]
use std::os::unix::net as unix;
use std::{io, net};

use super::{TcpListener, TcpStream, UdpSocket};
#[cfg(unix)]
use super::{UnixDatagram, UnixListener, UnixStream};
use crate::{async_fd::Async, shown::shows_file};

macro_rules! socket {
    ($socket:ident, $std:ty, $addr:ty) => {
        impl $socket {
            /// Makes the standard library's socket non-blocking, and registers it with the current runtime.
            ///
            /// # Errors
            /// The calling thread is in no runtime; the descriptor is registered already; other errors of the operating system. The
            /// socket is closed then.
            pub fn from_std(socket: $std) -> io::Result<Self> {
                Ok(Self { io: Async::new(socket)? })
            }

            /// Converts it to the socket of the standard library, which stays non-blocking: for one that blocks call its
            /// `set_nonblocking(false)`.
            ///
            /// # Errors
            /// Errors of the operating system.
            pub fn into_std(self) -> io::Result<$std> {
                self.io.into_inner()
            }

            /// The socket's own address. Of two connected Unix sockets only one that comes from a listener has a name.
            ///
            /// # Errors
            /// Errors of the operating system.
            pub fn local_addr(&self) -> io::Result<$addr> {
                self.io.get_ref().local_addr()
            }

            /// Takes the socket's pending error (`SO_ERROR`), if there is one.
            ///
            /// # Errors
            /// Errors of the operating system.
            pub fn take_error(&self) -> io::Result<Option<io::Error>> {
                self.io.get_ref().take_error()
            }
        }

        /// As [`from_std`](Self::from_std).
        impl TryFrom<$std> for $socket {
            type Error = io::Error;

            fn try_from(socket: $std) -> io::Result<Self> {
                Self::from_std(socket)
            }
        }

        shows_file!([] $socket, io);

        impl fmt::Debug for $socket {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.io.get_ref().fmt(f)
            }
        }
    };
}

socket!(TcpStream, net::TcpStream, SocketAddr);
socket!(TcpListener, net::TcpListener, SocketAddr);
socket!(UdpSocket, net::UdpSocket, SocketAddr);
#[cfg(unix)]
socket!(UnixStream, unix::UnixStream, unix::SocketAddr);
#[cfg(unix)]
socket!(UnixListener, unix::UnixListener, unix::SocketAddr);
#[cfg(unix)]
socket!(UnixDatagram, unix::UnixDatagram, unix::SocketAddr);
