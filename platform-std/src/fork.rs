//! Forks: a child process has none of the parent's threads.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The number of forks between this process and the one that called [`watch`] first.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A number that differs in a forked child. Hosts use it for files and locks that a child must
/// leave alone. Forks count from the first runtime that was built. Costs one load.
pub fn generation() -> u32 {
    // Ordering: a forked child has one thread, and it wrote the count itself.
    FORKS.load(Ordering::Relaxed)
}

/// Counts forks from now on.
pub(crate) fn watch() {
    // No lock: another thread might hold it while this one forks.
    static WATCHED: AtomicBool = AtomicBool::new(false);
    // Ordering: pairs with the Release store below, which follows the registration. Two threads may
    // both register: then a fork counts as two.
    if WATCHED.load(Ordering::Acquire) {
        return;
    }
    #[cfg(unix)]
    // SAFETY: the handler only counts, which is allowed between fork and exec. If it cannot be
    // registered for want of memory, forks go unnoticed; nothing else is affected.
    unsafe {
        libc::pthread_atfork(None, None, Some(count));
    }
    WATCHED.store(true, Ordering::Release);
}

#[cfg(unix)]
extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
