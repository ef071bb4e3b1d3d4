//! The broadcast under way, and each worker's mark.

use core::ptr::{NonNull, null_mut};

use crate::{
    atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, maybe_const},
    lock::Spin,
    platform::{Panic, WorkerId},
};

/// The broadcast under way, if there is one.
pub(crate) struct Broadcasts(AtomicPtr<Broadcast<'static>>);

impl Broadcasts {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self(AtomicPtr::new(null_mut()))
        }
    }

    /// Makes this the broadcast under way. False if there is one.
    pub(crate) fn begin(&self, broadcast: &Broadcast<'_>) -> bool {
        // INV-BROADCAST in place of the lifetime.
        let this = core::ptr::from_ref(broadcast).cast_mut().cast();
        // Ordering: AcqRel. Release pairs with the Acquire in `Mark::take`, by way of the mark. Acquire pairs with the Release in
        // `end`.
        self.0.compare_exchange(null_mut(), this, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The broadcast under way is over.
    pub(crate) fn end(&self) {
        // Ordering: Release pairs with the Acquire in `begin`: the marks of the next broadcast come after those of this one.
        self.0.store(null_mut(), Ordering::Release);
    }

    /// Takes the mark down; the broadcast, if the mark was up.
    pub(crate) fn take_part(&self, mark: &Mark) -> Option<NonNull<Broadcast<'static>>> {
        // Ordering: after the Acquire in `take`.
        if mark.is_set() && mark.take() {
            NonNull::new(self.0.load(Ordering::Relaxed))
        } else {
            None
        }
    }
}

/// A worker's mark: a broadcast waits for this worker (INV-BROADCAST).
pub(crate) struct Mark(AtomicBool);

impl Mark {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self(AtomicBool::new(false))
        }
    }

    pub(crate) fn set(&self) {
        // Ordering: Release pairs with the Acquire in `take`: the context that takes the mark down sees the broadcast.
        self.0.store(true, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        // Ordering: a look. The caller of a broadcast marks a worker and then unparks it, so the worker looks again.
        self.0.load(Ordering::Relaxed)
    }

    /// Takes the mark down; whether it was up.
    pub(crate) fn take(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `set`.
        self.0.swap(false, Ordering::Acquire)
    }
}

/// A broadcast under way.
///
/// INV-BROADCAST: it stays until `pending` is zero. Each mark that is up in a slot is one of `pending`. A context that takes a mark
/// down may use the broadcast until it counts down.
pub(crate) struct Broadcast<'f> {
    pub(crate) closure: &'f (dyn Fn(WorkerId) + Sync),
    pub(crate) caller: WorkerId,
    pub(crate) pending: AtomicU32,
    pub(crate) ran: AtomicU32,
    /// The first one.
    pub(crate) panic: Spin<Option<Panic>>,
}
