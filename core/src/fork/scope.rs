//! `scope`: any number of jobs that borrow, joined at the end.

use core::{
    cell::{Cell, UnsafeCell},
    fmt,
    marker::PhantomData,
    mem::{MaybeUninit, align_of, size_of},
    ptr::NonNull,
};

use super::{
    handle::Fork,
    worker::{ForkWorker, Job},
};
use crate::platform::Panic;

/// How many jobs of a scope can wait or run on other workers at a time.
const ROOM: usize = 16;
/// The largest closure that fits a slot, in words.
const WORDS: usize = 8;

/// Spawns jobs that all end before [`Fork::scope`] returns.
///
/// It has room for 16 jobs, with closures of at most eight words each; it takes about 1.8 KiB of stack. When the room
/// is used up, a spawn first runs the newest job that still waits. A larger closure is boxed with the feature `alloc`;
/// without the feature it runs at once. So a spawned closure runs in the spawning context or on another worker, now or
/// later.
///
/// ```
/// use filch::{Fork, Scope};
///
/// /// Measures the words, now or later.
/// fn measure<'a>(scope: &Scope<'_, 'a>, words: &'a [&str], lengths: &'a mut [usize]) {
///     for (word, length) in words.iter().zip(lengths) {
///         scope.spawn(move |_| *length = word.len());
///     }
/// }
///
/// let mut lengths = [0; 2];
/// let both = Fork::alone().scope(|scope| {
///     measure(scope, &["one", "three"], &mut lengths);
///     scope.fork().join(|_| 1, |_| 2)
/// });
/// assert_eq!((both, lengths), ((1, 2), [3, 5]));
/// ```
pub struct Scope<'w, 'env> {
    fork: Fork<'w>,
    slots: [UnsafeCell<MaybeUninit<Slot>>; ROOM],
    /// One bit for each free slot.
    free: Cell<u16>,
    /// INV-SCOPE: `[0, used)` are the slots in use, in the order of their pushes. If a job was stolen, all jobs in
    /// front of it were stolen too.
    order: [Cell<u8>; ROOM],
    used: Cell<usize>,
    /// The first panic of a job.
    panic: Cell<Option<Panic>>,
    env: PhantomData<Cell<&'env ()>>,
}

/// A job and its closure, in a slot that is in use (INV-SCOPE).
#[repr(C)]
struct Slot {
    /// The first field, so that a pointer to the job is a pointer to the whole.
    job: Job,
    at: usize,
    closure: [MaybeUninit<usize>; WORDS],
}

impl<'w> Fork<'w> {
    /// Runs `body` and returns when every job that it has spawned has ended. The jobs may borrow what lives outside of
    /// the scope.
    ///
    /// # Panics
    /// With the panic of `body`, else with the first panic of a job that was seen. All jobs have ended by then.
    ///
    /// ```
    /// let mut squares = [0; 4];
    /// filch::Fork::alone().scope(|scope| {
    ///     for (i, square) in squares.iter_mut().enumerate() {
    ///         scope.spawn(move |_| *square = i * i);
    ///     }
    /// });
    /// assert_eq!(squares, [0, 1, 4, 9]);
    /// ```
    ///
    /// A scope cannot be passed to another context: a job, or a side of a [`join`](Fork::join), opens its own.
    ///
    /// ```compile_fail
    /// filch::Fork::alone().scope(|scope| {
    ///     scope.fork().join(|_| scope.spawn(|_| {}), |_| {});
    /// });
    /// ```
    pub fn scope<'env, F, R>(self, body: F) -> R
    where
        F: FnOnce(&Scope<'_, 'env>) -> R + Send,
    {
        let scope = Scope {
            fork: self,
            slots: [const { UnsafeCell::new(MaybeUninit::uninit()) }; ROOM],
            free: Cell::new(u16::MAX),
            order: [const { Cell::new(0) }; ROOM],
            used: Cell::new(0),
            panic: Cell::new(None),
            env: PhantomData,
        };
        let end = End(&scope);
        let outcome = body(&scope);
        drop(end);
        match scope.panic.take() {
            Some(panic) => panic.resume(),
            None => outcome,
        }
    }
}

/// Waits for all jobs, even if the body panics.
struct End<'a, 'w, 'env>(&'a Scope<'w, 'env>);

impl Drop for End<'_, '_, '_> {
    fn drop(&mut self) {
        if let Some(worker) = self.0.fork.worker() {
            while self.0.settle_newest(worker, true) {}
        }
    }
}

impl<'w, 'env> Scope<'w, 'env> {
    /// The handle that the scope was opened with, for forks in its body.
    pub fn fork(&self) -> Fork<'w> {
        self.fork
    }

    /// Spawns a job. It returns its results through what it borrows.
    pub fn spawn<F>(&self, f: F)
    where
        F: FnOnce(Fork<'_>) + Send + 'env,
    {
        let fits =
            size_of::<F>() <= size_of::<[usize; WORDS]>() && align_of::<F>() <= align_of::<usize>();
        if fits || self.fork.place().is_none() {
            return self.push(f);
        }
        #[cfg(feature = "alloc")]
        self.push(alloc::boxed::Box::new(f));
        #[cfg(not(feature = "alloc"))]
        self.run_now(f);
    }

    /// Spawns a closure that fits a slot.
    fn push<F>(&self, f: F)
    where
        F: FnOnce(Fork<'_>) + Send + 'env,
    {
        let Some((worker, _)) = self.fork.place() else { return self.run_now(f) };
        let Some(index) = self.find_slot(worker) else { return self.run_now(f) };
        let slot = self.slot(index);
        let at = worker.bottom();
        // SAFETY: the slot is free and ours, and the closure fits.
        unsafe {
            let closure = [MaybeUninit::uninit(); WORDS];
            slot.write(Slot { job: Job::new(run::<F>), at, closure });
            (&raw mut (*slot.as_ptr()).closure).cast::<F>().write(f);
        }
        // SAFETY: INV-FORK-WORKER; the job stays until it is settled, by `End` at the latest.
        if !unsafe { worker.deque.push(at, slot.cast()) } {
            // SAFETY: no other context knows of the job.
            let f = unsafe { (&raw mut (*slot.as_ptr()).closure).cast::<F>().read() };
            return self.run_now(f);
        }
        self.free.set(self.free.get() & !(1 << index));
        self.order[self.used.get()].set(index as u8);
        self.used.set(self.used.get() + 1);
        worker.answer_if_asked();
    }

    fn slot(&self, index: usize) -> NonNull<Slot> {
        NonNull::from(&self.slots[index]).cast()
    }

    /// A free slot. If there is none, runs the newest job to free one.
    fn find_slot(&self, worker: &ForkWorker) -> Option<usize> {
        if self.free.get() == 0 && !self.settle_newest(worker, false) {
            // All jobs were stolen. Free the slots of those that are complete.
            let used = self.used.replace(0);
            for n in 0..used {
                let index = usize::from(self.order[n].get());
                if !self.settle_stolen(worker, index) {
                    self.order[self.used.get()].set(index as u8);
                    self.used.set(self.used.get() + 1);
                }
            }
        }
        let free = self.free.get();
        (free != 0).then(|| free.trailing_zeros() as usize)
    }

    /// Takes the newest job back and runs it. If it was stolen and `wait` is set, waits for it instead. False if it did
    /// neither.
    fn settle_newest(&self, worker: &ForkWorker, wait: bool) -> bool {
        let Some(last) = self.used.get().checked_sub(1) else { return false };
        let index = usize::from(self.order[last].get());
        // SAFETY: INV-SCOPE: a slot in use; only `Cell`s and atomics of it change.
        let slot = unsafe { self.slot(index).as_ref() };
        // SAFETY: INV-FORK-WORKER; `push` pushed it there, and it is taken once.
        if unsafe { worker.deque.take(slot.at, true) } {
            let job = self.slot(index).cast();
            self.used.set(last);
            // SAFETY: the job is ours, and runs once.
            self.keep(worker.guard(|| unsafe { Job::run(job, worker) }).err());
            self.free.set(self.free.get() | 1 << index);
            return true;
        }
        if wait {
            worker.wait(&slot.job);
            self.used.set(last);
            self.settle_stolen(worker, index);
        }
        wait
    }

    /// Frees the slot of a stolen job if the job is complete.
    fn settle_stolen(&self, worker: &ForkWorker, index: usize) -> bool {
        // SAFETY: INV-SCOPE: a slot in use.
        let slot = unsafe { self.slot(index).as_ref() };
        let done = slot.job.is_done();
        if done {
            // SAFETY: INV-JOB: the job is complete, we are its owner, and its slot is free afterwards.
            self.keep(unsafe { slot.job.take_panic() });
            // SAFETY: INV-FORK-WORKER: we are the worker (INV-DEQUE-OWNER); the job was stolen, and is complete.
            unsafe { worker.deque.settle() };
            self.free.set(self.free.get() | 1 << index);
        }
        done
    }

    fn run_now<F: FnOnce(Fork<'_>)>(&self, f: F) {
        let Some(worker) = self.fork.worker() else { return f(self.fork) };
        self.keep(worker.guard(|| f(self.fork)).err());
    }

    /// Keeps the first panic, and drops later ones.
    fn keep(&self, panic: Option<Panic>) {
        if let Some(first) = self.panic.take().or(panic) {
            self.panic.set(Some(first));
        }
    }
}

/// See `Job::new`.
unsafe fn run<F: FnOnce(Fork<'_>)>(job: NonNull<Job>, worker: &ForkWorker) {
    let slot = job.cast::<Slot>().as_ptr();
    // SAFETY: `push` has written an `F` there; contract of `run`: once.
    let f = unsafe { (&raw mut (*slot).closure).cast::<F>().read() };
    f(Fork::of(worker));
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("jobs", &self.used.get()).finish_non_exhaustive()
    }
}
