//! Accepting connections in a loop.

use core::time::Duration;
use std::{io, os::unix::net::SocketAddr};

use futures_util::stream::{Stream, unfold};
use rustix::io::Errno;

use super::{listener::UnixListener, stream::UnixStream};
use crate::net::pause;

/// The first pause, and the longest.
const REST: Duration = Duration::from_millis(10);
const LONGEST_REST: Duration = Duration::from_secs(1);

/// The connections of a listener, one after the other: [`UnixListener::incoming`].
///
/// When the process or the system has no more descriptors or memory, it pauses and tries again, so
/// that the server survives until other connections have ended: 10 ms at first, doubled each time,
/// 1 s at most.
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a UnixListener,
    rest: Duration,
}

impl<'a> Incoming<'a> {
    pub(super) fn new(listener: &'a UnixListener) -> Self {
        Self { listener, rest: REST }
    }

    /// The next connection, and the peer's address. The sequence has no end.
    ///
    /// # Errors
    /// Those of [`UnixListener::accept`], except shortages, which it waits out.
    ///
    /// # Cancel safety
    /// Loses no connection. A future that is dropped during a pause forgets the pause.
    pub async fn next(&mut self) -> io::Result<(UnixStream, SocketAddr)> {
        loop {
            match self.listener.accept().await {
                Err(error) if is_shortage(&error) => {
                    let rest = self.rest;
                    self.rest = (rest * 2).min(LONGEST_REST);
                    pause::sleep(rest).await?;
                }
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
    /// # async fn serve(listener: filch_io::net::UnixListener) -> std::io::Result<()> {
    /// let mut first = listener.incoming().into_stream().take(10).boxed();
    /// while let Some((stream, _)) = first.try_next().await? {
    ///     stream.write(b"hello").await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_stream(self) -> impl Stream<Item = io::Result<(UnixStream, SocketAddr)>> + 'a {
        unfold(self, |mut incoming| async { Some((incoming.next().await, incoming)) })
    }
}

/// A resource ran out that may come back: descriptors, memory, a user's watches.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::NOSPC)
    )
}
