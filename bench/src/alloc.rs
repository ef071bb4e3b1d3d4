//! The global allocator: malloc or mimalloc, and how often it is called.
//!
//! An environment variable selects it. The first allocation of a process reads the variable, so the
//! choice is fixed for each measuring process.

use core::{
    alloc::{GlobalAlloc, Layout},
    ffi::CStr,
    sync::atomic::{AtomicU8, Ordering},
};
use std::alloc::System;

use mimalloc::MiMalloc;

use crate::counters;

/// If it is set to anything: mimalloc.
pub(crate) const VARIABLE: &CStr = c"FILCH_BENCH_MIMALLOC";

const UNKNOWN: u8 = 0;
const SYSTEM: u8 = 1;
const MIMALLOC: u8 = 2;

struct Counting {
    choice: AtomicU8,
}

#[global_allocator]
static ALLOCATOR: Counting = Counting { choice: AtomicU8::new(UNKNOWN) };

impl Counting {
    fn is_mimalloc(&self) -> bool {
        // Ordering: Relaxed; only the value is used, and all threads would find the same.
        match self.choice.load(Ordering::Relaxed) {
            UNKNOWN => self.choose(),
            choice => choice == MIMALLOC,
        }
    }

    #[cold]
    fn choose(&self) -> bool {
        // SAFETY: a C string; this program never changes its environment.
        let is_set = !unsafe { libc::getenv(VARIABLE.as_ptr()) }.is_null();
        // Ordering: Relaxed; see `is_mimalloc`.
        self.choice.store(if is_set { MIMALLOC } else { SYSTEM }, Ordering::Relaxed);
        is_set
    }
}

// SAFETY: every call goes to the same allocator, as the choice never changes.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        counters::mine(|counters| counters.allocated(layout.size()));
        // SAFETY: the caller's contract.
        unsafe { if self.is_mimalloc() { MiMalloc.alloc(layout) } else { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        counters::mine(|counters| counters.allocated(layout.size()));
        // SAFETY: the caller's contract.
        unsafe {
            if self.is_mimalloc() {
                MiMalloc.alloc_zeroed(layout)
            } else {
                System.alloc_zeroed(layout)
            }
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        counters::mine(|counters| {
            counters.allocated(size);
            counters.freed(layout.size());
        });
        // SAFETY: the caller's contract.
        unsafe {
            if self.is_mimalloc() {
                MiMalloc.realloc(at, layout, size)
            } else {
                System.realloc(at, layout, size)
            }
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        counters::mine(|counters| counters.freed(layout.size()));
        // SAFETY: the caller's contract.
        unsafe {
            if self.is_mimalloc() {
                MiMalloc.dealloc(at, layout);
            } else {
                System.dealloc(at, layout);
            }
        }
    }
}
