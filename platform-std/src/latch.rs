//! How a thread waits for others: a worker runs other work meanwhile, any other thread sleeps.
//! Hidden: for crates that present another API.

use core::{
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};
use std::thread::{self, Thread};

use filch::WorkerId;

use crate::context::{self, Handle};

/// Is set once; the thread that made it waits for it.
///
/// INV-LATCH: it stays valid until it is set, which happens once. The setter does not touch it
/// after the store.
#[derive(Debug)]
pub struct Latch {
    set: AtomicBool,
    waiter: Waiter,
}

#[derive(Clone, Debug)]
enum Waiter {
    Worker(Handle, WorkerId),
    Thread(Thread),
}

impl Latch {
    /// A latch of the calling thread.
    #[expect(
        clippy::new_without_default,
        reason = "it is the calling thread's, which is no default"
    )]
    pub fn new() -> Self {
        let worker =
            context::current().and_then(|handle| Some((handle, handle.0.core.current_worker()?)));
        let waiter = match worker {
            Some((handle, id)) => Waiter::Worker(handle, id),
            None => Waiter::Thread(thread::current()),
        };
        Self { set: AtomicBool::new(false), waiter }
    }

    /// A latch of the calling thread, which waits for what this runtime does: as the runtime's worker, if it is one.
    pub fn on(handle: Handle) -> Self {
        match handle.0.core.current_worker() {
            Some(id) => Self { set: AtomicBool::new(false), waiter: Waiter::Worker(handle, id) },
            None => Self::new(),
        }
    }

    /// Sets the latch, and makes its waiter check.
    ///
    /// # Safety
    /// INV-LATCH: it has not been set before. Takes a pointer, since the latch may be gone before
    /// this returns.
    pub unsafe fn set(this: NonNull<Self>) {
        // SAFETY: INV-LATCH: it stays valid until the store.
        let waiter = unsafe { (*this.as_ptr()).waiter.clone() };
        // Ordering: Release pairs with the Acquire in `is_set`.
        // SAFETY: as above; the last touch.
        unsafe { (*this.as_ptr()).set.store(true, Ordering::Release) };
        match waiter {
            Waiter::Worker(handle, id) => handle.0.core.unpark(id),
            Waiter::Thread(thread) => thread.unpark(),
        }
    }

    /// Whether it has been set.
    pub fn is_set(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `set`.
        self.set.load(Ordering::Acquire)
    }

    /// Waits until it is set. Only on the thread that made it.
    pub fn wait(&self) {
        self.wait_unless(&|| false);
    }

    /// As `wait`, until the wait is `vain`.
    fn wait_unless(&self, vain: &dyn Fn() -> bool) {
        let is_over = || self.is_set() || vain();
        while !is_over() {
            match &self.waiter {
                Waiter::Worker(handle, _) => drop(handle.0.core.help_until_done(&mut || is_over())),
                Waiter::Thread(_) => thread::park(),
            }
        }
    }
}

/// A latch that is set when its count reaches zero.
#[derive(Debug)]
pub struct CountLatch {
    count: AtomicUsize,
    latch: Latch,
}

impl CountLatch {
    /// As [`Latch::on`], with this count.
    pub fn on(handle: Handle, count: usize) -> Self {
        Self { count: AtomicUsize::new(count), latch: Latch::on(handle) }
    }

    /// Whether the count is zero.
    pub(crate) fn is_set(&self) -> bool {
        self.latch.is_set()
    }

    /// Increases the count. Only for a caller that is counted already.
    pub fn up(&self, by: usize) {
        // Ordering: Relaxed; the count cannot reach zero meanwhile.
        self.count.fetch_add(by, Ordering::Relaxed);
    }

    /// Decreases the count by one.
    ///
    /// # Safety
    /// INV-LATCH: the caller is counted, and this is its last touch. Takes a pointer, as
    /// [`Latch::set`].
    pub unsafe fn down(this: NonNull<Self>) {
        let this = this.as_ptr();
        // Ordering: AcqRel pairs with itself: the last caller has seen what the others did, and
        // passes it on by the latch.
        // SAFETY: the caller is counted, so the latch has not been set.
        if unsafe { (*this).count.fetch_sub(1, Ordering::AcqRel) } == 1 {
            // SAFETY: as above, by the last caller that was counted; a field is not null.
            unsafe { Latch::set(NonNull::new_unchecked(&raw mut (*this).latch)) };
        }
    }

    /// Waits until the count is zero. Only on the thread that made it.
    pub fn wait(&self) {
        self.latch.wait();
    }

    /// As [`wait`](Self::wait), until the wait is `vain`.
    pub(crate) fn wait_unless(&self, vain: &dyn Fn() -> bool) {
        self.latch.wait_unless(vain);
    }
}

/// Waits a moment before the next check, after `round` checks in vain: spins, twice as long each
/// time, and later yields the core.
pub(crate) fn relax(round: u32) {
    if round < 6 {
        (0..1 << round).for_each(|_| core::hint::spin_loop());
    } else {
        thread::yield_now();
    }
}
