//! Tasks with an affinity.
//!
//! All such tasks of an executor wait in one queue. Each worker has a hint for each class, which says that a task may wait for this worker.
//!
//! - A context that queues a task hints all workers of the task's set. It then wakes a worker of the set that sleeps, even if other workers
//!   search.
//! - A worker clears its hint before it looks into the queue. Afterwards it sets the hints of the tasks that it leaves there and may run: the
//!   class of a task may have changed since the task was queued.
//! - A worker does not sleep while a hint of it is set.
//! - A worker that a hint woke has a duty if it finds more than one task, or turns to other work first: it wakes one worker of each set
//!   that has tasks left which it may run itself.

use crate::{
    class::Class,
    platform::Platform,
    scheduler::{
        core::{context::Worker, slot::Slots},
        state::classes::Hints,
    },
    task::header::Ready,
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// A task of this class with an affinity to this worker.
    #[inline]
    pub(crate) fn take_affine(&self, class: Class) -> Option<Ready> {
        let own = self.slot().classes.get()?;
        if own.is_hinted(Hints::of(class)) { self.search_affine(class) } else { None }
    }

    #[inline(never)]
    fn search_affine(&self, class: Class) -> Option<Ready> {
        let (all, own) = (self.executor.classes.get()?, self.slot().classes.get()?);
        own.clear_hint(Hints::of(class));
        let Some(taken) = all.affine.pop(self.id(), class) else {
            // Another worker has the lock, and may leave tasks.
            own.set_hint(Hints::of(class));
            return None;
        };
        for left in Class::ALL.into_iter().filter(|left| taken.left[*left as usize]) {
            own.set_hint(Hints::of(left));
            if left == Class::Urgent && class != Class::Urgent {
                // It was boosted after the hints were set for its class of before: the urgent epoch does not know of it.
                all.bump_urgent_epoch();
            }
        }
        taken.ready
    }

    /// As `take_affine`, of any class, for a worker that sleeps under a hint.
    pub(crate) fn take_affine_of_any(&self) -> Option<Ready> {
        let own = self.slot().classes.get()?;
        let mut round = 0;
        while own.is_hinted(Hints::TASKS) {
            if let Some(ready) = Class::ALL.into_iter().find_map(|class| self.take_affine(class)) {
                return Some(ready);
            }
            self.executor.platform.relax(round);
            round += 1;
        }
        None
    }
}
