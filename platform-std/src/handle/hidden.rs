//! For crates that present a runtime's workers under another API, such as rayon's: the worker that
//! a thread is, and how a worker waits. For hosts with threads of their own: how these are in the runtime.
//! Hidden, and outside the stability promise.

use core::future::Future;
use std::{io, thread};

use filch::{JoinHandle, SpawnError, SpawnErrorKind, TaskOptions, WorkerId};

use crate::{
    blocking::{self, BlockingPool},
    context::{Handle, Within, current, enter},
    hosted,
    pool::Threads,
};

#[doc(hidden)]
impl Handle {
    /// Identifies the runtime: its address, and the process that has its threads. A later runtime
    /// in the same memory has the same identity, and as many workers.
    #[inline]
    pub fn identity(&self) -> (usize, u32) {
        (core::ptr::from_ref(self.0.core).cast::<()>().addr(), self.0.process)
    }

    /// The number of workers, without compensation workers.
    pub fn workers(&self) -> usize {
        self.0.core.workers()
    }

    /// The largest number of workers, with compensation workers and helpers.
    pub fn slots(&self) -> usize {
        self.0.core.slots()
    }

    /// Runs work on a worker until `done` is true. As [`filch::Scheduler::help_until`], but it
    /// returns only then, however deep the wait is nested. The code that makes `done` true then
    /// calls [`unpark`](Self::unpark).
    pub fn help_until(&self, done: &mut dyn FnMut() -> bool) -> bool {
        self.0.core.help_until_done(done)
    }

    /// Makes a worker check its queues. From any context, also after the runtime has ended.
    pub fn unpark(&self, worker: WorkerId) {
        self.0.core.unpark(worker);
    }

    /// Makes the calling thread that worker until the runtime ends. Calls `begin` first. Returns
    /// false, and does nothing, if there is no such worker, if another thread is that worker
    /// already, or if the runtime has ended. For a runtime that was built bare.
    pub fn be_worker(&self, worker: WorkerId, begin: &mut dyn FnMut()) -> bool {
        self.0.core.be_worker(worker, begin)
    }

    /// Makes the calling thread that worker for ever; it runs work only while it waits in the
    /// runtime. The runtime must then never be dropped: the drop would wait for this worker.
    pub fn stay_worker(&self, worker: WorkerId) -> bool {
        self.0.core.stay_worker(worker)
    }

    /// Starts a thread that is in the runtime, made as its workers are. Its name is the runtime's, followed by `name`.
    ///
    /// # Errors
    /// The operating system has no thread.
    pub fn start_thread(
        &self,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<thread::JoinHandle<()>> {
        let (dress, here) = (self.0.core.dressed(), *self);
        let mut builder = thread::Builder::new().name(format!("{}-{name}", dress.name));
        if let Some(bytes) = dress.stack {
            builder = builder.stack_size(bytes);
        }
        builder.spawn(move || {
            dress.hooks.around(None, || {
                let _within = Within::new(here);
                body();
            });
        })
    }

    /// Calls `f` in the runtime, if the calling thread is in another.
    pub fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        let is_here = current() == Some(*self);
        let _within = (!is_here).then(|| Within::new(*self));
        f()
    }

    /// For threads of other code, which have their own beginnings and ends: what such a thread calls as it begins and as it ends. It is in
    /// the runtime in between, and the hooks of the runtime's threads are called in it.
    pub fn settle_threads(
        &self,
    ) -> (impl Fn() + Send + Sync + 'static, impl Fn() + Send + Sync + 'static) {
        let (here, hooks) = (*self, self.0.core.dressed().hooks);
        let (begin, end) = (hooks.clone(), hooks);
        let begin = move || {
            enter(Some(here));
            begin.started(None);
        };
        (begin, move || end.stopped(None))
    }

    /// Cancels every task and ends the workers. Waits for neither.
    pub fn begin_shutdown(&self) {
        self.0.core.begin_shutdown();
    }

    /// Has workers that wait for a fork-join job, in any runtime, call `find` in each round of the
    /// wait, and what it returns: work of a broadcast, which only this worker can do, and which that
    /// job may wait for. It must not unwind, and must take no lock that is held across a fork. The
    /// caller of the broadcast has the worker look by [`Handle::unpark`].
    ///
    /// The first caller's stays.
    pub fn set_foreign_broadcasts(find: fn() -> Option<fn()>) {
        hosted::set_foreign_broadcasts(find);
    }

    /// As [`spawn`](Self::spawn), with the error of a spawn that is refused; and without the room that the options of
    /// [`spawn_with`](Self::spawn_with) take in a task. For code that spawns under another interface.
    ///
    /// # Errors
    /// [`SpawnError`], with the future.
    #[track_caller]
    pub fn offer<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_here(future).map_err(|error| self.refused(error))
    }

    /// As [`spawn_blocking_with`](Self::spawn_blocking_with), on these threads.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn spawn_on<F, T>(
        &self,
        threads: Threads,
        options: TaskOptions,
        f: F,
    ) -> Result<JoinHandle<T>, SpawnError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        blocking::spawn_with(*self, threads, options, f)
    }

    /// Has a thread call a closure that nothing cancels: the end of the runtime waits until it has been called, five seconds at most. For
    /// work that a caller has been told is done.
    ///
    /// # Errors
    /// The runtime has ended, or is the parent process's; the closure is dropped.
    pub fn accept(
        &self,
        threads: Threads,
        f: impl FnOnce() + Send + 'static,
    ) -> Result<(), SpawnErrorKind> {
        blocking::accept(*self, threads, f)
    }

    /// The runtime's pool for closures of `spawn_blocking`.
    pub fn blocking_pool(&self) -> BlockingPool {
        BlockingPool::of(*self)
    }
}
