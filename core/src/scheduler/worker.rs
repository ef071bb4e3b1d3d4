//! A worker: one pass of its loop, its sleep, its end.

use core::{fmt, marker::PhantomData, mem::ManuallyDrop};

use super::{
    executor::Scheduler,
    help::Nested,
    marks::Mark,
    slot::{Slots, WorkerSlot},
};
use crate::{
    instant::Instant,
    platform::{Platform, WorkerId},
    queue::chain::Chain,
    task::{
        coop::BUDGET,
        header::Ready,
        run::{self, Polled},
        schedule::Frame,
    },
    trace::Event,
};

/// In nanoseconds: how long a worker that has just come online sleeps, at most.
const FIRST: u64 = 1_000_000;

/// What one pass of the loop did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// It polled a task, ran a piece of another worker's fork-join run, or had its part in a broadcast.
    Polled,
    /// There was nothing to do.
    Idle,
    /// The executor has shut down; there will be nothing to do.
    Stopped,
}

/// The calling context as a worker of an executor, to be stepped by hand. See [`Scheduler::worker`].
///
/// Dropping it takes the worker offline: queued tasks go to the others; local tasks are cancelled; pinned ones wait for
/// the worker to come back. Dropped while the executor is at work in its slot (in the closure of a
/// [`help_until`](Scheduler::help_until), of a broadcast or of a fork-join run, or by a task that a
/// [`join`](crate::JoinHandle::join) polls), it goes offline at the end of that.
///
/// It is neither `Send` nor `Sync`: it *is* the context that it was made in.
pub struct Worker<P: Platform, S, const RING: usize = 256>
where
    S: Slots<RING>,
{
    pub(crate) executor: &'static Scheduler<P, S, RING>,
    slot: &'static WorkerSlot<RING>,
    id: WorkerId,
    not_send: PhantomData<*mut ()>,
}

impl<P: Platform, S, const RING: usize> Worker<P, S, RING>
where
    S: Slots<RING>,
{
    pub(crate) fn new(executor: &'static Scheduler<P, S, RING>, id: WorkerId) -> Self {
        // SAFETY: `attach` has checked that there is such a slot.
        let slot = unsafe { executor.slots().get_unchecked(id.index()) };
        Self { executor, slot, id, not_send: PhantomData }
    }

    /// As `new`, for a look in the midst of something: dropped, it leaves the worker where it is.
    pub(crate) fn of(executor: &'static Scheduler<P, S, RING>, id: WorkerId) -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self::new(executor, id))
    }

    /// Which worker this is.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    #[inline(always)]
    pub(crate) fn slot(&self) -> &'static WorkerSlot<RING> {
        self.slot
    }

    /// One pass of the loop: finds one task and polls it. Never blocks.
    #[inline]
    pub fn step(&self) -> Step {
        let _nested = self.nest();
        let mut step = self.pass();
        if step == Step::Idle && self.deliver() > 0 {
            step = self.pass();
        }
        if step != Step::Polled {
            // Nobody knows when the next step comes: others must not rely on this worker's search.
            self.rest();
        }
        step
    }

    /// As `step`, for loops that go on at once: a worker that found nothing may go on searching.
    #[inline]
    pub(crate) fn pass(&self) -> Step {
        let marks = &self.slot().local.marks;
        if marks.any(Mark::ANNOUNCED.or(Mark::SLEPT)) {
            self.after_sleep();
        }
        let found = self.find().or_else(|| self.fire_timers().then(|| self.find()).flatten());
        match found {
            Some(ready) => {
                if marks.any(Mark::SEARCHING.or(Mark::WATCHED).or(Mark::GATHERED)) {
                    self.rest();
                }
                self.poll(ready);
                Step::Polled
            }
            None if self.answer_call() || self.run_job() => Step::Polled,
            None => {
                self.end_stretch();
                if self.executor.settle() { Step::Stopped } else { Step::Idle }
            }
        }
    }

    /// What came while the worker slept is there for it alone to see to.
    #[cold]
    fn after_sleep(&self) {
        self.end_park();
        if self.slot().local.marks.replace(Mark::SLEPT, false) {
            if !self.slot().local.heard.replace(false) {
                self.deliver();
            }
            self.fire_timers();
            // Another tick begins. A pass that finds nothing ends none: a worker that polls one task in each would never hear of I/O.
            self.end_stretch();
            self.slot().local.in_tick.set(0);
        }
    }

    /// In a poll of this very worker, the loop is a nested one.
    fn nest(&self) -> Option<Nested<P, S, RING>> {
        let local = &self.slot().local;
        (!local.frame.get().is_null() && self.slot().lifo.is_accepting())
            .then(|| Nested::enter(self.executor, self.id, self.slot()))
    }

    /// At most `polls` polls, fewer if there is nothing to do; how many there were. Never blocks.
    pub fn run_for(&self, polls: usize) -> usize {
        (0..polls).take_while(|_| self.step() == Step::Polled).count()
    }

    /// Works until the executor has shut down, or this worker is a stand-in that is no longer needed.
    pub fn run(self) {
        let (most, patience) = (self.executor.config.spin_rounds(), &self.slot().local.patience);
        let mut round = 0;
        loop {
            match self.pass() {
                Step::Polled => round = 0,
                Step::Stopped => return,
                Step::Idle if self.is_surplus() => return,
                // Progressive idle: look again a few times before the sleep.
                Step::Idle if patience.lasts(round, most) => {
                    self.executor.platform.relax(round);
                    round += 1;
                }
                Step::Idle => {
                    self.sleep(most);
                    round = 0;
                }
            }
        }
    }

    /// As `park`, and learns from how long it took.
    fn sleep(&self, most: u32) {
        if most == 0 {
            return self.park();
        }
        let begin = self.executor.platform.now();
        self.park();
        if self.slot().local.marks.any(Mark::SLEPT) {
            let now = self.executor.platform.now();
            let nanos = now.nanos_since(begin);
            let patience = &self.slot().local.patience;
            if self.slot().local.marks.any(Mark::SEARCHING)
                || self.slot().timed.wheel.is_overdue(now)
            {
                patience.record(nanos, most);
            } else {
                // What ends by I/O would not have been found by looks at queues and timers, however many.
                patience.lose(most);
            }
        }
    }

    /// Sleeps until there may be something to do. Returns at once if there is.
    pub fn park(&self) {
        let _nested = self.nest();
        if let Some(deadline) = self.begin_park() {
            self.listen(deadline);
            self.slot().local.heard.set(false);
            self.slot().local.marks.set(Mark::SLEPT, true);
            self.end_park();
        } else {
            // There is work, perhaps in the hands of somebody who was interrupted in the midst of taking it.
            self.executor.platform.relax(u32::MAX);
        }
    }

    /// Sleeps until notified, until `deadline`, or for no reason, and perhaps hears of I/O, which [`deliver`](Self::deliver) must
    /// follow for. Another worker may rely on this one to hear of I/O.
    pub(crate) fn listen(&self, deadline: Option<Instant>) {
        let (platform, me) = (&self.executor.platform, self.id);
        // SAFETY: we are the worker, and have entered.
        let listen = |word: &_, parked| unsafe { platform.listen(me, word, parked, deadline) };
        self.slot().shared.park.park(listen);
    }

    /// As `listen`, in the midst of user code: it hears of nothing but its own wake-up.
    pub(crate) fn wait(&self) {
        let (platform, me) = (&self.executor.platform, self.id);
        // SAFETY: as above.
        self.slot()
            .shared
            .park
            .park(|word, parked| unsafe { platform.wait(me, word, parked, None) });
    }

    /// The first half of [`park`](Self::park), for simulations: announces that the worker sleeps, and looks once more for
    /// work. `None` if there was some; else the sleep's deadline, and [`end_park`](Self::end_park) should follow. Until
    /// then the worker counts as asleep.
    pub fn begin_park(&self) -> Option<Option<Instant>> {
        let (executor, local) = (self.executor, &self.slot().local);
        self.end_park();
        self.end_stretch();
        executor.publish_all(&self.slot().bay);
        local.marks.set(Mark::ANNOUNCED, true);
        let look =
            executor.idle.announce(executor, self.id, local.marks.replace(Mark::SEARCHING, false));
        let found = look && executor.has_work(self.id);
        if found || self.must_stay() {
            self.wake_up();
            let search_on = found && !cfg!(filch_mutant = "idle_lapse");
            if search_on && !local.marks.replace(Mark::SEARCHING, true) {
                // Its pusher may have relied on this worker's search: should it turn to a task of its own, `rest` looks again.
                executor.idle.search_on();
            }
            return None;
        }
        executor.ask_all();
        self.slot().counters.parks.add(1);
        executor.platform.event(Some(self.id), Event::Park);
        let limit = |nanos| executor.platform.now().after_nanos(nanos);
        let ends = [self.begin_watch(), self.longest_sleep().map(limit), self.next_deadline()];
        Some(ends.into_iter().flatten().min())
    }

    /// The first sleep beside one that took itself for the only worker until now, and is awake, is short: `Scheduler::has_company`.
    fn longest_sleep(&self) -> Option<u64> {
        let executor = self.executor;
        let limit = executor.config.park_timeout();
        let is_first = self.slot().local.is_second.replace(false);
        if is_first && executor.config.has_watchdog() && executor.is_anybody_awake() {
            return Some(limit.map_or(FIRST, |limit| limit.min(FIRST)));
        }
        limit
    }

    /// The second half of [`park`](Self::park): the worker is awake. Nothing happens if it did not sleep.
    #[inline(always)]
    pub fn end_park(&self) {
        if self.slot().local.marks.any(Mark::ANNOUNCED) {
            self.stand_up();
        }
    }

    #[cold]
    fn stand_up(&self) {
        self.executor.platform.event(Some(self.id), Event::Unpark);
        let unclaimed = self.wake_up();
        if !self.end_watch() {
            return;
        }
        if self.slot().local.marks.any(Mark::SLEPT) {
            // A scan calls wakers of others, and may take long: what this worker has heard of comes first.
            self.deliver();
            self.slot().local.heard.set(true);
        }
        if unclaimed {
            self.scan_if_due();
        }
    }

    /// Takes the announcement back; false if the worker has been claimed, and so searches.
    fn wake_up(&self) -> bool {
        let unclaimed = self.executor.idle.retract(self.executor, self.id);
        self.slot().local.marks.set(Mark::ANNOUNCED, false);
        self.slot().local.marks.set(Mark::SEARCHING, !unclaimed);
        unclaimed
    }

    /// Reasons of this worker's own not to sleep.
    fn must_stay(&self) -> bool {
        // SAFETY: we are the worker.
        let mail = unsafe { !self.slot().inbox.is_empty() };
        mail || self.executor.gate.is_stopped()
            || !self.slot().lifo.is_empty()
            || !self.slot().ring.is_empty()
    }

    /// Gives up what others rely on before the worker runs something: passes on the search and the watch, and sends the
    /// notification that it owes.
    #[inline(never)]
    pub(crate) fn rest(&self) {
        let marks = &self.slot().local.marks;
        self.step_back();
        if marks.any(Mark::GATHERED) {
            self.executor.tell_gathered(self.slot());
        }
    }

    /// Before user code, and before a sleep in the midst of it: others must rely neither on this worker's search nor on its watch.
    #[inline]
    pub(crate) fn step_back(&self) {
        let (lifo, marks) = (&self.slot().lifo, &self.slot().local.marks);
        if !marks.any(Mark::SEARCHING.or(Mark::WATCHED)) {
            return;
        }
        // INV-ACCEPTING: marks change only while it is down.
        let was = lifo.replace_accept(false);
        if marks.replace(Mark::SEARCHING, false) {
            self.stop_searching();
        }
        if marks.replace(Mark::WATCHED, false) {
            self.hand_watch_over();
        }
        lifo.accept(was);
    }

    #[cold]
    fn stop_searching(&self) {
        let executor = self.executor;
        if executor.idle.stop_searching()
            && (executor.has_work(self.id) || !self.slot().ring.is_empty())
        {
            executor.notify();
        }
    }

    #[inline]
    pub(crate) fn poll(&self, ready: Ready) {
        let (executor, slot) = (self.executor, self.slot());
        let local = &slot.local;
        let task = ready.as_ptr();
        let frame = Frame { task, below: local.frame.get() };
        local.frame.set(&frame);
        local.budget.set(BUDGET);
        if local.marks.any(Mark::FRESH) {
            self.begin_stretch();
        }
        local.in_tick.set(local.in_tick.get() + 1);
        slot.counters.polls.add(1);
        slot.lifo.count_poll();
        executor.platform.event(Some(self.id), Event::PollStart(task.as_ptr().addr()));

        slot.lifo.accept(true);
        let polled = run::poll(ready, |f| executor.platform.guard(f));
        slot.lifo.accept(false);

        executor.platform.event(Some(self.id), Event::PollEnd(task.as_ptr().addr()));
        slot.lifo.count_poll();
        local.frame.set(frame.below);
        match polled {
            Polled::Again(ready) if ready.pin().is_some() => slot.inbox.push(ready),
            Polled::Again(ready) => executor.push_ring(slot, ready),
            Polled::Idle => {}
            over => self.count_completion(matches!(over, Polled::CompleteLocal)),
        }
    }

    /// The first poll after an idle moment or a tick.
    #[cold]
    fn begin_stretch(&self) {
        self.cover_poll();
        let local = &self.slot().local;
        let now = self.executor.platform.now().as_nanos();
        local.marks.set(Mark::FRESH, false);
        local.rested.set(false);
        local.stretch.set((now, local.in_tick.get()));
    }

    fn count_completion(&self, is_local: bool) {
        let slot = self.slot();
        if is_local {
            slot.local.locals.set(slot.local.locals.get() - 1);
        }
        slot.counters.completed.add(1);
    }

    /// Ends a local task of a worker that goes offline.
    pub(crate) fn end(&self, ready: Ready) {
        match run::cancel(ready, |f| self.executor.platform.guard(f)) {
            Polled::Complete | Polled::CompleteLocal | Polled::Idle => self.count_completion(true),
            Polled::Again(ready) => self.slot().inbox.push(ready),
        }
    }

    /// After `TICK` polls: count the time, answer a broadcast, deliver I/O, see to the timers.
    #[cold]
    pub(crate) fn end_tick(&self) {
        self.end_stretch();
        self.slot().local.in_tick.set(0);
        // A worker that is never idle sees here that a shutdown has missed a task, which was about to begin.
        let _ = self.executor.settle();
        self.answer_call();
        self.deliver();
        self.fire_timers();
        self.look_at_next();
    }

    /// Delivers what I/O is ready; how much.
    pub(crate) fn deliver(&self) -> usize {
        let mut events = 0;
        // SAFETY: we are the worker.
        self.on_behalf(&mut || events += unsafe { self.executor.platform.poll_io(self.id) });
        events
    }

    /// Ends the stretch of polls under way: its time goes to the pace and to the metrics, search time does not.
    pub(crate) fn end_stretch(&self) {
        let (slot, local) = (self.slot(), &self.slot().local);
        if !local.marks.replace(Mark::FRESH, true) {
            let (begin, first) = local.stretch.get();
            let nanos = self.executor.platform.now().as_nanos().saturating_sub(begin);
            local.pace.record(nanos, local.in_tick.get().saturating_sub(first));
            let nanos = nanos.saturating_add(local.busy_rest.get());
            slot.counters.busy.add((nanos / 1_000) as usize);
            local.busy_rest.set(nanos % 1_000);
        }
    }

    /// What is queued here goes to the others, who hear of it. With the mark of INV-ACCEPTING down.
    pub(crate) fn give_away(&self) {
        let slot = self.slot();
        debug_assert!(!slot.lifo.is_accepting(), "INV-ACCEPTING");
        let mut chain = Chain::new();
        if let Some(ready) = slot.lifo.take() {
            chain.push_back(ready);
        }
        // SAFETY: INV-RING-OWNER: we are the worker.
        while let Some(ready) = unsafe { slot.ring.pop() } {
            chain.push_back(ready);
        }
        if !chain.is_empty() {
            self.executor.injector.push_chain(chain);
            self.executor.notify();
        }
    }
}

impl<P: Platform, S, const RING: usize> fmt::Debug for Worker<P, S, RING>
where
    S: Slots<RING>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("id", &self.id).finish_non_exhaustive()
    }
}
