//! A fork-join job: something to run once, and a word that says when it is done.

use core::{mem::MaybeUninit, ptr::NonNull};

use crate::{
    atomic::{AtomicU32, Ordering, UnsafeCell, maybe_const},
    platform::{Panic, WorkerId},
};

/// The job is done, and its outcome is written.
const DONE: u32 = 1;
/// The owner sleeps, or is about to.
const ASLEEP: u32 = 2;
/// The job has panicked.
const FAILED: u32 = 4;
/// From this bit on: the id, plus one, of the worker that stole the job.
const THIEF: u32 = 16;

/// The first field of the value that holds a job's closure, on the stack of the worker that forked it. `W` is a fork worker.
///
/// | from | by | to |
/// |---|---|---|
/// | 0 | its thief | thief |
/// | not done | its owner, before it sleeps | asleep |
/// | not done | its thief | done, perhaps failed; the job may be gone at once |
///
/// INV-JOB: a job that was stolen is run once, by its thief. Its owner stays until it is done, and touches neither outcome nor
/// panic before; both may change threads, and so may the closure. A job that was taken back is its owner's alone, and the word
/// is zero.
#[repr(C)]
pub(crate) struct Job<W> {
    /// # Safety
    /// Called once, with the job itself and the fork worker of the calling worker.
    run: unsafe fn(NonNull<Self>, &W),
    state: AtomicU32,
    panic: UnsafeCell<MaybeUninit<Panic>>,
}

impl<W> Job<W> {
    maybe_const! {
        #[inline(always)]
        pub(crate) fn new(run: unsafe fn(NonNull<Self>, &W)) -> Self {
            Self { run, state: AtomicU32::new(0), panic: UnsafeCell::new(MaybeUninit::uninit()) }
        }
    }

    /// Runs the job. If the caller is its thief, `finish` must follow.
    ///
    /// # Safety
    /// The caller has the job, and runs it once. It is the worker that this is the fork worker of.
    pub(crate) unsafe fn run(this: NonNull<Self>, worker: &W) {
        // SAFETY: the caller's; INV-JOB keeps it alive.
        unsafe { (this.as_ref().run)(this, worker) }
    }

    /// Records the worker that has stolen the job. The pieces of the job are in that worker's deque.
    pub(crate) fn stolen_by(&self, thief: WorkerId) {
        // Ordering: a hint. A read-modify-write, as the owner may have set `ASLEEP`.
        self.state.fetch_or((thief.index() as u32 + 1) << THIEF, Ordering::Relaxed);
    }

    /// The worker that has stolen the job, if it has recorded itself yet.
    pub(crate) fn thief(&self) -> Option<WorkerId> {
        let state = self.state.load(Ordering::Relaxed);
        (state >> THIEF).checked_sub(1).map(|id| WorkerId::new(id as u16))
    }

    /// The job is done, and its outcome is written. True if the caller must unpark the owner. Afterwards the job may be gone.
    ///
    /// # Safety
    /// The caller has run the job.
    #[must_use]
    pub(crate) unsafe fn finish(this: NonNull<Self>, panic: Option<Panic>) -> bool {
        // SAFETY: INV-JOB: the owner waits until the word says done.
        let job = unsafe { this.as_ref() };
        let mut news = DONE;
        if let Some(panic) = panic {
            // SAFETY: INV-JOB: the panic is the thief's until then.
            job.panic.with_mut(|p| unsafe { p.write(MaybeUninit::new(panic)) });
            news |= FAILED;
        }
        // Ordering: Release pairs with the Acquires in `is_done` and `fall_asleep`: the owner sees the outcome. The thief needs
        // nothing of what the owner did before it slept.
        job.state.fetch_or(news, Ordering::Release) & ASLEEP != 0
    }

    pub(crate) fn is_done(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `finish`.
        self.state.load(Ordering::Acquire) & DONE != 0
    }

    /// The owner is about to sleep, and wants to be unparked. False if the job is done.
    #[must_use]
    pub(crate) fn fall_asleep(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `finish`. All is in one word, so either the owner sees that the job is
        // done, or the thief sees that the owner sleeps.
        self.state.fetch_or(ASLEEP, Ordering::Acquire) & DONE == 0
    }

    /// The panic of a job that is done, if it had one.
    ///
    /// # Safety
    /// The caller is the owner, has seen that the job is done, and takes the panic once.
    pub(crate) unsafe fn take_panic(&self) -> Option<Panic> {
        // Ordering: `is_done` came before.
        let failed = self.state.load(Ordering::Relaxed) & FAILED != 0;
        // SAFETY: the panic was written before the word said so; the rest is the caller's.
        failed.then(|| self.panic.with(|p| unsafe { (*p).assume_init_read() }))
    }
}
