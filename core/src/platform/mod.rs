//! The platform: everything that the core asks of the machine.

#[cfg(any(feature = "log", feature = "defmt"))]
mod log;
mod panic;
mod reactor;
#[cfg_attr(not(feature = "classes"), allow(unreachable_pub, dead_code, reason = "no task has one"))]
mod set;
pub(crate) mod ward;
pub(crate) mod worker;

use core::{cell::Cell, ptr::NonNull};

pub use panic::{Panic, PanicVtable};
pub use reactor::Reactor;
#[cfg_attr(not(feature = "classes"), allow(unreachable_pub, reason = "as above"))]
pub use set::WorkerSet;
pub use worker::{StartError, WorkerEntry, WorkerId};

use crate::{atomic::AtomicU32, instant::Instant, trace::Event};

/// What the code in the calling context may do: see [`Platform::context`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Context {
    /// It may wait for other contexts.
    Thread,
    /// It is an interrupt or signal handler, and must not wait: the code that it has interrupted may be what it would wait
    /// for.
    Handler,
    /// It is in a forked child, whose workers are threads of the parent. It must not wait, since none of them would end the
    /// wait. Spawns are refused, and timers are left alone: a thread that the child has not got may have been in the midst
    /// of changing them.
    Forked,
}

/// The machine under an executor: its clock, the current worker, waiting and waking, and what else it can do.
///
/// Everything in which a wake-up could be lost stays in the core, where a model checker sees it. The core owns the park
/// words; a platform only waits and wakes on them, like a futex.
///
/// A port consists of the four methods without a default. Each of the others serves one kind of platform: with I/O, with
/// threads, with panics that unwind, with processes that fork, with a trace. [`block`](Self::block) and
/// [`unblock`](Self::unblock) are methods of their own, and not [`wait`](Self::wait) and [`wake`](Self::wake) without a
/// worker: so a port without other threads need not write them.
///
/// Methods that a worker may only call for itself are `unsafe`, because
/// [`Scheduler::platform`](crate::Scheduler::platform) gives the platform to any caller. Their implementation may rely
/// on the contract.
///
/// | method | called from | may block |
/// |---|---|---|
/// | [`now`](Self::now), [`current_worker`](Self::current_worker), [`context`](Self::context), [`reactor`](Self::reactor), [`event`](Self::event) | any context | no |
/// | [`set_worker`](Self::set_worker) | the context that becomes a worker, or was one | no |
/// | [`wait`](Self::wait) | the worker itself | yes |
/// | [`Reactor::listen`] | one worker at a time, between two passes of its loop | yes |
/// | [`Reactor::deliver`] | the worker itself | no |
/// | [`wake`](Self::wake), [`Reactor::interrupt`], [`unblock`](Self::unblock) | any context | no |
/// | [`relax`](Self::relax) | a worker, or a thread that waits | no |
/// | [`guard`](Self::guard) | any context | as its closure |
/// | [`start`](Self::start) | workers and threads | yes |
/// | [`budget`](Self::budget) | threads that are no workers | no |
/// | [`block`](Self::block) | threads that are no workers | yes |
///
/// # Safety
///
/// The executor's memory safety rests on these promises of an implementation:
///
/// - **Identity.** [`current_worker`](Self::current_worker) returns `Some(w)` in at most one context (thread, core) at
///   a time, the only one that may be `w`, whether that one has entered or not. A context that
///   [`set_worker`](Self::set_worker) makes `w` may be `w` until `set_worker` ends that. An interrupt or signal handler on
///   that context may get `Some(w)` or `None`.
/// - **Guard.** [`guard`](Self::guard) calls its closure exactly once, on this thread, before it returns. Where panics
///   unwind it must contain them and return `Err`: a panic that leaves a poll ends the program.
/// - **Start.** [`start`](Self::start) has a context that is no worker of this executor run the entry, or drops it.
/// - **Budget.** [`budget`](Self::budget) returns a cell that belongs to the calling thread and lives as long as it.
/// - **Return.** No method unwinds, but for [`Reactor::deliver`] with a waker's panic. Any other unwinding ends the
///   program. The core calls `guard` around all user code.
///
/// For liveness (no lost wake-up):
///
/// - **Sticky wake.** [`wait`](Self::wait) and [`listen`](Reactor::listen) do not block if `*word != expected`. The check
///   is atomic against [`wake`](Self::wake) and [`interrupt`](Reactor::interrupt): after a change of the word, `wake`
///   always ends a `wait` that saw the old value, and `interrupt` a `listen`. Both sleeps may return spuriously, and
///   return at `deadline`.
/// - **Wake from anywhere.** `wake` and `interrupt` are idempotent, and callable from thread, interrupt and foreign
///   contexts. Several wakes before the worker runs again may be one interrupt.
/// - **Monotonic.** [`now`](Self::now) never goes back, as seen by one thread.
///
/// ```
/// use core::{cell::Cell, ptr::NonNull, sync::atomic::Ordering, time::Duration};
/// use std::{sync::{Condvar, LazyLock, Mutex}, thread};
/// use filch::{
///     Context, Executor, Instant, Platform, StartError, TaskPool, WorkerEntry, WorkerId, atomic::AtomicU32,
/// };
///
/// /// Workers are threads, which sleep on one condition variable.
/// struct Threads {
///     lock: Mutex<()>,
///     news: Condvar,
/// }
///
/// static BEGIN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
/// thread_local! {
///     static WORKER: Cell<Option<WorkerId>> = const { Cell::new(None) };
///     static HANDLER: Cell<bool> = const { Cell::new(false) };
///     static BUDGET: Cell<u32> = const { Cell::new(u32::MAX) };
/// }
///
/// // SAFETY: a thread is the worker that it was made. A sleep checks the word under the lock that each wake takes.
/// unsafe impl Platform for Threads {
///     fn now(&self) -> Instant {
///         Instant::ZERO + BEGIN.elapsed()
///     }
///     fn current_worker(&self) -> Option<WorkerId> {
///         WORKER.get()
///     }
///     unsafe fn wait(&self, _: WorkerId, word: &AtomicU32, old: u32, end: Option<Instant>) {
///         self.block(word, old, end);
///     }
///     fn wake(&self, _: WorkerId, word: &AtomicU32) {
///         self.unblock(word);
///     }
///
///     // Workers are threads that this starts.
///     unsafe fn set_worker(&self, worker: Option<WorkerId>) {
///         WORKER.set(worker);
///     }
///     fn start(&self, entry: WorkerEntry) -> Result<(), StartError> {
///         let thread = thread::Builder::new().name(format!("{:?}", entry.worker()));
///         let started = thread.spawn(|| entry.run());
///         started.map(drop).map_err(|error| StartError::Refused(error.raw_os_error().unwrap_or(0)))
///     }
///     fn relax(&self, round: u32) {
///         if round < 6 { core::hint::spin_loop() } else { thread::yield_now() }
///     }
///
///     // Other threads wait for tasks.
///     fn block(&self, word: &AtomicU32, old: u32, end: Option<Instant>) {
///         let guard = self.lock.lock().unwrap();
///         if word.load(Ordering::Acquire) == old {
///             let time = end.map_or(Duration::from_secs(1), |end| end - self.now());
///             drop(self.news.wait_timeout(guard, time));
///         }
///     }
///     fn unblock(&self, _: &AtomicU32) {
///         drop(self.lock.lock());
///         self.news.notify_all();
///     }
///
///     // What else a platform can say.
///     fn context(&self) -> Context {
///         if HANDLER.get() { Context::Handler } else { Context::Thread }
///     }
///     fn distance(&self, from: WorkerId, to: WorkerId) -> u32 {
///         // Eight cores share a cache.
///         u32::from(from.index() / 8 != to.index() / 8)
///     }
///     fn budget(&self) -> Option<NonNull<Cell<u32>>> {
///         Some(BUDGET.with(|budget| NonNull::from(budget)))
///     }
/// }
///
/// static EXECUTOR: Executor<Threads, 2> = Executor::new(Threads { lock: Mutex::new(()), news: Condvar::new() });
/// static TASKS: TaskPool<256, 8> = TaskPool::new();
/// EXECUTOR.start(WorkerId::new(0))?;
/// EXECUTOR.start(WorkerId::new(1))?;
/// assert_eq!(EXECUTOR.spawn(&TASKS, async { 6 * 7 })?.join()?, 42);
/// EXECUTOR.shutdown(Instant::MAX, |_| {})?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub unsafe trait Platform: Sync + 'static {
    /// Monotonic time. Called about once in 128 polls and around each park.
    fn now(&self) -> Instant;

    /// The worker of this executor that runs in the calling context, if there is one. Called on each wake and spawn,
    /// and at the end of each task in a `Heap`.
    fn current_worker(&self) -> Option<WorkerId>;

    /// What the code in the calling context may do. Unless it is a [`Thread`](Context::Thread), the core refuses joins,
    /// fork-join runs and broadcasts, to run a worker, and to wait for the end of an executor, each with its error. A
    /// platform that cannot tell a handler says `Thread` there, and handlers then must not call these.
    ///
    /// What a [`Handler`](Context::Handler) wakes in the midst of a poll does not wait for the end of that: it goes to the
    /// injector, and a sleeping worker is woken. Where there is no other worker it goes to the LIFO slot, or to the injector
    /// if that is taken.
    ///
    /// Every spawn asks, and every wake in a poll: the answer should cost a load or two.
    #[inline]
    fn context(&self) -> Context {
        Context::Thread
    }

    /// How far a worker is from another: 0, the default, for workers that share a cache, more for those in other clusters, on other
    /// sockets or nodes. A worker that looks for tasks of others looks at the nearest first. Only comparisons count. Called in searches;
    /// it should cost a load or two.
    #[inline]
    fn distance(&self, from: WorkerId, to: WorkerId) -> u32 {
        let _ = (from, to);
        0
    }

    /// The budget of a future that the calling thread polls without being a worker, in a `block_on` of the platform.
    /// The platform sets the number to [`Spawner::poll_budget`](crate::Spawner::poll_budget) before each poll and to `u32::MAX` after it;
    /// operations count it down. The default is `None`: no limit.
    fn budget(&self) -> Option<NonNull<Cell<u32>>> {
        None
    }

    /// A word of the calling context, a thread-local or one of the CPU, in which the core notes a poll that goes on there after its worker
    /// has passed to another context ([`Scheduler::block_in_place`](crate::Scheduler::block_in_place)): such a poll may still spawn while
    /// the executor drains, and knows its task. Null at first, and the core alone writes it. It belongs to the context, as the budget does.
    /// With `None`, the default, a poll stays on its worker.
    #[doc(hidden)]
    fn left_poll(&self) -> Option<NonNull<Cell<*const ()>>> {
        None
    }

    /// The calling context becomes this worker; with `None` it stops being the worker that it has become: set the
    /// thread-local, or the per-CPU register. Nothing needs to be done if the context identifies itself (by a hart id). A
    /// context is one worker of an executor at a time. It may be workers of several executors, and leave them in any order.
    ///
    /// # Safety
    /// Called by the core only. With `Some(worker)`: no other context is `worker`, nor becomes it before this one stops
    /// being it. With `None`: the calling context has become a worker of this executor, and has not stopped being it.
    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        let _ = worker;
    }

    /// Sleeps while `*word == expected`, until [`wake`](Self::wake) or `deadline`. It may return earlier for no reason.
    ///
    /// # Safety
    /// The calling context is `worker`, and has entered.
    unsafe fn wait(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    );

    /// Ends the [`wait`](Self::wait) of `worker`, whose `word` has changed. A wait of the calling core's own worker needs nothing more:
    /// an interrupt handler that calls this has ended the core's sleep. A worker that another loop drives
    /// ([`Worker::begin_park`](crate::Worker::begin_park)) does: its loop is to step it, whichever core calls.
    fn wake(&self, worker: WorkerId, word: &AtomicU32);

    /// The reactor, in which one worker at a time [`listens`](Reactor::listen). The default is `None`: workers only
    /// [`wait`](Self::wait), and no code for I/O is linked. The answer never changes.
    #[inline(always)]
    fn reactor(&self) -> Option<&dyn Reactor> {
        None
    }

    /// Starts a context that calls `entry.run()`. The default refuses; then cores enter `run` by themselves.
    fn start(&self, entry: WorkerEntry) -> Result<(), StartError> {
        let _ = entry;
        Err(StartError::Unsupported)
    }

    /// Runs `poll`, and contains a panic if the platform unwinds. The default is for platforms whose panics abort. If a
    /// panic does unwind, it passes the default, and the core then ends the program with a second panic that says so.
    fn guard(&self, poll: &mut dyn FnMut()) -> Result<(), Panic> {
        poll();
        Ok(())
    }

    /// Called after the `round`th unsuccessful search for work: a spin hint in rounds 0 to 5, an OS yield in later ones.
    fn relax(&self, round: u32) {
        let _ = round;
        core::hint::spin_loop();
    }

    /// Sleeps as [`wait`](Self::wait) does, in a thread that is no worker. The default spins.
    fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        // Ordering: Acquire pairs with the Release of the caller of `unblock`, which changes the word before.
        while word.load(crate::atomic::Ordering::Acquire) == expected
            && deadline.is_none_or(|end| self.now() < end)
        {
            self.relax(u32::MAX);
        }
    }

    /// Ends every [`block`](Self::block) on `word`, which has changed.
    fn unblock(&self, word: &AtomicU32) {
        let _ = word;
    }

    /// The worker, which is the caller, works in a wait of user code, which may be in the context of another executor: tasks and jobs of
    /// this one run there until [`unnest`](Self::unnest), with what this returns. Such calls pair like brackets.
    #[doc(hidden)]
    #[inline(always)]
    fn nest(&self) -> *const () {
        core::ptr::null()
    }

    /// The calling context stops being this worker next, in the midst of a poll that goes on there: it stays in the context of this
    /// executor until [`unnest`](Self::unnest), with what this returns.
    #[doc(hidden)]
    fn stay(&self) -> *const () {
        core::ptr::null()
    }

    /// The end of the last [`nest`](Self::nest), or of a [`stay`](Self::stay).
    #[doc(hidden)]
    #[inline(always)]
    fn unnest(&self, before: *const ()) {
        let _ = before;
    }

    /// What this worker, the caller, is to run at once although it waits for a fork-join job: a broadcast of the platform's own. Then
    /// [`wake`](Self::wake) ends the wait. The function must not unwind, and must take no lock that is held across a fork.
    #[doc(hidden)]
    #[inline(always)]
    fn foreign_broadcast(&self) -> Option<fn()> {
        None
    }

    /// The event sink: what the scheduler does, as it does it. Called on hot paths; the default is nothing at all.
    ///
    /// The calling worker may be in the midst of its own work. So in a sink it is in no task, what waits is refused as in a
    /// [`Handler`](Context::Handler), its steps do nothing, and its handle, dropped there, leaves later. A sink may wake and spawn, which
    /// are told to it, too.
    #[inline(always)]
    fn event(&self, worker: Option<WorkerId>, event: Event<'_>) {
        let _ = (worker, event);
    }
}
