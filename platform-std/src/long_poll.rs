//! Reports of polls that take too long.

use core::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use std::{
    io::{self, Write},
    sync::Arc,
    time::SystemTime,
};

use filch::WorkerId;

/// A poll that has lasted longer than [`Builder::poll_limit`](crate::Builder::poll_limit), and is
/// still running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongPoll {
    /// The worker that runs the poll.
    pub worker: WorkerId,
    /// How long it has lasted, measured from when another worker first saw it.
    pub so_far: Duration,
}

impl LongPoll {
    /// Prints to the standard error, at most once a second in the whole process.
    pub(crate) fn print(self, runtime: &str) {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        // Ordering: pairs with nothing; it only limits the output.
        if LAST.swap(now, Ordering::Relaxed) != now {
            // It must not panic, as `eprintln` does when the standard error is closed.
            let _ = writeln!(
                io::stderr(),
                "{runtime}: a task has been in one poll of worker {} for {:?} (`Builder::poll_limit`); `spawn_blocking` is for code \
                 that blocks",
                self.worker.index(),
                self.so_far
            );
        }
    }
}

/// The user's hook for long polls.
#[derive(Clone)]
pub(crate) struct Hook(Arc<dyn Fn(LongPoll) + Send + Sync>);

impl Hook {
    pub(crate) fn new(f: impl Fn(LongPoll) + Send + Sync + 'static) -> Self {
        Self(Arc::new(f))
    }

    pub(crate) fn call(&self, poll: LongPoll) {
        (self.0)(poll);
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}
