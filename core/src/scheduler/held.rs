//! Tasks that are held to a set of workers.
//!
//! They wait in one queue of the executor's. Each worker has a mark for each class: a task may wait there for it. A context that queues
//! a task sets the marks of the whole set, and wakes one worker of it that sleeps, whether others search or not. A worker takes its mark
//! down before it looks, and sets it again if it leaves tasks that are for it. It does not sleep under a mark.

use super::{
    classes::{Classes, Marks},
    context::Worker,
    executor::Scheduler,
    slot::Slots,
};
use crate::{
    class::Class,
    platform::{Platform, WorkerSet},
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
        let rank = |ready: &Ready| {
            let is_mine = ready.workers().is_some_and(|set| set.contains(me));
            (is_mine && ready.class() == class).then(|| ready.deadline())
        };
        // Another worker that has the lock may leave tasks.
        let (found, more) = all.held.pop(rank).unwrap_or((None, true));
        if more {
            own.mark(Marks::of(class));
        }
        found
    }

    /// As `take_held`, of any class, for a worker that sleeps under a mark.
    pub(crate) fn take_held_of_any(&self) -> Option<Ready> {
        let own = self.slot().classes.get()?;
        let mut round = 0;
        while own.is_marked(Marks::TASKS) {
            let any = [Class::Urgent, Class::Normal, Class::Background];
            if let Some(ready) = any.into_iter().find_map(|class| self.take_held(class)) {
                return Some(ready);
            }
            self.executor.platform.relax(round);
            round += 1;
        }
        None
    }
}
