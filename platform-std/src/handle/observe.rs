//! What a handle tells of its runtime.

#[cfg(any(feature = "metrics", feature = "observe"))]
use core::time::Duration;

#[cfg(feature = "observe")]
use filch::Class;
#[cfg(feature = "metrics")]
use filch::{AbortHandle, SpawnErrorKind};

#[cfg(feature = "observe")]
use crate::{
    class_metrics::{ClassMetrics, Times},
    dump::{self, TaskDump},
    recording::Snapshot,
};
use crate::{
    context::Handle,
    metrics::{BlockingMetrics, Metrics},
    task_view::Task,
};
#[cfg(feature = "metrics")]
use crate::{prometheus, publish};

impl Handle {
    /// The tasks that live, in no order: name, type, class, whether it waits for a wake or a worker, and what it has done. Tasks that come
    /// and go meanwhile may be there or not. Cost: two read-modify-writes for each.
    ///
    /// ```
    /// use filch_std::task::{Activity, LastWake, Task, WokenBy};
    /// let runtime = filch_std::Runtime::builder().workers(1).build()?;
    /// let waits = runtime.spawn(core::future::pending::<()>());
    /// let all: Vec<Task> = runtime.handle().tasks();
    /// let [task] = all[..] else { panic!() };
    /// assert_eq!(Some(task.id), waits.id());
    /// if let Some(Activity { polls, last_wake: Some(LastWake { by: WokenBy::Task(by), ago, .. }), .. }) = task.activity {
    ///     println!("{polls} polls; task {by:?} woke it {ago:?} ago");
    /// }
    /// # Ok::<(), filch_std::runtime::BuildError>(())
    /// ```
    pub fn tasks(&self) -> Vec<Task> {
        self.0.core.live_tasks()
    }

    /// What the runtime has done since it began; all 0 in a forked child. Of a runtime that has ended: what it had done, until another one
    /// uses its memory.
    ///
    /// Cost: a few allocations, 20 loads for each worker and three locks, 0.5 us with two workers; with
    /// `Builder::class_metrics` 0.1 ms, and 20 ns for each task that lives. Meant for once a second. Not for
    /// signal handlers.
    ///
    /// ```
    /// let runtime = filch_std::Runtime::builder().workers(2).build()?;
    /// runtime.block_on(async {
    ///     let computed = filch_std::spawn(async { filch_std::spawn_blocking(|| 6 * 7).await });
    ///     assert_eq!(computed.await??, 42);
    ///     Ok::<_, filch_std::JoinError>(())
    /// })?;
    /// let metrics: filch_std::runtime::Metrics = runtime.handle().metrics();
    /// assert_eq!((metrics.totals().spawned, metrics.blocking.done), (2, 1));
    /// for (id, worker) in metrics.workers().filter(|(_, worker)| worker.online) {
    ///     println!("{id:?}: {} polls, {} forced to give way", worker.polls, worker.forced_yields);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn metrics(&self) -> Metrics {
        self.0.metrics()
    }

    /// A snapshot of the runtime's blocking pool; all zeros in a forked child.
    pub fn blocking_metrics(&self) -> BlockingMetrics {
        if self.check().is_err() {
            return BlockingMetrics::default();
        }
        self.0.core.pools().metrics()
    }
}

#[cfg(feature = "observe")]
impl Handle {
    /// What tasks of this class have done since the runtime began, and how long they have waited. All zero but for `queued`, unless
    /// [`Builder::class_metrics`](crate::Builder::class_metrics) has turned the times on; in a forked child, without exception.
    ///
    /// Cost: a look at each task that lives, and at 1,000 counters of each worker; meant for once a second. Not for signal handlers.
    ///
    /// ```
    /// use filch_std::{TaskOptions, runtime::ClassMetrics, task::Class};
    /// let runtime = filch_std::Runtime::builder().workers(2).class_metrics(true).build()?;
    /// let urgent = TaskOptions::new().class(Class::Urgent);
    /// let handle = *runtime.handle();
    /// runtime.block_on(handle.spawn_with(urgent, async {})?)?;
    /// let urgent: ClassMetrics = handle.class_metrics(Class::Urgent);
    /// assert_eq!((urgent.polls, urgent.queued, urgent.late), (1, 0, 0));
    /// assert_eq!(urgent.since(&urgent).polls, 0);
    /// let waits = urgent.waits;
    /// println!("{:?} {:?} {:?}", waits.quantile(0.5), waits.quantile(0.99), waits.longest());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn class_metrics(&self, class: Class) -> ClassMetrics {
        if self.check().is_err() {
            return Times::new(0).snapshot(class, 0);
        }
        self.0.core.class_metrics(class)
    }

    /// What the runtime did last: the polls, wakes, spawns, steals and sleeps in the memory of its flight recorder, and the tasks that
    /// live. `None` without [`Builder::recorder`](crate::Builder::recorder), and in a forked child.
    ///
    /// From any thread, while the runtime runs on. Cost: some 100 ns for each record.
    ///
    /// ```
    /// let runtime = filch_std::Runtime::builder().workers(2).recorder(1024).build()?;
    /// let handle = *runtime.handle();
    /// runtime.block_on(handle.spawn(async {}))?;
    /// assert!(handle.is_recorded());
    /// let snapshot: filch_std::runtime::Snapshot = handle.snapshot().expect("there is a recorder");
    /// # let path = std::env::temp_dir().join(format!("filch-doc-{}.trace", std::process::id()));
    /// snapshot.save(&path)?;
    /// assert_eq!(std::fs::read(&path)?, snapshot.as_bytes());
    /// # std::fs::remove_file(&path)?;
    ///
    /// // Piece by piece, in a handler:
    /// let mut file = Vec::new();
    /// assert!(handle.dump("why", &mut |piece| file.extend_from_slice(piece)) && !file.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Option<Snapshot> {
        let mut bytes = Vec::new();
        self.dump("", &mut |part| bytes.extend_from_slice(part)).then_some(Snapshot(bytes))
    }

    /// Whether [`snapshot`](Self::snapshot) gives anything: the runtime has a flight recorder, and is this process's.
    pub fn is_recorded(&self) -> bool {
        self.0.records && self.check().is_ok()
    }

    /// As [`snapshot`](Self::snapshot), piece by piece, with a note on why: without an allocation, and without a lock. False if there is
    /// nothing to write.
    ///
    /// For handlers of signals and panics too, if `out` may be called there.
    pub fn dump(&self, note: &str, out: &mut dyn FnMut(&[u8])) -> bool {
        self.check().is_ok() && self.0.core.dump(note, out)
    }

    /// Where each task of the runtime waits: what for, and by which calls its futures got there. For a program that hangs.
    ///
    /// All tasks are woken and polled once, which a future must bear at any time, and wait on. A future shows itself as it clones its
    /// waker, so those of any library are found. Ends when all tasks were polled, or after `patience`. The task that calls is in the list
    /// too, as one in a poll.
    ///
    /// Cost: a poll and some 20 us for each task, on all workers. Names and lines, some milliseconds each, are looked for when they are
    /// printed.
    ///
    /// # Errors
    /// [`ResourceBusy`](std::io::ErrorKind::ResourceBusy) during another dump in this program; `Unsupported` in a forked child.
    ///
    /// # Cancel safety
    /// Dropped earlier, it ends the dump.
    ///
    /// ```
    /// use core::{future::pending, time::Duration};
    /// use filch_std::dump::{TaskDump, WaitPoint};
    /// let runtime = filch_std::Runtime::builder().workers(1).build()?;
    /// let joined = runtime.spawn(pending::<()>());
    /// let joins = runtime.spawn(async { joined.await.is_ok() });
    /// let dump: Vec<TaskDump> = runtime.block_on(runtime.handle().dump_tasks(Duration::from_secs(10)))?;
    /// let joining = dump.iter().find(|dump| Some(dump.task.id) == joins.id()).unwrap();
    /// let [wait]: &[WaitPoint] = &joining.waits[..] else { panic!() };
    /// assert!(wait.on.is_some() && wait.stack().contains("JoinHandle"));
    /// dump.iter().for_each(|task| eprint!("{task}"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn dump_tasks(&self, patience: Duration) -> std::io::Result<Vec<TaskDump>> {
        dump::dump_tasks(*self, patience).await
    }
}

#[cfg(feature = "metrics")]
impl Handle {
    /// The runtime's figures in the text format of OpenMetrics and Prometheus: [`CONTENT_TYPE`](prometheus::CONTENT_TYPE). All names begin
    /// with "filch"; figures of workers have a label "worker", those of classes a label "class". The page `docs/observing.md` lists them.
    ///
    /// Cost: with two workers 6 us, with `Builder::class_metrics` 0.2 ms; meant for a scrape a second.
    ///
    /// ```
    /// use filch_std::prometheus::CONTENT_TYPE;
    /// let runtime = filch_std::Runtime::builder().workers(1).build()?;
    /// let answer = format!("HTTP/1.1 200 OK\r\ncontent-type: {CONTENT_TYPE}\r\n\r\n{}", runtime.handle().prometheus_text());
    /// assert!(answer.ends_with("# EOF\n"));
    /// # Ok::<(), filch_std::runtime::BuildError>(())
    /// ```
    pub fn prometheus_text(&self) -> String {
        prometheus::text_of(*self)
    }

    /// Publishes the runtime's figures each `period`, the first time at once, to the recorder that the program has installed for the crate
    /// `metrics`. The names are those of the page `docs/observing.md`. Counters and histograms get what has come since the last time, so
    /// that they count on when another runtime follows; install the recorder first. A time that adds up (the seconds that a worker was
    /// busy) is a gauge there, as the facade's counters are whole numbers.
    ///
    /// The work is that of a task of the runtime, of the class `Background`, named `filch metrics`, among those that it counts. It ends
    /// when the runtime is shut down or dropped, which does not wait for it, or when it is aborted. Call it once for a runtime: two tasks
    /// would count twice.
    ///
    /// Cost, each time: [`metrics`](Self::metrics), and what the recorder does with some 30 figures and 16 for each worker.
    ///
    /// ```
    /// use core::time::Duration;
    /// let runtime = filch_std::Runtime::builder().workers(2).build()?;
    /// // metrics_exporter_prometheus::PrometheusBuilder::new().install()?;
    /// runtime.handle().publish_metrics_every(Duration::from_secs(1))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SpawnErrorKind`]: the runtime has shut down, or this is a forked child.
    ///
    /// # Panics
    /// If the period is zero.
    pub fn publish_metrics_every(&self, period: Duration) -> Result<AbortHandle, SpawnErrorKind> {
        publish::publish_every(*self, period)
    }
}
