//! The sentry: one sleeper that looks after workers which are stuck in a poll.
//!
//! While some worker is awake and some sleep, one of the sleepers sleeps with a timeout. At each timeout it sweeps: a worker
//! that is still in the poll in which the last sweep found it is stuck, and the task in its LIFO slot is taken from
//! it. The role is an atomic word with the holder in it; it goes with the sleep, and is taken again by the next
//! worker that goes to sleep. A push into a LIFO slot that finds sleepers but no sentry wakes one, which will become it; so
//! there is one wake-up for each time that the watch begins, and none for each push.
//!
//! While nobody is stuck it sleeps longer and longer, up to twice the shortest if tasks go through LIFO slots, else up to
//! the longest. One that is about to sleep for so long says so (`DROWSY`), and the next push into a LIFO slot wakes it, once, to
//! begin with short sleeps again. So a push seldom wakes, and a task waits about three of the shortest times behind a long poll,
//! five at most.
//!
//! A sentry that turns to work of its own would have to wake another sleeper to keep watch. Where sleeps are brief, as under a load
//! that comes by epoll to whoever sleeps there, that would be a wake-up for each of them. There one more sleeper has a
//! timeout, the *reserve*, to whom the role goes without a wake-up.
//!
//! At the end of a nap neither gets up if all is well, and no ring has tasks that nobody may have been told of: it sweeps and
//! naps on (`nap_on`). One that got up would look for work and find some, which is in good hands; with three busy threads on two
//! cores that was a tenth of a server's processor time.

use super::{
    executor::Scheduler,
    marks::Mark,
    slot::{Slots, WorkerSlot},
    timing::GRACE,
    worker::Worker,
};
use crate::{
    atomic::{AtomicU32, Ordering, fence},
    instant::Instant,
    platform::{Platform, WorkerId},
    trace::Event,
};

/// The role's word: who has it, and who is next, each a worker plus one; and whether the first sleeps for a long
/// time. INV-WATCH: there is a reserve only beside a holder; either is asleep, about to be, or about to leave the word;
/// a holder may be in a waker that its sweep has called.
const HOLDER: u32 = (1 << RESERVE) - 1;
/// Where the reserve begins.
const RESERVE: u32 = 13;
const DROWSY: u32 = 1 << 31;
/// A nap is long above so many of the shortest.
const LONG: u64 = 2;
/// In nanoseconds: a shortest nap that is longer is no close watch.
const CLOSE: u64 = 1_000_000;
/// Naps in one sleep, at most: what the platform has kept for `poll_io` is not to wait for more.
const NAPS: u32 = 8;

const _: () = assert!((WorkerId::MAX as u32) < HOLDER && 2 * RESERVE < 31);

fn holder(watch: u32) -> u32 {
    watch & HOLDER
}

fn reserve(watch: u32) -> u32 {
    watch >> RESERVE & HOLDER
}

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    /// The worker that keeps watch: the last whom a wake-up should disturb.
    pub(crate) fn sentry(&self) -> Option<WorkerId> {
        // Ordering: a hint.
        let watch = self.sentry.load(Ordering::Relaxed);
        holder(watch).checked_sub(1).map(|id| WorkerId::new(id as u16))
    }

    /// A task went into an empty LIFO slot: somebody who sleeps should keep a close watch over it.
    #[inline(always)]
    pub(crate) fn cover_lifo(&self, slot: &WorkerSlot<RING>) {
        // Ordering: hints. If this worker is about to be missed, the next one to sleep sees it awake.
        let watch = self.sentry.load(Ordering::Relaxed);
        if (watch == 0 || watch & DROWSY != 0)
            && self.config.has_sentry()
            && self.config.stealing()
            && self.idle.any_parked()
        {
            self.have_watched(watch, slot);
        }
    }

    /// A timer is the first now in the wheel of a worker. If the poll that this one is in lasts, only a sentry sees to it.
    #[cold]
    pub(crate) fn cover_timer(&self, slot: &WorkerSlot<RING>) {
        // Ordering: hints, all of them, after the fence in `tell`, which pairs with that in `Idle::announce`: either a
        // sleeper is seen here, or it sees that this worker is online and awake, and keeps watch.
        let in_poll = slot.lifo.polls.load(Ordering::Relaxed) & 1 == 1;
        // Who searches will keep watch, as it is with a push.
        if in_poll && self.lacks_sentry() && self.idle.searching() == 0 {
            self.wake_one();
        }
    }

    /// Whether a worker may have to be seen to, once the caller is announced: one that is awake, or that sleeps until a stolen job
    /// is done. Those who sleep in a join too deep to help in see to themselves.
    pub(crate) fn is_anybody_awake(&self) -> bool {
        // Ordering: hints.
        let count = |n: &AtomicU32| n.load(Ordering::Relaxed) as usize;
        let listening = count(&self.blocked).saturating_sub(count(&self.deaf));
        let asleep = self.idle.parked(self) + listening;
        asleep < self.online.load(Ordering::Relaxed) as usize
    }

    /// Whether nobody keeps watch, and some sleeper could. A hint.
    fn lacks_sentry(&self) -> bool {
        // Ordering: a hint.
        self.config.has_sentry()
            && self.sentry.load(Ordering::Relaxed) == 0
            && self.idle.any_parked()
    }

    /// Whether somebody sleeps for a short time, and looks around then.
    pub(crate) fn has_close_watch(&self) -> bool {
        // Ordering: after the caller's fence.
        let watch = self.sentry.load(Ordering::Relaxed);
        let is_close = watch & DROWSY == 0
            && self.config.sentry().is_some_and(|(shortest, _)| shortest <= CLOSE);
        let holder = holder(watch).checked_sub(1).filter(|_| is_close);
        // One that is awake may be in a waker, for long.
        holder.is_some_and(|id| self.idle.is_parked(self, WorkerId::new(id as u16)))
    }

    #[cold]
    fn have_watched(&self, watch: u32, slot: &WorkerSlot<RING>) {
        if slot.local.marks.any(Mark::GATHERS) {
            return slot.local.marks.set(Mark::GATHERED, true);
        }
        if watch == 0 {
            return self.notify();
        }
        // Ordering: a hint, and who takes it back wakes: one push, and not each.
        let watch = self.sentry.fetch_and(!DROWSY, Ordering::Relaxed);
        if let (true, Some(id)) = (watch & DROWSY != 0, holder(watch).checked_sub(1)) {
            self.unpark(WorkerId::new(id as u16));
        }
    }
}

impl<P: Platform, S, const RING: usize> Worker<P, S, RING>
where
    S: Slots<RING>,
{
    fn role(&self) -> u32 {
        self.id().index() as u32 + 1
    }

    pub(super) fn holds_watch(&self) -> bool {
        // Ordering: only this worker takes the role, and leaves it, for itself as the holder.
        holder(self.executor.sentry.load(Ordering::Relaxed)) == self.role()
    }

    /// About to sleep: takes the watch if it is free and there is somebody to watch, or will be in a moment; how long to sleep then.
    pub(crate) fn keep_watch(&self) -> Option<u64> {
        let executor = self.executor;
        let (shortest, longest) = executor.config.sentry()?;
        let online = executor.online.load(Ordering::Relaxed);
        let brief = online > 1 && self.slot().local.brief.replace(false);
        // It has the role already if it is in a waker that its sweep has called.
        let needed = executor.is_anybody_awake() || brief || self.holds_watch();
        let nap = &self.slot().local.nap;
        let mut length = nap.get().max(shortest).min(longest);
        let waits = |slot: &WorkerSlot<RING>| !slot.lifo.is_empty() || !slot.ring.is_empty();
        if self.is_long(length) && executor.in_use().iter().any(waits) {
            // Pushed since the last sweep, when there was no sentry to be woken, or one that has gone.
            length = shortest;
        }
        let drowsy = if self.is_long(length) { DROWSY } else { 0 };
        let is_free = |watch: u32| holder(watch) == 0 || holder(watch) == self.role();
        let take = |watch: u32| match reserve(watch) {
            next if is_free(watch) => Some(self.role() | next << RESERVE | drowsy),
            0 if brief => Some(watch | self.role() << RESERVE),
            _ => None,
        };
        // Ordering: Acquire pairs with the Release in `leave_watch`: `swept` passes from one sentry to the next.
        let taken = if needed {
            executor.sentry.fetch_update(Ordering::Acquire, Ordering::Relaxed, take).ok()
        } else {
            None
        };
        if drowsy != 0 && taken.is_some_and(is_free) {
            // Ordering: pairs with the fence in `will_soon_be_done`: either that one sees us, who sleep for long, or we see its
            // tasks.
            fence(Ordering::SeqCst);
            if executor.in_use().iter().any(waits) {
                // Ordering: a hint, as in `have_watched`.
                executor.sentry.fetch_and(!DROWSY, Ordering::Relaxed);
                length = shortest;
            }
        }
        // If not, its next watch is a new one, of other polls.
        nap.set(if taken.is_some_and(is_free) { length } else { 0 });
        let before = taken?;
        self.slot().local.naps.set(0);
        self.slot().local.marks.set(Mark::WATCHED, false);
        // The reserve begins anew when it has the role.
        Some(if is_free(before) { length } else { shortest })
    }

    /// Whether the next push into a LIFO slot should end this sleep of a sentry.
    fn is_long(&self, nap: u64) -> bool {
        self.executor
            .config
            .sentry()
            .is_some_and(|(shortest, _)| nap > shortest.saturating_mul(LONG))
    }

    /// Between the halves of a [`park`](Self::park), for simulations: at its deadline, whether this worker keeps watch, or is the
    /// next to do so, and may sleep on; until when then. It sweeps, and still counts as asleep. A sleep that something else has
    /// ended is over.
    pub fn nap_on(&self, deadline: Option<Instant>) -> Option<Instant> {
        let (executor, local) = (self.executor, &self.slot().local);
        // Ordering: Acquire, as in `leave_watch`: this worker may have become the holder.
        let watch = executor.sentry.load(Ordering::Acquire);
        let holds = holder(watch) == self.role();
        let watches = holds || reserve(watch) == self.role();
        if !watches || watch & DROWSY != 0 || executor.config.park_timeout().is_some() {
            return None;
        }
        let now = executor.platform.now();
        let naps = local.naps.get();
        if deadline? > now || naps >= NAPS {
            return None;
        }
        if executor.idle.searching() == 0 && executor.has_work(self.id()) {
            // Nobody was told of it, see `will_soon_be_done` and `Scheduler::has_company`; or is about to be.
            return None;
        }
        let (waits, hits, polls) = self.survey(holds, now)?;
        let nap = self.next_nap(waits, hits)?;
        let timer = self.next_deadline();
        let quiet = local.seen.replace(polls) == polls;
        if quiet || self.is_long(nap) || timer.is_some_and(|timer| timer <= now) {
            return None;
        }
        // It goes on. Until here nothing has changed that a sweep on its feet would go by.
        local.naps.set(naps + 1);
        local.nap.set(nap);
        local.hits.set(hits);
        if holds {
            self.slot().counters.sweeps.add(1);
            for (i, other) in executor.in_use().iter().enumerate() {
                let (polls, in_poll) = self.poll_of(i, other);
                if in_poll {
                    // Ordering: as in `sweep`.
                    other.shared.swept.store(polls, Ordering::Relaxed);
                }
            }
        }
        let next = now.after_nanos(nap);
        Some(timer.map_or(next, |timer| timer.min(next)))
    }

    /// What a worker's count of polls says, and whether it is another that is in one.
    fn poll_of(&self, index: usize, of: &WorkerSlot<RING>) -> (u32, bool) {
        // Ordering: a hint.
        let polls = of.lifo.polls.load(Ordering::Relaxed);
        (polls, polls & 1 == 1 && index != self.id().index())
    }

    /// Whether a task waits in the LIFO slot of a worker in a poll, how many were taken from there, and a sum that changes with
    /// polls; `None` if somebody must be seen to, by the one who `holds` the role.
    fn survey(&self, holds: bool, now: Instant) -> Option<(bool, usize, u32)> {
        let late = Instant::from_nanos(now.as_nanos().saturating_sub(GRACE));
        let (mut waits, mut hits, mut sum) = (false, 0_usize, 0_u32);
        for (i, other) in self.executor.in_use().iter().enumerate() {
            let (polls, in_poll) = self.poll_of(i, other);
            // Ordering: as in `sweep`.
            let is_stuck = in_poll && other.shared.swept.load(Ordering::Relaxed) == polls;
            if holds && (is_stuck || other.timed.wheel.is_overdue(late)) {
                return None;
            }
            waits |= in_poll && !other.lifo.is_empty();
            hits = hits.wrapping_add(other.counters.lifo_hits.get());
            sum = sum.wrapping_add(polls);
        }
        Some((waits, hits, sum))
    }

    /// How long the next nap is, as nobody is stuck: short while somebody may be soon, else longer and longer.
    fn next_nap(&self, waits: bool, hits: usize) -> Option<u64> {
        let (shortest, longest) = self.executor.config.sentry()?;
        let (nap, busy) = (&self.slot().local.nap, self.slot().local.hits.get() != hits);
        let longer = nap.get().max(shortest).saturating_mul(2).min(longest);
        Some(match busy {
            // The next push would only wake it.
            true => longer.min(shortest.saturating_mul(LONG)),
            // Nobody has taken what waits there.
            false if waits => shortest,
            false => longer,
        })
    }

    /// Awake again: gives the watch back, after a sweep if nobody claimed this worker for work.
    pub(crate) fn leave_watch(&self, unclaimed: bool) {
        let (executor, nap) = (self.executor, &self.slot().local.nap);
        // Ordering: Acquire, if this worker was the reserve: the one below has left it `swept`.
        let mut watch = executor.sentry.load(Ordering::Acquire);
        while reserve(watch) == self.role() {
            let left = watch & !(HOLDER << RESERVE);
            // Ordering: as above, if it has become the holder meanwhile.
            #[cfg(filch_mutant = "watch_stale")]
            executor.sentry.fetch_and(!(HOLDER << RESERVE), Ordering::Relaxed);
            #[cfg(filch_mutant = "watch_stale")]
            return;
            #[cfg(not(filch_mutant = "watch_stale"))]
            match executor.sentry.compare_exchange(
                watch,
                left,
                Ordering::Relaxed,
                Ordering::Acquire,
            ) {
                Ok(_) => return,
                Err(seen) => watch = seen,
            }
        }
        if holder(watch) != self.role() {
            return;
        }
        let long = self.is_long(nap.get());
        if unclaimed {
            self.sweep(long && watch & DROWSY == 0);
        }
        // Ordering: see `keep_watch`. INV-WATCH: the reserve becomes the holder, in its sleep.
        let kept = u32::from(!cfg!(filch_mutant = "watch_lost"));
        let next = |watch: u32| (holder(watch) == self.role()).then(|| reserve(watch) * kept);
        let update = executor.sentry.fetch_update(Ordering::Release, Ordering::Relaxed, next);
        // If not, a waker in the sweep has slept, and done all this.
        let Ok(watch) = update else { return };
        self.slot().local.marks.set(Mark::WATCHED, reserve(watch) == 0);
        let shaken = long && watch & DROWSY == 0;
        if shaken || !unclaimed {
            nap.set(0);
        }
    }

    /// About to poll after an idle moment: if there is something that only this worker would see to (its timers, I/O that
    /// nobody waits for), and nobody keeps watch, a sleeper is woken to do so. It is once for each nap of that one.
    #[inline]
    pub(crate) fn cover_poll(&self) {
        let executor = self.executor;
        // Ordering: hints, as in `cover_lifo`.
        if executor.lacks_sentry()
            && (self.slot().timed.wheel.is_armed() || executor.platform.is_unwatched())
        {
            executor.wake_one();
        }
    }

    /// The worker kept watch, and now has something else to do: wakes a sleeper to keep it.
    #[cold]
    pub(crate) fn hand_watch_over(&self) {
        if self.executor.lacks_sentry() {
            self.executor.wake_one();
        }
    }

    /// Looks at every other worker once. `early`: not at the end of its sleep, so that who is in the poll of the last sweep may have
    /// just begun what it waits for.
    fn sweep(&self, early: bool) {
        let (executor, slot) = (self.executor, self.slot());
        slot.counters.sweeps.add(1);
        let now = executor.platform.now();
        let late = Instant::from_nanos(now.as_nanos().saturating_sub(GRACE));
        let (mut stuck, mut waits, mut hits) = (false, false, 0_usize);
        for (i, other) in executor.in_use().iter().enumerate() {
            // Also of a worker that is neither in a poll nor asleep, but in a long waker, or stepped by hand.
            let mut helped =
                other.timed.wheel.is_overdue(late) && self.expire(&other.timed.wheel, now);
            if helped && !self.holds_watch() {
                // A waker has slept here, and what follows is another sentry's now (INV-SENTRY).
                return;
            }
            let (polls, in_poll) = self.poll_of(i, other);
            hits = hits.wrapping_add(other.counters.lifo_hits.get());
            // Ordering: `swept` is the sentry's alone.
            if !in_poll || other.shared.swept.swap(polls, Ordering::Relaxed) != polls || early {
                stuck |= helped;
                waits |= in_poll && !other.lifo.is_empty();
                continue;
            }
            helped |= self.rescue(other);
            helped |= self.expire(&other.timed.wheel, now);
            stuck |= helped;
            if helped && !self.holds_watch() {
                return;
            }
            self.report(i as u16, polls, other);
            // It calls user code too.
            if !self.holds_watch() {
                return;
            }
        }
        let nap = self.next_nap(waits, hits).filter(|_| !stuck);
        slot.local.nap.set(nap.unwrap_or(0));
        slot.local.hits.set(hits);
    }

    /// Takes the task that waits behind a long poll; whether there was one.
    pub(super) fn rescue(&self, stuck: &WorkerSlot<RING>) -> bool {
        if !self.executor.config.stealing() {
            return false;
        }
        let Some(ready) = stuck.lifo.take() else { return false };
        self.slot().counters.rescues.add(1);
        // Into the own ring, and another sleeper is told: it becomes the sentry when it finds nothing.
        self.executor.push_ring(self.slot(), ready);
        true
    }

    /// Tells of a poll over the limit, once for each poll.
    fn report(&self, worker: u16, polls: u32, stuck: &WorkerSlot<RING>) {
        let Some(limit) = self.executor.config.poll_limit() else { return };
        let now = self.executor.platform.now().as_nanos();
        let shared = &stuck.shared;
        if shared.watched.load(Ordering::Relaxed) != polls {
            // The first sweep that finds it stuck: from here on the time is known.
            shared.watched.store(polls, Ordering::Relaxed);
            shared.since.set(now);
        }
        let nanos = now.saturating_sub(shared.since.get());
        if nanos >= limit {
            self.report_long(worker, polls, stuck, nanos);
        }
    }

    /// As `report`, of a poll that is known to have lasted for so long; by any worker.
    pub(super) fn report_long(
        &self,
        worker: u16,
        polls: u32,
        stuck: &WorkerSlot<RING>,
        nanos: u64,
    ) {
        let is_over = self.executor.config.poll_limit().is_some_and(|limit| nanos >= limit);
        // Ordering: once for each poll, or twice if two workers find it at the same time.
        if is_over && stuck.shared.reported.swap(polls, Ordering::Relaxed) != polls {
            self.executor.platform.event(Some(self.id()), Event::LongPoll { worker, nanos });
        }
    }
}
