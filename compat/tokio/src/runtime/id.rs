//! Numbers of runtimes.

use core::{
    fmt,
    num::NonZeroU64,
    sync::atomic::{AtomicU64, Ordering},
};

/// What no other runtime of the program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(NonZeroU64);

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Id {
    pub(crate) fn next() -> Self {
        loop {
            // Ordering: Relaxed; a counter.
            if let Some(id) = NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)) {
                return Self(id);
            }
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
