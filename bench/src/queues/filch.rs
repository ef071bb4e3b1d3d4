//! filch's ring.

use filch_harness::bench::{Item, Owner, Victim, ring};

use super::Queue;

pub(crate) struct Ring(Owner);

impl Queue for Ring {
    type Victim = Victim;
    type Item = Item;

    fn new() -> (Self, Victim) {
        let (owner, victim) = ring();
        (Self(owner), victim)
    }

    fn item() -> Item {
        Item::dangling()
    }

    fn has_room(&mut self) -> bool {
        self.0.room() > 0
    }

    unsafe fn push(&mut self, item: Item) {
        // SAFETY: the caller's contract.
        unsafe { self.0.push(item) };
    }

    fn pop(&mut self) -> Option<Item> {
        self.0.pop()
    }

    fn steal(&mut self, from: &Victim) -> Option<(Item, usize)> {
        self.0.steal(from)
    }
}
