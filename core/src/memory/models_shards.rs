//! Models of the shards of free slots.

extern crate alloc;

use alloc::vec::Vec;
use core::ptr::NonNull;

use loom::{sync::Arc, thread};

use super::shards::Shards;
use crate::{
    atomic::{Ordering, UnsafeCell, model::check},
    task::header::Header,
};

/// Two slots, each with a checked cell that the owner of the slot writes.
struct Slots {
    shards: Shards,
    headers: [Header; 2],
    cells: [UnsafeCell<usize>; 2],
}

// SAFETY: loom checks the cells.
unsafe impl Sync for Slots {}
// SAFETY: as above.
unsafe impl Send for Slots {}

impl Slots {
    /// Both slots are free, in the shards of these numbers.
    fn new(numbers: [usize; 2]) -> Arc<Self> {
        let slots = Arc::new(Self {
            shards: Shards::new(),
            headers: [Header::vacant(), Header::vacant()],
            cells: [UnsafeCell::new(0), UnsafeCell::new(0)],
        });
        numbers.into_iter().enumerate().for_each(|(name, number)| slots.give(number, name));
        slots
    }

    fn take(&self, number: usize) -> Option<usize> {
        // SAFETY: a slot's name is its index.
        let slot = unsafe {
            self.shards.take(number, |name| NonNull::from(&self.headers[name as usize]))
        }?;
        let name = self.headers.iter().position(|h| core::ptr::eq(h, slot.as_ptr()))?;
        self.touch(name);
        // A queue would overwrite the link in the same way.
        self.headers[name].link.store(core::ptr::null_mut(), Ordering::Relaxed);
        Some(name)
    }

    fn give(&self, number: usize, name: usize) {
        self.touch(name);
        // SAFETY: the caller took the slot, and its name is its index.
        unsafe {
            self.shards.of(number).push(NonNull::from(&self.headers[name]), name as u32);
        }
    }

    fn touch(&self, name: usize) {
        // SAFETY: the context that took the slot has it to itself; the models check that.
        self.cells[name].with_mut(|p| unsafe { *p += 1 });
    }
}

/// A slot returns to one stack before the last slot leaves the other.
///
/// Seen to catch: `free_look`, `free_take`.
#[test]
fn models_shards_overlook_no_slot() {
    check(3, || {
        let slots = Slots::new([0, 0]);
        let held = slots.take(0).unwrap();
        let other = thread::spawn({
            let slots = Arc::clone(&slots);
            move || {
                slots.give(1, held);
                slots.take(0).expect("one is free at any time")
            }
        });
        let mine = slots.take(1).expect("one is free at any time");
        assert_ne!(mine, other.join().unwrap(), "a slot was handed out twice");
    });
}

/// Two contexts take over each other's shards.
#[test]
fn models_shards_hand_no_slot_out_twice() {
    check(3, || {
        let slots = Slots::new([0, 1]);
        let other = thread::spawn({
            let slots = Arc::clone(&slots);
            move || {
                let (a, b) = (slots.take(0), slots.take(0));
                a.into_iter().for_each(|name| slots.give(0, name));
                b
            }
        });
        let mine = [slots.take(1), slots.take(1)];
        let theirs = other.join().unwrap();
        let mut held: Vec<_> = mine.into_iter().chain([theirs]).flatten().collect();
        held.sort_unstable();
        assert!(held.windows(2).all(|w| w[0] != w[1]), "a slot was handed out twice");
        for _ in held.len()..2 {
            assert!(slots.take(0).is_some(), "a slot was lost");
        }
        assert!(slots.take(0).is_none(), "a slot was handed out twice");
    });
}
