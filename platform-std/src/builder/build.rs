//! How a runtime is built.

use core::any::TypeId;
use std::{io, sync::Arc};

use filch::{BuildError as ConfigError, Scheduler, WorkerId, WorkerSlot};

use super::{Builder, Opaque, workers::default_workers};
use crate::{
    context::{Handle, Within},
    error::BuildError,
    fork,
    host::Host,
    hosted::Hosted,
    local::{LocalRuntime, LocalRuntimeOn},
    pausable::Pausable,
    pool::Pools,
    shared::Shared,
    stable::{self, Kind},
    thread_config::{self, Dress, Places},
    thread_hooks::{Around, ThreadHooks, ThreadRole},
    threaded::{Runtime, RuntimeOn},
};

impl Builder {
    /// Builds the runtime over futexes (condition variables where there are none).
    ///
    /// # Errors
    /// [`BuildError`]. Threads that were started have ended by the return.
    ///
    /// ```
    /// use filch_std::{Builder, LocalRuntime, Runtime, runtime::{Futex, LocalRuntimeOn, Pausable, RuntimeOn}};
    /// let options = Runtime::builder().workers(1);
    /// let runtime: Runtime = options.clone().build()?; // as `build_on::<Futex>()`
    /// assert_eq!(runtime.block_on(async { 7 }), 7);
    /// let stopped: RuntimeOn<Pausable> = options.clone().build_pausable()?; // as `build_on::<Pausable>()`
    /// stopped.block_on(async { filch_std::time::pause() });
    ///
    /// let local: LocalRuntime = options.clone().build_local()?; // as `build_local_on::<Futex>()`
    /// assert_eq!(local.block_on(async { 7 }), 7);
    /// let stopped: LocalRuntimeOn<Pausable> = options.clone().build_local_pausable()?;
    /// stopped.block_on(async { filch_std::time::pause() });
    /// # let _ = (options.clone().build_on::<Futex>()?, options.build_local_on::<Futex>()?);
    /// # Ok::<(), filch_std::runtime::BuildError>(())
    /// ```
    pub fn build(self) -> Result<Runtime, BuildError> {
        self.build_on()
    }

    /// As [`build`](Self::build), with a clock that tests can stop:
    /// [`time::pause`](crate::time::pause). It goes at first.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_pausable(self) -> Result<RuntimeOn<Pausable>, BuildError> {
        self.build_on()
    }

    /// Builds the runtime over another host.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_on<H: Host>(self) -> Result<RuntimeOn<H>, BuildError> {
        self.build_with(|_| Ok(()))
    }

    /// As `build_on`; calls `prepare` with the runtime before its first worker starts.
    ///
    /// # Errors
    /// As [`build`](Self::build); [`BuildError::Host`] with the error of `prepare`.
    #[doc(hidden)]
    pub fn build_with<H: Host>(
        self,
        prepare: impl FnOnce(&RuntimeOn<H>) -> io::Result<()>,
    ) -> Result<RuntimeOn<H>, BuildError> {
        self.begin()?;
        let (workers, room) = self.places()?;
        let runtime = self.prepare(room)?;
        prepare(&runtime).map_err(BuildError::Host)?;
        runtime.shared().executor.platform().resizes.allow(true);
        runtime.shared().start_workers(workers)?;
        Ok(runtime)
    }

    /// Builds a runtime of one thread, the calling one, over futexes (condition variables where there are none).
    ///
    /// # Errors
    /// [`BuildError`]; [`TooManyWorkers`](ConfigError::TooManyWorkers) if [`workers`](Self::workers) says more than one. The
    /// environment variable `FILCH_WORKERS` is of no account.
    pub fn build_local(self) -> Result<LocalRuntime, BuildError> {
        self.build_local_on()
    }

    /// As [`build_local`](Self::build_local), with a clock that tests can stop.
    ///
    /// # Errors
    /// As [`build_local`](Self::build_local).
    pub fn build_local_pausable(self) -> Result<LocalRuntimeOn<Pausable>, BuildError> {
        self.build_local_on()
    }

    /// Builds a runtime of one thread over another host.
    ///
    /// # Errors
    /// As [`build_local`](Self::build_local).
    pub fn build_local_on<H: Host>(self) -> Result<LocalRuntimeOn<H>, BuildError> {
        self.build_local_with(|_| Ok(()))
    }

    /// As `build_local_on`; calls `prepare` with the runtime before its worker enters.
    ///
    /// # Errors
    /// As [`build_local`](Self::build_local); [`BuildError::Host`] with the error of `prepare`.
    #[doc(hidden)]
    pub fn build_local_with<H: Host>(
        mut self,
        prepare: impl FnOnce(&RuntimeOn<H>) -> io::Result<()>,
    ) -> Result<LocalRuntimeOn<H>, BuildError> {
        match (self.workers, self.room) {
            (None | Some(1), 0 | 1) => {}
            (Some(0), _) => return Err(ConfigError::ZeroWorkers.into()),
            _ => return Err(ConfigError::TooManyWorkers(1).into()),
        }
        self.begin()?;
        self = self.spare_slots(0);
        if let Some(depth) = self.nesting {
            // The outermost wait is the runtime's loop.
            self.config = self.config.nesting(depth.saturating_add(1));
        }
        let on_wake = self.on_wake.take().map(|Opaque(f)| f);
        let runtime = self.prepare(1)?;
        prepare(&runtime).map_err(BuildError::Host)?;
        LocalRuntimeOn::enter(runtime, on_wake)
    }

    /// What comes first, whatever is built.
    fn begin(&self) -> Result<(), BuildError> {
        thread_config::check(&self.name).map_err(BuildError::Thread)?;
        fork::watch();
        Ok(())
    }

    /// As `build_on`, without threads: the caller makes them, and each calls [`Handle::be_worker`].
    ///
    /// # Errors
    /// As [`build`](Self::build).
    #[doc(hidden)]
    pub fn build_bare<H: Host>(self) -> Result<RuntimeOn<H>, BuildError> {
        self.begin()?;
        let (_, room) = self.places()?;
        self.prepare(room)
    }

    /// The number of workers at first, and of those that there is room for.
    fn places(&self) -> Result<(usize, usize), BuildError> {
        let most = (usize::from(WorkerId::MAX) + 1).saturating_sub(usize::from(self.spares));
        let workers = self.workers.map_or_else(|| default_workers(most), Ok)?;
        match self.room.max(workers) {
            _ if workers == 0 => Err(ConfigError::ZeroWorkers.into()),
            n if n > most => Err(ConfigError::TooManyWorkers(most).into()),
            n => Ok((workers, n)),
        }
    }

    /// An executor without threads.
    fn prepare<H: Host>(self, workers: usize) -> Result<RuntimeOn<H>, BuildError> {
        let places = Places::new(&self.affinity, workers)?;
        let slots = workers + usize::from(self.spares);
        let kind = Kind {
            host: TypeId::of::<H>(),
            slots,
            spares: self.spares,
            records: self.records,
            tasks: self.tasks,
        };
        let shared = match stable::take::<Shared<H>>(&kind) {
            Some(shared) => match self.use_again(shared)? {
                true => shared,
                false => self.make(kind)?,
            },
            None => self.make(kind)?,
        };
        let platform = shared.executor.platform();
        let runtime = RuntimeOn::over(shared);
        let here = *runtime.handle();
        let around = self
            .around_worker
            .map(|Opaque(around)| -> Around { Arc::new(move |body| around(here, body)) });
        let dress = Dress {
            name: self.name,
            namer: self.namer,
            places,
            stack: self.stack,
            on_long_poll: self.on_long_poll,
            hooks: ThreadHooks { around_worker: around, ..self.hooks },
        };
        let of_pool = Dress { on_long_poll: None, ..dress.clone() };
        let within: Around = Arc::new(move |body| {
            let _within = Within::new(here);
            body();
        });
        platform.set_pools(Pools::new(self.blocking, self.keep_alive, of_pool, within));
        platform.dress(dress);
        platform.resizes.allow(false);
        #[cfg(feature = "metrics")]
        {
            *crate::panics::lock(&platform.publishers) = Some(Vec::new());
        }
        #[cfg(feature = "observe")]
        {
            let hooks = self.task_hooks.spawn.is_some() || self.task_hooks.end.is_some();
            let records = shared.kind.records > 0;
            platform.sinks.turn(self.class_metrics || self.tasks > 0 || hooks || records);
            platform.sinks.time(slots, self.class_metrics);
            platform.sinks.follow(slots, self.tasks);
            platform.sinks.hooked.set(self.task_hooks);
        }
        here.0.fall.begin(self.unhandled);
        #[cfg(feature = "observe")]
        platform.record(runtime.shared().kind.records).map_err(BuildError::Thread)?;
        Ok(runtime)
    }

    /// Reopens an executor that has shut down. False if it cannot be used yet: a helper in a spare
    /// slot may not have left.
    fn use_again<H: Host>(&self, shared: &'static Shared<H>) -> Result<bool, BuildError> {
        shared.count_from_here();
        let host = &shared.executor.platform().host;
        // SAFETY: the last runtime here has ended, and this one has no worker yet.
        let opened = unsafe { host.open() }.map_err(BuildError::Host).and_then(|()| {
            let opened = shared.executor.reopen_with(&self.config).map_err(BuildError::from);
            if !matches!(opened, Ok(true)) {
                // SAFETY: as above.
                unsafe { host.close() };
            }
            opened
        });
        if !matches!(opened, Ok(true)) {
            stable::give(shared.kind, shared);
        }
        opened
    }

    fn make<H: Host>(&self, kind: Kind) -> Result<&'static Shared<H>, BuildError> {
        let host = H::new().map_err(BuildError::Host)?;
        let slots = (0..kind.slots).map(|_| WorkerSlot::new()).collect();
        let executor = Scheduler::over(Hosted::new(host, kind.slots), self.config, slots)?;
        Ok(Shared::leak(executor, kind))
    }
}

#[doc(hidden)]
impl Builder {
    /// Calls `f` in each thread that is started for a worker, with what the thread does as a worker, from its beginning to its end: for
    /// code that has the thread in a context of its own for as long as a call lasts. The runtime's handle may be used; the thread is in the
    /// runtime only inside of that call. If `f` panics or has not called it, the thread does it afterwards.
    pub fn around_worker(
        mut self,
        f: impl Fn(Handle, &mut dyn FnMut()) + Send + Sync + 'static,
    ) -> Self {
        self.around_worker = Some(Opaque(Arc::new(f)));
        self
    }

    /// As [`on_thread_start`](Self::on_thread_start) and [`on_thread_stop`](Self::on_thread_stop), with what the thread is for; `None` for
    /// one of the host, such as tokio's.
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
