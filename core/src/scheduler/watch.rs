//! What workers do for one that is stuck in a poll, and how they see to it that one of them watches (`watchdog/`).

use super::{
    executor::Scheduler,
    slot::{Slots, WorkerSlot},
    worker::Worker,
};
use crate::{
    atomic::Ordering,
    instant::Instant,
    platform::Platform,
    trace::Event,
    watchdog::scan::{Seen, Watched},
};

impl<const RING: usize> Watched for WorkerSlot<RING> {
    fn polls(&self) -> u32 {
        // Ordering: a hint.
        self.lifo.polls.load(Ordering::Relaxed)
    }

    fn seen(&self) -> &Seen {
        &self.shared.seen
    }

    fn is_online(&self) -> bool {
        WorkerSlot::is_online(self)
    }

    fn is_overdue(&self, by: Instant) -> bool {
        self.timed.wheel.is_armed() && self.timed.wheel.is_overdue(by)
    }
}

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    /// A task went into an empty LIFO slot: a sleeper should watch this worker.
    #[inline(always)]
    pub(crate) fn cover_lifo(&self, slot: &WorkerSlot<RING>) {
        // If this worker is about to be missed, the next one to sleep sees it awake.
        if !self.watchdog.is_on()
            && self.config.has_watchdog()
            && self.config.stealing()
            && self.idle.any_parked(self)
        {
            self.notify_of(slot);
        }
    }

    /// A timer is the first now in the wheel of a worker. If the poll that this one is in lasts, only a watcher sees to it.
    #[cold]
    pub(crate) fn cover_timer(&self, slot: &WorkerSlot<RING>) {
        // Ordering: hints, all of them, after the fence in `Driver::tell`, which pairs with that in `Idle::announce`: either a
        // sleeper is seen here, or it sees that this worker is online and awake, and watches.
        // A searcher will watch when it finds nothing, as it is with a push.
        if slot.lifo.is_in_poll() && self.lacks_watcher() && self.idle.searching() == 0 {
            self.wake_one();
        }
    }

    /// Whether a worker may have to be seen to, once the caller is announced.
    pub(crate) fn is_one_awake(&self) -> bool {
        self.census.is_one_awake(self.idle.parked(self))
    }

    /// Whether workers sleep, and none of them watches. A hint.
    fn lacks_watcher(&self) -> bool {
        self.config.has_watchdog() && !self.watchdog.is_on() && self.idle.any_parked(self)
    }
}

impl<P: Platform, S, const RING: usize> Worker<P, S, RING>
where
    S: Slots<RING>,
{
    /// About to sleep, and announced: watches, if another worker is awake, or this one was until now; until when to sleep then.
    pub(crate) fn begin_watch(&self) -> Option<Instant> {
        let (executor, local) = (self.executor, &self.slot().local);
        let timeouts = executor.config.watchdog()?;
        // It sleeps again, and has turned to nothing.
        local.duties.keeps_watch();
        let has_others = executor.census.online() > 1;
        // While workers sleep and wake by turns it goes on, although all may sleep at this moment: or each of them that wakes
        // would have to wake another, to watch.
        let needed = executor.is_one_awake() || (has_others && !local.watcher.has_rested());
        if !needed {
            return None;
        }
        let until =
            executor.watchdog.begin(&local.watcher, timeouts, || executor.platform.now())?;
        local.duties.watches();
        Some(until)
    }

    /// The worker's sleep is over, as a watcher perhaps; it scans, if that is due and no other has claimed it.
    pub(crate) fn end_watch(&self, unclaimed: bool) {
        let (executor, local) = (self.executor, &self.slot().local);
        if !local.duties.watches_no_more() {
            return;
        }
        executor.watchdog.end();
        let Some(timeouts) = executor.config.watchdog().filter(|_| unclaimed) else { return };
        let now = executor.platform.now();
        let is_due = executor.watchdog.is_due(timeouts, now);
        if is_due {
            self.scan(now);
        }
        executor.watchdog.rest(&local.watcher, is_due);
    }

    /// Looks at every other worker, and whether any has polled since the last scan.
    fn scan(&self, now: Instant) {
        self.slot().counters.sweeps.add(1);
        let (mut found, mut sum) = (false, 0_u32);
        for (index, other) in self.executor.in_use().iter().enumerate() {
            sum = sum.wrapping_add(other.counters.polls.get() as u32);
            if index != self.id().index() {
                found |= self.look_at(index, other, now);
            }
        }
        if self.executor.watchdog.learn(found) {
            // The other watcher sleeps for a long time yet.
            self.executor.wake_one();
        }
        self.executor.watchdog.saw(sum);
    }

    /// At the end of a tick: looks at one other worker, the next in turn.
    pub(crate) fn look_at_next(&self) {
        let slots = self.executor.in_use();
        let index = self.slot().local.watcher.next_of(slots.len());
        let Some(other) = slots.get(index).filter(|_| index != self.id().index()) else { return };
        if other.lifo.is_in_poll() || other.timed.wheel.is_armed() {
            // While no worker sleeps, none scans: this one learns for all.
            if self.look_at(index, other, self.executor.platform.now()) {
                self.executor.watchdog.learn(true);
            }
        }
    }

    /// Sees to a worker that is stuck, and to timers that are late; whether it is in a long poll.
    fn look_at(&self, index: usize, other: &WorkerSlot<RING>, now: Instant) -> bool {
        let executor = self.executor;
        let finding = executor.watchdog.look_at(other, executor.config.watchdog(), now);
        if let Some(nanos) = finding.stuck {
            self.relieve(index, other);
            self.report_long(index as u16, other, nanos);
        }
        if finding.is_late {
            self.expire(&other.timed.wheel, now);
        }
        finding.is_long
    }

    /// Takes what waits behind a long poll: the task in the LIFO slot, and half of the ring.
    fn relieve(&self, index: usize, stuck: &WorkerSlot<RING>) {
        if !self.executor.config.stealing() {
            return;
        }
        if let Some(ready) = stuck.lifo.take() {
            self.slot().counters.rescues.add(1);
            self.executor.push_ring(self.slot(), ready);
        }
        if let Some(ready) = self.steal_from(index, stuck) {
            self.executor.push_ring(self.slot(), ready);
        }
    }

    /// Reports a poll that has lasted for so long, if that is over the limit: once for each poll.
    fn report_long(&self, worker: u16, stuck: &WorkerSlot<RING>, nanos: u64) {
        let is_over = self.executor.config.poll_limit().is_some_and(|limit| nanos >= limit);
        if is_over && stuck.shared.seen.is_unreported() {
            // The platform may call code of the user's.
            let _ = self.leave_loop();
            self.executor.platform.event(Some(self.id()), Event::LongPoll { worker, nanos });
        }
    }

    /// About to poll after an idle moment: if there is something that only a watcher would see to (timers of this worker, a limit of
    /// polls, I/O that no worker waits for), and none watches, a sleeper is woken to. It is once for each sleep of that one. If all
    /// that sleep are blocked, one of these listens.
    #[inline]
    pub(crate) fn cover_poll(&self) {
        let executor = self.executor;
        let has_reason = || {
            self.slot().timed.wheel.is_armed()
                || executor.is_unheard()
                || executor.config.poll_limit().is_some()
        };
        if executor.lacks_watcher() && has_reason() {
            executor.wake_one();
        } else if executor.is_unheard() && executor.census.hearing() > 0 {
            executor.recheck_blocked();
        }
    }

    /// The worker watched, and turns to something else: if none watches now, a sleeper is woken to.
    #[cold]
    pub(crate) fn hand_watch_over(&self) {
        if self.executor.lacks_watcher() {
            self.executor.wake_one();
        }
    }
}
