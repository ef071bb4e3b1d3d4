//! All that the core asks of the machine.

use core::{cell::Cell, fmt, ptr::NonNull};

use crate::{atomic::AtomicU32, instant::Instant, trace::Event};

/// Which worker: an index below the executor's number of worker slots, at most [`WorkerId::MAX`].
///
/// ```
/// let id = filch::WorkerId::new(3);
/// assert_eq!(id.index(), 3);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(u16);

impl WorkerId {
    /// The largest index: with 64-bit atomics 4,096 workers fit an executor, with 32-bit ones 1,024.
    pub const MAX: u16 = (crate::atomic::Word::BITS * crate::atomic::Word::BITS - 1) as u16;

    /// The worker of this index. Whether an executor has such a worker is checked where it is used.
    pub const fn new(index: u16) -> Self {
        Self(index)
    }

    /// The worker's index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.0)
    }
}

/// The entry of a worker, handed to [`Platform::start`]: call [`run`](WorkerEntry::run) on the new thread or core.
///
/// It runs once. Dropped, it gives the worker's slot back, and those that rely on the worker look for another.
pub struct WorkerEntry {
    executor: NonNull<()>,
    worker: WorkerId,
    run: EntryFn,
    forget: EntryFn,
}

/// Takes the executor and the worker of the entry.
type EntryFn = unsafe fn(NonNull<()>, WorkerId);

// SAFETY: `executor` is a `&'static` executor, which is `Sync`; `WorkerEntry::new` asks for it.
unsafe impl Send for WorkerEntry {}

impl WorkerEntry {
    /// # Safety
    /// `run(executor, worker)`, or `forget(executor, worker)` in its place, must be sound once on any thread.
    pub(crate) unsafe fn new(
        executor: NonNull<()>,
        worker: WorkerId,
        run: EntryFn,
        forget: EntryFn,
    ) -> Self {
        Self { executor, worker, run, forget }
    }

    /// The worker to be started.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Becomes the worker; returns when it retires or the executor has shut down.
    pub fn run(self) {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: contract of `new`: once, as `this` is gone.
        unsafe { (this.run)(this.executor, this.worker) }
    }
}

impl Drop for WorkerEntry {
    fn drop(&mut self) {
        // SAFETY: contract of `new`: it has not run, and is gone.
        unsafe { (self.forget)(self.executor, self.worker) }
    }
}

impl fmt::Debug for WorkerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerEntry({:?})", self.worker)
    }
}

/// Why [`Platform::start`] started nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// The platform cannot start workers; they enter `run` by themselves.
    Unsupported,
    /// The platform refused, with its own code (an errno, an SBI error).
    Refused(i32),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str("this platform cannot start workers"),
            Self::Refused(code) => {
                write!(f, "the platform refused to start a worker (code {code})")
            }
        }
    }
}

impl core::error::Error for StartError {}

/// What a contained panic left behind, opaque to the core: the platform that caught it knows how to open it.
///
/// Two words. Dropping it drops the payload.
pub struct Panic {
    payload: NonNull<()>,
    vtable: &'static PanicVtable,
}

/// How a platform takes its panic payload back from the core.
#[derive(Debug)]
pub struct PanicVtable {
    /// Frees the payload. Must not unwind.
    pub drop: unsafe fn(NonNull<()>),
    /// The panic's message, where it has one.
    pub message: unsafe fn(NonNull<()>) -> Option<&'static str>,
}

// SAFETY: `from_raw` asks for a payload that may be sent and shared.
unsafe impl Send for Panic {}
// SAFETY: as above.
unsafe impl Sync for Panic {}

impl Panic {
    /// Wraps a payload of the platform's.
    ///
    /// # Safety
    /// The functions of `vtable` must be sound for `payload` on any thread, `drop` once; a message that `message`
    /// returns must live as long as the payload.
    pub const unsafe fn from_raw(payload: NonNull<()>, vtable: &'static PanicVtable) -> Self {
        Self { payload, vtable }
    }

    /// The payload, if it was wrapped with this `vtable`; else the panic is handed back.
    pub fn into_raw(self, vtable: &'static PanicVtable) -> Result<NonNull<()>, Self> {
        if core::ptr::eq(self.vtable, vtable) {
            let this = core::mem::ManuallyDrop::new(self);
            Ok(this.payload)
        } else {
            Err(self)
        }
    }

    /// The panic's message, where it has one.
    pub fn message(&self) -> Option<&str> {
        // SAFETY: contract of `from_raw`; the result borrows `self`, which keeps the payload.
        unsafe { (self.vtable.message)(self.payload) }
    }
}

impl Drop for Panic {
    fn drop(&mut self) {
        // SAFETY: contract of `from_raw`; a `Panic` owns its payload.
        unsafe { (self.vtable.drop)(self.payload) }
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not escaped: where tasks unwrap what tasks have unwrapped, the escapes of escapes would double at each level.
        write!(f, "Panic({})", self.message().unwrap_or("no message"))
    }
}

/// The machine under an executor: a clock, who am I, wait, wake, and what else it can do.
///
/// Everything that a lost wake-up could hide in stays in the core, where a model checker sees it: the core owns the
/// park words, a platform only waits and wakes on them, like a futex. Four methods have no default and make a port.
///
/// What a worker alone may call, for itself, is `unsafe`: [`Scheduler::platform`](crate::Scheduler::platform) gives the platform to
/// anybody, and an implementation may rely on its caller there.
///
/// | method | called from | may block |
/// |---|---|---|
/// | [`now`](Self::now), [`current_worker`](Self::current_worker), [`may_wait`](Self::may_wait) | anywhere, interrupt handlers included | no |
/// | [`wait`](Self::wait) | the worker itself | that is its purpose |
/// | [`listen`](Self::listen) | one worker at a time, between two passes of its loop | that is its purpose |
/// | [`wake`](Self::wake), [`interrupt`](Self::interrupt), [`unblock`](Self::unblock) | anywhere, interrupt handlers included | no |
/// | [`poll_io`](Self::poll_io), [`relax`](Self::relax) | the worker itself; `relax` also what waits elsewhere | no |
/// | [`guard`](Self::guard) | anywhere | no |
/// | [`block`](Self::block) | threads that are no workers | that is its purpose |
///
/// # Safety
///
/// An implementation promises, and the executor's memory safety rests on it:
///
/// - **Identity.** [`current_worker`](Self::current_worker) returns `Some(w)` only in the one context (thread, core) that
///   may be `w`, whether it has entered or not: at most one context at a time for each `w`. A context that is given `w`
///   by [`enter`](Self::enter) may be it until [`leave`](Self::leave). An interrupt or signal handler on that context may get `Some(w)` or `None`.
/// - **Guard.** [`guard`](Self::guard) calls its closure exactly once, on this thread, before it returns. Where panics
///   unwind it must contain them and return `Err`: one that gets out of a poll ends the program.
/// - **Start.** [`start`](Self::start) has the entry run on a context that is no worker of this executor, or drops it.
///
/// - **Budget.** [`budget`](Self::budget) gives a cell of the calling thread's own, which lives as long as the thread.
/// - **Return.** No method unwinds but `resume`, and `poll_io` with a panic of a waker: one that does ends the program. `guard`
///   is called around all of user code.
///
/// And, for liveness (no lost wake-up):
///
/// - **Sticky wake.** [`wait`](Self::wait) and [`listen`](Self::listen) do not block if `*word != expected`; the check is atomic against
///   [`wake`](Self::wake) and [`interrupt`](Self::interrupt): one of `wait`'s and `listen`'s, in this order, after the word's change always
///   ends a sleep that saw the old value. Both sleeps may return spuriously, and return at `deadline`.
/// - **Wake from anywhere.** `wake` and `interrupt` are idempotent and callable from thread, interrupt and foreign contexts; N wakes
///   before the worker looks may be one interrupt.
/// - **Monotonic.** [`now`](Self::now) never goes back as seen by one thread.
pub unsafe trait Platform: Sync + 'static {
    /// Whether there is a reactor, in which one worker at a time [`listens`](Self::listen). Without one, workers [`wait`](Self::wait).
    const LISTENS: bool = false;

    /// Monotonic time. Called about once in 128 polls and around each park.
    fn now(&self) -> Instant;

    /// The worker of this executor that runs in the calling context, if any. Called on each wake and spawn, and at the
    /// end of tasks in a `Heap`.
    fn current_worker(&self) -> Option<WorkerId>;

    /// Whether the calling context may wait for others: false in an interrupt or signal handler, where the platform can tell, as the
    /// code below it may be what it would wait for. Joins, fork-join runs, broadcasts, and what becomes a worker or waits for the end
    /// of an executor, are refused there, with the error of each.
    fn may_wait(&self) -> bool {
        true
    }

    /// Whether the workers are in another process: in a forked child. Spawns are refused there, and timers are left alone: a thread that the
    /// child has not got may have been in the midst of them. Every spawn asks: the answer should cost a load or two.
    fn is_left_behind(&self) -> bool {
        false
    }

    /// What is left of the budget of a future that the calling thread polls without being a worker, in a `block_on` of the platform's
    /// own: it sets the number to [`BUDGET`](crate::BUDGET) before each poll, and to `u32::MAX` behind it, and operations count it
    /// down. The default is none, and no limit.
    fn budget(&self) -> Option<NonNull<Cell<u32>>> {
        None
    }

    /// The calling context becomes `worker`: set the thread local, the per-CPU register. Nothing to do where the
    /// context itself says who it is (a hart id).
    ///
    /// # Safety
    /// Only the core calls it: no other context is `worker`, nor becomes it before this one calls [`leave`](Self::leave).
    unsafe fn enter(&self, worker: WorkerId) {
        let _ = worker;
    }

    /// The calling context stops being `worker`.
    ///
    /// # Safety
    /// Only the core calls it, in the context that has called [`enter`](Self::enter) for `worker`.
    unsafe fn leave(&self, worker: WorkerId) {
        let _ = worker;
    }

    /// Sleeps while `*word == expected`, until [`wake`](Self::wake), `deadline` or no reason at all.
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

    /// As [`wait`](Self::wait), in the reactor: it also ends with an event of I/O. What it has heard of, the worker keeps for its next
    /// [`poll_io`](Self::poll_io); whether there is something. Only where [`LISTENS`](Self::LISTENS) is set.
    ///
    /// One worker at a time is in here; the core sees to that. The others sleep in `wait`, as does each worker that waits in the midst
    /// of user code. It asks the reactor once, without blocking, even if the word is another or the deadline has passed: a busy
    /// worker calls it with [`Instant::ZERO`] for no more than that.
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
        // SAFETY: the caller's.
        unsafe { self.wait(worker, word, expected, deadline) };
        false
    }

    /// Ends the [`wait`](Self::wait) of `worker`, whose `word` has changed.
    fn wake(&self, worker: WorkerId, word: &AtomicU32);

    /// Ends the [`listen`](Self::listen) of `worker`, whose `word` has changed. The default is [`wake`](Self::wake).
    fn interrupt(&self, worker: WorkerId, word: &AtomicU32) {
        self.wake(worker, word);
    }

    /// Starts a context that calls `entry.run()`. The default refuses: cores then enter `run` by themselves.
    fn start(&self, entry: WorkerEntry) -> Result<(), StartError> {
        let _ = entry;
        Err(StartError::Unsupported)
    }

    /// Delivers what this worker keeps of [`listen`](Self::listen), without blocking; the number of events. Wakers that run in here wake
    /// onto the worker's own queues. Several workers may be in here at the same time.
    ///
    /// The worker calls it after a `listen` that has heard of something, before it runs anything else. It listens when it sleeps, and
    /// asks about every 128 polls, or every millisecond if those take longer, and in [`step`](crate::Worker::step).
    ///
    /// # Safety
    /// The calling context is `worker`, and has entered.
    unsafe fn poll_io(&self, worker: WorkerId) -> usize {
        let _ = worker;
        0
    }

    /// Runs `poll` and contains a panic, where the platform unwinds. The default is for platforms where panics abort: it lets
    /// a panic pass, and the core then ends the program, with a second panic that says so.
    fn guard(&self, poll: &mut dyn FnMut()) -> Result<(), Panic> {
        poll();
        Ok(())
    }

    /// Goes on with a panic that [`guard`](Self::guard) has contained, in the calling context: a fork-join run that ends by a
    /// panic of one of its jobs. The default panics with the message. A kernel whose `guard` is the default never comes
    /// here; if it wants no panic linked at all, `loop {}` will do.
    fn resume(&self, panic: Panic) -> ! {
        panic!("{}", panic.message().unwrap_or("a job has panicked"))
    }

    /// The `round`th look for work found none: a spin hint at first, later an OS yield.
    fn relax(&self, round: u32) {
        let _ = round;
        core::hint::spin_loop();
    }

    /// As [`wait`](Self::wait), for a thread that is no worker. The default spins.
    fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        // Ordering: Acquire pairs with the Release of whoever changes the word before `unblock`.
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
