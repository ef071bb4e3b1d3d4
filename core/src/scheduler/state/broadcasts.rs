//! The broadcast under way, and each worker's flag.

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
        // Ordering: AcqRel. Release pairs with the Acquire in `Pending::take`, by way of the flag. Acquire pairs with the Release in
        // `end`.
        self.0.compare_exchange(null_mut(), this, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The broadcast under way is over.
    pub(crate) fn end(&self) {
        // Ordering: Release pairs with the Acquire in `begin`: the flags of the next broadcast come after those of this one.
        self.0.store(null_mut(), Ordering::Release);
    }

    /// Clears the flag; the broadcast, if the flag was set.
    pub(crate) fn take_part(&self, pending: &Pending) -> Option<NonNull<Broadcast<'static>>> {
        // Ordering: after the Acquire in `take`.
        if pending.is_set() && pending.take() {
            NonNull::new(self.0.load(Ordering::Relaxed))
        } else {
            None
        }
    }
}

/// A worker's flag: a broadcast waits for this worker (INV-BROADCAST).
pub(crate) struct Pending(AtomicBool);

impl Pending {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self(AtomicBool::new(false))
        }
    }

    pub(crate) fn set(&self) {
        // Ordering: Release pairs with the Acquire in `take`: the context that clears the flag sees the broadcast.
        self.0.store(true, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        // Ordering: a look. The caller of a broadcast sets a worker's flag and then unparks it, so the worker looks again.
        self.0.load(Ordering::Relaxed)
    }

    /// Clears the flag; whether it was set.
    pub(crate) fn take(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `set`.
        self.0.swap(false, Ordering::Acquire)
    }
}

/// A broadcast under way.
///
/// INV-BROADCAST: it stays until `pending` is zero. Each flag that is set in a slot is one of `pending`. A context that clears a flag
/// down may use the broadcast until it counts down.
pub(crate) struct Broadcast<'f> {
    pub(crate) closure: &'f (dyn Fn(WorkerId) + Sync),
    pub(crate) caller: WorkerId,
    pub(crate) pending: AtomicU32,
    pub(crate) ran: AtomicU32,
    /// The first one.
    pub(crate) panic: Spin<Option<Panic>>,
}
