//! Models of the free list of a pool.

extern crate alloc;

use alloc::{boxed::Box, vec::Vec};
use core::ptr::NonNull;

use loom::{sync::Arc, thread};

use super::{
    pool::TaskPool,
    slab::{Slab, Slabs},
};
use crate::{
    atomic::{Ordering, UnsafeCell, model::check},
    task::header::{Header, Slot},
};

/// A pool of two slots, and for each a checked cell that the owner of the slot writes.
struct Slots {
    slab: &'static Slab,
    cells: [UnsafeCell<usize>; 2],
    base: usize,
}

// SAFETY: loom checks the cells.
unsafe impl Sync for Slots {}
// SAFETY: as above.
unsafe impl Send for Slots {}

impl Slots {
    /// Both slots have been used, so that the free list holds them.
    fn new() -> Arc<Self> {
        Self::with(true)
    }

    /// The first slot has been used, and with `both` the second too.
    fn with(both: bool) -> Arc<Self> {
        let pool: &'static TaskPool<64, 2> = Box::leak(Box::new(TaskPool::new()));
        let Ok(slab) = pool.slab(core::alloc::Layout::new::<[usize; 2]>()) else { panic!() };
        let first = slab.take(None).unwrap().into_raw();
        let second = both.then(|| slab.take(None).unwrap().into_raw());
        let base = first.as_ptr().addr();
        for slot in second.into_iter().chain([first]) {
            // SAFETY: the slot is ours.
            Slab::give(unsafe { Slot::from_raw(slot) }, || None);
        }
        Arc::new(Self { slab, cells: [UnsafeCell::new(0), UnsafeCell::new(0)], base })
    }

    /// Takes a slot, and uses it as its owner may.
    fn take(&self) -> Option<NonNull<Header>> {
        let slot = self.slab.take(None)?.into_raw();
        self.touch(slot);
        // A queue would overwrite the link in the same way. The content makes no difference to a `take` that comes too
        // late.
        // SAFETY: the slot is ours.
        unsafe { slot.as_ref() }.link.store(core::ptr::null_mut(), Ordering::Relaxed);
        Some(slot)
    }

    fn give(&self, slot: NonNull<Header>) {
        self.touch(slot);
        // SAFETY: the caller took it.
        Slab::give(unsafe { Slot::from_raw(slot) }, || None);
    }

    fn touch(&self, slot: NonNull<Header>) {
        let cell = &self.cells[usize::from(slot.as_ptr().addr() != self.base)];
        // SAFETY: the context that took the slot has it to itself; the models check that.
        cell.with_mut(|p| unsafe { *p += 1 });
    }
}

/// Seen to catch: `free_tag` (a slot that left and came back is taken for one that stayed, and brings its old neighbour
/// with it); on narrow words `flags_claim`.
#[test]
fn models_free_list_hands_no_slot_out_twice() {
    check(3, || {
        let slots = Slots::new();
        let other = thread::spawn({
            let slots = Arc::clone(&slots);
            move || {
                let (a, b) = (slots.take(), slots.take());
                a.into_iter().for_each(|slot| slots.give(slot));
                b
            }
        });
        let mine = [slots.take(), slots.take()];
        let theirs = other.join().unwrap();
        let mut held: Vec<_> = mine.into_iter().chain([theirs]).flatten().collect();
        held.sort_unstable();
        assert!(held.windows(2).all(|w| w[0] != w[1]), "a slot was handed out twice");
        for _ in held.len()..2 {
            assert!(slots.take().is_some(), "a slot was lost");
        }
        assert!(slots.take().is_none(), "a slot was handed out twice");
    });
}

/// A slot is used for the first time and given back, while another context looks for the one that was free before.
///
/// Seen to catch: on narrow words `flags_used`.
#[test]
fn models_free_list_grows_under_a_taker() {
    check(2, || {
        let slots = Slots::with(false);
        let other = thread::spawn({
            let slots = Arc::clone(&slots);
            move || {
                let first = slots.take().expect("one of two is free");
                slots.give(first);
                slots.take().expect("one of two is free")
            }
        });
        let mine = slots.take().expect("one of two is free");
        assert_ne!(mine, other.join().unwrap(), "a slot was handed out twice");
    });
}

/// A context that takes a slot sees that its last user has finished with it.
///
/// Seen to catch: `free_give`, `free_take`; on narrow words `flags_give`, `flags_take`.
#[test]
fn models_free_list_hands_over() {
    check(2, || {
        let slots = Slots::new();
        let cycle = |slots: &Slots| {
            for _ in 0..2 {
                slots.take().into_iter().for_each(|slot| slots.give(slot));
            }
        };
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let slots = Arc::clone(&slots);
                thread::spawn(move || cycle(&slots))
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(slots.take().is_some() && slots.take().is_some() && slots.take().is_none());
    });
}
