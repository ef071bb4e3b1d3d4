//! Freed memory that is not reused during a run.

use core::{
    alloc::{GlobalAlloc, Layout},
    cell::Cell,
    ptr,
};
use std::alloc::System;

use crate::tag::POISON;

/// A global allocator that fills memory freed by a run with a pattern and keeps it until the run is
/// over: an access to an atomic or a cell in it is reported.
///
/// Without it such memory may be reused or unmapped by then. Its cost is all memory that a run
/// frees; outside of runs it is the system's allocator.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: filch_weakmem::Quarantine = filch_weakmem::Quarantine;
/// # fn main() {}
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Quarantine;

/// A block that was freed. INV-FREED: its owner gave it up, so it belongs to the list until
/// `release`; the list belongs to the thread.
struct Freed {
    next: *mut Freed,
    start: *mut u8,
    layout: Layout,
}

std::thread_local! {
    static HOLDS: Cell<bool> = const { Cell::new(false) };
    static FREED: Cell<*mut Freed> = const { Cell::new(ptr::null_mut()) };
}

/// Whether memory that this thread frees from now on is kept.
pub(crate) fn hold(on: bool) {
    HOLDS.set(on);
}

/// Frees all kept memory.
pub(crate) fn release() {
    let mut next = FREED.take();
    while !next.is_null() {
        // SAFETY: INV-FREED: `keep` made it and put it into the list, which belongs to this thread
        // and has just been emptied.
        let freed = unsafe { next.read() };
        // SAFETY: as above; both came from the system's allocator, with these layouts.
        unsafe {
            System.dealloc(freed.start, freed.layout);
            System.dealloc(next.cast(), Layout::new::<Freed>());
        }
        next = freed.next;
    }
}

// SAFETY: all memory is the system's; a block is freed once, at once or from the list.
unsafe impl GlobalAlloc for Quarantine {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is this one's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        let holds = HOLDS.try_with(Cell::get).unwrap_or(false);
        // SAFETY: the caller gives the block up; it came from the system's allocator, with this layout.
        if !(holds && unsafe { keep(start, layout) }) {
            // SAFETY: as above.
            unsafe { System.dealloc(start, layout) };
        }
    }
}

/// Puts the block on the list; false if there is no memory for the node.
///
/// # Safety
/// The block came from the system's allocator, with this layout, and has no owner.
unsafe fn keep(start: *mut u8, layout: Layout) -> bool {
    // SAFETY: the layout is not of size zero.
    let node: *mut Freed = unsafe { System.alloc(Layout::new::<Freed>()) }.cast();
    if node.is_null() {
        return false;
    }
    // SAFETY: the block belongs to this function, and so does the node, which is large enough.
    unsafe {
        start.write_bytes(POISON, layout.size());
        node.write(Freed { next: FREED.get(), start, layout });
    }
    FREED.set(node);
    true
}
