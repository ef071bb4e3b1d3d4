//! The handle of a fork-join run, and `join`.

use core::fmt;

use super::job::Forked;
use crate::{
    platform::Platform,
    scheduler::{bay::Bay, context::Leave, executor::Scheduler, slot::Slots},
};

/// The `at` of a handle that runs everything in place.
const ALONE: usize = usize::MAX;

/// The right to fork on the worker that runs the calling code. From [`Scheduler::fork`]; a forked closure gets one of
/// its own.
///
/// It is two words, to be passed down by value. It belongs to one context: it is neither `Send` nor `Sync`.
///
/// A job lives on the stack of the worker that forks it, so that forking does not allocate, except for large closures
/// of a [`Scope`](crate::Scope) with the feature `alloc`. A fork that is not stolen costs about as much as a call
/// through a pointer: it writes no cache line that other workers write, and needs no fence. A worker has room for 64
/// waiting jobs; further ones run in place.
///
/// ```
/// use filch::Fork;
///
/// fn sum(fork: Fork<'_>, numbers: &[u64]) -> u64 {
///     if numbers.len() <= 2 {
///         return numbers.iter().sum();
///     }
///     let (left, right) = numbers.split_at(numbers.len() / 2);
///     let (a, b) = fork.join(|fork| sum(fork, left), |fork| sum(fork, right));
///     a + b
/// }
///
/// assert_eq!(sum(Fork::alone(), &[1, 2, 3, 4, 5]), 15);
/// ```
#[derive(Clone, Copy)]
pub struct Fork<'w> {
    /// `None` only if `at` is `ALONE`.
    bay: Option<&'w Bay>,
    /// The bottom of the deque, as last seen by this handle.
    at: usize,
}

impl Fork<'static> {
    /// A handle without a worker: everything runs in place, one closure after the other, up to the first panic. There
    /// is no platform to contain a panic: if side `a` of a [`join`](Self::join) panics, side `b` is dropped, and a job
    /// of a scope that panics ends the scope's body.
    pub const fn alone() -> Self {
        Self { bay: None, at: ALONE }
    }
}

impl<'w> Fork<'w> {
    /// A handle for the calling worker, whose bay this is (INV-BAY).
    pub(super) fn of(bay: &'w Bay) -> Self {
        // SAFETY: INV-BAY: the calling context is the bay's worker, so that the deque is its own (INV-DEQUE-OWNER).
        Self { bay: Some(bay), at: unsafe { bay.deque.bottom() } }
    }

    /// The bay, and the index of the next job. `None` if everything runs in place.
    #[inline(always)]
    pub(super) fn place(self) -> Option<(&'w Bay, usize)> {
        if self.at == ALONE {
            return None;
        }
        let bay = self.bay?;
        // SAFETY: INV-BAY: the holder of the handle is the bay's worker (INV-DEQUE-OWNER).
        let bottom = unsafe { bay.deque.bottom() };
        // The index in the handle spares a fork the wait for a word that was written just before. The bottom may have
        // moved up, with a job that was stolen.
        Some((bay, if self.at == bottom { self.at } else { moved(bottom) }))
    }

    pub(super) fn bay(self) -> Option<&'w Bay> {
        self.bay
    }

    /// A number that identifies the handle's worker; zero without a worker.
    pub(super) fn worker(self) -> usize {
        self.bay.map_or(0, |bay| core::ptr::from_ref(bay).addr())
    }

    /// Whether the worker's loop has stolen the current job, so that the stack holds nothing else.
    pub(super) fn is_at_bottom(self) -> bool {
        self.bay.is_some_and(|bay| bay.bottom.get())
    }

    /// See [`Bay::is_due`].
    pub(super) fn is_due(self, since: u64) -> (bool, u64) {
        self.bay.map_or((false, 0), |bay| bay.is_due(since))
    }

    /// Runs both closures, `b` on another worker if one is without work, and returns both results.
    ///
    /// `a` runs at once, in the calling context, and `b` after it, unless another worker has taken `b`. Then this
    /// worker runs parts of `b` until `b` is complete, and sleeps if there are none. Meanwhile it runs no tasks, and no
    /// jobs that are not part of `b`. So a lock may be held across the call, as long as neither `a` nor `b` takes it.
    ///
    /// This worker learns that another one is without work at its forks and joins only. If `a` is long and forks
    /// nothing, a worker that becomes idle meanwhile gets nothing from here; a call of [`is_wanted`](Self::is_wanted)
    /// in `a` is such a check. So `b` may begin only after `a` has ended, and `a` must not wait for `b`.
    ///
    /// # Panics
    /// With the panic of `a`, else with that of `b`; both have ended by then, except on a handle made by
    /// [`alone`](Self::alone). Where a panic cannot be contained ([`Platform::guard`]), a panic of a stolen job ends
    /// the program.
    // Not inlined: then small closures that recurse into their own caller are inlined into it, and none of them has
    // this function's frame.
    #[inline(never)]
    pub fn join<A, B, RA, RB>(self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(Fork<'_>) -> RA + Send,
        B: FnOnce(Fork<'_>) -> RB + Send,
        RB: Send,
    {
        let useful = |&(bay, at): &(&Bay, usize)| !bay.deque.is_deep(at) || bay.deque.is_asked();
        let Some((bay, at)) = self.place().filter(useful) else { return self.join_in_place(a, b) };
        let forked = Forked::new(b);
        // SAFETY: INV-BAY: we are the worker (INV-DEQUE-OWNER), and `at` is the bottom. The job stays until it is taken
        // back or complete, even if `a` panics (`Pending`).
        if !unsafe { bay.deque.push(at, forked.as_job()) } {
            // SAFETY: INV-FORKED: the job was not pushed, so that no other context has it.
            return self.join_in_place_cold(a, unsafe { forked.closure() });
        }
        if bay.deque.is_asked() {
            bay.answer();
        }
        let pending = Pending { bay, at, forked: &forked };
        let ra = a(Fork { bay: Some(bay), at: at.wrapping_add(1) });
        core::mem::forget(pending);
        // SAFETY: we pushed it at `at`. INV-DEQUE-ORDER: the jobs that `a` forked have been joined or stolen. A job
        // that a scope pushed meanwhile, and that does not end within `a`, is above ours only if ours was stolen
        // (INV-SCOPE-ORDER).
        if !unsafe { bay.deque.take(at) } {
            return (ra, finish(bay, &forked));
        }
        if bay.deque.is_asked() {
            bay.answer();
        }
        // SAFETY: INV-FORKED: the job was taken back, and only we have it.
        let b = unsafe { forked.closure() };
        (ra, b(Fork { bay: Some(bay), at }))
    }

    /// As `join_in_place`, for callers that rarely need it.
    #[cold]
    #[inline(never)]
    fn join_in_place_cold<A, B, RA, RB>(self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(Fork<'_>) -> RA,
        B: FnOnce(Fork<'_>) -> RB,
    {
        self.join_in_place(a, b)
    }

    /// Runs one closure after the other.
    #[inline(always)]
    fn join_in_place<A, B, RA, RB>(self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(Fork<'_>) -> RA,
        B: FnOnce(Fork<'_>) -> RB,
    {
        let rest = InPlace { fork: self, b: Some(b) };
        let ra = a(self);
        if let Some(bay) = self.bay {
            if bay.deque.is_asked() {
                bay.answer();
            }
        }
        (ra, rest.run())
    }

    /// Whether a worker is without work and this one has no waiting job for it: then the caller should fork.
    ///
    /// For loops that fork only if another worker can help. Costs one load if none can.
    #[inline]
    pub fn is_wanted(self) -> bool {
        match self.bay {
            Some(bay) if self.at != ALONE && bay.deque.is_asked() => bay.answer(),
            _ => false,
        }
    }
}

#[cold]
fn moved(bottom: usize) -> usize {
    bottom
}

/// The result of a job that was stolen.
#[cold]
#[inline(never)]
fn finish<B, R>(bay: &Bay, forked: &Forked<B, R>) -> R
where
    B: FnOnce(Fork<'_>) -> R + Send,
    R: Send,
{
    bay.wait(&forked.job);
    // SAFETY: INV-JOB: the job is complete, we are its owner, and take the panic once.
    match unsafe { forked.job.take_panic() } {
        // SAFETY: INV-FORKED: the job is complete and has not panicked, and we are its owner.
        None => unsafe { forked.outcome() },
        Some(panic) => panic.resume(),
    }
}

/// Lives while `a` runs. If `a` panics, its drop runs `b` to the end before the stack frame is gone.
struct Pending<'a, B, R>
where
    B: FnOnce(Fork<'_>) -> R + Send,
    R: Send,
{
    bay: &'a Bay,
    at: usize,
    forked: &'a Forked<B, R>,
}

impl<B, R> Drop for Pending<'_, B, R>
where
    B: FnOnce(Fork<'_>) -> R + Send,
    R: Send,
{
    #[inline(always)]
    fn drop(&mut self) {
        // By value, so that the fields stay in registers.
        finish_after_panic(self.bay, self.at, self.forked);
    }
}

/// Side `a` has panicked: makes sure that `b` runs to its end.
#[cold]
#[inline(never)]
fn finish_after_panic<B, R>(bay: &Bay, at: usize, forked: &Forked<B, R>)
where
    B: FnOnce(Fork<'_>) -> R + Send,
    R: Send,
{
    // SAFETY: INV-BAY: we are the worker. `join` pushed the job at `at`, and has not taken it back. INV-DEQUE-ORDER: as
    // in `join`; the jobs that `a` forked have been joined, as it unwound, or stolen.
    let ours = unsafe { bay.deque.take(at) };
    if !ours {
        bay.wait(&forked.job);
    }
    // The first panic goes on; the result of `b` is dropped.
    drop(bay.guard(&mut || {
        if ours {
            // SAFETY: INV-FORKED: the job was taken back, and only we have it; the guard calls once.
            drop(unsafe { forked.closure() }(Fork::of(bay)));
            return;
        }
        // SAFETY: INV-JOB: the job is complete, we are its owner, and take the panic once, as the guard calls once.
        match unsafe { forked.job.take_panic() } {
            // SAFETY: INV-FORKED: the job is complete and has not panicked, and we are its owner.
            None => drop(unsafe { forked.outcome() }),
            Some(panic) => drop(panic),
        }
    }));
}

/// The second side of a fork in place. On a worker it runs even if the first side panics.
struct InPlace<'w, B, R>
where
    B: FnOnce(Fork<'_>) -> R,
{
    fork: Fork<'w>,
    b: Option<B>,
}

impl<B, R> InPlace<'_, B, R>
where
    B: FnOnce(Fork<'_>) -> R,
{
    #[inline(always)]
    fn run(mut self) -> R {
        match self.b.take() {
            Some(b) => b(self.fork),
            None => unreachable!("`b` is there until it runs"),
        }
    }
}

impl<B, R> Drop for InPlace<'_, B, R>
where
    B: FnOnce(Fork<'_>) -> R,
{
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(b) = self.b.take() {
            run_after_panic(self.fork, b);
        }
    }
}

#[cold]
fn run_after_panic<B, R>(fork: Fork<'_>, b: B)
where
    B: FnOnce(Fork<'_>) -> R,
{
    // Without a worker, nothing would keep a second panic from ending the program.
    let Some(bay) = fork.bay else { return };
    let mut b = Some(b);
    drop(bay.guard(&mut || drop(b.take().map(|b| b(fork)))));
}

impl fmt::Debug for Fork<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fork").field("alone", &(self.at == ALONE)).finish_non_exhaustive()
    }
}

/// A worker in a fork-join run.
struct Root<'w>(&'w Bay);

impl Drop for Root<'_> {
    fn drop(&mut self) {
        self.0.roots.set(self.0.roots.get() - 1);
    }
}

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    /// Begins a fork-join run on the calling worker: from a task, from a job, or between two steps. Runs nest. Not for
    /// interrupt handlers. If no other worker can help, as on an executor of one worker or without stealing, everything
    /// runs in place.
    ///
    /// A thread that is no worker becomes one for the time of the run, in a spare slot
    /// ([`Config::spares`](crate::Config::spares)), if a worker is without work at that moment. Meanwhile one worker
    /// fewer takes jobs, so that no more contexts work than there are workers, except for a moment. A shutdown waits
    /// for the end of the run.
    ///
    /// A run blocks its worker until it is over. A task that must not block its worker spawns another task for the run
    /// and awaits it, or, for a loop, calls [`Fork::map_reduce_slice`] and yields between the calls.
    ///
    /// # Errors
    /// The closure, if the calling context is no worker and cannot become one. It may then run with [`Fork::alone`], or
    /// in a task on a worker.
    pub fn fork<F, R>(&'static self, f: F) -> Result<R, F>
    where
        F: FnOnce(Fork<'_>) -> R,
    {
        if !self.platform.may_wait() {
            return Err(f);
        }
        if let Some((id, slot)) = self.working() {
            let leave = Leave::at_end(self, id);
            // The caller may be in a batch of wakers, or between two steps.
            let (_away, _batch) = leave.worker().leave_batch();
            return Ok(self.fork_on(&slot.bay, f));
        }
        let Some(helper) = self.helper() else { return Err(f) };
        Ok(self.fork_on(&helper.worker().slot().bay, f))
    }

    fn fork_on<F, R>(&self, bay: &Bay, f: F) -> R
    where
        F: FnOnce(Fork<'_>) -> R,
    {
        bay.roots.set(bay.roots.get() + 1);
        let root = Root(bay);
        let mut fork = Fork::of(root.0);
        if self.workers() == 1 || !self.config.stealing() {
            fork.at = ALONE;
        }
        f(fork)
    }
}
