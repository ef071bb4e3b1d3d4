//! Tasks that are held to a set of workers.
//!
//! They wait in one queue of the executor's. Each worker has a mark for each class: a task may wait there for it. A context that queues
//! a task sets the marks of the whole set, and wakes one worker of it that sleeps, whether others search or not. A worker takes its mark
//! down before it looks, and sets those of the tasks that it leaves and that are for it: a task's class may be another than when it was
//! queued. It does not sleep under a mark. One that was woken under a mark, and turns to something else first, or finds more than one,
//! wakes the next one that sleeps under a mark.

use core::cell::Cell;

use super::{
    classes::{Classes, Marks},
    context::Worker,
    executor::Scheduler,
    slot::Slots,
};
use crate::{
    atomic::{Ordering, fence},
    class::Class,
    instant::Instant,
    platform::{Platform, WorkerId, WorkerSet},
    task::header::Ready,
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Queues a task for one of these workers, from any context.
    pub(crate) fn push_held(&self, classes: &Classes, set: WorkerSet, ready: Ready) {
        let moves = classes.moves();
        let class = ready.class();
        classes.held.push(ready);
        // Before the marks, see `OwnClasses::mark`.
        classes.has_pushed(moves);
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
        let me = self.id();
        let mine = Class::ALL.map(|_| Cell::new(0_usize));
        let rank = |ready: &Ready| {
            if !ready.workers().is_some_and(|set| set.contains(me)) {
                return None;
            }
            let its = ready.class();
            let tasks = &mine[its as usize];
            tasks.set(tasks.get() + 1);
            let urgent = class == Class::Urgent;
            (its == class).then(|| if urgent { ready.deadline() } else { Instant::MAX })
        };
        let Some(found) = all.held.pop(rank) else {
            // Another worker has the lock, and may leave tasks.
            own.mark(Marks::of(class));
            return None;
        };
        let taken = |left| usize::from(left == class && found.is_some());
        for left in Class::ALL.into_iter().filter(|left| mine[*left as usize].get() > taken(*left))
        {
            own.mark(Marks::of(left));
            if left == Class::Urgent && class != Class::Urgent {
                // It was lent that class a moment ago, and its lender has not called yet.
                all.call();
            }
        }
        found
    }

    /// The worker was woken, perhaps for a held task that is still there, and turns to something else: another one of its workers is.
    #[cold]
    pub(super) fn hand_held_over(&self) {
        if !self.slot().is_marked() {
            return;
        }
        // Ordering: pairs with the fence in `Idle::announce`: either a sleeper is seen here, or it sees its mark.
        fence(Ordering::SeqCst);
        for (i, slot) in self.executor.in_use().iter().enumerate() {
            let worker = WorkerId::new(i as u16);
            if worker != self.id() && slot.is_marked() && self.executor.claim(worker) {
                break;
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
