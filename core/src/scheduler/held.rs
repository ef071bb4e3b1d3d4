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

use super::{
    classes::{Classes, Marks},
    context::Worker,
    executor::Scheduler,
    slot::Slots,
};
use crate::{
    atomic::{Ordering, fence},
    class::Class,
    platform::{Platform, WorkerId, WorkerSet},
    task::header::Ready,
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Queues a task for one of these workers, from any context.
    pub(crate) fn push_held(&self, classes: &Classes, set: WorkerSet, ready: Ready) {
        let class = ready.class();
        classes.held.push(ready);
        // Ordering: before the marks, see `OwnClasses::mark`.
        fence(Ordering::SeqCst);
        for worker in set.iter() {
            if let Some(own) = self.slot_of(worker).classes.get() {
                own.mark(Marks::of(class));
            }
        }
        if class == Class::Urgent {
            classes.call();
        }
        self.wake_one_of(set);
    }
}

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
                all.call();
            }
        }
        taken.ready
    }

    /// The worker was woken, perhaps for a held task that is still there, and turns to something else: another one of its workers is.
    #[cold]
    pub(super) fn hand_held_over(&self) {
        if !self.slot().is_marked() {
            return;
        }
        let (executor, me) = (self.executor, self.id());
        let Some(all) = executor.classes.get() else { return };
        let sets = all.held.sets_with(me);
        // Ordering: pairs with the fence in `Idle::announce`: either a sleeper is seen here, or it sees its mark.
        fence(Ordering::SeqCst);
        match sets {
            // One of each set: a mark alone may be of a task that another worker has taken.
            Some(sets) => {
                for set in sets.into_iter().flatten() {
                    let _woken = set.iter().any(|worker| worker != me && executor.claim(worker));
                }
            }
            // It is not known which: all that may be meant.
            None => {
                for (i, slot) in executor.in_use().iter().enumerate() {
                    if i != me.index() && slot.is_marked() {
                        let _ = executor.claim(WorkerId::new(i as u16));
                    }
                }
            }
        }
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
