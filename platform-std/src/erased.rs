//! A runtime without its host's type.

use core::any::Any;
#[cfg(feature = "metrics")]
use std::sync::Mutex;

use filch::{Fork, ForkOptions, TaskInfo, Totals, WorkerId, atomic::AtomicU32};

use crate::{
    clock::Workers, error::ResizeError, metrics::Metrics, pool::Pools, task_view::Task,
    thread_config::Dress,
};
#[cfg(all(feature = "observe", target_os = "linux"))]
use core::sync::atomic::AtomicI32;
#[cfg(feature = "observe")]
use {
    crate::{class_metrics::ClassMetrics, task_view::Activity},
    filch::{Class, TaskId},
};

/// A runtime without its host's type: what the free functions need.
pub(crate) trait Core: Workers {
    /// [`filch::Scheduler::help_patiently`].
    fn help_patiently(&'static self, done: &mut dyn FnMut() -> bool) -> bool;
    /// [`filch::Scheduler::help_until_done`].
    fn help_until_done(&'static self, done: &mut dyn FnMut() -> bool) -> bool;
    fn current_worker(&self) -> Option<WorkerId>;
    fn block(&self, word: &AtomicU32, expected: u32);
    fn unblock(&self, word: &AtomicU32);
    fn metrics(&self) -> Metrics;
    fn totals(&self) -> Totals;
    #[cfg(feature = "observe")]
    fn class_metrics(&self, class: Class) -> ClassMetrics;
    /// The thread that is this worker; 0: none.
    #[cfg(all(feature = "observe", target_os = "linux"))]
    fn thread(&'static self, worker: WorkerId) -> Option<&'static AtomicI32>;
    /// [`filch::Scheduler::tasks`].
    fn tasks(&self, visit: &mut dyn FnMut(TaskInfo));
    /// What a task has done.
    #[cfg(feature = "observe")]
    fn activity(&self, task: TaskId) -> Option<Activity>;
    /// [`filch::Scheduler::wake_tasks`].
    #[cfg(feature = "observe")]
    fn wake_tasks(&self);
    #[cfg(feature = "observe")]
    fn dump(&self, note: &str, out: &mut dyn FnMut(&[u8])) -> bool;
    fn pools(&self) -> Pools;
    #[cfg(feature = "metrics")]
    fn publishers(&self) -> &Mutex<Option<Vec<filch::AbortHandle>>>;
    fn host(&'static self) -> &'static (dyn Any + Send + Sync);
    /// [`Host::io`].
    fn io(&'static self) -> Option<&'static (dyn Any + Send + Sync)>;
    /// Calls `f` once if the calling thread is a worker that may begin the run; otherwise returns false.
    fn fork(&'static self, options: Option<ForkOptions>, f: &mut dyn FnMut(Fork<'_>)) -> bool;
    /// [`filch::Scheduler::give_way`].
    fn give_way(&'static self) -> bool;
    /// [`filch::Scheduler::give_way_and_look`].
    fn give_way_and_look(&'static self) -> bool;
    /// [`filch::Scheduler::broadcast`]; false if the core refuses it.
    fn broadcast(&'static self, f: &(dyn Fn(WorkerId) + Sync)) -> bool;
    /// The number of workers that there is room for, without compensation workers.
    fn workers(&self) -> usize;
    /// [`filch::Scheduler::active`].
    fn active(&self) -> usize;
    /// [`filch::Scheduler::resize`].
    fn resize(&'static self, workers: usize) -> Result<(), ResizeError>;
    /// [`filch::Scheduler::block_in_place`].
    fn block_in_place(&'static self, f: &mut dyn FnMut());
    /// [`filch::Scheduler::as_poll`].
    fn as_poll(&'static self, f: &mut dyn FnMut());
    /// Makes the calling thread that worker until the executor has shut down; calls `begin` first. Returns false, and does nothing, if that
    /// is not possible.
    fn be_worker(&'static self, worker: WorkerId, begin: &mut dyn FnMut()) -> bool;
    /// Makes the calling thread that worker for ever; it runs work only while it waits.
    fn stay_worker(&'static self, worker: WorkerId) -> bool;
    fn begin_shutdown(&'static self);
    /// [`filch::Scheduler::is_stopped`].
    fn is_stopped(&self) -> bool;
    /// How the runtime wants its threads made.
    fn dressed(&self) -> Dress;
}

impl dyn Core {
    /// The tasks that live.
    pub(crate) fn live_tasks(&self) -> Vec<Task> {
        let mut all = Vec::new();
        self.tasks(&mut |info| {
            #[cfg(feature = "observe")]
            let activity = self.activity(info.id);
            #[cfg(not(feature = "observe"))]
            let activity = None;
            all.push(Task { info, activity });
        });
        all
    }
}
