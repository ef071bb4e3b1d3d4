//! The options of a runtime.

use core::{
    fmt,
    sync::atomic::{AtomicBool, AtomicUsize},
    time::Duration,
};
use std::{
    io,
    sync::{Arc, Mutex, OnceLock},
};

use filch_linux::runtime::{Linux, ThreadRole};
use slab::Slab;

use super::{
    Handle, LocalOptions, LocalRuntime, Runtime, beside, context,
    current::{INTERVAL, Scheduler},
    handle::Inner,
    id::Id,
    metrics::Parks,
};
use crate::time::Clock;

type Hook = Arc<dyn Fn() + Send + Sync>;
type Names = Arc<dyn Fn() -> String + Send + Sync>;

/// The name of the threads, unless the builder sets one.
const NAME: &str = "tokio-runtime-worker";
/// The most threads for closures that block, unless the builder sets another number.
const BLOCKING: usize = 512;
/// The name of the thread that waits for the I/O of a current-thread runtime.
const REACTOR: &str = "filch-reactor";
/// How many workers that are deep in other calls are replaced at a time: in `block_on` in `block_on`, in a join. One in `block_in_place`
/// gives its place to another thread and takes no slot.
const SPARES: u16 = 8;
/// How long one waits for work, unless the builder sets another time.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// What the threads of a runtime call, and how they are made.
#[derive(Clone)]
pub(crate) struct Hooks {
    names: Names,
    stack: Option<usize>,
    start: Option<Hook>,
    stop: Option<Hook>,
    pub(crate) park: Option<Hook>,
    unpark: Option<Hook>,
}

impl Hooks {
    fn started(&self) {
        if let Some(hook) = &self.start {
            hook();
        }
    }

    fn stopped(&self) {
        if let Some(hook) = &self.stop {
            hook();
        }
    }

    pub(crate) fn unparked(&self) {
        if let Some(hook) = &self.unpark {
            hook();
        }
    }
}

/// A worker works inside of tokio's `block_on`, as a root future is polled there.
fn work_inside_tokio(filch: filch_linux::Handle, work: &mut dyn FnMut()) {
    match filch.host().and_then(beside::handle) {
        Some(tokio) => tokio.block_on(async { work() }),
        None => work(),
    }
}

/// The options of a runtime.
pub struct Builder {
    threaded: bool,
    workers: Option<usize>,
    io: bool,
    time: bool,
    paused: bool,
    name: Option<String>,
    hooks: Hooks,
    blocking: usize,
    keep_alive: Duration,
    interval: u32,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("threaded", &self.threaded)
            .field("worker_threads", &self.workers)
            .field("max_blocking_threads", &self.blocking)
            .finish_non_exhaustive()
    }
}

macro_rules! hooks {
    ($($(#[$doc:meta])* $name:ident: $field:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name<F>(&mut self, f: F) -> &mut Self
        where
            F: Fn() + Send + Sync + 'static,
        {
            self.hooks.$field = Some(Arc::new(f));
            self
        }
    )*};
}

impl Builder {
    fn new(threaded: bool) -> Self {
        let hooks = Hooks {
            names: Arc::new(|| NAME.into()),
            stack: None,
            start: None,
            stop: None,
            park: None,
            unpark: None,
        };
        Self {
            threaded,
            workers: None,
            io: false,
            time: false,
            paused: false,
            name: None,
            hooks,
            blocking: BLOCKING,
            keep_alive: KEEP_ALIVE,
            interval: INTERVAL,
        }
    }

    /// The options of a runtime whose tasks run inside `block_on`, on the thread that calls it.
    pub fn new_current_thread() -> Self {
        Self::new(false)
    }

    /// The options of a runtime with workers.
    #[cfg(feature = "rt-multi-thread")]
    pub fn new_multi_thread() -> Self {
        Self::new(true)
    }

    /// As [`enable_io`](Self::enable_io) and [`enable_time`](Self::enable_time).
    pub fn enable_all(&mut self) -> &mut Self {
        self.enable_io().enable_time()
    }

    /// The runtime's tasks may use sockets, pipes, signals, child processes.
    pub fn enable_io(&mut self) -> &mut Self {
        self.io = true;
        self
    }

    /// The runtime's tasks may use timers.
    pub fn enable_time(&mut self) -> &mut Self {
        self.time = true;
        self
    }

    /// Has no effect: filch takes as many events of I/O at a time as it has room for.
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn max_io_events_per_tick(&mut self, capacity: usize) -> &mut Self {
        assert!(capacity > 0, "max_io_events_per_tick must be non-zero");
        self
    }

    /// Has no effect, as [`max_io_events_per_tick`](Self::max_io_events_per_tick).
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn max_io_events_per_busy_tick(&mut self, capacity: usize) -> &mut Self {
        assert!(capacity > 0, "max_io_events_per_busy_tick must be non-zero");
        self
    }

    /// The number of workers (default: `TOKIO_WORKER_THREADS`, otherwise as many as there are processors).
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn worker_threads(&mut self, val: usize) -> &mut Self {
        assert!(val > 0, "Worker threads cannot be set to 0");
        self.workers = Some(val);
        self
    }

    /// The most threads for closures that block (default: 512).
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn max_blocking_threads(&mut self, val: usize) -> &mut Self {
        assert!(val > 0, "Max blocking threads cannot be set to 0");
        self.blocking = val;
        self
    }

    /// How long a thread for closures that block waits for the next one (default: 10 s).
    pub fn thread_keep_alive(&mut self, duration: Duration) -> &mut Self {
        self.keep_alive = duration;
        self
    }

    /// The name of the runtime's threads (default: `tokio-runtime-worker`).
    pub fn thread_name(&mut self, val: impl Into<String>) -> &mut Self {
        let name = val.into();
        self.thread_name_fn(move || name.clone())
    }

    /// As [`thread_name`](Self::thread_name), for each thread another.
    pub fn thread_name_fn<F>(&mut self, f: F) -> &mut Self
    where
        F: Fn() -> String + Send + Sync + 'static,
    {
        self.hooks.names = Arc::new(f);
        self
    }

    /// The runtime's own name.
    ///
    /// # Panics
    /// If it is empty.
    #[track_caller]
    pub fn name(&mut self, val: impl Into<String>) -> &mut Self {
        let name = val.into();
        assert!(!name.trim().is_empty(), "runtime name shouldn't be empty");
        self.name = Some(name);
        self
    }

    /// The stack of each thread, in bytes.
    pub fn thread_stack_size(&mut self, val: usize) -> &mut Self {
        self.hooks.stack = Some(val);
        self
    }

    hooks! {
        /// Calls `f` in each thread of the runtime as it begins.
        on_thread_start: start;
        /// Calls `f` in each thread of the runtime as it ends.
        on_thread_stop: stop;
        /// Calls `f` before a thread of the runtime goes to sleep.
        on_thread_park: park;
        /// Calls `f` after a thread of the runtime has woken.
        on_thread_unpark: unpark;
    }

    /// Has no effect: filch looks at the queue of all by its own measure of fairness.
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn global_queue_interval(&mut self, val: u32) -> &mut Self {
        assert!(val > 0, "global_queue_interval must be greater than 0");
        self
    }

    /// How many tasks a current-thread runtime polls before it looks at the clock (default: 61). No effect on workers.
    ///
    /// # Panics
    /// If it is zero.
    #[track_caller]
    pub fn event_interval(&mut self, val: u32) -> &mut Self {
        assert!(val > 0, "event_interval must be greater than 0");
        self.interval = val;
        self
    }

    /// Whether the clock is stopped at first: see [`pause`](crate::time::pause). For current-thread runtimes.
    #[cfg(feature = "test-util")]
    pub fn start_paused(&mut self, start_paused: bool) -> &mut Self {
        self.paused = start_paused;
        self
    }

    /// Builds the runtime.
    ///
    /// # Errors
    /// If the operating system refuses threads or files.
    ///
    /// # Panics
    /// If a runtime with workers is to start with a stopped clock.
    #[track_caller]
    pub fn build(&mut self) -> io::Result<Runtime> {
        let workers = if self.threaded { self.worker_count()? } else { 1 };
        assert!(
            !(self.threaded && self.paused),
            "`start_paused` requires the `current_thread` Tokio runtime."
        );
        let scheduler = (!self.threaded).then(|| Scheduler::new(self.interval));
        let clock = Clock::new(scheduler.as_ref().map(|scheduler| Arc::clone(&scheduler.queue)));
        let inner = Arc::new(Inner {
            id: Id::next(),
            name: self.name.clone(),
            workers,
            filch: OnceLock::new(),
            tokio: OnceLock::new(),
            scheduler,
            clock,
            io: self.io,
            local: AtomicBool::new(false),
            time: self.time,
            pool: OnceLock::new(),
            hooks: self.hooks.clone(),
            parks: Parks::default(),
            closed: AtomicBool::new(false),
            alive: AtomicUsize::new(0),
            sources: AtomicUsize::new(0),
            outside: Mutex::new(Slab::new()),
        });
        let handle = Handle { inner };
        let filch = self.filch(&handle, workers)?;
        let tokio = handle.inner.host().and_then(beside::handle);
        let _ = handle.inner.tokio.set(tokio.ok_or_else(super::shutting_down)?);
        handle.inner.clock.begin(filch.handle().timers());
        if self.paused {
            handle.inner.clock.pause();
        }
        Ok(Runtime::over(handle, filch))
    }

    fn worker_count(&self) -> io::Result<usize> {
        if let Some(workers) = self.workers {
            return Ok(workers);
        }
        match std::env::var("TOKIO_WORKER_THREADS") {
            Ok(value) => match value.parse() {
                Ok(n) if n > 0 => Ok(n),
                _ => Err(io::Error::other(format!(
                    "\"TOKIO_WORKER_THREADS\" must be a number above zero, not {value:?}"
                ))),
            },
            Err(_) => Ok(filch_linux::runtime::available_workers()),
        }
    }

    /// The threads. Those of a current-thread runtime are its reactor and the pool.
    fn filch(&self, handle: &Handle, workers: usize) -> io::Result<filch_linux::Runtime> {
        let (threaded, names) = (self.threaded, Arc::clone(&self.hooks.names));
        // The program's hooks are not for the reactor of a current-thread runtime, which no runtime of tokio's has.
        let is_told = move |role| threaded || matches!(role, Some(ThreadRole::Blocking(_)));
        let (start, stop) = (self.hooks.clone(), self.hooks.clone());
        // Not the runtime itself, which leads to the hooks of the threads beside it.
        let inner = Arc::downgrade(&handle.inner);
        let builder = filch_linux::Builder::new()
            .workers(workers)
            .blocking_threads(self.blocking)
            .blocking_keep_alive(self.keep_alive)
            .name_fn(move |role| if is_told(Some(role)) { names() } else { REACTOR.into() })
            .on_threads(
                move |role| {
                    // Also the threads of the runtime beside it are in this one.
                    if let Some(inner) = inner.upgrade() {
                        drop(context::settle(Some(Handle { inner })));
                    }
                    if is_told(role) {
                        start.started();
                    }
                },
                move |role| {
                    if is_told(role) {
                        stop.stopped();
                    }
                    drop(context::settle(None));
                },
            );
        let builder = match self.hooks.stack {
            Some(bytes) => builder.stack_size(bytes),
            None => builder,
        };
        let builder = if threaded {
            // A wait in sync code is that of `block_in_place`: a compensation worker takes over at once.
            builder.spare_slots(SPARES).nesting(0).around_worker(work_inside_tokio)
        } else {
            builder.name(REACTOR)
        };
        let prepare = |filch: &filch_linux::Handle| {
            let _ = handle.inner.filch.set(*filch);
            let _ = handle.inner.pool.set(filch.blocking_pool());
            let host: &Linux = filch.host().ok_or_else(super::shutting_down)?;
            beside::start(host, *filch)
        };
        builder.build_with(prepare).map_err(io::Error::other)
    }

    /// Builds a runtime whose tasks need not be `Send`.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    ///
    /// # Panics
    /// If this is a builder of a runtime with workers.
    #[track_caller]
    pub fn build_local(&mut self, _options: LocalOptions) -> io::Result<LocalRuntime> {
        assert!(!self.threaded, "multi_thread is not supported for LocalRuntime");
        Ok(LocalRuntime::over(self.build()?))
    }
}
