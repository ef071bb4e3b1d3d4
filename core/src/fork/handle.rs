//! The handle of a fork-join run, and `join`.

use core::fmt;

use super::job::Forked;
use crate::{
    platform::Platform,
    scheduler::{bay::Bay, executor::Scheduler, leave::Leave, slot::Slots},
};

/// No place in a deque: all is run in place.
const ALONE: usize = usize::MAX;

/// The right to fork on the worker that runs the calling code, from [`Scheduler::fork`]; closures that are forked get one of
/// their own.
///
/// It is two words, to be passed down by value. It belongs to one context: it is neither `Send` nor `Sync`.
///
/// Nothing here allocates, but for large closures of a [`Scope`](crate::Scope) with the feature `alloc`; a job lives on the stack of the worker that forks it. A fork that nobody steals costs about as much
/// as a call through a pointer: it touches no line that others write, and needs no fence. A worker has room for 64 jobs
/// that wait; what is forked beyond runs in place.
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
    /// None only if `at` is `ALONE`.
    bay: Option<&'w Bay>,
    /// The bottom of the deque, as far as this handle knows.
    at: usize,
}

impl Fork<'static> {
    /// A handle of no worker: everything is run in place, one after the other, up to the first panic. There is no platform that
    /// could contain one: side `b` of a [`join`](Self::join) whose side `a` panics is dropped, and a job of a scope that panics
    /// ends the scope's body.
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

    /// The bay, and the place where the next job goes; none if all is run in place.
    #[inline(always)]
    pub(super) fn place(self) -> Option<(&'w Bay, usize)> {
        if self.at == ALONE {
            return None;
        }
        let bay = self.bay?;
        // SAFETY: INV-BAY: whoever holds the handle is the bay's worker (INV-DEQUE-OWNER).
        let bottom = unsafe { bay.deque.bottom() };
        // That this handle knows its place spares a fork the wait for a word that was written just before; it may have
        // moved up, with a job that was stolen.
        Some((bay, if self.at == bottom { self.at } else { moved(bottom) }))
    }

    pub(super) fn bay(self) -> Option<&'w Bay> {
        self.bay
    }

    /// Which worker's handle it is, as a number of no further meaning; that of no worker is zero.
    pub(super) fn worker(self) -> usize {
        self.bay.map_or(0, |bay| core::ptr::from_ref(bay).addr())
    }

    /// Whether the job under way was stolen by the worker's loop, with nothing else on its stack.
    pub(super) fn is_at_bottom(self) -> bool {
        self.bay.is_some_and(|bay| bay.bottom.get())
    }

    /// See [`Bay::is_due`].
    pub(super) fn is_due(self, since: u64) -> (bool, u64) {
        self.bay.map_or((false, 0), |bay| bay.is_due(since))
    }

    /// Runs both closures, `b` on another worker if one is without work, and returns both outcomes.
    ///
    /// `a` runs at once, in the calling context; then `b`, unless another worker has taken it: then this one works on pieces of
    /// `b` until it is done, and sleeps if there are none. It runs no tasks meanwhile, and no jobs that are not part of `b`. So
    /// a lock may be held across the call, as long as neither `a` nor `b` takes it.
    ///
    /// Whether somebody is without work this worker sees at its forks and joins alone: if `a` is long and forks nothing, a worker
    /// that becomes idle meanwhile finds nothing here ([`is_wanted`](Self::is_wanted) is such a look). So `b` may begin only when
    /// `a` has ended, and `a` must not wait for it.
    ///
    /// # Panics
    /// With the panic of `a`, else of `b`; both have run to their end by then, but for [`alone`](Self::alone). Where a panic
    /// cannot be contained ([`Platform::guard`]), it ends the program if it comes from a stolen job.
    // A function of its own: so small closures that call their own caller again are inlined into it, leaves of a recursion and
    // all, and none has this one's frame (2.1 to 1.2 ns for each join of a naive fib).
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
        // SAFETY: INV-BAY: we are the worker (INV-DEQUE-OWNER); `at` is the bottom. The job stays until it is taken back or
        // done, also if `a` panics (`Pending`).
        if !unsafe { bay.deque.push(at, forked.as_job()) } {
            // SAFETY: INV-FORKED: the job was not pushed, so that nobody else has it.
            return self.join_in_place_cold(a, unsafe { forked.closure() });
        }
        if bay.deque.is_asked() {
            bay.answer();
        }
        let pending = Pending { bay, at, forked: &forked };
        let ra = a(Fork { bay: Some(bay), at: at.wrapping_add(1) });
        core::mem::forget(pending);
        // SAFETY: we pushed it at `at`; INV-DEQUE-ORDER: what `a` forked has been joined, or stolen; what a scope pushed
        // meanwhile that does not end in `a` is above ours only if ours was stolen (INV-SCOPE-ORDER).
        if !unsafe { bay.deque.take(at) } {
            return (ra, finish(bay, &forked));
        }
        if bay.deque.is_asked() {
            bay.answer();
        }
        // SAFETY: INV-FORKED: the job was taken back, and is ours alone.
        let b = unsafe { forked.closure() };
        (ra, b(Fork { bay: Some(bay), at }))
    }

    /// As `join_in_place`, where that is rare.
    #[cold]
    #[inline(never)]
    fn join_in_place_cold<A, B, RA, RB>(self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(Fork<'_>) -> RA,
        B: FnOnce(Fork<'_>) -> RB,
    {
        self.join_in_place(a, b)
    }

    /// One after the other.
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

    /// Whether a worker is without work, and this one has no job for it that waits already: then the caller should fork.
    ///
    /// Meant for loops that fork only if somebody is there to help. Costs one load if there is nobody.
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

/// The outcome of a job that was stolen.
#[cold]
#[inline(never)]
fn finish<B, R>(bay: &Bay, forked: &Forked<B, R>) -> R
where
    B: FnOnce(Fork<'_>) -> R + Send,
    R: Send,
{
    bay.wait(&forked.job);
    // SAFETY: INV-JOB: it is done, we are its owner, and look once.
    match unsafe { forked.job.take_panic() } {
        // SAFETY: INV-FORKED: it is done and has not panicked, and we are its owner.
        None => unsafe { forked.outcome() },
        Some(panic) => bay.resume(panic),
    }
}

/// Lives while `a` runs: if that panics, `b` runs to its end before the stack goes.
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
        // By value, for the fields to stay in registers.
        finish_after_panic(self.bay, self.at, self.forked);
    }
}

/// Side `a` has panicked: sees to it that `b` runs to its end.
#[cold]
#[inline(never)]
fn finish_after_panic<B, R>(bay: &Bay, at: usize, forked: &Forked<B, R>)
where
    B: FnOnce(Fork<'_>) -> R + Send,
    R: Send,
{
    // SAFETY: INV-BAY: we are the worker. `join` pushed it at `at`, and has not taken it back; INV-DEQUE-ORDER as there: what
    // `a` forked has been joined, as it unwound, or stolen.
    let ours = unsafe { bay.deque.take(at) };
    if !ours {
        bay.wait(&forked.job);
    }
    // The first panic goes on; what comes of `b` is dropped.
    drop(bay.guard(&mut || {
        if ours {
            // SAFETY: INV-FORKED: the job was taken back, and is ours alone; the guard calls once.
            drop(unsafe { forked.closure() }(Fork::of(bay)));
            return;
        }
        // SAFETY: INV-JOB: it is done, we are its owner, and look once, as the guard calls once.
        match unsafe { forked.job.take_panic() } {
            // SAFETY: INV-FORKED: it is done and has not panicked, and we are its owner.
            None => drop(unsafe { forked.outcome() }),
            Some(panic) => drop(panic),
        }
    }));
}

/// The second side of a fork in place: run even if the first panics, where there is a worker.
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
    // Without a worker there is nothing that would keep a second panic from ending the program.
    let Some(bay) = fork.bay else { return };
    let mut b = Some(b);
    drop(bay.guard(&mut || drop(b.take().map(|b| b(fork)))));
}

impl fmt::Debug for Fork<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fork").field("alone", &(self.at == ALONE)).finish_non_exhaustive()
    }
}

/// The worker is in a fork-join run.
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
    /// Begins a fork-join run on the calling worker, from a task, a job, or between two steps; nests. Not for interrupt
    /// handlers. If nobody could help, as on an executor of one worker or without stealing, everything runs in place.
    ///
    /// A context that is no worker is one for as long as the run lasts, in a spare slot ([`Config::spares`](crate::Config::spares)),
    /// if a worker is without work then: so that no more contexts work than there are workers, but for a moment, one worker fewer
    /// takes jobs meanwhile. A shutdown waits for the end of the run.
    ///
    /// It blocks its worker until the run is over. A task that is not to do so spawns another one for the run, and awaits that;
    /// or, for a loop, calls [`Fork::map_reduce_slice`] and yields in between.
    ///
    /// # Errors
    /// The closure, if the calling context is no worker and cannot become one: it may then be run with [`Fork::alone`], or
    /// on a worker, in a task.
    pub fn fork<F, R>(&'static self, f: F) -> Result<R, F>
    where
        F: FnOnce(Fork<'_>) -> R,
    {
        if !self.platform.may_wait() {
            return Err(f);
        }
        if let Some((id, slot)) = self.working() {
            let leave = Leave::at_end(self, id);
            // In a waker, it may be counted as a searcher, and others rely on it.
            let _ = leave.worker().leave_loop();
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
