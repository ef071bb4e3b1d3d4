//! `join`: two closures, the second perhaps on another worker.

use super::{
    forked::Forked,
    handle::Fork,
    worker::{ForkWorker, Job, Leaving, Taken},
};

impl Fork<'_> {
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
    /// [`alone`](Self::alone). Where a panic cannot be contained ([`Platform::guard`](crate::Platform::guard)), a panic of a
    /// stolen job ends the program.
    #[inline(always)]
    pub fn join<A, B, RA, RB>(self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(Fork<'_>) -> RA + Send,
        B: FnOnce(Fork<'_>) -> RB + Send,
        RB: Send,
    {
        self.join_as::<false, _, _, _, _>(a, |fork, _| b(fork))
    }

    /// As [`join`](Self::join). `b` is told whether another worker has taken it.
    #[doc(hidden)]
    #[inline(always)]
    pub fn join_and_tell<A, B, RA, RB>(self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(Fork<'_>) -> RA + Send,
        B: FnOnce(Fork<'_>, bool) -> RB + Send,
        RB: Send,
    {
        self.join_as::<false, _, _, _, _>(a, b)
    }

    /// As [`join`](Self::join), but a worker may take `b` at any time while `a` runs, unless several jobs of this worker wait that are
    /// older. Costs a fence. `b` is told whether another worker has taken it.
    #[doc(hidden)]
    #[inline(always)]
    pub fn join_open<A, B, RA, RB>(self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(Fork<'_>) -> RA + Send,
        B: FnOnce(Fork<'_>, bool) -> RB + Send,
        RB: Send,
    {
        self.join_as::<true, _, _, _, _>(a, b)
    }

    // Not inlined: then small closures that recurse into their own caller are inlined into it, and none of them has
    // this function's frame.
    #[inline(never)]
    fn join_as<const OPEN: bool, A, B, RA, RB>(self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(Fork<'_>) -> RA + Send,
        B: FnOnce(Fork<'_>, bool) -> RB + Send,
        RB: Send,
    {
        let useful = |&(worker, at): &(&ForkWorker, usize)| {
            let deque = &worker.deque;
            let is_deep = if OPEN { deque.is_deep_now(at) } else { deque.is_deep(at) };
            !is_deep || deque.is_asked()
        };
        let Some((worker, at)) = self.place().filter(useful) else {
            return self.join_in_place(a, b);
        };
        let forked = Forked::new(b);
        let job = forked.as_job();
        // SAFETY: INV-FORK-WORKER: we are the worker (INV-DEQUE-OWNER), and `at` is the bottom. The job stays until it is taken
        // back or complete, even if `a` panics (`pending`).
        let pushed = unsafe {
            if OPEN { worker.deque.push_open(at, job) } else { worker.deque.push(at, job) }
        };
        if !pushed {
            // SAFETY: INV-FORKED: the job was not pushed, so that no other context has it.
            return self.join_in_place_cold(a, unsafe { forked.closure() });
        }
        worker.answer_if_asked();
        let forked = &forked;
        // By value, so that the worker and the index stay in registers.
        let pending = OnPanic(move || finish_after_panic(worker, at, forked));
        let ra = a(Fork::after(worker, at.wrapping_add(1)));
        core::mem::forget(pending);
        // SAFETY: INV-FORK-WORKER: we are still the worker. We pushed the job at `at`, and take it once.
        let taken = unsafe { worker.take(at, !OPEN) };
        if taken != Taken::Ours {
            return (ra, finish(worker, taken, forked));
        }
        worker.answer_if_asked();
        // SAFETY: INV-FORKED: the job was taken back, and only we have it.
        let b = unsafe { forked.closure() };
        (ra, b(Fork::after(worker, at), false))
    }

    /// As `join_in_place`, for callers that rarely need it.
    #[cold]
    #[inline(never)]
    fn join_in_place_cold<A, B, RA, RB>(self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(Fork<'_>) -> RA,
        B: FnOnce(Fork<'_>, bool) -> RB,
    {
        self.join_in_place(a, b)
    }

    /// Runs one closure after the other.
    #[inline(always)]
    fn join_in_place<A, B, RA, RB>(self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(Fork<'_>) -> RA,
        B: FnOnce(Fork<'_>, bool) -> RB,
    {
        let mut b = Some(b);
        let pending = OnPanic(|| run_after_panic(self, b.take()));
        let ra = a(self);
        core::mem::forget(pending);
        if let Some(worker) = self.worker() {
            worker.answer_if_asked();
        }
        match b {
            Some(b) => (ra, b(self, false)),
            None => unreachable!("only a panic of `a` takes it"),
        }
    }
}

/// The result of a job that was stolen, or that is the last before the worker's context leaves.
#[cold]
#[inline(never)]
fn finish<B, R>(worker: &ForkWorker, taken: Taken, forked: &Forked<B, R>) -> R
where
    B: FnOnce(Fork<'_>, bool) -> R + Send,
    R: Send,
{
    let leaving = Leaving(worker);
    complete(worker, taken, forked);
    // SAFETY: INV-FORKED: the job is complete, we are its owner, and take the outcome once.
    let outcome = unsafe { forked.outcome() };
    drop(leaving);
    match outcome {
        Ok(outcome) => outcome,
        Err(panic) => panic.resume(),
    }
}

/// Runs a job that was taken back, or waits for its thief.
fn complete<B, R>(worker: &ForkWorker, taken: Taken, forked: &Forked<B, R>)
where
    B: FnOnce(Fork<'_>, bool) -> R + Send,
    R: Send,
{
    if taken == Taken::Stolen {
        worker.wait(&forked.job);
        // SAFETY: INV-FORK-WORKER: we are the worker (INV-DEQUE-OWNER); the job was stolen, and is complete.
        unsafe { worker.deque.settle() };
    } else {
        // The worker stays for the job's own forks, whatever else has ended.
        let _run = worker.begin_run();
        worker.answer_if_asked();
        // SAFETY: the job was taken back, so that we have it, and run it once; INV-FORK-WORKER.
        unsafe { Job::run(forked.as_job(), worker) };
    }
}

/// Calls the closure when a panic drops it. Else it is forgotten.
struct OnPanic<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnPanic<F> {
    #[inline(always)]
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Side `a` has panicked: makes sure that `b` runs to its end.
#[cold]
#[inline(never)]
fn finish_after_panic<B, R>(worker: &ForkWorker, at: usize, forked: &Forked<B, R>)
where
    B: FnOnce(Fork<'_>, bool) -> R + Send,
    R: Send,
{
    let _leaving = Leaving(worker);
    // SAFETY: INV-FORK-WORKER: we are the worker. `join` pushed the job at `at`, and has not taken it back.
    let taken = unsafe { worker.take(at, true) };
    // The first panic goes on; the result of `b` is dropped.
    drop(worker.guard(|| {
        complete(worker, taken, forked);
        // SAFETY: INV-FORKED: the job is complete, we are its owner, and take the outcome once.
        drop(unsafe { forked.outcome() });
    }));
}

/// Side `a` of a fork in place has panicked: on a worker, `b` runs all the same.
#[cold]
fn run_after_panic<B, R>(fork: Fork<'_>, b: Option<B>)
where
    B: FnOnce(Fork<'_>, bool) -> R,
{
    // Without a worker, nothing would keep a second panic from ending the program.
    let Some(worker) = fork.worker() else { return };
    drop(worker.guard(|| drop(b.map(|b| b(fork, false)))));
}
