//! Tasks that are held to a set of workers.
//!
//! All such tasks of an executor wait in one queue. Each worker has a mark for each class, which says that a task may wait for this worker.
//!
//! - A context that queues a task marks all workers of the task's set. It then wakes a worker of the set that sleeps, even if other workers
//!   search.
//! - A worker clears its mark before it looks into the queue. Afterwards it sets the marks of the tasks that it leaves there and may run: the
//!   class of a task may have changed since the task was queued.
//! - A worker does not sleep while it is marked.
//! - A worker that woke up marked has a duty if it finds more than one task, or turns to other work first: it wakes one worker of each set
//!   that has tasks left which it may run itself.

use crate::{
    class::Class,
    platform::Platform,
    scheduler::{
        core::{context::Worker, slot::Slots},
        state::classes::Marks,
    },
    task::header::Ready,
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// A task of this class that is held to a set with this worker.
    #[inline]
    pub(crate) fn take_held(&self, class: Class) -> Option<Ready> {
        let own = self.slot().classes.get()?;
        if own.is_marked(Marks::of(class)) { self.search_held(class) } else { None }
    }

    #[inline(never)]
    fn search_held(&self, class: Class) -> Option<Ready> {
        let (all, own) = (self.executor.classes.get()?, self.slot().classes.get()?);
        own.unmark(Marks::of(class));
        let Some(taken) = all.held.pop(self.id(), class) else {
            // Another worker has the lock, and may leave tasks.
            own.mark(Marks::of(class));
            return None;
        };
        for left in Class::ALL.into_iter().filter(|left| taken.left[*left as usize]) {
            own.mark(Marks::of(left));
            if left == Class::Urgent && class != Class::Urgent {
                // It was lent that class after the marks were set for the class of before: no call has been made for it.
                all.bump_urgent_epoch();
            }
        }
        taken.ready
    }

    /// As `take_held`, of any class, for a worker that sleeps under a mark.
    pub(crate) fn take_held_of_any(&self) -> Option<Ready> {
        let own = self.slot().classes.get()?;
        let mut round = 0;
        while own.is_marked(Marks::TASKS) {
            if let Some(ready) = Class::ALL.into_iter().find_map(|class| self.take_held(class)) {
                return Some(ready);
            }
            self.executor.platform.relax(round);
            round += 1;
        }
        None
    }
}
