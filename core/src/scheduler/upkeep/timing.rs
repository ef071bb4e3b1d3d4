//! Which worker fires which timers, and when.
//!
//! A timer goes to the wheel of the worker that first polls it; from elsewhere, to that of some worker. A worker fires its own wheel when
//! it wakes, when it finds no task, and every tick, a portion at a time; it sleeps until its wheel's next deadline. The wheel of a worker
//! that is offline belongs to all: each sleeps until its next deadline too. The wheel of a worker that is stuck in a poll is fired by the
//! watchdog; where no worker sleeps, by the others at the end of their ticks.

use crate::scheduler::core::faces::Queues;
use core::{future::Future, task::Waker, time::Duration};

#[cfg(feature = "task-dump")]
use crate::task::dump;
use crate::{
    atomic::{Ordering, fence},
    instant::Instant,
    parts::{On, Parts, Switch},
    platform::{Platform, WorkerId},
    scheduler::core::{
        context::Worker,
        executor::Scheduler,
        slot::{Slots, WorkerSlot},
    },
    task::{coop, waker::header_of},
    time::{Batch, Sleep, Timeout, Timers, Wheel, Wheels},
};

/// So many timers are fired in a row at least, if so many are due: then the worker polls tasks, and hears of urgent ones and of I/O, before
/// it goes on. A timer costs about as much as a poll.
const PORTION: usize = 128;

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING>
where
    S::Parts: Parts<Timers = On>,
{
    /// The executor's clock and timers.
    pub fn timers(&'static self) -> Timers {
        Timers(self)
    }

    /// [`Timers::sleep`].
    pub fn sleep(&'static self, duration: Duration) -> Sleep {
        self.timers().sleep(duration)
    }

    /// [`Timers::timeout`].
    pub fn timeout<F: Future>(&'static self, duration: Duration, future: F) -> Timeout<F> {
        self.timers().timeout(duration, future)
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Wheels for Scheduler<P, S, RING> {
    type Many = <S::Parts as Parts>::Wheels;

    fn now(&self) -> Instant {
        self.platform.now()
    }

    fn wheel_slot_log2(&self) -> u32 {
        self.config.wheel_slot_log2
    }

    #[inline]
    fn place(&self) -> Option<(u16, &Wheel<Self::Many>, bool)> {
        let here = self.online_worker();
        let is_urgent = <S::Parts as Parts>::Classes::ON
            && here.is_some_and(|(_, slot)| Self::is_in_urgent(slot));
        let index = match here {
            Some((id, _)) if id.index() < self.workers() => id.index() as u16,
            _ => {
                // Ordering: a spread, no more.
                let turn = self.turn.fetch_add(1, Ordering::Relaxed) as usize;
                let n = self.workers();
                let fires =
                    |i: &usize| self.slots().get(*i).is_some_and(|s| !s.has_timers_for_all());
                (0..n).map(|i| (turn + i) % n).find(fires).unwrap_or(0) as u16
            }
        };
        self.wheel(index).map(|wheel| (index, wheel, is_urgent))
    }

    #[inline]
    fn wheel(&self, index: u16) -> Option<&Wheel<Self::Many>> {
        if self.platform.is_forked() {
            return None;
        }
        // SAFETY: `place` gave it, and slots stay.
        unsafe { self.slots().get_unchecked(usize::from(index)) }.wheel.get()
    }

    fn tell(&self, index: u16) {
        // One that is driven and rests is asked for as by any other context.
        let awake = self.online_worker().filter(|(_, slot)| !slot.local.duties.is_armed());
        let me = awake.map(|(id, _)| id.index());
        let is_mine = |(id, slot): &(WorkerId, &WorkerSlot<RING, S::Parts>)| {
            id.index() == usize::from(index) && !slot.is_blocked_in_place()
        };
        if awake.as_ref().is_some_and(is_mine)
            && (!self.config.has_watchdog() || !self.has_company())
        {
            // We look before we sleep.
            return;
        }
        // Ordering: see `wake_for_orphaned_timers` and `wake_watcher_for_timer`.
        fence(Ordering::SeqCst);
        match self.slots().get(usize::from(index)) {
            // Its park word keeps the notice, whatever it is about to do.
            Some(slot) if !slot.has_timers_for_all() => {
                if me != Some(usize::from(index)) {
                    self.unpark(WorkerId::new(index));
                }
                self.wake_watcher_for_timer(slot);
            }
            _ => self.wake_for_upkeep(),
        }
    }

    fn spend(&'static self, waker: &Waker) -> bool {
        coop::spend(waker, self.erased())
    }

    fn force_yield(&'static self, waker: &Waker) {
        coop::force_yield(waker, Some(self.erased()));
    }

    #[cfg(feature = "task-dump")]
    fn note_sleep(&self, waker: &Waker, until: Instant) {
        dump::waits(waker, || dump::Wait::Sleep(until));
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// The slots whose wheels belong to all.
    fn left_behind(&self) -> impl Iterator<Item = &WorkerSlot<RING, S::Parts>> {
        self.regular().iter().filter(|slot| self.is_shared() && slot.has_timers_for_all())
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// Fires what is due of this worker's timers, and of those that offline workers have left; whether there was something.
    pub(crate) fn fire_timers(&self) -> bool {
        if !<S::Parts as Parts>::Timers::ON {
            return false;
        }
        let (executor, slot) = (self.executor, self.slot());
        let orphans = slot.local.orphans.get();
        if !slot.has_timers() && !orphans {
            return false;
        }
        let now = executor.platform.now();
        let mut fired = self.expire(slot, now);
        if orphans {
            for left in executor.left_behind() {
                fired |= self.expire(left, now);
            }
        }
        fired
    }

    /// Before a sleep: when it must end for a timer.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        if !<S::Parts as Parts>::Timers::ON {
            return None;
        }
        let (executor, slot) = (self.executor, self.slot());
        let slot_log2 = executor.config.wheel_slot_log2;
        let mut next = slot.next_timer(slot_log2);
        slot.local.orphans.set(false);
        // Ordering: after the fence in `Idle::announce`, see `wake_for_orphaned_timers`.
        for deadline in executor.left_behind().filter_map(|left| left.next_timer(slot_log2)) {
            slot.local.orphans.set(true);
            next = Some(next.map_or(deadline, |next| next.min(deadline)));
        }
        next
    }

    /// Looks whether workers that are offline have left timers behind. A worker learns of such timers when it goes to sleep; one that never
    /// sleeps has to look. Executors with a watchdog need no such look: the worker that watches does it.
    pub(crate) fn look_for_orphans(&self) {
        let local = &self.slot().local;
        if local.watcher.get().is_none() {
            local.orphans.set(self.executor.left_behind().any(WorkerSlot::has_timers));
        }
    }

    /// Fires what is due of a worker's timers, or a portion of it; whether there was something.
    pub(crate) fn expire(&self, of: &WorkerSlot<RING, S::Parts>, now: Instant) -> bool {
        let Some(wheel) = of.wheel.get() else { return false };
        let (executor, slot) = (self.executor, self.slot());
        let is_task = |waker: &Waker| header_of(waker).is_some();
        let (mut fired, mut more) = (0, true);
        while more && fired < PORTION {
            let mut batch = Batch::default();
            more = wheel.expire(now, executor.config.wheel_slot_log2, &mut batch, is_task);
            if batch.len() > 0 {
                fired += batch.len();
                self.run_wakers(&mut || batch.wake());
            }
        }
        if let Some(pace) = slot.local.pace.get().filter(|_| more) {
            pace.look_soon();
        }
        slot.counters.timers.add(fired);
        fired > 0
    }
}
