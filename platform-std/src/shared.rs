//! A runtime's core and threads, as its handles use them.

use core::any::Any;
#[cfg(all(feature = "observe", target_os = "linux"))]
use core::sync::atomic::AtomicI32;
use std::{
    io,
    sync::{Mutex, OnceLock},
    thread,
};

use filch::{
    BuildError as ConfigError, Fork, ForkOptions, Heap, Platform, Scheduler, TaskInfo, Totals,
    WorkerId, WorkerSlot,
    atomic::{AtomicU32, Ordering},
};

use crate::{
    clock::Workers,
    context::{Handle, Inner},
    erased::Core,
    error::ResizeError,
    fork,
    host::Host,
    hosted::Hosted,
    metrics::{Begin, Metrics},
    panics::lock,
    pool::Pools,
    stable::Kind,
    thread_config::Dress,
    unhandled::Fall,
};
#[cfg(feature = "observe")]
use {
    crate::{
        class_metrics::{ClassMetrics, Times},
        task_view::Activity,
    },
    filch::{Class, TaskId},
};

type Executor<H> = Scheduler<Hosted<H>, Box<[WorkerSlot]>>;

/// What a runtime's memory holds. It is never freed, but reused.
pub(crate) struct Shared<H: Host> {
    pub(crate) executor: Executor<H>,
    heap: &'static Heap,
    pub(crate) kind: Kind,
    /// Where the counters stood when the runtime began.
    pub(crate) begin: Mutex<Begin>,
    inner: OnceLock<Inner>,
}

impl<H: Host> Shared<H> {
    /// Puts it into memory that is never freed.
    pub(crate) fn leak(executor: Executor<H>, kind: Kind) -> &'static Self {
        let heap = Box::leak(Heap::boxed());
        let shared: &'static Self = Box::leak(Box::new(Self {
            executor,
            heap,
            kind,
            begin: Mutex::default(),
            inner: OnceLock::new(),
        }));
        let handle = shared.handle();
        // No other thread has it yet.
        let _ = shared.executor.platform().handle.set(handle);
        if let Some(clock) = handle.0.clock {
            clock.attach(shared);
        }
        shared
    }

    pub(crate) fn handle(&'static self) -> Handle {
        Handle(self.inner.get_or_init(|| Inner {
            core: self,
            heap: self.heap,
            #[cfg(not(feature = "tracing"))]
            spawner: self.executor.spawner(),
            #[cfg(feature = "tracing")]
            spawner: crate::tracing::Spawner::new(self.executor.spawner()),
            timers: self.executor.timers(),
            entry: self.executor.platform().host.entry(),
            urgent: self.executor.urgent_count(),
            clock: self.executor.platform().host.clock(),
            process: fork::generation(),
            fall: Fall::default(),
            #[cfg(feature = "observe")]
            records: self.kind.records > 0,
        }))
    }

    /// A runtime begins here: its counters count from now on. Its executor is still closed, so that no spawn is between them.
    pub(crate) fn count_from_here(&self) {
        let io = self.executor.platform().host.io_metrics();
        *lock(&self.begin) = Begin::of(&self.executor.metrics(), io);
    }

    /// See [`Core::resize`].
    pub(crate) fn set_workers(&'static self, workers: usize) -> Result<(), ResizeError> {
        let platform = self.executor.platform();
        let _during = platform.resizes.begin();
        if self.executor.is_stopped() {
            return Err(ResizeError::Shutdown);
        }
        if platform.is_local() && workers == 1 {
            // It has that one. Where it is a `LocalRuntime`, no thread may be started for it.
            return Ok(());
        }
        if !platform.resizes.are_allowed() && !platform.is_local() {
            return Err(ResizeError::NotOurs);
        }
        self.start_workers(workers)
    }

    /// As `set_workers`, for a runtime that has no thread yet.
    pub(crate) fn start_workers(&'static self, workers: usize) -> Result<(), ResizeError> {
        let platform = self.executor.platform();
        self.executor.resize(workers).map_err(|error| match error {
            filch::ResizeError::ZeroWorkers => ResizeError::Config(ConfigError::ZeroWorkers),
            filch::ResizeError::TooManyWorkers(most) => {
                ResizeError::Config(ConfigError::TooManyWorkers(most))
            }
            other => {
                let error = lock(&platform.refused).take();
                ResizeError::Thread(error.unwrap_or_else(|| io::Error::other(other.to_string())))
            }
        })
    }

    /// The times of tasks, if they are taken.
    #[cfg(feature = "observe")]
    fn times(&self) -> Option<&Times> {
        self.executor.platform().sinks.times.get().filter(|times| times.is_on())
    }
}

impl<H: Host> Workers for Shared<H> {
    fn slots(&self) -> usize {
        self.kind.slots
    }

    fn unpark(&self, worker: WorkerId) {
        self.executor.unpark_worker(worker);
    }
}

impl<H: Host> Core for Shared<H> {
    fn help_patiently(&'static self, done: &mut dyn FnMut() -> bool) -> bool {
        self.executor.help_patiently(done)
    }

    fn help_until_done(&'static self, done: &mut dyn FnMut() -> bool) -> bool {
        self.executor.help_until_done(done)
    }

    fn current_worker(&self) -> Option<WorkerId> {
        self.executor.platform().current_worker()
    }

    fn block(&self, word: &AtomicU32, expected: u32) {
        self.executor.platform().block(word, expected, None);
    }

    fn unblock(&self, word: &AtomicU32) {
        self.executor.platform().host.unblock(word);
    }

    fn metrics(&self) -> Metrics {
        let platform = self.executor.platform();
        let counters = self.executor.metrics();
        let mut metrics = lock(&self.begin).since(&counters, platform.host.io_metrics());
        metrics.blocking = platform.pools().metrics();
        #[cfg(feature = "observe")]
        if let Some(times) = self.times() {
            let mut queued = [0; 3];
            self.executor.tasks(|task| queued[task.class as usize] += usize::from(task.scheduled));
            let of = |class| times.snapshot(class, queued[class as usize]);
            metrics.classes = Some([Class::Urgent, Class::Normal, Class::Background].map(of));
        }
        metrics
    }

    fn totals(&self) -> Totals {
        lock(&self.begin).totals(&self.executor.metrics())
    }

    #[cfg(feature = "observe")]
    fn class_metrics(&self, class: Class) -> ClassMetrics {
        let mut queued = 0;
        self.executor.tasks(|task| queued += usize::from(task.scheduled && task.class == class));
        match self.times() {
            Some(times) => times.snapshot(class, queued),
            None => Times::new(0).snapshot(class, queued),
        }
    }

    #[cfg(all(feature = "observe", target_os = "linux"))]
    fn thread(&'static self, worker: WorkerId) -> Option<&'static AtomicI32> {
        self.executor.platform().thread(worker)
    }

    fn tasks(&self, visit: &mut dyn FnMut(TaskInfo)) {
        self.executor.tasks(visit);
    }

    #[cfg(feature = "observe")]
    fn activity(&self, task: TaskId) -> Option<Activity> {
        let platform = self.executor.platform();
        platform.sinks.activity(task, &platform.host)
    }

    #[cfg(feature = "observe")]
    fn wake_tasks(&self) {
        self.executor.wake_tasks();
    }

    #[cfg(feature = "observe")]
    fn dump(&self, note: &str, out: &mut dyn FnMut(&[u8])) -> bool {
        let platform = self.executor.platform();
        let Some(recording) = platform.sinks.recording.get() else { return false };
        let tasks = |visit: &mut dyn FnMut(TaskInfo)| self.executor.tasks(visit);
        recording.dump(platform.now(), tasks, note, out);
        true
    }

    fn pools(&self) -> Pools {
        self.executor.platform().pools()
    }

    #[cfg(feature = "metrics")]
    fn publishers(&self) -> &Mutex<Option<Vec<filch::AbortHandle>>> {
        &self.executor.platform().publishers
    }

    fn host(&'static self) -> &'static (dyn Any + Send + Sync) {
        &self.executor.platform().host
    }

    fn io(&'static self) -> Option<&'static (dyn Any + Send + Sync)> {
        self.executor.platform().host.io()
    }

    fn fork(&'static self, options: Option<ForkOptions>, f: &mut dyn FnMut(Fork<'_>)) -> bool {
        match options {
            None => self.executor.fork(f).is_ok(),
            Some(options) => self.executor.fork_with(options, f).is_ok(),
        }
    }

    fn give_way(&'static self) -> bool {
        self.executor.give_way()
    }

    fn give_way_and_look(&'static self) -> bool {
        self.executor.give_way_and_look()
    }

    fn broadcast(&'static self, f: &(dyn Fn(WorkerId) + Sync)) -> bool {
        if self.executor.platform().current_worker().is_none() {
            return false;
        }
        // The workers of a new runtime may not have entered yet.
        // Ordering: Acquire pairs with the Releases in `Hosted`: a worker that has entered is seen
        // to be online.
        while self.executor.platform().starting.load(Ordering::Acquire) > 0 {
            thread::yield_now();
        }
        self.executor.broadcast(f).is_ok()
    }

    fn workers(&self) -> usize {
        self.executor.workers()
    }

    fn active(&self) -> usize {
        self.executor.active()
    }

    fn resize(&'static self, workers: usize) -> Result<(), ResizeError> {
        self.set_workers(workers)
    }

    fn block_in_place(&'static self, f: &mut dyn FnMut()) {
        self.executor.block_in_place(f);
    }

    fn as_poll(&'static self, f: &mut dyn FnMut()) {
        self.executor.as_poll(f);
    }

    fn be_worker(&'static self, worker: WorkerId, begin: &mut dyn FnMut()) -> bool {
        let Ok(worker) = self.executor.worker(worker) else { return false };
        begin();
        worker.run();
        true
    }

    fn stay_worker(&'static self, worker: WorkerId) -> bool {
        let stays = self.executor.worker(worker).map(core::mem::forget).is_ok();
        if stays {
            self.executor.platform().reside();
        }
        stays
    }

    fn dressed(&self) -> Dress {
        self.executor.platform().dressed()
    }

    fn is_stopped(&self) -> bool {
        self.executor.is_stopped()
    }

    fn begin_shutdown(&'static self) {
        self.handle().0.fall.end();
        self.executor.begin_shutdown();
    }
}
