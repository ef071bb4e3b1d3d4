//! Forks: a child process has none of the parent's threads.

use core::{
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering},
};

/// The number of forks between this process and the one that called [`watch`] first.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A number that differs in a forked child. Hosts use it for files and locks that a child must
/// leave alone. Forks count from the first runtime that was built. Costs one load.
///
/// ```
/// // A file of this process, which a forked child must not write to.
/// struct Log(std::fs::File, u32);
/// impl Log {
///     fn is_ours(&self) -> bool {
///         self.1 == filch_std::fork::generation()
///     }
/// }
/// # let file = std::fs::File::open("/dev/null").or_else(|_| std::fs::File::open("."))?;
/// let log = Log(file, filch_std::fork::generation());
/// assert!(log.is_ours());
/// # Ok::<(), std::io::Error>(())
/// ```
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
    // SAFETY: the handler only counts and stores, which is allowed between fork and exec. If it cannot be
    // registered for want of memory, forks go unnoticed; nothing else is affected.
    unsafe {
        libc::pthread_atfork(None, None, Some(count));
    }
    WATCHED.store(true, Ordering::Release);
}

#[cfg(unix)]
extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    // A dump that is under way is the parent's.
    #[cfg(feature = "observe")]
    filch::dump::watch(None);
}

/// A value of this process. A forked child makes its own: a thread of the parent may have been changing this one.
/// INV-OWN: null, or leaked.
pub(crate) struct Own<T>(AtomicPtr<(u32, T)>);

impl<T: Default + Send + Sync + 'static> Own<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    pub(crate) fn get(&self) -> &'static T {
        let process = generation();
        loop {
            // Ordering: Acquire pairs with the Release of the exchange.
            let seen = self.0.load(Ordering::Acquire);
            // SAFETY: INV-OWN.
            if let Some((_, own)) = unsafe { seen.as_ref() }.filter(|(its, _)| *its == process) {
                return own;
            }
            let new = Box::into_raw(Box::new((process, T::default())));
            if self.0.compare_exchange(seen, new, Ordering::Release, Ordering::Relaxed).is_err() {
                // SAFETY: from `into_raw`, and no other thread has seen it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }
}
