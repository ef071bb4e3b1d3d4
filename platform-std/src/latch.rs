//! How a thread waits for others: as a worker it works meanwhile, else it sleeps. Hidden: for crates with another face.

use core::{
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};
use std::thread::{self, Thread};

use filch::WorkerId;

use crate::context::Handle;

/// Set once, and waited for by the thread that made it.
///
/// INV-LATCH: it stays until it is set, which is done once; who sets it touches it no more after the store.
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
    /// Of the calling thread.
    #[expect(
        clippy::new_without_default,
        reason = "it is the calling thread's, which is no default"
    )]
    pub fn new() -> Self {
        let worker = Handle::current().ok().and_then(|handle| Some((handle, handle.worker()?)));
        let waiter = match worker {
            Some((handle, id)) => Waiter::Worker(handle, id),
            None => Waiter::Thread(thread::current()),
        };
        Self { set: AtomicBool::new(false), waiter }
    }

    /// Of a thread that is known to be that worker.
    pub fn of(handle: Handle, worker: usize) -> Self {
        let waiter = Waiter::Worker(handle, WorkerId::new(worker as u16));
        Self { set: AtomicBool::new(false), waiter }
    }

    /// Sets it, and has its waiter look.
    ///
    /// # Safety
    /// INV-LATCH: it has not been set before. By pointer, since it may be gone before this returns.
    pub unsafe fn set(this: NonNull<Self>) {
        // SAFETY: INV-LATCH: it stays until the store.
        let waiter = unsafe { (*this.as_ptr()).waiter.clone() };
        // Ordering: Release pairs with the Acquire in `is_set`.
        // SAFETY: as above; the last touch.
        unsafe { (*this.as_ptr()).set.store(true, Ordering::Release) };
        match waiter {
            Waiter::Worker(handle, id) => handle.unpark(id),
            Waiter::Thread(thread) => thread.unpark(),
        }
    }

    /// Whether it has been set.
    pub fn is_set(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `set`.
        self.set.load(Ordering::Acquire)
    }

    /// Waits, on the thread that made it.
    pub fn wait(&self) {
        while !self.is_set() {
            match &self.waiter {
                Waiter::Worker(handle, _) => drop(handle.help_until(&mut || self.is_set())),
                Waiter::Thread(_) => thread::park(),
            }
        }
    }
}

/// A latch that is set when a count comes to zero.
#[derive(Debug)]
pub struct CountLatch {
    count: AtomicUsize,
    latch: Latch,
}

impl CountLatch {
    /// Of the calling thread.
    pub fn new(count: usize) -> Self {
        Self { count: AtomicUsize::new(count), latch: Latch::new() }
    }

    /// By who is counted already.
    pub fn up(&self, by: usize) {
        // Ordering: none is needed; the count cannot come to zero meanwhile.
        self.count.fetch_add(by, Ordering::Relaxed);
    }

    /// One of those that are counted is through.
    ///
    /// # Safety
    /// INV-LATCH: the caller is counted, and this is its last touch. By pointer, as [`Latch::set`].
    pub unsafe fn down(this: NonNull<Self>) {
        let this = this.as_ptr();
        // Ordering: AcqRel: who is last has seen what the others did, and passes it on by the latch.
        // SAFETY: the caller is counted, so that it has not been set.
        if unsafe { (*this).count.fetch_sub(1, Ordering::AcqRel) } == 1 {
            // SAFETY: as above, by the last who was counted; a field is not null.
            unsafe { Latch::set(NonNull::new_unchecked(&raw mut (*this).latch)) };
        }
    }

    /// Waits, on the thread that made it.
    pub fn wait(&self) {
        self.latch.wait();
    }
}
