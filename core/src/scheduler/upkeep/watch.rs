//! What workers do for one that is stuck in a poll, and how they see to it that one of them watches (`watchdog/`).

use crate::{
    class::Class,
    instant::Instant,
    parts::{Parts, Switch},
    platform::Platform,
    scheduler::core::{
        context::Worker,
        slot::{Slots, WorkerSlot},
    },
    trace::Event,
    watchdog::scan::GRACE,
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// About to sleep, and announced: watches, if another worker is awake, or this one was until now; until when to sleep then.
    pub(crate) fn begin_watch(&self) -> Option<Instant> {
        let (executor, local) = (self.executor, &self.slot().local);
        let (timeouts, watcher) = (executor.config.watchdog()?, local.watcher.get()?);
        // It sleeps again, and has turned to nothing.
        local.duties.clear_watched();
        let has_others = executor.census.online() > 1;
        // While workers sleep and wake by turns it goes on, although all may sleep at this moment: or each of them that wakes
        // would have to wake another, to watch.
        let needed = executor.is_one_awake() || (has_others && !watcher.has_rested());
        if !needed {
            return None;
        }
        let until = executor.watchdog.begin(watcher, timeouts, || executor.platform.now())?;
        local.duties.begin_watch();
        Some(until)
    }

    /// Scans, if the worker's sleep as a watcher has ended by itself, and a scan is due.
    pub(crate) fn scan_if_due(&self) {
        let (executor, local) = (self.executor, &self.slot().local);
        if !local.duties.take_scan() {
            return;
        }
        let Some((timeouts, watcher)) = executor.config.watchdog().zip(local.watcher.get()) else {
            return;
        };
        let now = executor.platform.now();
        let is_due = executor.watchdog.is_due(timeouts, now);
        if is_due {
            self.scan(now);
        }
        executor.watchdog.rest(watcher, is_due);
    }

    /// Looks at every other worker, and whether any has polled since the last scan.
    fn scan(&self, now: Instant) {
        self.slot().counters.sweeps.add(1);
        let (mut found, mut sum) = (false, 0_u32);
        for (index, other) in self.executor.slots_in_use().iter().enumerate() {
            // Ordering: a hint.
            sum = sum.wrapping_add(other.lifo.polls());
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
        let Some(watcher) = self.slot().local.watcher.get() else { return };
        let slots = self.executor.slots_in_use();
        let index = watcher.next_of(slots.len());
        let Some(other) = slots.get(index).filter(|_| index != self.id().index()) else { return };
        if other.may_keep_tasks() || other.has_timers() {
            // Timeouts stay as they are: on a busy machine a worker that was taken off its core looks like one in a long poll, and a
            // sleeper that wakes each 400 us to watch takes a core from those that work (p99 of 64 connections 1.6 ms, and 1.1 without).
            let _ = self.look_at(index, other, self.executor.platform.now());
        }
    }

    /// Sees to a worker that is stuck, and to timers that are late; whether it is in a long poll.
    fn look_at(&self, index: usize, other: &WorkerSlot<RING, S::Parts>, now: Instant) -> bool {
        let executor = self.executor;
        // Ordering: a hint.
        let polls = other.lifo.polls();
        let seen = other.shared.seen.get().filter(|_| other.may_keep_tasks());
        let finding = executor.watchdog.look_at(seen, polls, executor.config.watchdog(), now);
        if let Some(nanos) = finding.stuck {
            self.relieve(index, other);
            self.report_long(index as u16, other, polls, nanos);
        }
        let grace = if other.is_online() && finding.stuck.is_none() { GRACE } else { 0 };
        let by = Instant::from_nanos(now.as_nanos().saturating_sub(grace));
        if other.has_timers() && other.is_overdue(by) {
            self.expire(other, now);
        }
        finding.is_long
    }

    /// Takes what waits behind a long poll: the task in the LIFO slot, and half of the ring.
    fn relieve(&self, index: usize, stuck: &WorkerSlot<RING, S::Parts>) {
        if !self.executor.config.stealing() {
            return;
        }
        if let Some(ready) = stuck.lifo.take() {
            self.slot().counters.rescues.add(1);
            self.executor.push_by_class(self.slot(), ready);
        }
        self.take_half(index, stuck, Class::Normal);
        if <S::Parts as Parts>::Classes::ON {
            self.take_half(index, stuck, Class::Background);
        }
    }

    fn take_half(&self, index: usize, stuck: &WorkerSlot<RING, S::Parts>, class: Class) {
        if let Some(ready) = self.steal_from(index, stuck, class) {
            self.executor.push_ring(self.slot(), class, ready);
        }
    }

    /// Reports a poll that has lasted for so long, if that is over the limit: once for each poll.
    fn report_long(&self, worker: u16, stuck: &WorkerSlot<RING, S::Parts>, polls: u32, nanos: u64) {
        let limit = self.executor.config.poll_limit().filter(|_| polls % 2 == 1);
        let is_over = limit.is_some_and(|limit| nanos >= limit);
        if is_over && stuck.shared.seen.get().is_some_and(|seen| seen.is_unreported(polls)) {
            // The platform may call code of the user's.
            let _ = self.leave_loop();
            self.trace(Event::LongPoll { worker, nanos });
        }
    }
}
