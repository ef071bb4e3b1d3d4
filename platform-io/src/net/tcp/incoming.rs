//! Accepting connections in a loop.

use core::{net::SocketAddr, time::Duration};
use std::io;

use futures_util::stream::{Stream, unfold};
use rustix::io::Errno;

use super::{listener::TcpListener, stream::TcpStream};
use crate::net::pause;

/// The first pause, and the longest.
const REST: Duration = Duration::from_millis(10);
const LONGEST_REST: Duration = Duration::from_secs(1);

/// The connections of a listener, one after the other: [`TcpListener::incoming`].
///
/// When the process or the system has no more descriptors or memory, it pauses and tries again, so
/// that the server survives until other connections have ended: 10 ms at first, doubled each time,
/// 1 s at most.
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
    rest: Duration,
    shortages: u64,
}

impl<'a> Incoming<'a> {
    pub(super) fn new(listener: &'a TcpListener) -> Self {
        Self { listener, rest: REST, shortages: 0 }
    }

    /// The next connection, and the peer's address. The sequence has no end.
    ///
    /// # Errors
    /// Those of [`TcpListener::accept`], except shortages, which it waits out, and connections that
    /// are lost or refused before they are accepted. Any other error means that the listener is
    /// broken (closed by other code, or shut down).
    ///
    /// # Cancel safety
    /// Loses no connection. A future that is dropped during a pause forgets the pause.
    pub async fn next(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
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
    ///
    /// ```no_run
    /// use futures_util::{StreamExt, TryStreamExt};
    /// # async fn serve(listener: filch_io::net::TcpListener) -> std::io::Result<()> {
    /// let mut first = listener.incoming().into_stream().take(10).boxed();
    /// while let Some((stream, _)) = first.try_next().await? {
    ///     stream.write_all(b"hello").await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_stream(self) -> impl Stream<Item = io::Result<(TcpStream, SocketAddr)>> + 'a {
        unfold(self, |mut incoming| async { Some((incoming.next().await, incoming)) })
    }

    /// How many pauses there were so far: for a log, since [`next`](Self::next) does not report
    /// them.
    pub fn shortages(&self) -> u64 {
        self.shortages
    }
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
