//! The options of a runtime.

use core::{fmt, time::Duration};
use std::sync::Arc;

use filch::Config;

use crate::{
    context::Handle,
    hosted::OnWake,
    long_poll::{Hook, LongPoll},
    pool::{KEEP_ALIVE, LIMIT},
    thread_config::{Affinity, Namer},
    thread_hooks::{ThreadHooks, ThreadRole},
    unhandled::UnhandledPanic,
};
#[cfg(feature = "observe")]
use {
    crate::task_hooks::TaskHooks,
    filch::{SpawnInfo, TaskId},
};

mod build;
mod generic;
mod workers;

pub use self::{
    generic::{HasBuilder, RuntimeBuilder},
    workers::available_workers,
};

/// Spare slots: for threads that help while they wait, and for the compensation workers of blocked
/// workers.
const SPARES: u16 = 8;

/// The most of each that a table has room for: gigabytes.
#[cfg(feature = "observe")]
const MOST_RECORDS: usize = 1 << 26;
#[cfg(feature = "observe")]
const MOST_TASKS: usize = 1 << 22;

/// A closure of the user's.
#[derive(Clone)]
struct Opaque<F>(F);

impl<F> fmt::Debug for Opaque<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a closure")
    }
}

/// See [`Builder::around_worker`].
type AroundWorker = Arc<dyn Fn(Handle, &mut dyn FnMut()) + Send + Sync>;

/// The options of a runtime.
///
/// ```
/// use core::time::Duration;
/// let runtime = filch_std::Builder::new() // or `Runtime::builder()`
///     .workers(2)
///     .name("compute")
///     .poll_limit(Some(Duration::from_millis(100)))
///     .build()?;
/// # Ok::<(), filch_std::runtime::BuildError>(())
/// ```
///
/// All that has no example of its own:
///
/// ```
/// use core::time::Duration;
/// use filch_std::{Runtime, runtime::available_workers};
/// let ms = Duration::from_millis;
/// let runtime = Runtime::builder()
///     .workers(available_workers().max(2))
///     .stack_size(1 << 20)
///     // The blocking pool.
///     .blocking_threads(16)
///     .blocking_keep_alive(Duration::from_secs(1))
///     // How workers choose and wait.
///     .seed(7)
///     .stealing(true)
///     .classes(true)
///     .background_share(8)
///     .lifo_cap(2)
///     .budget(64)
///     .spin_rounds(0)
///     .park_timeout(Some(ms(500)))
///     .watchdog(Some((ms(1), ms(20))))
///     // Sync code in tasks: waits, and fork-join runs.
///     .nesting(16)
///     .job_slice(ms(2))
///     .job_workers(1)
///     .build()?;
/// assert_eq!(runtime.block_on(async { filch_std::spawn(async { 7 }).await })?, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "options do nothing until a runtime is built"]
#[derive(Clone, Debug)]
pub struct Builder {
    workers: Option<usize>,
    /// See [`Builder::max_workers`].
    room: usize,
    spares: u16,
    name: String,
    namer: Option<Namer>,
    affinity: Affinity,
    stack: Option<usize>,
    config: Config,
    /// As the configuration has it, if it was set.
    nesting: Option<u32>,
    on_long_poll: Option<Hook>,
    hooks: ThreadHooks,
    around_worker: Option<Opaque<AroundWorker>>,
    blocking: usize,
    keep_alive: Duration,
    on_wake: Option<Opaque<OnWake>>,
    #[cfg(feature = "observe")]
    class_metrics: bool,
    /// Records by worker; 0: there is no recorder.
    records: usize,
    /// Tasks whose activity is kept.
    tasks: usize,
    unhandled: UnhandledPanic,
    #[cfg(feature = "observe")]
    task_hooks: TaskHooks,
}

/// As [`Builder::new`].
impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// The defaults; as [`Runtime::builder`](crate::Runtime::builder).
    pub fn new() -> Self {
        Self {
            workers: None,
            room: 0,
            spares: SPARES,
            name: "filch".into(),
            namer: None,
            affinity: Affinity::Free,
            stack: None,
            config: Config::new().spare_slots(SPARES),
            nesting: None,
            on_long_poll: None,
            hooks: ThreadHooks::default(),
            around_worker: None,
            blocking: LIMIT,
            keep_alive: KEEP_ALIVE,
            on_wake: None,
            #[cfg(feature = "observe")]
            class_metrics: false,
            records: 0,
            tasks: 0,
            unhandled: UnhandledPanic::default(),
            #[cfg(feature = "observe")]
            task_hooks: TaskHooks::default(),
        }
    }

    /// The number of workers. Without it, the number in the environment variable `FILCH_WORKERS`; without that, [`available_workers`].
    pub fn workers(mut self, n: usize) -> Self {
        self.workers = Some(n);
        self
    }

    /// Has room for this many workers, so that [`Handle::resize`](crate::Handle::resize) may add some (default: as many as there are
    /// [`workers`](Self::workers); a smaller number counts as that). Each place takes about 7 KiB, and one more look of a worker that searches.
    pub fn max_workers(mut self, most: usize) -> Self {
        self.room = most;
        self
    }

    /// The name of the threads, followed by a number (default: `filch`).
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Names the threads by a function, in place of [`name`](Self::name). A thread that is to be started waits for it. A name with a zero
    /// in it is as a thread that the system refuses: an error of the build, or no compensation worker, or no thread of the pool. If the
    /// function panics the name is the default.
    ///
    /// ```
    /// use filch_std::runtime::ThreadRole;
    /// let runtime = filch_std::Runtime::builder()
    ///     .workers(1)
    ///     .name_fn(|role| match role {
    ///         ThreadRole::Worker(worker) => format!("net/{}", worker.index()),
    ///         _ => "files".into(),
    ///     })
    ///     .build()?;
    /// let name = runtime.spawn(async { std::thread::current().name().map(str::to_owned) });
    /// assert_eq!(runtime.block_on(name)?.as_deref(), Some("net/0"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name_fn(mut self, f: impl Fn(ThreadRole) -> String + Send + Sync + 'static) -> Self {
        self.namer = Some(Namer(Arc::new(f)));
        self
    }

    /// Binds each worker's thread to a processor, on Linux (default: [`Affinity::Free`]). Good for a server that has its processors for
    /// itself, and bad where others use them: a bound worker waits for its processor while another is idle. Compensation workers and the
    /// blocking pool are free among the processors that the calling thread may use, and so is the thread of a
    /// [`LocalRuntime`](crate::LocalRuntime).
    ///
    /// On other systems a build fails that binds: [`BuildError::Thread`](crate::runtime::BuildError::Thread).
    ///
    /// ```
    /// use filch_std::runtime::Affinity;
    /// let runtime = filch_std::Runtime::builder().affinity(Affinity::Each).build()?;
    /// # Ok::<(), filch_std::runtime::BuildError>(())
    /// ```
    pub fn affinity(mut self, affinity: Affinity) -> Self {
        self.affinity = affinity;
        self
    }

    /// As [`Config::seed`].
    pub fn seed(mut self, seed: u64) -> Self {
        self.config = self.config.seed(seed);
        self
    }

    /// The stack size of the threads, in bytes (default: the standard library's).
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack = Some(bytes);
        self
    }

    /// The largest number of threads in the blocking pool (default: 512; at least one): see
    /// [`Handle::spawn_blocking`](crate::Handle::spawn_blocking). As many more may wait for pipes, devices and child processes, where a
    /// crate over this one has threads wait for them.
    pub fn blocking_threads(mut self, most: usize) -> Self {
        self.blocking = most;
        self
    }

    /// How long a thread of the blocking pool waits for a closure before it ends (default: 10 seconds; a year at most).
    pub fn blocking_keep_alive(mut self, time: Duration) -> Self {
        self.keep_alive = time;
        self
    }

    /// As [`Config::classes`].
    pub fn classes(mut self, on: bool) -> Self {
        self.config = self.config.classes(on);
        self
    }

    /// As [`Config::background_share`].
    pub fn background_share(mut self, n: u32) -> Self {
        self.config = self.config.background_share(n);
        self
    }

    /// As [`Config::stealing`].
    pub fn stealing(mut self, on: bool) -> Self {
        self.config = self.config.stealing(on);
        self
    }

    /// As [`Config::lifo_cap`].
    pub fn lifo_cap(mut self, polls: u32) -> Self {
        self.config = self.config.lifo_cap(polls);
        self
    }

    /// As [`Config::budget`]: how many ready operations a task, or the future of a [`block_on`](crate::block_on), may do in one poll before
    /// it gives way (default: 128; zero is [`ConfigError::ZeroBudget`](crate::runtime::ConfigError::ZeroBudget)).
    pub fn budget(mut self, units: u16) -> Self {
        self.config = self.config.budget(units);
        self
    }

    /// As [`Config::spin_rounds`].
    pub fn spin_rounds(mut self, rounds: u32) -> Self {
        self.config = self.config.spin_rounds(rounds);
        self
    }

    /// As [`Config::watchdog`].
    pub fn watchdog(mut self, timeouts: Option<(Duration, Duration)>) -> Self {
        self.config = self.config.watchdog(timeouts);
        self
    }

    /// As [`Config::park_timeout`].
    pub fn park_timeout(mut self, longest: Option<Duration>) -> Self {
        self.config = self.config.park_timeout(longest);
        self
    }

    /// As [`Config::poll_limit`]. A poll beyond the limit is reported by
    /// [`on_long_poll`](Self::on_long_poll).
    pub fn poll_limit(mut self, limit: Option<Duration>) -> Self {
        self.config = self.config.poll_limit(limit);
        self
    }

    /// Calls `f` once for each poll that has lasted longer than [`poll_limit`](Self::poll_limit),
    /// while the poll is still running. Another worker's thread calls it, so `f` should be short.
    /// By default a line goes to the standard error, at most once a second.
    ///
    /// ```
    /// use core::time::Duration;
    /// let runtime = filch_std::Runtime::builder()
    ///     .poll_limit(Some(Duration::from_millis(50)))
    ///     .on_long_poll(|poll: filch_std::runtime::LongPoll| eprintln!("{:?} is stuck since {:?}", poll.worker, poll.so_far))
    ///     .build()?;
    /// # Ok::<(), filch_std::runtime::BuildError>(())
    /// ```
    pub fn on_long_poll(mut self, f: impl Fn(LongPoll) + Send + Sync + 'static) -> Self {
        self.on_long_poll = Some(Hook::new(f));
        self
    }

    /// Calls `f` in each thread of the runtime as it begins: the workers, their compensation workers, and the threads of the blocking pool.
    /// For priorities, affinities, names in a profiler. The call is in no worker yet.
    ///
    /// ```
    /// let runtime = filch_std::Runtime::builder()
    ///     .on_thread_start(|| println!("{:?} begins", std::thread::current().name()))
    ///     .on_thread_stop(|| println!("{:?} ends", std::thread::current().name()))
    ///     .build()?;
    /// # Ok::<(), filch_std::runtime::BuildError>(())
    /// ```
    pub fn on_thread_start(mut self, f: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.start = Some(Arc::new(move |_| f()));
        self
    }

    /// Calls `f` in each thread of the runtime as it ends: see [`on_thread_start`](Self::on_thread_start).
    pub fn on_thread_stop(mut self, f: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.stop = Some(Arc::new(move |_| f()));
        self
    }

    /// Calls `f` as there is something to do for a [`LocalRuntime`](crate::LocalRuntime) that rests between two of its turns
    /// ([`turn`](crate::LocalRuntime::turn)); only for such a runtime, and once for each rest. Any thread may call it, and a signal handler
    /// that wakes a task. It is also called while [`block_on`](crate::LocalRuntime::block_on) sleeps, on systems without a reactor.
    ///
    /// `f` posts an event to the loop that drives the runtime. It returns soon, does not wait for that loop, and must not end the runtime. A panic
    /// in it is printed and does nothing else.
    ///
    /// ```
    /// # use std::sync::mpsc;
    /// let (events, post) = mpsc::channel();
    /// let runtime = filch_std::Runtime::builder().on_wake(move || events.send(()).unwrap_or_default()).build_local()?;
    /// assert!(matches!(runtime.turn(64), filch_std::runtime::Turn::Rests(None)));
    /// let handle = *runtime.handle();
    /// std::thread::spawn(move || handle.spawn(async {}).detach());
    /// // The loop sleeps until there is an event.
    /// assert!(post.recv().is_ok());
    /// assert!(matches!(runtime.turn(64), filch_std::runtime::Turn::Rests(None)));
    /// # Ok::<(), filch_std::runtime::BuildError>(())
    /// ```
    pub fn on_wake(mut self, f: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_wake = Some(Opaque(Arc::new(f)));
        self
    }

    /// Calls `f` as a task is spawned, in the context that spawns it, before the task is queued: its id, name, place and class, as far as
    /// its spawn said. Short, as each spawn waits for it; it must not wait for the runtime's end, which waits for the task. A panic in it
    /// is printed and does nothing else. Tasks that `f` spawns come here, too.
    ///
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
    /// let alive = Arc::new(AtomicUsize::new(0));
    /// let (more, less) = (alive.clone(), alive.clone());
    /// let runtime = filch_std::Runtime::builder()
    ///     .workers(1)
    ///     .on_task_spawn(move |_, _| _ = more.fetch_add(1, Ordering::Relaxed))
    ///     .on_task_end(move |_| _ = less.fetch_sub(1, Ordering::Relaxed))
    ///     .build()?;
    /// let waits = runtime.spawn(core::future::pending::<()>());
    /// assert_eq!(alive.load(Ordering::Relaxed), 1);
    /// drop(runtime);
    /// assert_eq!(alive.load(Ordering::Relaxed), 0);
    /// # Ok::<(), filch_std::runtime::BuildError>(())
    /// ```
    #[cfg(feature = "observe")]
    pub fn on_task_spawn(mut self, f: impl Fn(TaskId, SpawnInfo) + Send + Sync + 'static) -> Self {
        self.task_hooks.spawn = Some(Arc::new(f));
        self
    }

    /// Calls `f` on the worker that has ended a task: it is complete, was cancelled, or has panicked. As
    /// [`on_task_spawn`](Self::on_task_spawn). Before that a join may return, and a new task be spawned that has the id of this one.
    #[cfg(feature = "observe")]
    pub fn on_task_end(mut self, f: impl Fn(TaskId) + Send + Sync + 'static) -> Self {
        self.task_hooks.end = Some(Arc::new(f));
        self
    }

    /// What a panic of a task does beyond its join handle (default: nothing); one in
    /// [`Handle::spawn_blocking`](crate::Handle::spawn_blocking), too. A panic in a fork-join run or in [`block_on`](crate::block_on)'s own
    /// future has a caller, and does nothing more.
    ///
    /// ```
    /// use filch_std::runtime::UnhandledPanic;
    /// let runtime = filch_std::Runtime::builder().unhandled_panic(UnhandledPanic::ShutDown).build()?;
    /// let ended = std::panic::catch_unwind(|| {
    ///     runtime.spawn(async { panic!("on purpose") }).detach();
    ///     runtime.block_on(core::future::pending::<()>());
    /// });
    /// assert!(ended.is_err());
    /// # Ok::<(), filch_std::runtime::BuildError>(())
    /// ```
    pub fn unhandled_panic(mut self, policy: UnhandledPanic) -> Self {
        self.unhandled = policy;
        self
    }

    /// Counts and times what each task does, with room for so many, 2^22 at most (default: 0, nothing). A place stays that of a task's
    /// address, which later tasks of its size use again; a few tasks may find no place before all are taken. See
    /// [`Handle::tasks`](crate::Handle::tasks). Cost: two reads of the clock and some ten read-modify-writes for each poll, one and four for
    /// each wake, and 256 bytes for each task of the number.
    ///
    /// ```
    /// let runtime = filch_std::Runtime::builder().workers(1).task_metrics(1_000).build()?;
    /// let waits = runtime.spawn(core::future::pending::<()>());
    /// let all = runtime.tasks();
    /// assert!(all[0].activity.is_some_and(|activity| activity.polls <= 1));
    /// # Ok::<(), filch_std::runtime::BuildError>(())
    /// ```
    #[cfg(feature = "observe")]
    pub fn task_metrics(mut self, tasks: usize) -> Self {
        self.tasks = tasks.min(MOST_TASKS);
        self
    }

    /// Whether tasks are timed (default: not): see [`Handle::class_metrics`](crate::Handle::class_metrics). Cost: two reads of the clock
    /// for each poll and one for each wake, and 8 KiB for each worker and class.
    #[cfg(feature = "observe")]
    pub fn class_metrics(mut self, on: bool) -> Self {
        self.class_metrics = on;
        self
    }

    /// Records what the runtime does, for ever: the last `records` events of each worker, and as many of all other threads, rounded up to a
    /// power of two, 2^26 at most (default: 0, nothing). Each takes 16 bytes. See [`Handle::snapshot`](crate::Handle::snapshot).
    ///
    /// Each task keeps the place of its spawn, 32 bytes or more, as with [`TaskOptions`](crate::TaskOptions); so
    /// [`set_deadline`](crate::task::set_deadline) is true in all of them. Records are known to be in order for nine hours.
    ///
    /// Cost: see bench/README.md, "The flight recorder"; and a thread, which wakes up each millisecond while there are events.
    #[cfg(feature = "observe")]
    pub fn recorder(mut self, records: usize) -> Self {
        self.records = if records == 0 { 0 } else { records.min(MOST_RECORDS).next_power_of_two() };
        self
    }

    /// How many further workers there may be at a time: in the place of blocked ones, and threads that help while they wait (default: 8). A
    /// runtime uses the memory of an ended one only if both have as many.
    ///
    /// ```
    /// let runtime = filch_std::Runtime::builder().workers(1).spare_slots(2).build()?;
    /// assert_eq!(runtime.handle().slots(), 3);
    /// # Ok::<(), filch_std::runtime::BuildError>(())
    /// ```
    pub fn spare_slots(mut self, slots: u16) -> Self {
        self.spares = slots;
        self.config = self.config.spare_slots(slots);
        self
    }

    /// As [`Config::nesting`]. The waits of a [`LocalRuntime`](crate::LocalRuntime)'s thread outside of tasks do not count.
    pub fn nesting(mut self, depth: u32) -> Self {
        self.nesting = Some(depth);
        self.config = self.config.nesting(depth);
        self
    }

    /// As [`Config::job_slice`].
    pub fn job_slice(mut self, slice: Duration) -> Self {
        self.config = self.config.job_slice(slice);
        self
    }

    /// As [`Config::job_workers`].
    pub fn job_workers(mut self, most: u16) -> Self {
        self.config = self.config.job_workers(most);
        self
    }
}
