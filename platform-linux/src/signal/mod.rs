//! Signals, as events that tasks wait for.
//!
//! ```no_run
//! use filch_linux::signal::{SignalKind, signal};
//!
//! # let runtime = filch_linux::Builder::new().workers(1).build().unwrap();
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
//! signalfd(2) reports only signals that are blocked in every thread, and a library cannot ensure
//! that: running threads keep their masks. Child processes inherit the masks through `exec`, and
//! `SIGTERM` can then no longer stop their programs. So there is a handler, that of the crate
//! `signal-hook-registry`, as in tokio. It counts the signal, and writes to an eventfd that epoll watches;
//! both are allowed in a handler at any point. The handler wakes no task itself, since a waker of
//! another executor may take a lock that the interrupted code holds. No thread's mask is changed,
//! and `exec` resets handlers, so child processes are not affected.
//!
//! - Others in the process may listen to the same signal by that crate, such as tokio: each gets it. A handler that the program had before is
//!   called first. One that is installed later, without that crate, takes the signal from all of them, unless it calls the handler from before.
//! - System calls that a signal interrupts are restarted (`SA_RESTART`). The handler runs on the stack that it interrupts: a program with
//!   stacks of its own needs some hundred bytes of room there.
//! - After the first [`signal`] for a kind, the signal's default action is disabled, even when no
//!   listener is left: otherwise a signal would end a program that makes new listeners in a loop,
//!   if it came between two of them. [`restore`] brings the default back, for instance so that a
//!   second Ctrl-C ends the program.
//! - Every signal that is listened to costs one file descriptor for the life of the process, and one more for each listener.

mod delivery;
mod kind;

use core::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};
use std::{
    io::{self, ErrorKind},
    os::fd::OwnedFd,
    sync::Arc,
};

use futures_util::stream::Stream;

pub use self::kind::SignalKind;

use self::delivery::Line;
use crate::Async;

/// Listens for a signal, from now on, in the current runtime. Every listener gets each signal;
/// there may be any number.
///
/// Cost: a few system calls.
///
/// # Errors
/// `InvalidInput` for signals that cannot be handled, or not in this way (see [`SignalKind`]); the
/// calling thread is in no runtime; other errors of the operating system.
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    let (line, event) = delivery::listen(kind.as_raw_value())?;
    Ok(Signal { event: Async::new_nonblocking(event)?, seen: line.count(), line, kind })
}

/// Waits for Ctrl-C (`SIGINT`), from its first poll on.
///
/// In a loop use a [`signal`] that lives as long as the loop: a signal that comes between two calls
/// of this function is lost. A second Ctrl-C does not end the program either, see [`restore`].
///
/// # Errors
/// As [`signal`], and as [`Signal::recv`].
///
/// # Cancel safety
/// Dropping it loses the signals that came.
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

/// Restores the action that the signal had before the first [`signal`] for it: usually the default
/// action.
///
/// Listeners get no more signals until [`signal`] is called for it again. Does nothing if
/// [`signal`] was never called for it. Others in the process that listen to it by `signal-hook-registry` go on; but where the default
/// action ends the process, it does so for all.
///
/// The handler stays, and does what the system would: if the default action is to stop the process, it does so by `SIGSTOP`; if a real-time
/// signal ends the process, its status is 128 and the signal's number.
///
/// # Errors
/// Errors of the operating system.
pub fn restore(kind: SignalKind) -> io::Result<()> {
    delivery::restore(kind.as_raw_value())
}

/// A listener for one kind of signal: [`signal`].
///
/// Signals coalesce: one [`recv`](Self::recv) stands for all signals since the one before, at least
/// one. (The kernel itself merges signals of one kind before it delivers them.) Dropping it loses
/// signals that were not received.
///
/// ```
/// # filch_linux::Builder::new().workers(1).build().unwrap().block_on(async {
/// use core::future::poll_fn;
/// use filch_linux::signal::{Signal, SignalKind, restore, signal};
/// use rustix::process::{getpid, kill_process};
/// let kind = SignalKind::user_defined1();
/// let mut usr1: Signal = signal(kind)?;
/// assert!(usr1.kind() == kind && !usr1.try_recv());
/// kill_process(getpid(), rustix::process::Signal::USR1)?;
/// usr1.recv().await?;
/// kill_process(getpid(), rustix::process::Signal::USR1)?;
/// poll_fn(|cx| usr1.poll_recv(cx)).await?;
/// restore(kind)?; // the next one ends the program
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub struct Signal {
    /// The listener's own descriptor for the eventfd of the signal. Every write to it is an event
    /// in the listener's runtime.
    event: Async<OwnedFd>,
    line: Arc<Line>,
    /// The count of signals at the last `recv`.
    seen: u32,
    kind: SignalKind,
}

/// As [`Signal::recv`], without end.
impl Stream for Signal {
    type Item = io::Result<()>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_recv(cx).map(Some)
    }
}

impl Signal {
    /// Waits until the signal has come since the last call, or since the listener was made.
    /// (Exactly 2^32 signals in between would look like none.)
    ///
    /// # Errors
    /// If the runtime has ended.
    ///
    /// # Cancel safety
    /// Loses no signal.
    pub async fn recv(&mut self) -> io::Result<()> {
        let Self { event, line, seen, .. } = self;
        event.read_with(|_| news(line, seen)).await
    }

    /// As [`recv`](Self::recv), for streams and the like.
    ///
    /// # Errors
    /// If the runtime has ended.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { event, line, seen, .. } = self;
        event.poll_read_with(cx, |_| news(line, seen))
    }

    /// Whether the signal has come since the last call. Does not wait; one load.
    pub fn try_recv(&mut self) -> bool {
        news(&self.line, &mut self.seen).is_ok()
    }

    /// What it listens for.
    pub fn kind(&self) -> SignalKind {
        self.kind
    }
}

/// The handler changes the count before it writes to the eventfd, so a listener that finds no
/// change and then waits misses nothing.
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
