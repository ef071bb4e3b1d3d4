//! Polls that take too long, as they are told of.

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

/// A poll that has lasted longer than [`Builder::poll_limit`](crate::Builder::poll_limit), and goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LongPoll {
    /// In whose poll.
    pub worker: WorkerId,
    /// How long it has lasted, as far as is known: from when another worker saw it first.
    pub so_far: Duration,
}

impl LongPoll {
    /// On the standard error, once in a second at most, in the whole process.
    pub(crate) fn print(self, runtime: &str) {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        // Ordering: a limit on noise.
        if LAST.swap(now, Ordering::Relaxed) != now {
            // It must not panic, as `eprintln` does where nobody reads.
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

/// What a user wants to be called for a long poll.
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
