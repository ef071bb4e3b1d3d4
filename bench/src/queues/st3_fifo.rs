//! st3's queue whose owner pops the oldest item.

use core::ptr::NonNull;

use st3::fifo::{Stealer, Worker};

use super::Queue;
use crate::queues::Pointer;

pub(crate) struct Fifo(Worker<Pointer>);

impl Queue for Fifo {
    type Victim = Stealer<Pointer>;
    type Item = Pointer;

    fn new() -> (Self, Self::Victim) {
        let worker = Worker::new(256);
        let stealer = worker.stealer();
        (Self(worker), stealer)
    }

    fn item() -> Pointer {
        Pointer(NonNull::dangling())
    }

    fn has_room(&mut self) -> bool {
        self.0.spare_capacity() > 0
    }

    unsafe fn push(&mut self, item: Pointer) {
        self.0.push(item).expect("there is room");
    }

    fn pop(&mut self) -> Option<Pointer> {
        self.0.pop()
    }

    fn steal(&mut self, from: &Self::Victim) -> Option<(Pointer, usize)> {
        let (first, others) = from.steal_and_pop(&self.0, |n| n - n / 2).ok()?;
        Some((first, others + 1))
    }
}
