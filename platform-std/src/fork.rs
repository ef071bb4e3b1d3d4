//! Forks: a child process has none of the parent's threads.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How many forks lie between this process and the one that first asked.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process, as far as forks are concerned: a number that is another in a forked child, for hosts whose files and locks a
/// child must leave alone. It counts from the first runtime that was built on. One load.
pub fn generation() -> u32 {
    // Ordering: a forked child has one thread, and it wrote the count itself.
    FORKS.load(Ordering::Relaxed)
}

/// Counts forks from now on.
pub(crate) fn watch() {
    // No lock: another thread might hold it while this one forks.
    static WATCHED: AtomicBool = AtomicBool::new(false);
    // Ordering: set behind the registration. Two that come at once both do it: a fork then counts as two.
    if WATCHED.load(Ordering::Acquire) {
        return;
    }
    #[cfg(unix)]
    // SAFETY: the handler only counts, which is allowed between fork and exec. If it cannot be set for want of memory,
    // forks go unnoticed, no worse.
    unsafe {
        libc::pthread_atfork(None, None, Some(count));
    }
    WATCHED.store(true, Ordering::Release);
}

#[cfg(unix)]
extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
