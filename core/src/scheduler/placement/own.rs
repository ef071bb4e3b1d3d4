//! A worker's own queues of tasks that are not like all others.

use crate::{
    class::Class,
    parts::{Parts, Switch},
    queue::ring::Ring,
    scheduler::{
        core::{faces::OwnQueues, slot::WorkerSlot},
        state::classes::{Hints, OwnClasses},
    },
    task::header::Ready,
};

impl<const RING: usize, F: Parts> OwnQueues<RING, F> for WorkerSlot<RING, F> {
    fn is_hinted(&self) -> bool {
        self.classes.get().is_some_and(|own| own.is_hinted(Hints::TASKS))
    }

    #[inline(always)]
    fn ring_of(&self, class: Class) -> Option<&Ring<RING>> {
        match class {
            Class::Background => self.classes.get()?.ring.get(),
            _ => self.ring.get(),
        }
    }

    #[inline]
    fn has_queued(&self) -> bool {
        let holds = |class| self.ring_of(class).is_some_and(|ring| !ring.is_empty());
        holds(Class::Normal) || holds(Class::Background)
    }

    fn queued(&self) -> usize {
        let len = |class| self.ring_of(class).map_or(0, Ring::len);
        len(Class::Normal) + len(Class::Background)
    }

    unsafe fn pop_pinned(&self) -> Option<Ready> {
        // SAFETY: as the caller promises.
        unsafe {
            self.classes
                .get()
                .and_then(|own| own.urgent.pop())
                .or_else(|| if F::Cores::ON { self.inbox.pop() } else { self.inbox.pop_bound() })
                .or_else(|| self.pop_pinned_of(Class::Background))
        }
    }

    unsafe fn has_bound(&self) -> bool {
        // SAFETY: as the caller promises.
        unsafe { !self.inbox.is_empty() || self.classes.get().is_some_and(|own| own.has_bound()) }
    }

    fn has_mail(&self) -> bool {
        self.inbox.has_mail() || self.classes.get().is_some_and(OwnClasses::has_mail)
    }

    unsafe fn put_back(&self) {
        // SAFETY: as the caller promises.
        unsafe {
            self.inbox.put_back();
            if let Some(classes) = self.classes.get() {
                classes.inbox.put_back();
            }
        }
    }
}

impl<const RING: usize, F: Parts> WorkerSlot<RING, F> {
    /// Queues a task that is pinned to the worker.
    ///
    /// Returns the class whose queue it is in. It is read once: another context may boost the task meanwhile.
    pub(crate) fn push_pinned(&self, ready: Ready) -> Class {
        let Some(classes) = self.classes.get() else {
            self.inbox.push(ready);
            return Class::Normal;
        };
        let class = ready.class();
        match class {
            Class::Urgent => classes.urgent.push(ready),
            Class::Normal => self.inbox.push(ready),
            Class::Background => classes.inbox.push(ready),
        }
        class
    }

    /// The next of them of a class that is not the urgent one.
    ///
    /// # Safety
    /// The caller is the worker.
    pub(crate) unsafe fn pop_pinned_of(&self, class: Class) -> Option<Ready> {
        // SAFETY: as the caller promises.
        unsafe {
            match class {
                Class::Background => self.classes.get()?.inbox.pop(),
                _ => self.inbox.pop(),
            }
        }
    }
}
