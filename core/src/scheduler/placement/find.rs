//! Where a worker finds the tasks that are not like all others: urgent ones, background ones, and those with an affinity.

#[cfg(feature = "classes")]
use crate::trace::Event;
use crate::{
    atomic::{Ordering, fence},
    class::Class,
    platform::{Platform, WorkerId},
    scheduler::{
        core::{
            context::Worker,
            executor::Cores,
            faces::{OwnQueues, Placement},
            find::AROUND,
            slot::Slots,
        },
        state::classes::{Classes, Hints, OwnClasses},
    },
    task::header::Ready,
};

/// In nanoseconds: how often a worker that has background tasks alone looks for I/O and timers, at most. A look takes about one
/// microsecond.
const SOON: u64 = 50_000;

impl<P: Platform, S: Slots<RING>, const RING: usize> Placement for Worker<P, S, RING> {
    #[inline(always)]
    fn take_first(&self) -> Option<Ready> {
        let (all, own) = (self.executor.classes.get()?, self.slot().classes.get()?);
        let epoch = all.urgent_epoch();
        if epoch == own.urgent_epoch.get() { None } else { self.take_urgent(all, own, epoch) }
    }

    fn take_in_turn(&self) -> Option<Ready> {
        // By turns: neither tasks with an affinity nor those from outside keep the worker to themselves.
        let affine =
            || if self.shared_before_affine(2) { None } else { self.take_affine(Class::Normal) };
        self.take_share().or_else(affine)
    }

    fn take_before_shared(&self) -> Option<Ready> {
        // Tasks with an affinity that never end must not keep this worker from all others.
        if self.shared_before_affine(AROUND) { None } else { self.take_affine(Class::Normal) }
    }

    fn take_after_shared(&self) -> Option<Ready> {
        self.take_affine(Class::Normal)
    }

    #[inline]
    fn take_last(&self) -> Option<Ready> {
        let (all, classes) = (self.executor.classes.get()?, self.slot().classes.get()?);
        if self.has_background(all, classes) && self.look_before_background() {
            if let Some(ready) = self.take_first().or_else(|| self.take_own()) {
                return Some(ready);
            }
        }
        if classes.has_urgent(all) {
            // A context has pushed an urgent task, and was interrupted before it changed the epoch.
            if let Some(ready) = self.take_urgent(all, classes, classes.urgent_epoch.get()) {
                return Some(ready);
            }
        }
        classes.share.rest(|| self.now());
        let own = self.take_own_background();
        let stolen = || self.may_steal().then(|| self.steal(Class::Background)).flatten();
        own.or_else(stolen).inspect(|ready| {
            classes.background_polls.add(1);
            self.trace_class(ready, Class::Background);
        })
    }

    fn take_bound(&self) -> Option<Ready> {
        // SAFETY: we are the worker.
        unsafe { self.slot().pop_pinned() }.or_else(|| self.take_affine_of_any())
    }

    fn has_bound(&self) -> bool {
        // SAFETY: we are the worker.
        unsafe { self.slot().has_bound() }
    }

    #[cold]
    fn wake_next_of_set(&self) {
        if !self.slot().is_hinted() {
            return;
        }
        let (executor, me) = (self.executor, self.id());
        let Some(all) = executor.classes.get() else { return };
        let sets = all.affine.sets_with(me);
        // Ordering: pairs with the fence in `Idle::announce`: either a sleeper is seen here, or it sees its hint.
        fence(Ordering::SeqCst);
        match sets {
            // One of each set: a hint alone may be of a task that another worker has taken.
            Some(sets) => {
                for set in sets.into_iter().flatten() {
                    let _woken = set.iter().any(|worker| worker != me && executor.claim(worker));
                }
            }
            // It is not known which: all that may be meant.
            None => {
                for (i, slot) in executor.slots_in_use().iter().enumerate() {
                    if i != me.index() && slot.is_hinted() {
                        let _ = executor.claim(WorkerId::new(i as u16));
                    }
                }
            }
        }
    }

    fn pause_share(&self) {
        if let Some(classes) = self.slot().classes.get() {
            classes.share.pause(|| self.now());
        }
    }

    #[inline]
    fn resume_share(&self) {
        if let Some(classes) = self.slot().classes.get() {
            classes.share.resume(|| self.now());
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// There may be an urgent task: so many have come.
    #[inline(never)]
    fn take_urgent(
        &self,
        all: &Classes,
        own: &OwnClasses<RING, Cores<S, RING>>,
        epoch: u32,
    ) -> Option<Ready> {
        // Urgent tasks that never end must not starve timers, I/O and the ends of ticks.
        if own.urgent_polls.get() as u32 % AROUND == AROUND - 1 {
            self.keep_up(AROUND);
        }
        // By turns: neither those that are pinned here, nor those with an affinity, nor the others keep the worker to themselves.
        let ready = own.share.rotation().find_map(|queue| match queue {
            0 => own.urgent.pop(),
            1 => self.take_affine(Class::Urgent),
            _ => all.urgent.pop(),
        });
        let Some(ready) = ready else {
            // Another worker may have a lock, and leave tasks.
            if !own.has_urgent(all) {
                own.urgent_epoch.set(epoch);
            }
            return None;
        };
        self.trace_class(&ready, Class::Urgent);
        own.share.settle(|| self.now());
        // That one may have found the lock taken.
        if !all.urgent.is_empty() && !self.slot().local.duties.is_searching() {
            self.executor.notify();
        }
        own.urgent_polls.add(1);
        #[cfg(feature = "classes")]
        self.note_deadline(&ready, own);
        Some(ready)
    }

    #[inline(always)]
    fn trace_class(&self, ready: &Ready, class: Class) {
        #[cfg(feature = "classes")]
        {
            let task = ready.as_ptr().as_ptr().addr();
            let deadline = ready.due().filter(|_| class == Class::Urgent).and_then(|due| due.at());
            self.trace(Event::Class { task, class, deadline });
        }
        let _ = (ready, class);
    }

    /// A deadline is for one poll, which begins now.
    #[cfg(feature = "classes")]
    #[inline]
    fn note_deadline(&self, ready: &Ready, own: &OwnClasses<RING, Cores<S, RING>>) {
        let Some((due, at)) = ready.due().and_then(|due| Some((due, due.at()?))) else { return };
        due.set(None);
        let late = self.executor.platform.now().nanos_since(at);
        if late > 0 {
            own.late.add(1);
            let event = Event::LateDeadline { task: ready.as_ptr().as_ptr().addr(), nanos: late };
            self.trace(event);
        }
    }

    /// A background task, if its turn has come while other tasks wait. It may be in the ring of another worker: the share is one of all
    /// workers, whichever of them has the tasks.
    #[inline]
    fn take_share(&self) -> Option<Ready> {
        let (all, own) = (self.executor.classes.get()?, self.slot().classes.get()?);
        let steals = self.executor.config.stealing();
        let waits = self.has_background(all, own) || (steals && all.has_background_in_rings());
        let share = self.executor.config.background_share();
        if (!waits && !own.share.has_spent()) || share == 0 {
            own.share.rest(|| self.now());
            return None;
        }
        if !own.share.is_due(self.now(), share) {
            return None;
        }
        let ready = self.take_own_background();
        let stolen = || steals.then(|| self.steal(Class::Background)).flatten();
        let Some(ready) = ready.or_else(stolen) else {
            all.set_background_in_rings(false);
            own.share.reset_after_miss();
            own.share.rest(|| self.now());
            return None;
        };
        own.background_polls.add(1);
        self.trace_class(&ready, Class::Background);
        // The next search looks around (`AROUND`), and counts the time of this poll.
        self.slot().local.find_count.set(0_u32.wrapping_sub(1));
        Some(ready)
    }

    /// Whether a background task waits in this worker's queues or comes from outside.
    fn has_background(&self, all: &Classes, own: &OwnClasses<RING, Cores<S, RING>>) -> bool {
        // SAFETY: we are the worker.
        own.ring.get().is_some_and(|ring| !ring.is_empty())
            || unsafe { !own.inbox.is_empty() }
            || !all.background.is_empty()
            || own.is_hinted(Hints::of(Class::Background))
    }

    /// A worker with nothing but background tasks hears of timers and I/O almost as one that sleeps: by ticks, what comes would wait for
    /// many of their polls. Whether there was something.
    pub(crate) fn look_before_background(&self) -> bool {
        self.is_time_to_look() && ((self.look_for_io() > 0) | self.fire_timers())
    }

    /// Whether the last look was so long ago that the caller looks for I/O and timers now.
    pub(crate) fn is_time_to_look(&self) -> bool {
        let Some(pace) = self.slot().local.pace.get() else { return false };
        pace.has_not_looked_for(SOON, self.now())
    }

    /// A background task of this worker's queues or from outside.
    fn take_own_background(&self) -> Option<Ready> {
        let own = self.slot().classes.get()?;
        // SAFETY: we are the worker.
        let pinned = || unsafe { own.inbox.pop() };
        // SAFETY: INV-RING-OWNER: we are the worker.
        let ring = || unsafe { own.ring.get()?.pop() };
        let batch = || self.take_injector(Class::Background, usize::MAX);
        // As `look_around`: a ring that never empties must not starve the injector.
        let first = || own.background_polls.get() as u32 % AROUND == 0;
        let one = || first().then(|| self.take_injector(Class::Background, 0)).flatten();
        let shared = || one().or_else(ring).or_else(batch);
        own.share.rotation().find_map(|queue| match queue {
            0 => pinned(),
            1 => self.take_affine(Class::Background),
            _ => shared(),
        })
    }

    /// Whether tasks with an affinity come after those for all workers this time: one in `n`.
    fn shared_before_affine(&self, n: u32) -> bool {
        self.slot().classes.get().is_none_or(|own| own.shared_before_affine(n))
    }

    /// Polls urgent tasks, whether any. If it `looks`, it looks for I/O and timers first.
    #[cfg(feature = "classes")]
    #[cold]
    pub(super) fn run_urgent(&self, looks: bool) -> bool {
        if looks {
            self.look_for_io();
            self.fire_timers();
        }
        let mut polled = false;
        while let Some(ready) = self.take_first() {
            let _ = self.poll_apart(ready, &self.leave_loop());
            polled = true;
        }
        polled
    }
}
