//! An allocator that counts its calls, for a test in a process of its own: the count is for the
//! whole process.

use core::{
    alloc::{GlobalAlloc, Layout},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};
use std::alloc::System;

/// The system's allocator. Counts calls while the count is on. For the `#[global_allocator]` of a
/// test.
#[derive(Clone, Copy, Debug)]
pub struct Counting;

static ON: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Counts from now on.
pub fn begin() {
    CALLS.store(0, SeqCst);
    ON.store(true, SeqCst);
}

/// Returns how many calls there were since [`begin`], in all threads.
pub fn end() -> usize {
    ON.store(false, SeqCst);
    CALLS.load(SeqCst)
}

/// Runs `f` to warm up, and again: then it must not call the allocator.
///
/// # Panics
/// If it does.
pub async fn steady(what: &str, mut f: impl AsyncFnMut()) {
    f().await;
    begin();
    f().await;
    assert_eq!(end(), 0, "{what}");
}

fn count() {
    if ON.load(SeqCst) {
        CALLS.fetch_add(1, SeqCst);
    }
}

// SAFETY: the system's allocator, and a counter.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(p, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's contract.
        unsafe { System.realloc(p, layout, size) }
    }
}
