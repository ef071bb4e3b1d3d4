//! The platform: everything that the core asks of the machine.

mod panic;
pub(crate) mod ward;
mod worker;

use core::{cell::Cell, ptr::NonNull};

pub use panic::{Panic, PanicVtable};
pub use worker::{StartError, WorkerEntry, WorkerId};

use crate::{atomic::AtomicU32, instant::Instant, trace::Event};

/// The machine under an executor: its clock, the current worker, waiting and waking, and what else it can do.
///
/// Everything in which a wake-up could be lost stays in the core, where a model checker sees it. The core owns the park
/// words; a platform only waits and wakes on them, like a futex. A port consists of the four methods without a default.
///
/// Methods that a worker may only call for itself are `unsafe`, because
/// [`Scheduler::platform`](crate::Scheduler::platform) gives the platform to any caller. Their implementation may rely
/// on the contract.
///
/// | method | called from | may block |
/// |---|---|---|
/// | [`now`](Self::now), [`current_worker`](Self::current_worker), [`may_wait`](Self::may_wait) | any context | no |
/// | [`wait`](Self::wait) | the worker itself | yes |
/// | [`listen`](Self::listen) | one worker at a time, between two passes of its loop | yes |
/// | [`wake`](Self::wake), [`interrupt`](Self::interrupt), [`unblock`](Self::unblock) | any context | no |
/// | [`poll_io`](Self::poll_io), [`relax`](Self::relax) | the worker itself; `relax` also in other waits | no |
/// | [`guard`](Self::guard) | anywhere | no |
/// | [`block`](Self::block) | threads that are no workers | yes |
///
/// # Safety
///
/// The executor's memory safety rests on these promises of an implementation:
///
/// - **Identity.** [`current_worker`](Self::current_worker) returns `Some(w)` in at most one context (thread, core) at
///   a time, the only one that may be `w`, whether that one has entered or not. A context that [`enter`](Self::enter)
///   makes `w` may be `w` until [`leave`](Self::leave). An interrupt or signal handler on that context may get
///   `Some(w)` or `None`.
/// - **Guard.** [`guard`](Self::guard) calls its closure exactly once, on this thread, before it returns. Where panics
///   unwind it must contain them and return `Err`: a panic that leaves a poll ends the program.
/// - **Start.** [`start`](Self::start) has a context that is no worker of this executor run the entry, or drops it.
/// - **Budget.** [`budget`](Self::budget) returns a cell that belongs to the calling thread and lives as long as it.
/// - **Return.** No method unwinds except `resume`, and `poll_io` with a waker's panic. Any other unwinding ends the
///   program. The core calls `guard` around all user code.
///
/// For liveness (no lost wake-up):
///
/// - **Sticky wake.** [`wait`](Self::wait) and [`listen`](Self::listen) do not block if `*word != expected`. The check
///   is atomic against [`wake`](Self::wake) and [`interrupt`](Self::interrupt): after a change of the word, `wake`
///   always ends a `wait` that saw the old value, and `interrupt` a `listen`. Both sleeps may return spuriously, and
///   return at `deadline`.
/// - **Wake from anywhere.** `wake` and `interrupt` are idempotent, and callable from thread, interrupt and foreign
///   contexts. Several wakes before the worker runs again may be one interrupt.
/// - **Monotonic.** [`now`](Self::now) never goes back, as seen by one thread.
pub unsafe trait Platform: Sync + 'static {
    /// Whether there is a reactor, in which one worker at a time [`listens`](Self::listen). If not, workers only
    /// [`wait`](Self::wait).
    const LISTENS: bool = false;

    /// Monotonic time. Called about once in 128 polls and around each park.
    fn now(&self) -> Instant;

    /// The worker of this executor that runs in the calling context, if there is one. Called on each wake and spawn,
    /// and at the end of each task in a `Heap`.
    fn current_worker(&self) -> Option<WorkerId>;

    /// Whether the calling context may wait for other contexts. False in an interrupt or signal handler, if the
    /// platform can tell: the code that it interrupted may be what it would wait for. Where it is false, the core
    /// refuses joins, fork-join runs and broadcasts, to run a worker, and to wait for the end of an executor, each with
    /// its error.
    fn may_wait(&self) -> bool {
        true
    }

    /// Whether the workers are in another process: in a forked child. Spawns are refused there, and timers are left alone: a thread that the
    /// child has not got may have been in the midst of them. Every spawn asks: the answer should cost a load or two.
    fn is_left_behind(&self) -> bool {
        false
    }

    /// The budget of a future that the calling thread polls without being a worker, in a `block_on` of the platform.
    /// The platform sets the number to [`BUDGET`](crate::BUDGET) before each poll and to `u32::MAX` after it;
    /// operations count it down. The default is `None`: no limit.
    fn budget(&self) -> Option<NonNull<Cell<u32>>> {
        None
    }

    /// The calling context becomes `worker`: set the thread-local, or the per-CPU register. Nothing needs to be done if
    /// the context identifies itself (by a hart id).
    ///
    /// # Safety
    /// Called by the core only. No other context is `worker`, nor becomes it before this one calls
    /// [`leave`](Self::leave).
    unsafe fn enter(&self, worker: WorkerId) {
        let _ = worker;
    }

    /// The calling context stops being `worker`.
    ///
    /// # Safety
    /// Called by the core only, in the context that has called [`enter`](Self::enter) for `worker`.
    unsafe fn leave(&self, worker: WorkerId) {
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

    /// As [`wait`](Self::wait), in the reactor: an I/O event ends it too. The worker keeps the events for its next
    /// [`poll_io`](Self::poll_io). Returns whether there are any. Called only if [`LISTENS`](Self::LISTENS) is set.
    ///
    /// The core lets one worker at a time listen. The others sleep in `wait`, and so does each worker that waits inside
    /// user code. It checks the reactor once, without blocking, even if the word differs from `expected` or the
    /// deadline has passed: a busy worker calls it with [`Instant::ZERO`] for this check alone.
    ///
    /// The default is for platforms without a reactor.
    ///
    /// # Safety
    /// The calling context is `worker`, and has entered.
    unsafe fn listen(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) -> bool {
        // SAFETY: the contract is the same as that of `wait`.
        unsafe { self.wait(worker, word, expected, deadline) };
        false
    }

    /// Ends the [`wait`](Self::wait) of `worker`, whose `word` has changed.
    fn wake(&self, worker: WorkerId, word: &AtomicU32);

    /// Ends the [`listen`](Self::listen) of `worker`, whose `word` has changed. The default is [`wake`](Self::wake).
    fn interrupt(&self, worker: WorkerId, word: &AtomicU32) {
        self.wake(worker, word);
    }

    /// Starts a context that calls `entry.run()`. The default refuses; then cores enter `run` by themselves.
    fn start(&self, entry: WorkerEntry) -> Result<(), StartError> {
        let _ = entry;
        Err(StartError::Unsupported)
    }

    /// Delivers the events that this worker keeps from [`listen`](Self::listen), without blocking. Returns their
    /// number. Wakers that run in it wake tasks onto the worker's own queues. Several workers may call it at once; a waker in it
    /// that waits leads to another call by the same worker, which delivers the rest.
    ///
    /// The worker calls it after a `listen` that returned true, before it runs anything else. It listens when it
    /// sleeps, and checks the reactor about every 128 polls, or every millisecond if those take longer, and in
    /// [`step`](crate::Worker::step).
    ///
    /// # Safety
    /// The calling context is `worker`, and has entered.
    unsafe fn poll_io(&self, worker: WorkerId) -> usize {
        let _ = worker;
        0
    }

    /// Runs `poll`, and contains a panic if the platform unwinds. The default is for platforms whose panics abort. If a
    /// panic does unwind, it passes the default, and the core then ends the program with a second panic that says so.
    fn guard(&self, poll: &mut dyn FnMut()) -> Result<(), Panic> {
        poll();
        Ok(())
    }

    /// Continues a panic that [`guard`](Self::guard) has contained, in the calling context: when a fork-join run ends
    /// by the panic of one of its jobs. The default panics with the message. A kernel whose `guard` is the default
    /// never gets here; if it wants no panic code linked, `loop {}` will do.
    fn resume(&self, panic: Panic) -> ! {
        panic!("{}", panic.message().unwrap_or("a job has panicked"))
    }

    /// Called after the `round`th unsuccessful search for work: a spin hint at first, later an OS yield.
    fn relax(&self, round: u32) {
        let _ = round;
        core::hint::spin_loop();
    }

    /// As [`wait`](Self::wait), for a thread that is no worker. The default spins.
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

    /// The event sink: what the scheduler does, as it does it. Called on hot paths; the default is nothing at all.
    #[inline(always)]
    fn event(&self, worker: Option<WorkerId>, event: Event) {
        let _ = (worker, event);
    }
}
