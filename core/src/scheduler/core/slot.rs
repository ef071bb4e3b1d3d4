//! What an executor keeps for each worker.

use core::{
    cell::Cell,
    fmt,
    ptr::{NonNull, null},
};

use super::duties::Duties;
use crate::{
    atomic::{AtomicBool, AtomicU32, AtomicWord, Ordering, maybe_const},
    fork::worker::ForkWorker,
    instant::Instant,
    metrics::Counters,
    parts::{All, Apart, Kept, Parts, Switch, Ticks},
    queue::{inbox::Inbox, ring::Ring},
    scheduler::{
        state::{
            broadcasts::Pending, classes::OwnClasses, lifo::LifoSlot, retiring::Retiring, rng::Rng,
            worker_waker::WorkerWaker,
        },
        upkeep::pace::Pace,
    },
    sleep::{park::ParkWord, spin_limit::SpinLimit},
    task::{executor_ref::Frame, header::Header},
    time::Wheel,
    watchdog::{role::Watcher, scan::Seen},
};

/// No context runs the worker.
pub(crate) const OFFLINE: u32 = 0;
/// A context runs it.
pub(crate) const ONLINE: u32 = 1;
/// A compensation worker is on its way: no other context may take the slot.
pub(crate) const STARTING: u32 = 2;

/// Room for one worker: its queues, its park word, its counters. `RING` tasks fit its ring, a power of two.
///
/// An [`Executor`](crate::Executor) holds an array of them; `WorkerSlot::new` is for executors over slots of one's own
/// ([`Scheduler::over`](crate::Scheduler::over)).
pub struct WorkerSlot<const RING: usize = 256, F: Parts = All> {
    /// An only worker has none: its inbox is its one queue.
    pub(crate) ring: Kept<Ring<RING>, F::Cores>,
    pub(crate) lifo: Apart<LifoSlot<F::Cores>, F::Cores>,
    pub(crate) shared: Apart<Shared<F>, F::Cores>,
    /// The worker's timers. Other workers fire them when it is stuck or offline.
    pub(crate) wheel: Apart<Timed<F>, F::Cores>,
    pub(crate) inbox: Inbox,
    pub(crate) classes: Kept<OwnClasses<RING, F::Cores>, F::Classes>,
    pub(crate) fork: Kept<ForkWorker, F::Forks>,
    pub(crate) counters: Counters<F>,
    pub(crate) local: Local<F>,
}

type Timed<F> = Kept<Wheel<<F as Parts>::Wheels>, <F as Parts>::Timers>;

/// What others write.
pub(crate) struct Shared<F: Parts> {
    pub(crate) park: ParkWord,
    pub(crate) status: AtomicU32,
    pub(crate) broadcast: Kept<Pending, F::Broadcasts>,
    /// It sleeps in a join too deep to help in, as long as others can work.
    pub(crate) awaits_others: AtomicBool,
    /// It is in code that blocks, and its timers are for all others to fire.
    pub(crate) is_blocked_in_place: AtomicBool,
    /// Written once, by the executor's first use of the slot; for the worker's own waker.
    pub(crate) waker: WorkerWaker,
    /// In the first slot of each group of workers but the first: the group's word of the idle bitmap.
    pub(crate) bits: Kept<AtomicWord, F::Cores>,
    /// What others saw of this one.
    pub(crate) seen: Kept<Seen, F::Watchdog>,
    /// Whether the worker is to stay.
    pub(crate) retiring: Kept<Retiring, F::Cores>,
}

/// Drops the worker's handle that this leads to, which is of the type of its executor.
pub(crate) type Leave = unsafe fn(NonNull<()>);

/// INV-LOCAL: only the worker's own context touches this. An interrupt handler on it may set `in_sink`, which it puts back, look at
/// `duties` and `frame` and add to `locals`, and to `duties` a notification, where it finds the flag of INV-USER-CODE set: all else changes
/// only while that is down.
pub(crate) struct Local<F: Parts> {
    pub(crate) rng: Kept<Rng, F::Cores>,
    pub(crate) pace: Kept<Pace, Ticks<F>>,
    pub(crate) spin_limit: Kept<SpinLimit, F::Cores>,
    /// Searches for a task since the worker began.
    pub(crate) find_count: Cell<u32>,
    pub(crate) duties: Duties<F>,
    /// Polls in a row from the LIFO slot.
    pub(crate) streak: Cell<u16>,
    pub(crate) budget: Cell<u32>,
    /// The budget with which each poll begins: the executor's, beside what a poll writes anyway.
    pub(crate) units: Cell<u16>,
    /// So many polls in a row come from the LIFO slot at most; 0: it is not in use. The executor's, and 0 while the worker is blocked in
    /// place.
    pub(crate) lifo_cap: Cell<u16>,
    pub(crate) frame: Cell<*const Frame>,
    /// Loops inside user code of the worker, each in the one before.
    pub(crate) depth: Cell<u32>,
    /// Calls that are at work in this slot (`SlotGuard`).
    pub(crate) calls: Cell<u32>,
    /// It is in an event sink.
    pub(crate) in_sink: Cell<bool>,
    /// Local tasks alive on this worker.
    pub(crate) locals: Cell<usize>,
    pub(crate) watcher: Kept<Watcher, F::Watchdog>,
    /// Whether a worker that is offline has left timers.
    pub(crate) orphans: Cell<bool>,
    /// It is a thread that helps while it waits.
    pub(crate) takes_no_jobs: Cell<bool>,
    /// It is a helper.
    pub(crate) helping: Cell<bool>,
    /// The loop that runs the worker may give its slot up to another thread: one that the platform has started.
    pub(crate) may_hand_over: Cell<bool>,
    /// It is in the closure of a broadcast.
    pub(crate) in_broadcast: Cell<bool>,
    /// Its handle was dropped while a call was at work here: the worker leaves at the end of that, by this function. A pointer: an executor
    /// whose workers never leave has none of its code.
    pub(crate) abandoned: Cell<Option<Leave>>,
    /// It came online beside one other worker, and has not slept since.
    pub(crate) is_second: Cell<bool>,
}

// SAFETY: INV-LOCAL; all else is atomic, or a queue with its own argument.
unsafe impl<const RING: usize, F: Parts> Sync for WorkerSlot<RING, F> {}
// SAFETY: as above; a slot that moves is in use nowhere.
unsafe impl<const RING: usize, F: Parts> Send for WorkerSlot<RING, F> {}

impl<const RING: usize, F: Parts> WorkerSlot<RING, F> {
    maybe_const! {
        /// An idle slot.
        pub fn new() -> Self {
            Self {
                ring: Kept::new(Ring::new()),
                lifo: Apart::new(LifoSlot::new()),
                shared: Apart::new(Shared {
                    park: ParkWord::new(),
                    status: AtomicU32::new(OFFLINE),
                    broadcast: Kept::new(Pending::new()),
                    awaits_others: AtomicBool::new(false),
                    is_blocked_in_place: AtomicBool::new(false),
                    waker: WorkerWaker::new(),
                    bits: Kept::new(AtomicWord::new(0)),
                    seen: Kept::new(Seen::new()),
                    retiring: Kept::new(Retiring::new()),
                }),
                wheel: Apart::new(Kept::new(Wheel::new())),
                inbox: Inbox::new(),
                classes: Kept::new(OwnClasses::new()),
                fork: Kept::new(ForkWorker::new()),
                counters: Counters::new(),
                local: Local::new(),
            }
        }
    }

    /// Whether a call is at work in this slot, or a fork that has not ended relies on it. For the worker itself.
    pub(crate) fn has_active_call(&self) -> bool {
        self.local.calls.get() > 0 || self.fork.get().is_some_and(ForkWorker::is_in_use)
    }

    /// Whether user code is on the worker's stack: in a poll, a nested loop, a fork-join run, a broadcast. For the worker itself.
    pub(crate) fn has_user_frames(&self) -> bool {
        !self.local.frame.get().is_null()
            || self.local.depth.get() > 0
            || self.local.in_broadcast.get()
            || self.fork.get().is_some_and(ForkWorker::is_in_use)
    }

    /// Calls code that has no task's class, though the worker may be in a poll: a stolen job, a waker, a broadcast.
    ///
    /// The caller is the worker.
    pub(crate) fn without_task<R>(&self, f: impl FnOnce() -> R) -> R {
        let below = self.local.frame.get();
        let frame = Frame::empty(below);
        let set = |frame| {
            // INV-LOCAL: a frame changes while the flag is clear.
            let was = self.lifo.replace_in_user_code(false);
            self.local.frame.set(frame);
            self.lifo.set_in_user_code(was);
        };
        let is_apart = F::Classes::ON && !below.is_null();
        if is_apart {
            set(&raw const frame);
        }
        let outcome = f();
        if is_apart {
            set(frame.end(&self.local.frame));
        }
        outcome
    }

    /// The task that the worker polls, for user code of that poll. The scheduler's own code, and an event sink in the midst of it, are in
    /// no task: the poll of the innermost frame may be over, and its task gone.
    ///
    /// # Safety
    /// The caller is in the worker's context.
    pub(crate) unsafe fn polled(&self) -> Option<&Header> {
        if !self.lifo.is_in_user_code() || self.local.in_sink.get() {
            return None;
        }
        // SAFETY: INV-LOCAL; INV-FRAME. A poll holds a reference to its task.
        unsafe { Some(self.local.frame.get().as_ref()?.task()?.as_ref()) }
    }

    /// Whether its wheel holds a timer.
    #[inline(always)]
    pub(crate) fn has_timers(&self) -> bool {
        self.wheel.get().is_some_and(Wheel::is_armed)
    }

    /// When its next timer is due.
    pub(crate) fn next_timer(&self, tick: u32) -> Option<Instant> {
        self.wheel.get()?.next(tick)
    }

    /// All of its jobs are there for others to steal.
    pub(crate) fn publish_jobs(&self) {
        if let Some(fork) = self.fork.get() {
            fork.publish_all();
        }
    }

    /// Foreign work begins or ends on top of its run.
    pub(crate) fn foreign_work(&self, on: bool) {
        if let Some(fork) = self.fork.get() {
            fork.foreign_work(on);
        }
    }

    /// Whether one of its timers was due by then.
    pub(crate) fn is_overdue(&self, by: Instant) -> bool {
        self.wheel.get().is_some_and(|wheel| wheel.is_overdue(by))
    }

    /// Whether tasks may wait for the worker that it alone can take: it is in a poll, or was stepped by hand and has a task in its LIFO
    /// slot.
    pub(crate) fn may_keep_tasks(&self) -> bool {
        self.lifo.is_in_poll() || !self.lifo.is_empty()
    }

    /// Whether others fire its timers: it is offline, or in code that blocks.
    pub(crate) fn has_timers_for_all(&self) -> bool {
        // Ordering: as `is_online`; before its own sleep, a worker has put the fence in `Idle::announce`, which pairs with the one in
        // `InPlace::begin`.
        !self.is_online() || self.is_blocked_in_place()
    }

    /// Whether others have the whole duty of the worker meanwhile, as it blocks in place.
    pub(crate) fn is_blocked_in_place(&self) -> bool {
        // Ordering: see `has_timers_for_all`; or the worker's own.
        F::Waits::ON && self.shared.is_blocked_in_place.load(Ordering::Relaxed)
    }

    /// Whether a context runs the worker.
    pub(crate) fn is_online(&self) -> bool {
        self.shared.status.load(Ordering::Relaxed) == ONLINE
    }
}

/// The slots of an executor's workers: an array, or a box or a vector whose length is known at run time.
///
/// # Safety
/// `slots` always gives the same slice, and no other code has access to it.
pub unsafe trait Slots<const RING: usize>: Send + Sync + 'static {
    /// What the executor has.
    type Parts: Parts;

    /// The slots.
    fn slots(&self) -> &[WorkerSlot<RING, Self::Parts>];
}

// SAFETY: the array owns its slots, and cannot change under a shared reference.
unsafe impl<const RING: usize, F: Parts, const N: usize> Slots<RING> for [WorkerSlot<RING, F>; N] {
    type Parts = F;

    #[inline(always)]
    fn slots(&self) -> &[WorkerSlot<RING, F>] {
        self
    }
}

// SAFETY: as above.
#[cfg(any(feature = "alloc", all(test, filch_loom)))]
unsafe impl<const RING: usize, F: Parts> Slots<RING> for alloc::boxed::Box<[WorkerSlot<RING, F>]> {
    type Parts = F;

    #[inline(always)]
    fn slots(&self) -> &[WorkerSlot<RING, F>] {
        self
    }
}

impl<const RING: usize, F: Parts> Default for WorkerSlot<RING, F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const RING: usize, F: Parts> fmt::Debug for WorkerSlot<RING, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerSlot")
            .field("online", &self.is_online())
            .field("ring", &self.ring.get())
            .finish_non_exhaustive()
    }
}

impl<F: Parts> Local<F> {
    const fn new() -> Self {
        Self {
            rng: Kept::new(Rng::new()),
            pace: Kept::new(Pace::new()),
            spin_limit: Kept::new(SpinLimit::new()),
            find_count: Cell::new(0),
            duties: Duties::new(),
            streak: Cell::new(0),
            budget: Cell::new(0),
            units: Cell::new(0),
            lifo_cap: Cell::new(0),
            frame: Cell::new(null()),
            depth: Cell::new(0),
            calls: Cell::new(0),
            in_sink: Cell::new(false),
            locals: Cell::new(0),
            watcher: Kept::new(Watcher::new()),
            orphans: Cell::new(false),
            takes_no_jobs: Cell::new(false),
            helping: Cell::new(false),
            may_hand_over: Cell::new(false),
            in_broadcast: Cell::new(false),
            abandoned: Cell::new(None),
            is_second: Cell::new(false),
        }
    }
}
