//! Signals, as events that tasks wait for.
//!
//! ```no_run
//! use filch_linux::signal::{SignalKind, signal};
//!
//! # let runtime = filch_linux::builder().workers(1).build().unwrap();
//! # runtime.block_on(async {
//! let mut hangup = signal(SignalKind::hangup())?;
//! loop {
//!     hangup.recv().await?;
//!     println!("reads its configuration again");
//! }
//! # Ok::<_, std::io::Error>(()) }).unwrap();
//! ```
//!
//! # A handler, not signalfd
//!
//! signalfd(2) reports only signals that are blocked in every thread, and a library cannot see to that: threads that run already
//! keep their masks, and child processes inherit them through `exec`, where programs that never heard of it can no longer be
//! stopped by `SIGTERM`. So there is a handler, as in the crate `signal-hook` and in tokio: it counts the signal, and writes to an
//! eventfd that epoll watches, which are both allowed in a handler wherever it strikes. It wakes nothing by itself, since a waker
//! of another executor may take a lock that the interrupted code holds. No thread's mask is touched, and `exec` resets handlers,
//! so child processes notice nothing.
//!
//! - A handler that the program had for a signal is called after ours. System calls that it interrupts are restarted
//!   (`SA_RESTART`).
//! - From the first [`signal`] for a kind on, the signal's default action does not take place any more, also when no listener is
//!   left: otherwise a program that makes its listeners anew in a loop would die of a signal that comes in between.
//!   [`restore`] brings the default back, for instance so that a second Ctrl-C ends the program.
//! - Every signal that is listened to costs one file descriptor for the life of the process, and one more for each listener.

mod delivery;
mod kind;

use core::{
    fmt,
    task::{Context, Poll},
};
use std::{
    io::{self, ErrorKind},
    os::fd::OwnedFd,
};

pub use self::kind::SignalKind;

use self::delivery::Line;
use crate::Async;

/// Listens for a signal, from now on, in the current runtime. Any number of listeners each hear of it.
///
/// Cost: a few system calls.
///
/// # Errors
/// `InvalidInput` for signals that cannot be handled, or not in this way ([`SignalKind`] says which); the calling thread is in no
/// runtime; what the operating system refuses.
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    let (line, bell) = delivery::listen(kind.as_raw())?;
    Ok(Signal { bell: Async::from_nonblocking(bell)?, line, seen: line.count(), kind })
}

/// Waits for Ctrl-C (`SIGINT`), from its first poll on.
///
/// In a loop use a [`signal`] that lives as long as the loop: what comes between two calls of this function is not heard. The
/// second Ctrl-C does not end the program either, see [`restore`].
///
/// # Errors
/// As [`signal`], and as [`Signal::recv`].
///
/// # Cancel safety
/// Dropping it forgets the signals that came.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// use filch_linux::signal;
/// signal::ctrl_c().await?;
/// signal::restore(signal::SignalKind::interrupt())?;
/// println!("cleaning up; press Ctrl-C again to leave at once");
/// # Ok(())
/// # }
/// ```
pub async fn ctrl_c() -> io::Result<()> {
    signal(SignalKind::interrupt())?.recv().await
}

/// Puts back what the program did about the signal before the first [`signal`] for it: the default action, as a rule.
///
/// Listeners hear nothing more, until somebody calls [`signal`] for it again. It does nothing if nobody has.
///
/// # Errors
/// The system's.
pub fn restore(kind: SignalKind) -> io::Result<()> {
    delivery::restore(kind.as_raw())
}

/// A listener for one kind of signal: [`signal`].
///
/// Signals coalesce: one [`recv`](Self::recv) stands for all that came since the one before, one at least. (The kernel merges
/// those of one kind itself before it delivers them.) Dropping it gives up what it has not told.
pub struct Signal {
    /// A listener's own name for the signal's bell. Its runtime hears of every ring.
    bell: Async<OwnedFd>,
    line: &'static Line,
    /// How many signals there had been when it last told of one.
    seen: u32,
    kind: SignalKind,
}

impl Signal {
    /// Waits until the signal has come since the last time, or since the listener was made. (Precisely 2^32 signals in between
    /// would look like none.)
    ///
    /// # Errors
    /// If the runtime has ended.
    ///
    /// # Cancel safety
    /// Loses no signal.
    pub async fn recv(&mut self) -> io::Result<()> {
        let Self { bell, line, seen, .. } = self;
        bell.read_with(|_| news(line, seen)).await
    }

    /// As [`recv`](Self::recv), for streams and the like.
    ///
    /// # Errors
    /// As there.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { bell, line, seen, .. } = self;
        bell.poll_read_with(cx, |_| news(line, seen))
    }

    /// Whether the signal has come since the last time. Does not wait; one load.
    pub fn try_recv(&mut self) -> bool {
        news(self.line, &mut self.seen).is_ok()
    }

    /// What it listens for.
    pub fn kind(&self) -> SignalKind {
        self.kind
    }
}

/// The bell rings after the count has changed, so one who finds no change and then waits for the bell misses nothing.
fn news(line: &Line, seen: &mut u32) -> io::Result<()> {
    let count = line.count();
    if count == *seen {
        return Err(ErrorKind::WouldBlock.into());
    }
    *seen = count;
    Ok(())
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("kind", &self.kind).finish_non_exhaustive()
    }
}
