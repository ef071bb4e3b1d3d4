//! For crates that present a runtime's workers under another API, such as rayon's: the worker that
//! a thread is, and how a worker waits. For hosts with threads of their own: how these are in the runtime.
//! Hidden, and outside the stability promise.

use std::{
    io,
    sync::{Arc, OnceLock},
    thread,
};

use filch::WorkerId;

use crate::{
    builder::Builder,
    context::{Handle, current, enter},
    entry::Within,
    thread_config::ThreadRole,
};

/// Finds what the calling worker is to run.
type FindBroadcast = fn() -> Option<fn()>;

static FOREIGN_BROADCASTS: OnceLock<FindBroadcast> = OnceLock::new();

/// What the calling worker is to run in a wait for a job.
pub(crate) fn foreign_broadcast() -> Option<fn()> {
    FOREIGN_BROADCASTS.get().and_then(|find| find())
}

#[doc(hidden)]
impl Handle {
    /// Identifies the runtime: its address, and the process that has its threads. A later runtime
    /// in the same memory has the same identity, and as many workers.
    #[inline]
    pub fn identity(&self) -> (usize, u32) {
        (core::ptr::from_ref(self.0.core).cast::<()>().addr(), self.0.process)
    }

    /// The worker that the calling thread is. An index at or above [`workers`](Self::workers) is a
    /// replacement worker or a helper.
    #[inline]
    pub fn worker(&self) -> Option<WorkerId> {
        self.0.core.current_worker()
    }

    /// The number of workers, without replacement workers.
    pub fn workers(&self) -> usize {
        self.0.core.workers()
    }

    /// The largest number of workers, with replacement workers and helpers.
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
        let is_here = current().is_some_and(|here| core::ptr::eq(here.0, self.0));
        let _within = (!is_here).then(|| Within::new(*self));
        f()
    }

    /// For threads of other code, which have their own beginnings and ends: what such a thread calls as it begins and as it ends. It is in
    /// the runtime in between, and the hooks of the runtime's threads are called in it.
    pub fn settles_threads(
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
        FOREIGN_BROADCASTS.get_or_init(|| find);
    }
}

#[doc(hidden)]
impl Builder {
    /// Calls `f` in each thread that is started for a worker, with what the thread does as a worker, from its beginning to its end: for code
    /// that has the thread in a context of its own for as long as a call lasts. The runtime's handle may be used; the thread is in the
    /// runtime only inside of that call. If `f` panics or has not called it, the thread does it afterwards.
    pub fn around_worker(
        mut self,
        f: impl Fn(Handle, &mut dyn FnMut()) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.around_worker = Some(Arc::new(f));
        self
    }

    /// As [`on_thread_start`](Self::on_thread_start) and [`on_thread_stop`](Self::on_thread_stop), with what the thread is for; `None` for one of
    /// the host, such as tokio's.
    pub fn on_threads(
        mut self,
        start: impl Fn(Option<ThreadRole>) + Send + Sync + 'static,
        stop: impl Fn(Option<ThreadRole>) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.start = Some(Arc::new(start));
        self.hooks.stop = Some(Arc::new(stop));
        self
    }
}
