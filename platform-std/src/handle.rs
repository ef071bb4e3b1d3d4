//! What a handle does: all methods of [`Handle`] but those that spawn tasks. Each calls down to the module that does it.

use core::future::Future;

use filch::{Fork, ForkOptions, JoinHandle, SpawnError, TaskOptions, Timers, WorkerId};

use crate::{
    block_on, blocking,
    context::{Handle, current},
    error::{NoRuntime, ResizeError},
    host::Host,
    parallel,
    pausable::Pausable,
    pool::Threads,
    scope::{self, TaskScope},
};

mod hidden;
mod observe;

impl Handle {
    /// The runtime that the calling thread is in.
    ///
    /// # Errors
    /// [`NoRuntime`].
    #[inline]
    pub fn current() -> Result<Self, NoRuntime> {
        current().ok_or(NoRuntime)
    }

    /// The worker of this runtime that the calling thread is, if it is one. An index at or above the number of workers is that of a
    /// compensation worker worker, or of a thread that helps while it waits.
    #[inline]
    pub fn current_worker(&self) -> Option<WorkerId> {
        self.0.core.current_worker()
    }

    /// The runtime's clock and timers.
    pub fn timers(&self) -> Timers {
        self.0.timers
    }

    /// The host under the runtime, also in a [`Pausable`], if it has this type. A crate with a host of its own keeps there what its types
    /// need.
    pub fn host<H: Host>(&self) -> Option<&'static H> {
        let host = self.0.core.host();
        host.downcast_ref().or_else(|| host.downcast_ref().map(Pausable::inner))
    }

    /// What the host under the runtime has for types of I/O ([`Host::io`]), if it has this type.
    pub fn io<T: 'static>(&self) -> Option<&'static T> {
        self.0.core.io()?.downcast_ref()
    }

    /// Calls a closure that blocks the thread, or computes for long, in a task. The whole duty of the worker passes to others meanwhile,
    /// however many workers block: to a compensation worker in a spare slot ([`Builder::spare_slots`](crate::Builder::spare_slots)), or, if
    /// there is none, to another thread that becomes this worker. In the second case the task is on no worker from here to the end of its
    /// poll.
    ///
    /// A task that cannot move, one that is pinned or in a nested wait, has a spare slot or nothing: without one, what is pinned to its
    /// worker waits, and the rest is taken by the other workers. So it is if the system refuses a thread. Outside of tasks it is a plain
    /// call.
    ///
    /// Cost: a thread is started.
    ///
    /// # Panics
    /// With the closure's own panics.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// let runtime = filch_std::Runtime::builder().workers(1).build()?;
    /// let handle = *runtime.handle();
    /// let (send, receive) = mpsc::channel();
    /// let waits = runtime.spawn(async move {
    ///     // Another thread polls the task that sends.
    ///     filch_std::spawn(async move { send.send(7) }).detach();
    ///     handle.block_in_place(|| receive.recv())
    /// });
    /// assert_eq!(runtime.block_on(waits)?, Ok(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn block_in_place<R>(&self, f: impl FnOnce() -> R) -> R {
        let (mut f, mut output) = (Some(f), None);
        self.0.core.block_in_place(&mut || output = f.take().map(|f| f()));
        match output {
            Some(output) => output,
            None => unreachable!("a closure that returned has an output"),
        }
    }

    /// Runs a future on the calling thread, which runs the runtime's tasks while it waits. Calls
    /// may nest, also inside a task.
    ///
    /// A worker runs other tasks until the future is done, on top of its caller, up to a depth of
    /// [`Builder::nesting`](crate::Builder::nesting). Deeper than that it sleeps, and a replacement
    /// worker takes its place. Any other thread helps only while a worker sleeps, so that no more
    /// threads compute than there are workers. Otherwise it sleeps.
    ///
    /// A `std` lock that a task holds across this call is a deadlock as soon as a task that runs on
    /// top of it takes the same lock. Release it before the call; or use a lock of the crate
    /// `async-lock`, and `await` in place of `block_on`.
    ///
    /// If the runtime ends while one of its tasks waits here, the task has five seconds. Then the wait ends by a panic that is not printed,
    /// unless the task holds a [`shield`](crate::task::shield), or the program is built to abort at panics.
    ///
    /// # Panics
    /// With the future's own panics; in a forked child; in a hook of the runtime; if calls are nested too deep and tasks are
    /// queued, but for five seconds neither a worker nor a spare slot is left to run them; if a task
    /// has panicked, with [`UnhandledPanic::ShutDown`](crate::runtime::UnhandledPanic::ShutDown).
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on::run(*self, future)
    }

    /// Runs a closure that blocks, as a task, on a thread of the runtime's blocking pool; the
    /// thread is in the runtime meanwhile. Aborting the task keeps the closure from starting. A
    /// closure that has started runs to its end, even after the end of the runtime, which does not
    /// wait for it: its output is then dropped. The end of the process cuts it; the end of a `main` with the attribute waits for it,
    /// five seconds unless its option `shutdown` sets another time.
    ///
    /// The pool has at most [`Builder::blocking_threads`](crate::Builder::blocking_threads)
    /// threads; further closures wait for one. If no thread can be started at all, the closure runs
    /// on a worker.
    ///
    /// # Panics
    /// As [`spawn`](Self::spawn).
    #[track_caller]
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        blocking::spawn(*self, f)
    }

    /// As [`spawn_blocking`](Self::spawn_blocking), as the options say. Closures that wait for a
    /// thread begin in the order of their tasks' classes, but for one in 16, which is of the last
    /// class that waits. One that an urgent task waits for is urgent.
    ///
    /// # Errors
    /// [`SpawnError`], with the closure: the runtime has shut down, or there is no such worker.
    ///
    /// ```
    /// use filch_std::{TaskOptions, task::Class};
    /// let runtime = filch_std::Runtime::builder().workers(1).build()?;
    /// let bulk = TaskOptions::new().name("read").class(Class::Background);
    /// let read = runtime.handle().spawn_blocking_with(bulk, || 7)?;
    /// assert_eq!(runtime.block_on(read)?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn spawn_blocking_with<F, T>(
        &self,
        options: TaskOptions,
        f: F,
    ) -> Result<JoinHandle<T>, SpawnError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        blocking::spawn_with(*self, Threads::Pool, options, f)
    }

    /// Calls `f` with a scope, into which it spawns tasks that may borrow what lives longer than this call. Returns when `f` has returned
    /// and all tasks of the scope have ended, however `f` ends. The thread runs tasks while it waits, as in
    /// [`block_on`](Self::block_on), with the same warning on locks. In a task the call is one long poll.
    ///
    /// ```
    /// let runtime = filch_std::Runtime::new()?;
    /// let (words, mut sum) = (vec!["a".to_owned(), "few".into(), "words".into()], 0);
    /// let lengths = runtime.handle().scope(|scope| {
    ///     scope.spawn(async { sum = words.iter().map(String::len).sum::<usize>() });
    ///     let tasks: Vec<_> = words.iter().map(|word| scope.spawn(async move { word.len() })).collect();
    ///     tasks.into_iter().map(|task| task.join().unwrap()).collect::<Vec<_>>()
    /// });
    /// assert_eq!((lengths, sum), (vec![1, 3, 5], 9));
    /// # Ok::<(), filch_std::runtime::BuildError>(())
    /// ```
    ///
    /// What a task borrows lives longer than the scope:
    ///
    /// ```compile_fail,E0597
    /// let runtime = filch_std::Runtime::new().unwrap();
    /// runtime.handle().scope(|scope| {
    ///     let too_short = String::from("of the closure");
    ///     let borrowed = &too_short;
    ///     scope.spawn(async move { println!("{borrowed}") });
    /// });
    /// ```
    ///
    /// # Why there is no scope to `await`
    ///
    /// A task runs on another thread until it ends or its future is dropped there. So a borrow is sound only if the borrowed value cannot
    /// go before that. This call keeps it by its own stack frame, which no safe code takes away before the call returns or unwinds, and
    /// both wait. A future has no such frame: its owner may drop it at any `await`, and then its drop could wait, but its owner may also
    /// leak it (`mem::forget`, a cycle of counted references), and then end the borrow, while tasks still use it. No code of the scope
    /// would run in between:
    ///
    /// ```text
    /// let mut future = Box::pin(scope_async(|scope| scope.spawn(async { use_for_long(&value) })));
    /// let _ = poll_once(future.as_mut());     // the task runs on another worker
    /// mem::forget(future);                    // no drop, no wait
    /// drop(value);                            // and the task uses it
    /// ```
    ///
    /// To `await`, spawn tasks that own or share what they use, into a [`JoinSet`](crate::task::JoinSet); or poll several futures that
    /// borrow in one task, as `futures::join!` does; or compute by [`parallel::for_each_async`](crate::parallel::for_each_async), which
    /// leaves nothing behind between two polls.
    ///
    /// # Panics
    /// With a panic of `f`; if a task panicked whose handle was not joined; in a hook of the runtime. In a forked child, also if the fork
    /// was in `f` and tasks were left.
    ///
    /// Idea: `std::thread::scope`.
    #[track_caller]
    pub fn scope<'env, F, T>(&self, f: F) -> T
    where
        F: for<'scope> FnOnce(&'scope TaskScope<'scope, 'env>) -> T,
    {
        scope::scope_on(*self, f)
    }

    /// Begins a fork-join run, and waits for its end. The run is on the calling thread if that is
    /// one of the runtime's workers, or if a worker is idle and the thread can take its place: then
    /// it begins at once. Otherwise the run is a task, which takes as long to begin as it takes to
    /// wake a worker, and the thread sleeps.
    ///
    /// If the runtime has shut down, or belongs to a parent process, the closure runs on the
    /// calling thread with [`Fork::alone`]: everything in order, up to the first panic.
    ///
    /// # Panics
    /// With the closure's panic.
    pub fn fork<F, R>(&self, f: F) -> R
    where
        F: FnOnce(Fork<'_>) -> R + Send,
        R: Send,
    {
        parallel::fork(*self, None, f)
    }

    /// As [`fork`](Self::fork), with a class, and on some workers only: see [`ForkOptions`]. A worker
    /// that is not among them runs other tasks until the run is over. If all of them were asked to leave
    /// ([`resize`](Self::resize)), a thread that is none of them runs the closure with [`Fork::alone`]. In a run of another kind, on
    /// the same stack, everything runs in place.
    ///
    /// # Panics
    /// With the closure's panic; if the runtime has none of the workers, or not all of them.
    ///
    /// ```
    /// use filch_std::{parallel::ForkOptions, task::Class};
    /// let runtime = filch_std::Runtime::builder().workers(2).build()?;
    /// let bulk = ForkOptions::new().class(Class::Background);
    /// let sum = runtime.handle().fork_with(bulk, |fork| {
    ///     fork.map_reduce(0..1_000, |i| i as u64, |a, b| a + b)
    /// });
    /// assert_eq!(sum, Some(499_500));
    /// # Ok::<(), filch_std::runtime::BuildError>(())
    /// ```
    #[track_caller]
    pub fn fork_with<F, R>(&self, options: ForkOptions, f: F) -> R
    where
        F: FnOnce(Fork<'_>) -> R + Send,
        R: Send,
    {
        parallel::fork(*self, Some(options), f)
    }

    /// Calls `f` once on each worker of the runtime, in that worker's thread, and waits until all
    /// calls have ended. Returns the results in the order of the workers. For per-thread state:
    /// caches, counters, pages to touch first. Helpers and compensation workers are not included,
    /// even if one is the caller.
    ///
    /// A worker makes its call between two polls. So a worker in a long poll delays the broadcast,
    /// and one that leaves meanwhile may be left out. `f` must take no lock that is held across a
    /// fork, and must not wait for another broadcast. The result is empty if no worker can run it:
    /// after shutdown, inside another broadcast, or in a forked child.
    ///
    /// # Panics
    /// With the first panic of `f`, after `f` has run on all workers.
    ///
    /// ```
    /// let runtime = filch_std::Runtime::builder().workers(3).build()?;
    /// let names = runtime.handle().broadcast(|worker| format!("worker {}", worker.index()));
    /// assert_eq!(names, ["worker 0", "worker 1", "worker 2"]);
    /// # Ok::<(), filch_std::runtime::BuildError>(())
    /// ```
    pub fn broadcast<F, R>(&self, f: F) -> Vec<R>
    where
        F: Fn(WorkerId) -> R + Sync,
        R: Send,
    {
        parallel::broadcast_on(*self, f)
    }

    /// Has this many workers take part, from now on: starts threads for those that are missing, or has the others leave, the last ones
    /// first. For programs that learn later how much they have to do, or how many processors they have.
    ///
    /// Returns at once. A worker that is to leave ends the poll that it is in, gives what it has to the others, and its thread ends. It
    /// stays for as long as a task lives that can run nowhere else: one that is pinned to it ([`TaskOptions::pinned`]), or of
    /// [`spawn_local`](Self::spawn_local) on it, or of a [`WorkerSet`](crate::runtime::WorkerSet) that begins with it; and while it waits in sync code.
    /// New ones are refused there. [`metrics`](Self::metrics) say which workers are online. Of several calls at once, the last one holds.
    ///
    /// The number of threads that compute in a fork-join run, and of compensation workers, follows. A pool of rayon's interface keeps the
    /// number of threads that it had.
    ///
    /// # Errors
    /// [`ResizeError`]. A [`LocalRuntime`](crate::LocalRuntime) has one worker.
    ///
    /// ```
    /// use filch_std::Runtime;
    /// let runtime = Runtime::builder().workers(1).max_workers(4).build()?;
    /// let handle = runtime.handle();
    /// assert_eq!(handle.active_workers(), 1);
    /// // There is much to do.
    /// handle.resize(4)?;
    /// let sum: u64 = handle.fork(|fork| fork.map_reduce(0..10_000, |i| i as u64, |a, b| a + b)).unwrap_or(0);
    /// assert_eq!(sum, 49_995_000);
    /// // And now there is not.
    /// handle.resize(1)?;
    /// assert_eq!(runtime.block_on(handle.spawn(async { 7 }))?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resize(&self, workers: usize) -> Result<(), ResizeError> {
        self.check().map_err(|_| ResizeError::Forked)?;
        self.0.core.resize(workers)
    }

    /// How many workers take part. Of those that [`resize`](Self::resize) has added some may be on their way, and of those that it has
    /// asked to leave some may be there.
    pub fn active_workers(&self) -> usize {
        self.0.core.active()
    }
}
