//! How a worker sleeps: announced, with one last look for work, and for how long.

use super::{context::Worker, slot::Slots};
use crate::{
    instant::Instant,
    platform::Platform,
    scheduler::core::faces::{JobOffers, Jobs, OwnQueues, Placement},
    sleep::park::Sleep,
    trace::Event,
};

/// In nanoseconds: how long a worker that has just come online sleeps, at most.
const FIRST: u64 = 1_000_000;

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// Whether to look for work once more, after so many rounds, before it sleeps.
    pub(crate) fn may_look_again(&self, round: u32, most: u32) -> bool {
        self.slot().local.spin_limit.get().is_some_and(|limit| limit.should_spin(round, most))
    }

    /// As `park_in_loop`, and learns from how long it took.
    pub(crate) fn park_and_learn(&self, most: u32) -> bool {
        if most == 0 {
            return self.park_in_loop();
        }
        let begin = self.executor.platform.now();
        let slept = self.park_in_loop();
        if slept {
            let Some(limit) = self.slot().local.spin_limit.get() else { return slept };
            let now = self.executor.platform.now();
            if self.slot().local.duties.is_searching() || self.slot().is_overdue(now) {
                limit.record(now.nanos_since(begin), most);
            } else {
                // What ends by I/O would not have been found by looks at queues and timers, however many.
                limit.shrink(most);
            }
        }
        slept
    }

    /// Sleeps until there may be something to do. Returns at once if there is.
    ///
    /// A worker that is stepped by hand then owes the others nothing: each of its steps may come late. [`run`](Worker::run) is thriftier.
    ///
    /// In an event sink ([`Platform::event`]) it returns at once.
    pub fn park(&self) {
        let Some(_in_loop) = self.enter_loop() else { return };
        let slept = self.park_in_loop();
        let _ = self.leave_to_driver();
        if !slept {
            self.executor.platform.relax(u32::MAX);
        }
    }

    /// As `park`, for loops that go on at once. False if there is work, perhaps in the hands of a worker that was interrupted in the
    /// midst of taking it.
    pub(crate) fn park_in_loop(&self) -> bool {
        let Some(deadline) = self.announce_sleep() else { return false };
        self.sleep(deadline, || true);
        self.slot().local.duties.set_slept(true);
        self.end_sleep_and_scan();
        true
    }

    /// The first half of [`park`](Self::park), for an executor that is driven by another loop: a softirq, another scheduler, a GUI or
    /// a game. `None` if there is work: then step on. Otherwise the worker counts as asleep, and has nothing to do until the deadline
    /// (if there is one), or until the platform's [`wake`](Platform::wake) is called for it: the sticky notice that in
    /// [`park`](Self::park) would end a [`wait`](Platform::wait). Return to the other loop, and have `wake` schedule the next call. That
    /// one begins with [`end_park`](Self::end_park), or with a [`step`](Self::step), which includes it.
    ///
    /// A worker that is woken counts as one that looks for work until its next step, so that others may not be woken meanwhile: step
    /// it soon. Where the other loop joins, forks or broadcasts between the two halves, or polls a timer, `wake` is called too.
    ///
    /// I/O of a platform's reactor is heard of by steps alone. `None` in a poll of the worker itself, which does not end by a park, and in
    /// an event sink.
    pub fn begin_park(&self) -> Option<Option<Instant>> {
        let slot = self.slot();
        let _in_loop = self.enter_outside_polls()?;
        if let Some(deadline) = self.announce_sleep() {
            slot.local.duties.arm();
            if slot.shared.park.arm(Sleep::Wait) {
                return Some(deadline);
            }
            // It has been notified on the way.
            self.end_sleep_and_scan();
        }
        // The next step may come late.
        let _ = self.leave_to_driver();
        None
    }

    /// Announces that the worker sleeps, and looks once more for work. `None` if there was some; else the sleep's deadline, and
    /// `end_park` follows.
    fn announce_sleep(&self) -> Option<Option<Instant>> {
        let (executor, slot) = (self.executor, self.slot());
        self.end_sleep_and_scan();
        self.end_busy_period();
        slot.publish_jobs();
        let searched = slot.local.duties.announce();
        let look = || executor.has_work(self.id());
        let found = if executor.is_shared() {
            executor.idle.announce(executor, self.id(), searched, look)
        } else {
            look()
        };
        if found || self.must_stay() {
            self.unannounce();
            if found && executor.is_shared() {
                // The task's pusher may have relied on this worker's search: should it turn to a task of its own, it looks again
                // when it leaves the loop.
                let was_claimed = slot.local.duties.begin_search();
                if !was_claimed {
                    executor.idle.search_on();
                }
            } else if executor.is_unwatched_by_all_but(self.id()) {
                // This worker would have watched in its sleep. It does not sleep, so another does.
                executor.notify();
            }
            return None;
        }
        executor.ask_for_jobs();
        slot.counters.parks.add(1);
        self.trace(Event::Park);
        let limit = |nanos| executor.platform.now().after_nanos(nanos);
        let (watch, longest) = (self.begin_watch(), self.longest_sleep().map(limit));
        Some(first_of(first_of(watch, longest), self.next_deadline()))
    }

    /// For how long to sleep at most. The first sleep of a second worker is short: the first worker took itself for the only one until now,
    /// and may have pushed without a notification (`Scheduler::has_company`).
    fn longest_sleep(&self) -> Option<u64> {
        let executor = self.executor;
        let limit = executor.config.park_timeout();
        let is_first = self.slot().local.is_second.replace(false);
        if is_first && executor.config.has_watchdog() && executor.is_one_awake() {
            return Some(limit.map_or(FIRST, |limit| limit.min(FIRST)));
        }
        limit
    }

    /// The second half of [`park`](Self::park): the worker is awake, in its loop. Nothing happens if it did not sleep. A
    /// [`step`](Self::step) must follow: others rely on a worker that was woken to look for work.
    pub fn end_park(&self) {
        if let Some(_in_loop) = self.enter_outside_polls() {
            self.end_sleep_and_scan();
        }
    }

    /// The worker is awake, in its loop. If it watched in its sleep, it scans.
    #[inline(always)]
    pub(crate) fn end_sleep_and_scan(&self) {
        self.end_sleep();
        self.scan_if_due();
    }

    /// Reasons of this worker's own not to sleep.
    pub(crate) fn must_stay(&self) -> bool {
        let slot = self.slot();
        self.has_bound()
            || self.has_bound_jobs()
            || self.executor.gate.is_stopped()
            || !slot.lifo.is_empty()
            || slot.has_queued()
    }
}

/// The first of two deadlines, of which there may be none.
fn first_of(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        _ => a.or(b),
    }
}
