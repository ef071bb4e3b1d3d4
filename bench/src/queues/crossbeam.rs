//! crossbeam's deque as a FIFO.

use core::ptr::NonNull;

use crossbeam_deque::{Steal, Stealer, Worker};

use super::{Pointer, Queue};

/// A push beyond this is refused, since the other queues have no more room.
const CAP: usize = 256;

pub(crate) struct Fifo(Worker<Pointer>);

impl Queue for Fifo {
    type Victim = Stealer<Pointer>;
    type Item = Pointer;

    fn new() -> (Self, Self::Victim) {
        let worker = Worker::new_fifo();
        let stealer = worker.stealer();
        (Self(worker), stealer)
    }

    fn item() -> Pointer {
        Pointer(NonNull::dangling())
    }

    fn has_room(&mut self) -> bool {
        self.0.len() < CAP
    }

    unsafe fn push(&mut self, item: Pointer) {
        self.0.push(item);
    }

    fn pop(&mut self) -> Option<Pointer> {
        self.0.pop()
    }

    fn steal(&mut self, from: &Self::Victim) -> Option<(Pointer, usize)> {
        match from.steal_batch_and_pop(&self.0) {
            Steal::Success(first) => Some((first, self.0.len() + 1)),
            Steal::Empty | Steal::Retry => None,
        }
    }
}
