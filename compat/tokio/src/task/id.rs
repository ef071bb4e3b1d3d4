//! Numbers of tasks.

use core::{
    fmt,
    num::NonZeroU64,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::runtime::context;

/// What no other task of the program has, those of other runtimes included.
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

/// The task that calls.
///
/// # Panics
/// Outside of tasks.
#[track_caller]
pub fn id() -> Id {
    match context::task() {
        Some(id) => id,
        None => panic!("Can't get a task id when not inside a task"),
    }
}

/// The task that calls, if a task does.
pub fn try_id() -> Option<Id> {
    context::task()
}
