//! Accepting without end.

use core::{net::SocketAddr, time::Duration};
use std::io;

use rustix::io::Errno;

use super::{listener::TcpListener, stream::TcpStream};
use crate::net::pause;

/// The first rest, and the longest.
const REST: Duration = Duration::from_millis(10);
const LONGEST_REST: Duration = Duration::from_secs(1);

/// The connections of a listener, one after the other: [`TcpListener::incoming`].
///
/// Where the process or the system has no more descriptors or memory, it rests and tries again, for a server that lives
/// on until others have ended: 10 ms at first, doubled each time, 1 s at most.
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

    /// The next connection, and where it comes from. There is no end of them.
    ///
    /// # Errors
    /// Those of [`TcpListener::accept`], except shortages, which it waits out, and connections that are lost or refused before they
    /// are accepted. What is left speaks of a listener that is broken (closed behind its back, or shut down).
    ///
    /// # Cancel safety
    /// Loses no connection. One dropped during a rest forgets the rest.
    pub async fn next(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            match self.listener.accept().await {
                Err(error) if is_shortage(&error) => {
                    self.shortages += 1;
                    let rest = self.rest;
                    self.rest = (rest * 2).min(LONGEST_REST);
                    pause::sleep(rest).await?;
                }
                // The peer gave up, or a firewall said no: that one is gone, the others are not.
                Err(error) if is_lost(&error) => {}
                Err(error) => return Err(error),
                Ok(connection) => {
                    self.rest = REST;
                    return Ok(connection);
                }
            }
        }
    }

    /// How often it had to rest so far: for a log, since [`next`](Self::next) says nothing of it.
    pub fn shortages(&self) -> u64 {
        self.shortages
    }
}

fn is_lost(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::CONNABORTED | Errno::PERM))
}

/// Something ran out that may come back: descriptors, memory, what a user may watch.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::NOSPC)
    )
}
