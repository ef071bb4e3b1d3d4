//! Executors in type-stable memory: made once, used again, never unmapped.
//!
//! A waker on a foreign thread may touch its task, and through it the executor, at any time. Memory that stays an executor
//! for ever makes the worst case a spurious unpark.

use core::any::{Any, TypeId};
use std::sync::{Mutex, PoisonError};

/// What two executors must have in common for one to follow the other in its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) host: TypeId,
    pub(crate) slots: usize,
    pub(crate) config: filch::Config,
}

type Kept = (Kind, &'static (dyn Any + Send + Sync));

static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// An executor of this kind that was given back, if there is one.
pub(crate) fn take<T: Any + Send + Sync>(kind: &Kind) -> Option<&'static T> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let at = kept.iter().position(|(k, _)| k == kind)?;
    kept.swap_remove(at).1.downcast_ref()
}

/// Gives an executor back that has shut down.
pub(crate) fn give<T: Any + Send + Sync>(kind: Kind, executor: &'static T) {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).push((kind, executor));
}
