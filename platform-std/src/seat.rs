//! Which workers a thread is.

#[cfg(all(feature = "observe", target_os = "linux"))]
use core::sync::atomic::AtomicI32;
use core::{
    cell::Cell,
    ptr::null,
    sync::atomic::{Ordering, compiler_fence},
};

use filch::WorkerId;

use crate::context::{self, Handle};

/// What a thread that is a worker keeps of its state before. One for each worker, in the platform's
/// memory.
///
/// INV-SEAT: only the worker's own thread uses it, between `take` and `give_back`. What signal handlers read is written
/// before `TOP` leads to it, and does not change until `TOP` leads to it no longer: a handler sees all of it, or nothing.
pub(crate) struct Seat {
    platform: Cell<*const ()>,
    worker: Cell<WorkerId>,
    /// The worker of another runtime that the thread is too: a worker of one runtime may help
    /// another.
    below: Cell<*const Self>,
    /// Where the thread was before.
    before: Cell<Option<Handle>>,
    /// The worker's runtime, if the thread resides in it: such seats are given back in any order, all others in the reverse
    /// order of their `take`.
    residence: Cell<Option<Handle>>,
    /// The thread stays in the runtime when the seat is given back ([`stay`](Self::stay)).
    stays: Cell<bool>,
    /// The host's [`Entry`](crate::internal::Entry) was entered.
    pub(crate) entered: Cell<bool>,
    /// The thread, for other threads: a number alone.
    #[cfg(all(feature = "observe", target_os = "linux"))]
    thread: AtomicI32,
}

// SAFETY: INV-SEAT.
unsafe impl Sync for Seat {}
// SAFETY: INV-SEAT: no thread reads it before its platform is in place.
unsafe impl Send for Seat {}

thread_local! {
    // One word, without a destructor: signal handlers and destructors of other values read it.
    /// The innermost worker that the thread is. INV-TOP: null, or a seat in a platform that is never freed.
    static TOP: Cell<*const Seat> = const { Cell::new(null()) };
}

/// The worker of this platform that the calling thread is.
#[inline]
pub(crate) fn worker_of(platform: *const ()) -> Option<WorkerId> {
    // SAFETY: INV-TOP.
    let top = unsafe { TOP.get().as_ref() }?;
    if core::ptr::eq(top.platform.get(), platform) {
        return Some(top.worker.get());
    }
    below(top, platform)
}

#[cold]
fn below(top: &Seat, platform: *const ()) -> Option<WorkerId> {
    let found = seats(top.below.get()).find(|seat| core::ptr::eq(seat.platform.get(), platform));
    found.map(|seat| seat.worker.get())
}

/// The calling thread's seats from this one on, innermost first.
fn seats(first: *const Seat) -> impl Iterator<Item = &'static Seat> {
    // SAFETY: INV-TOP, for each seat in the list.
    let seat = |at: *const Seat| unsafe { at.as_ref() };
    core::iter::successors(seat(first), move |last| seat(last.below.get()))
}

/// The oldest runtime that the calling thread resides in, of those that are this process's.
fn residence() -> Option<Handle> {
    let all = seats(TOP.get()).filter_map(|seat| seat.residence.get());
    all.filter(|its| its.check().is_ok()).last()
}

impl Seat {
    pub(crate) fn new() -> Self {
        Self {
            platform: Cell::new(null()),
            worker: Cell::new(WorkerId::new(0)),
            below: Cell::new(null()),
            before: Cell::new(None),
            residence: Cell::new(None),
            stays: Cell::new(false),
            entered: Cell::new(false),
            #[cfg(all(feature = "observe", target_os = "linux"))]
            thread: AtomicI32::new(0),
        }
    }

    /// The calling thread is this worker from now on, and in its runtime.
    pub(crate) fn take(&self, platform: *const (), worker: WorkerId, runtime: Option<Handle>) {
        self.platform.set(platform);
        self.worker.set(worker);
        #[cfg(all(feature = "observe", target_os = "linux"))]
        self.thread.store(crate::stacks::thread_id(), Ordering::Relaxed);
        self.below.set(TOP.get());
        self.residence.set(None);
        self.stays.set(false);
        // Ordering: for a signal handler on this thread, INV-SEAT.
        compiler_fence(Ordering::Release);
        TOP.set(self);
        self.before.set(context::enter(runtime));
    }

    /// The worker runs code in calls of its own alone. Between them the thread is where it was before the `take`, and in
    /// this runtime if it was nowhere.
    pub(crate) fn reside(&self, runtime: Option<Handle>) {
        context::enter(self.before.get());
        self.residence.set(runtime);
        context::reside(residence());
    }

    /// The thread gives the seat back next, in the midst of a poll of this runtime, and stays in the runtime until
    /// [`context::unnest`], with what this returns.
    pub(crate) fn stay(&self, runtime: Handle) -> *const () {
        let before = self.before.get();
        if before != Some(runtime) {
            self.stays.set(true);
            self.entered.set(false);
        }
        context::address(before)
    }

    /// The calling thread is this worker no more.
    pub(crate) fn give_back(&self) {
        #[cfg(all(feature = "observe", target_os = "linux"))]
        self.thread.store(0, Ordering::Relaxed);
        // Not always the seat on top: the thread may reside in others.
        let above = seats(TOP.get()).find(|seat| core::ptr::eq(seat.below.get(), self));
        match above {
            Some(above) => above.below.set(self.below.get()),
            None => TOP.set(self.below.get()),
        }
        if self.residence.get().is_some() {
            context::reside(residence());
        } else if !self.stays.get() {
            context::enter(self.before.get());
        }
        // Ordering: for a signal handler on this thread, INV-SEAT. The core orders this
        // thread before the next one in the seat.
        compiler_fence(Ordering::Release);
    }

    /// The thread that is this worker; 0: none.
    #[cfg(all(feature = "observe", target_os = "linux"))]
    pub(crate) fn thread(&self) -> &AtomicI32 {
        &self.thread
    }
}
