//! A wait that is too deep in a worker's stack for it to run other tasks.

use crate::{
    atomic::{Ordering, fence},
    instant::Instant,
    platform::{Platform, WorkerId},
    scheduler::core::{
        context::Worker,
        executor::Scheduler,
        faces::{Jobs, OwnQueues, Placement},
        slot::{Slots, WorkerSlot},
    },
};

/// In nanoseconds: how often a blocked worker tries to start a compensation worker while no other worker can run what is queued.
const RETRY: u64 = 10_000_000;
/// In nanoseconds: a timer that is due within this time may end the wait of a blocked worker, so the worker does not give up.
const SOON: u64 = 10_000_000_000;
/// In nanoseconds: how long a stuck wait goes on, if an event from outside or a pinned task may end it.
const RETRY_BUDGET: u64 = 5_000_000_000;

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Waits, too deep to help: gives the worker's queues away, and sleeps until `done`. False if no worker is left to run what
    /// is queued, and no timer is due soon.
    pub(crate) fn block_worker(
        &'static self,
        id: WorkerId,
        slot: &'static WorkerSlot<RING, S::Parts>,
        done: &mut dyn FnMut() -> bool,
        may_end: bool,
    ) -> bool {
        let worker = Worker::of(self, id);
        worker.give_away();
        slot.publish_jobs();
        let _blocked = self.block(slot);
        let wait = self.census.begin_wait();
        let mut outlook =
            Outlook { next: Instant::ZERO, refused: false, may_end, wait, stuck_since: None };
        loop {
            let out = worker.leave_loop();
            if worker.in_user_code(&out, &mut *done) {
                return true;
            }
            // The condition is user code, and may have queued tasks. This worker does not come to them.
            worker.give_away();
            // A task that is pinned here can run nowhere else, and the caller may wait for it. So it runs, and nests deeper
            // still.
            let pinned = worker.take_bound();
            let polled = pinned.is_some();
            if let Some(ready) = pinned {
                let _ = worker.poll_apart(ready, &out);
                worker.keep_up(1);
                worker.give_away();
            }
            let can_work = self.census.others_can_work();
            if can_work {
                outlook.stuck_since = None;
            }
            match (polled, can_work) {
                // Pinned tasks may come without end. If the wait is stuck, they are no reason to go on.
                (true, false) if self.gives_up_on_bound(id, &mut outlook) => {
                    return worker.in_user_code(&worker.leave_loop(), done);
                }
                (true, _) => continue,
                (false, true) => worker.sleep_blocked(worker.next_deadline(), || true),
                (false, false) => {
                    if self.listen_alone(&worker, worker.next_deadline(), &mut outlook) {
                        return worker.in_user_code(&worker.leave_loop(), done);
                    }
                }
            }
            // First the I/O events that it has received: others rely on it to deliver them.
            worker.deliver();
            worker.fire_timers();
            worker.join_broadcast();
            worker.give_away();
        }
    }

    /// Whether a blocked worker gives up that has just polled a pinned task, while no other can run tasks: it has done only that
    /// for a while, and nothing is in sight that ends this.
    #[cold]
    fn gives_up_on_bound(&'static self, me: WorkerId, outlook: &mut Outlook) -> bool {
        let now = self.platform.now();
        // The tasks that it polls may end its wait, so it goes on for a while in any case.
        self.retry(outlook, now)
            && self.is_deadlocked(me, outlook, now)
            && self.is_stuck_for_long(outlook, now)
    }

    /// Tries again to start a compensation worker, every `RETRY`; whether it was time to. It does not try at each turn, since a start that
    /// is refused wakes the workers that rely on it.
    fn retry(&'static self, outlook: &mut Outlook, now: Instant) -> bool {
        let is_time = now >= outlook.next;
        if is_time {
            outlook.next = now.after_nanos(RETRY);
            outlook.refused = !self.start_compensation(self.census.unable());
        }
        is_time
    }

    /// Whether no compensation worker can be had, and nothing is in sight that ends a wait.
    fn is_deadlocked(&'static self, me: WorkerId, outlook: &Outlook, now: Instant) -> bool {
        // The last slot may have gone to a compensation worker that another worker has just started: hence the second outlook.
        outlook.refused && !self.census.others_can_work() && self.is_stuck(me, now)
    }

    /// As [`Worker::sleep`], for a blocked worker while no other can run tasks. True if nothing is in sight that ends this; then it
    /// has not slept.
    fn listen_alone(
        &'static self,
        worker: &Worker<P, S, RING>,
        deadline: Option<Instant>,
        outlook: &mut Outlook,
    ) -> bool {
        let now = self.platform.now();
        self.retry(outlook, now);
        let until = deadline.map_or(outlook.next, |deadline| deadline.min(outlook.next));
        let mut is_stuck = false;
        worker.sleep_blocked(Some(until), || {
            // Ordering: pairs with itself in other blocked workers. Each of them has said in its park word that it sleeps. The
            // last one sees all others asleep, and decides.
            fence(Ordering::SeqCst);
            is_stuck = self.is_deadlocked(worker.id(), outlook, now)
                && (!outlook.may_end || self.is_stuck_for_long(outlook, now));
            !is_stuck
        });
        is_stuck
    }

    /// Whether a wait that something may yet end has been stuck for long enough. The wait that began last goes on for the
    /// shortest time: the waits below it on the stacks would fail with it.
    fn is_stuck_for_long(&self, outlook: &mut Outlook, now: Instant) -> bool {
        let since = *outlook.stuck_since.get_or_insert(now);
        let budget = u64::from(self.census.waits_since(outlook.wait)).saturating_mul(RETRY_BUDGET);
        now >= since.after_nanos(budget)
    }

    /// Whether a wait is stuck: tasks are queued, no blocked worker but the caller is awake, and no timer that may end a
    /// wait is due soon. At times true a moment too early, if a wait has just ended.
    fn is_stuck(&'static self, me: WorkerId, now: Instant) -> bool {
        let (slot_log2, by) = (self.config.wheel_slot_log2, now.after_nanos(SOON));
        let is_due = |slot: &WorkerSlot<RING, S::Parts>| {
            slot.next_timer(slot_log2).is_some_and(|next| next <= by)
        };
        let has_tasks = |slot: &WorkerSlot<RING, S::Parts>| slot.has_queued();
        // An only worker has all tasks in queues of its own.
        let has_own = || !self.is_shared() && Worker::of(self, me).has_bound();
        (self.has_injected() || self.slots_in_use().iter().any(has_tasks) || has_own())
            && !self.regular().iter().any(is_due)
            // Twice: a worker that was seen asleep first may have been woken since by a worker that was seen asleep last.
            && self.all_blocked_sleep(me)
            && self.all_blocked_sleep(me)
    }

    fn all_blocked_sleep(&self, me: WorkerId) -> bool {
        self.slots().iter().enumerate().all(|(i, slot)| {
            // Ordering: after the caller's fence.
            let is_blocked = slot.shared.awaits_others.load(Ordering::Relaxed);
            i == me.index() || !is_blocked || slot.shared.park.is_parked()
        })
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// As [`sleep`](Self::sleep), for a blocked worker. Others rely on it meanwhile: it fires its timers, listens if no other does, and
    /// watches those that are awake if no other does.
    fn sleep_blocked(&self, deadline: Option<Instant>, still: impl FnOnce() -> bool) {
        let (executor, duties) = (self.executor, &self.slot().local.duties);
        // The next poll is the first one again, of which others are told.
        self.end_busy_period();
        let hearing = executor.census.blocked_asleep.up();
        // Ordering: pairs with the fence in `recheck_blocked`: either a worker that begins a poll sees that this one may watch, and wakes
        // it, or this one sees that it is awake.
        fence(Ordering::SeqCst);
        let until = self.begin_watch();
        let ends = [deadline, until];
        self.sleep(ends.into_iter().flatten().min(), still);
        drop(hearing);
        if duties.end_watch(true) {
            executor.watchdog.end();
        }
        self.scan_if_due();
    }
}

/// What a blocked worker knows from its looks for a worker that can run tasks.
struct Outlook {
    next: Instant,
    /// The last start found no slot, or the platform refused.
    refused: bool,
    /// An event from outside may end the wait.
    may_end: bool,
    /// Its number among all waits that were too deep.
    wait: u32,
    /// Since when the wait has been stuck; `None` if it is not.
    stuck_since: Option<Instant>,
}
