//! What a runtime has done.

use core::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::Handle;

/// Waits of a current-thread runtime.
#[derive(Debug, Default)]
pub(crate) struct Parks {
    parks: AtomicU64,
    busy: AtomicU64,
}

impl Parks {
    /// The thread goes to sleep, after so long.
    pub(crate) fn park(&self, awake: Duration) {
        // Ordering: Relaxed; a count.
        self.parks.fetch_add(1, Ordering::Relaxed);
        self.busy(awake);
    }

    /// The thread has been awake for so long.
    pub(crate) fn busy(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // Ordering: Relaxed; a sum.
        self.busy.fetch_add(nanos, Ordering::Relaxed);
    }
}

/// The figures of a runtime. From [`Handle::metrics`].
#[derive(Clone, Debug)]
pub struct RuntimeMetrics {
    pub(crate) handle: Handle,
}

impl RuntimeMetrics {
    /// The number of workers; one for a current-thread runtime.
    pub fn num_workers(&self) -> usize {
        self.handle.inner.workers
    }

    /// The number of tasks that have not ended.
    pub fn num_alive_tasks(&self) -> usize {
        // Ordering: Relaxed; a count.
        self.handle.inner.alive.load(Ordering::Relaxed)
    }

    /// The number of tasks that wait for a worker in the queue of all.
    pub fn global_queue_depth(&self) -> usize {
        match &self.handle.inner.scheduler {
            Some(scheduler) => scheduler.queue.len(),
            None => self.filch().totals().injector_depth,
        }
    }

    /// How long a worker has been awake.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn worker_total_busy_duration(&self, worker: usize) -> Duration {
        self.check(worker);
        match &self.handle.inner.scheduler {
            // Ordering: Relaxed; a sum.
            Some(_) => Duration::from_nanos(self.handle.inner.parks.busy.load(Ordering::Relaxed)),
            None => Duration::from_micros(self.worker(worker).busy_micros as u64),
        }
    }

    /// How often a worker has gone to sleep.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn worker_park_count(&self, worker: usize) -> u64 {
        self.check(worker);
        match &self.handle.inner.scheduler {
            // Ordering: Relaxed; a count.
            Some(_) => self.handle.inner.parks.parks.load(Ordering::Relaxed),
            None => self.worker(worker).parks as u64,
        }
    }

    /// How often a worker has gone to sleep or has woken: odd while it sleeps.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn worker_park_unpark_count(&self, worker: usize) -> u64 {
        2 * self.worker_park_count(worker)
    }

    #[track_caller]
    fn check(&self, worker: usize) {
        let workers = self.num_workers();
        assert!(worker < workers, "worker {worker} of {workers}");
    }

    fn worker(&self, worker: usize) -> filch_linux::runtime::WorkerMetrics {
        let metrics = self.filch();
        let found = metrics.workers().find(|(id, _)| id.index() == worker);
        found.map(|(_, metrics)| metrics).unwrap_or_default()
    }

    fn filch(&self) -> filch_linux::runtime::Metrics {
        self.handle.filch().metrics()
    }
}
