//! A runtime's core and threads, as its handles use them.

use core::any::Any;
#[cfg(feature = "metrics")]
use std::sync::Mutex;
use std::thread;

use filch::{
    Fork, ForkOptions, Platform, TaskInfo, Totals, WorkerId,
    atomic::{AtomicU32, Ordering},
};

use crate::{
    erased::Core,
    host::Host,
    metrics::{Begin, Metrics},
    panics::lock,
    pool::Pools,
    resize::ResizeError,
    runtime::Shared,
    thread_config::Dress,
};
#[cfg(feature = "observe")]
use {
    crate::{
        class_metrics::{ClassMetrics, Times},
        task::Activity,
    },
    filch::{Class, TaskId},
};

impl<H: Host> Shared<H> {
    /// A runtime begins here: its counters count from now on. Its executor is still closed, so that no spawn is between them.
    pub(crate) fn count_from_here(&self) {
        let io = self.executor.platform().host.io_metrics();
        *lock(&self.begin) = Begin::of(&self.executor.metrics(), io);
    }

    /// The times of tasks, if they are taken.
    #[cfg(feature = "observe")]
    fn times(&self) -> Option<&Times> {
        self.executor.platform().sinks.times.get().filter(|times| times.is_on())
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

    fn unpark(&self, worker: WorkerId) {
        self.executor.unpark_worker(worker);
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
    fn thread(&self, worker: WorkerId) -> i32 {
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

    fn slots(&self) -> usize {
        self.kind.slots
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
