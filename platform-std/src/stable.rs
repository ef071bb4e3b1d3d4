//! Executors in type-stable memory: made once, reused, never unmapped.
//!
//! A waker on a foreign thread may touch its task, and through it the executor, at any time. Memory
//! that always stays an executor limits the harm to a spurious unpark. Only what such a waker may
//! touch stays: between two uses the host is closed.

use core::any::{Any, TypeId};
use std::sync::{Mutex, MutexGuard};

use crate::{fork::Own, panics::lock};

/// What two executors must have in common so that one can reuse the other's memory. The process is
/// one of these: a forked child shares the system's resources with its parent, and must not use
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) host: TypeId,
    pub(crate) slots: usize,
    /// How many of them are spare.
    pub(crate) spares: u16,
    /// Records that its recorder has room for, by worker; 0: it has none.
    pub(crate) records: usize,
    /// Tasks that its table of their activity has room for; 0: it has none.
    pub(crate) tasks: usize,
}

type Kept = (Kind, &'static (dyn Any + Send + Sync));

static LIST: Own<Mutex<Vec<Kept>>> = Own::new();
static RETIRED: Own<Mutex<Vec<&'static (dyn Any + Send + Sync)>>> = Own::new();

fn list() -> MutexGuard<'static, Vec<Kept>> {
    lock(LIST.get())
}

/// Takes an executor of this kind that was given back, if there is one.
pub(crate) fn take<T: Any + Send + Sync>(kind: &Kind) -> Option<&'static T> {
    let mut kept = list();
    let at = kept.iter().position(|(k, _)| k == kind)?;
    kept.remove(at).1.downcast_ref()
}

/// Keeps an executor that has shut down and is not to be used again: wakers may still touch it.
pub(crate) fn retire<T: Any + Send + Sync>(executor: &'static T) {
    lock(RETIRED.get()).push(executor);
}

/// Gives back an executor that has shut down, in the process that made it.
pub(crate) fn give<T: Any + Send + Sync>(kind: Kind, executor: &'static T) {
    list().push((kind, executor));
}
