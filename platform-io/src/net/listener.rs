//! What the listeners of TCP and of Unix sockets both do, and accepting connections in a loop.

use core::{
    task::{Context, Poll, ready},
    time::Duration,
};
use std::io;

use futures_util::stream::{Stream, unfold};
use rustix::io::Errno;

use super::pause;
use crate::async_fd::Async;

/// How many connections may wait to be accepted; the system limits it to `net.core.somaxconn`,
/// 4,096 by default.
pub(super) const BACKLOG: u16 = 4_096;

/// The first pause, and the longest.
const REST: Duration = Duration::from_millis(10);
const LONGEST_REST: Duration = Duration::from_secs(1);

/// `$accept_on` accepts from the standard library's listener.
macro_rules! listener {
    ($listener:ident, $stream:ident, $addr:ty, $accept_on:path) => {
        impl $listener {
            /// Accepts a connection; returns it and the peer's address, which usually has no name if it is a Unix socket's. Any number of
            /// tasks may wait. Cost: one system call, two to set the connection up, one more if the peer is a Unix socket with a name.
            ///
            /// # Errors
            /// Errors of the operating system. After `EMFILE`, `ENFILE`, `ENOBUFS` and `ENOMEM` it does not
            /// help to call again at once: [`incoming`](Self::incoming) pauses as it should. An accepted
            /// connection that cannot be registered (no memory) is closed.
            ///
            /// # Cancel safety
            /// Loses no connection.
            pub async fn accept(&self) -> io::Result<($stream, $addr)> {
                let (stream, peer) = self.io.read_with($accept_on).await?;
                Ok(($stream { io: Async::new_nonblocking(stream)? }, peer))
            }

            /// As [`accept`](Self::accept), for one caller at a time: a later caller replaces an earlier
            /// one.
            ///
            /// # Errors
            /// Errors of the operating system; after a shortage it does not help to call again at once.
            pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<($stream, $addr)>> {
                let (stream, peer) = ready!(self.io.poll_read_with(cx, $accept_on))?;
                Poll::Ready(Ok(($stream { io: Async::new_nonblocking(stream)? }, peer)))
            }

            /// The connections one after the other, with pauses when the system runs short of descriptors
            /// or memory.
            pub fn incoming(&self) -> Incoming<'_> {
                Incoming { listener: self, rest: REST, shortages: 0 }
            }
        }

        #[doc = concat!("The connections of a listener, one after the other: [`", stringify!($listener), "::incoming`].")]
        ///
        /// When the process or the system has no more descriptors or memory, it pauses and tries again, so
        /// that the server survives until other connections have ended: 10 ms at first, doubled each time,
        /// 1 s at most.
        ///
        /// ```no_run
        /// use futures_util::{StreamExt, TryStreamExt};
        #[doc = concat!("# async fn serve(listener: filch_io::net::", stringify!($listener), ") -> std::io::Result<()> {")]
        /// let mut incoming = listener.incoming();
        /// let (stream, _from) = incoming.next().await?;
        /// println!("{} pauses so far", incoming.shortages());
        ///
        /// // Or as a stream:
        /// let mut first = incoming.into_stream().take(10).boxed();
        /// while let Some((stream, _from)) = first.try_next().await? {
        ///     filch_io::spawn(async move { stream.write_all(b"hello").await });
        /// }
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Debug)]
        pub struct Incoming<'a> {
            listener: &'a $listener,
            rest: Duration,
            shortages: u64,
        }

        impl<'a> Incoming<'a> {
            /// The next connection, and the peer's address. The sequence has no end.
            ///
            /// # Errors
            #[doc = concat!("Those of [`", stringify!($listener), "::accept`], except shortages, which it waits out, and connections that")]
            /// are lost or refused before they are accepted. Any other error means that the listener is
            /// broken (closed by other code, or shut down).
            ///
            /// # Cancel safety
            /// Loses no connection. A future that is dropped during a pause forgets the pause.
            pub async fn next(&mut self) -> io::Result<($stream, $addr)> {
                loop {
                    match self.listener.accept().await {
                        Err(error) if is_shortage(&error) => {
                            self.shortages += 1;
                            let rest = self.rest;
                            self.rest = (rest * 2).min(LONGEST_REST);
                            pause::sleep(rest).await?;
                        }
                        // The peer gave up, or a firewall refused: only this connection is lost.
                        Err(error) if is_lost(&error) => {}
                        Err(error) => return Err(error),
                        Ok(connection) => {
                            self.rest = REST;
                            return Ok(connection);
                        }
                    }
                }
            }

            /// The sequence as a [`Stream`], which has no end.
            ///
            /// # Cancel safety
            /// Dropping the stream loses no connection.
            pub fn into_stream(self) -> impl Stream<Item = io::Result<($stream, $addr)>> + 'a {
                unfold(self, |mut incoming| async { Some((incoming.next().await, incoming)) })
            }

            /// How many pauses there were so far: for a log, since [`next`](Self::next) does not report
            /// them.
            pub fn shortages(&self) -> u64 {
                self.shortages
            }
        }
    };
}

fn is_lost(error: &io::Error) -> bool {
    #[cfg(not(windows))]
    const REFUSED: Errno = Errno::PERM;
    #[cfg(windows)]
    const REFUSED: Errno = Errno::ACCESS;
    Errno::from_io_error(error).is_some_and(|error| error == Errno::CONNABORTED || error == REFUSED)
}

/// A resource ran out that may come back: sockets, buffers.
#[cfg(windows)]
fn is_shortage(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NOBUFS))
}

/// A resource ran out that may come back: descriptors, memory, a user's watches.
#[cfg(not(windows))]
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::NOSPC)
    )
}

pub(super) mod tcp {
    use core::net::SocketAddr;

    use super::*;
    use crate::net::{TcpListener, TcpStream, tcp};

    listener!(TcpListener, TcpStream, SocketAddr, tcp::accept_on);
}

#[cfg(unix)]
pub(super) mod unix {
    use std::os::unix::net::SocketAddr;

    use super::*;
    use crate::net::{UnixListener, UnixStream, unix};

    listener!(UnixListener, UnixStream, SocketAddr, unix::accept_on);
}
