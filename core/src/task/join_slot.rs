//! Where completion finds the waker or the thread that waits for the task.

use core::{
    mem::ManuallyDrop,
    task::{RawWaker, RawWakerVTable, Waker},
};

use crate::atomic::{AtomicU32, UnsafeCell};

/// The waker or thread that completion wakes. Two words.
///
/// INV-JOIN-SLOT: while the state's join-waker bit is clear, the slot belongs to the join handle. While it is set, both
/// sides may read. A completion that finds the bit set owns the waker in the slot; the handle then leaves the slot
/// alone.
pub(crate) struct JoinSlot {
    /// Null if a thread sleeps on `word`.
    vtable: UnsafeCell<*const RawWakerVTable>,
    data: UnsafeCell<Data>,
}

union Data {
    data: *const (),
    word: ManuallyDrop<AtomicU32>,
}

/// What the slot held.
pub(crate) enum Joiner {
    Waker(Waker),
    /// The completion word of a blocked thread; it is in the task's slot.
    Thread(*const AtomicU32),
}

impl JoinSlot {
    pub(crate) fn new() -> Self {
        Self {
            vtable: UnsafeCell::new(core::ptr::null()),
            data: UnsafeCell::new(Data { data: core::ptr::null() }),
        }
    }

    /// Called by the handle, bit clear.
    pub(super) fn put(&self, waker: Waker) {
        let waker = ManuallyDrop::new(waker);
        // SAFETY: INV-JOIN-SLOT: the bit is clear, so that the slot is the handle's.
        self.vtable.with_mut(|p| unsafe { *p = waker.vtable() });
        // SAFETY: INV-JOIN-SLOT: the bit is still clear. No field of the union needs to be dropped.
        self.data.with_mut(|p| unsafe { (*p).data = waker.data() });
    }

    /// Called by the handle, bit clear.
    pub(super) fn put_word(&self) {
        let word = Data { word: ManuallyDrop::new(AtomicU32::new(0)) };
        // SAFETY: INV-JOIN-SLOT: the bit is clear, so that the slot is the handle's.
        self.vtable.with_mut(|p| unsafe { *p = core::ptr::null() });
        // SAFETY: INV-JOIN-SLOT: the bit is still clear.
        self.data.with_mut(|p| unsafe { p.write(word) });
    }

    /// Called by either side, after `put_word` and before the next `put`.
    pub(super) fn word(&self) -> *const AtomicU32 {
        // SAFETY: computes an address; nothing is read.
        self.data.with(|p| unsafe { (&raw const (*p).word).cast() })
    }

    /// Called by either side, bit set.
    pub(super) fn will_wake(&self, waker: &Waker) -> bool {
        // SAFETY: INV-JOIN-SLOT: the bit is set, so both sides may read, and neither writes.
        self.vtable.with(|p| unsafe { core::ptr::eq(*p, waker.vtable()) })
            // SAFETY: INV-JOIN-SLOT: the bit is set, as before; a slot with a waker's table has the waker's data.
            && self.data.with(|p| unsafe { core::ptr::eq((*p).data, waker.data()) })
    }

    /// Takes the content out. Called by the side that owns it.
    pub(crate) fn take(&self) -> Joiner {
        // SAFETY: INV-JOIN-SLOT: the slot is the caller's. Table and data came from one waker, whose ownership passes
        // to the result.
        unsafe {
            match self.vtable.with(|p| (*p).as_ref()) {
                None => Joiner::Thread(self.word()),
                Some(vtable) => {
                    let data = self.data.with(|p| (*p).data);
                    Joiner::Waker(Waker::from_raw(RawWaker::new(data, vtable)))
                }
            }
        }
    }
}
