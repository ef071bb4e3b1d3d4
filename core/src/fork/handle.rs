//! The handle of a fork-join run.

use core::fmt;

use super::worker::{ForkWorker, Leaving};

/// The `at` of a handle that runs everything in place.
const ALONE: usize = usize::MAX;

/// The right to fork on the worker that runs the calling code. From [`Scheduler::fork`](crate::Scheduler::fork); a forked
/// closure gets one of its own.
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
    worker: Option<&'w ForkWorker>,
    /// The bottom of the deque, as last seen by this handle.
    at: usize,
}

impl Fork<'static> {
    /// A handle without a worker: everything runs in place, one closure after the other, up to the first panic. There
    /// is no platform to contain a panic: if side `a` of a [`join`](Self::join) panics, side `b` is dropped, and a job
    /// of a scope that panics ends the scope's body.
    pub const fn alone() -> Self {
        Self { worker: None, at: ALONE }
    }
}

impl<'w> Fork<'w> {
    /// A handle for the calling worker.
    pub(super) fn of(worker: &'w ForkWorker) -> Self {
        Self::after(worker, worker.bottom())
    }

    /// As `of`. The next job comes at index `at`.
    #[inline(always)]
    pub(super) fn after(worker: &'w ForkWorker, at: usize) -> Self {
        Self { worker: Some(worker), at }
    }

    /// Begins a run on the calling worker. `alone`: no other worker can take jobs.
    pub(crate) fn run<R>(worker: &'w ForkWorker, alone: bool, f: impl FnOnce(Self) -> R) -> R {
        let _run = worker.begin_run();
        f(Self { worker: Some(worker), at: if alone { ALONE } else { worker.bottom() } })
    }

    /// The worker, and the index of the next job. `None` if everything runs in place.
    #[inline(always)]
    pub(super) fn place(self) -> Option<(&'w ForkWorker, usize)> {
        if self.at == ALONE {
            return None;
        }
        // SAFETY: there is no worker only if `at` is `ALONE`.
        let worker = unsafe { self.worker.unwrap_unchecked() };
        let bottom = worker.bottom();
        // The index in the handle spares a fork the wait for a word that was written just before. The bottom may have
        // moved up, with a job that was stolen.
        Some((worker, if self.at == bottom { self.at } else { moved(bottom) }))
    }

    /// Calls `f` in a run of its own on top of the one that the handle is of, which may end before: with coroutines, runs
    /// end in any order.
    #[doc(hidden)]
    pub fn nested<R>(self, f: impl FnOnce(Self) -> R) -> R {
        // Dropped in reverse order.
        let _leaving = self.worker.map(Leaving);
        let _run = self.worker.map(ForkWorker::begin_run);
        f(self)
    }

    /// Whether the handle was made by [`alone`](Self::alone).
    #[doc(hidden)]
    #[inline]
    pub fn has_no_worker(self) -> bool {
        self.worker.is_none()
    }

    /// Whether the calling context is the handle's worker, and does not want to leave.
    #[doc(hidden)]
    pub fn is_here(self) -> bool {
        self.worker.is_some_and(|worker| worker.is_here() && !worker.is_leaving())
    }

    pub(super) fn worker(self) -> Option<&'w ForkWorker> {
        self.worker
    }

    /// A number that identifies the handle's worker; zero without a worker.
    pub(super) fn home(self) -> usize {
        self.worker.map_or(0, |worker| core::ptr::from_ref(worker).addr())
    }

    /// Whether the worker's loop has stolen the current job, so that the stack holds nothing else.
    pub(super) fn is_at_loop_level(self) -> bool {
        self.worker.is_some_and(|worker| worker.at_loop_level.get())
    }

    /// See [`ForkWorker::is_due`].
    pub(super) fn is_due(self, since: u64) -> (bool, u64) {
        self.worker.map_or((false, 0), |worker| worker.is_due(since))
    }

    /// Whether a worker is without work and this one has no waiting job for it: then the caller should fork.
    ///
    /// For loops that fork only if another worker can help. Costs one load if none can.
    ///
    /// ```
    /// use filch::Fork;
    ///
    /// fn fill(fork: Fork<'_>, slice: &mut [u32]) {
    ///     if slice.len() < 2 || !fork.is_wanted() {
    ///         return slice.fill(7);
    ///     }
    ///     let (left, right) = slice.split_at_mut(slice.len() / 2);
    ///     fork.join(|fork| fill(fork, left), |fork| fill(fork, right));
    /// }
    ///
    /// let mut slice = [0; 100];
    /// fill(Fork::alone(), &mut slice);
    /// assert_eq!(slice, [7; 100]);
    /// ```
    #[inline]
    pub fn is_wanted(self) -> bool {
        self.at != ALONE && self.worker.is_some_and(ForkWorker::answer_if_asked)
    }
}

#[cold]
fn moved(bottom: usize) -> usize {
    bottom
}

impl fmt::Debug for Fork<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fork").field("alone", &(self.at == ALONE)).finish_non_exhaustive()
    }
}
