//! How a runtime is built.

use core::any::TypeId;
use std::io;

use filch::{Scheduler, WorkerId, WorkerSlot};

use super::{Builder, WakeFn, workers::default_workers};
use crate::{
    error::BuildError,
    fork,
    host::Host,
    hosted::Hosted,
    local::{LocalRuntime, LocalRuntimeOn},
    pausable::Pausable,
    pool::Pools,
    runtime::{Runtime, RuntimeOn, Shared},
    stable::{self, Kind},
    thread_config::{self, Dress, Places},
};

impl Builder {
    /// Builds the runtime over futexes (condition variables where there are none).
    ///
    /// # Errors
    /// [`BuildError`]. Threads that were started have ended by the return.
    ///
    /// ```
    /// use filch_std::{Builder, Futex, LocalRuntime, LocalRuntimeOn, Pausable, Runtime, RuntimeOn};
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
    /// # Ok::<(), filch_std::BuildError>(())
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
    /// [`BuildError`]; [`TooManyWorkers`](BuildError::TooManyWorkers) if [`workers`](Self::workers) says more than one. The
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
            (Some(0), _) => return Err(BuildError::ZeroWorkers),
            _ => return Err(BuildError::TooManyWorkers(1)),
        }
        self.begin()?;
        self = self.spares(0);
        if let Some(depth) = self.nesting {
            // The outermost wait is the runtime's loop.
            self.config = self.config.nesting(depth.saturating_add(1));
        }
        let on_wake = self.on_wake.take().map(|WakeFn(f)| f);
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
            _ if workers == 0 => Err(BuildError::ZeroWorkers),
            n if n > most => Err(BuildError::TooManyWorkers(most)),
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
        let dress = Dress {
            name: self.name,
            namer: self.namer,
            places,
            stack: self.stack,
            on_long_poll: self.on_long_poll,
            hooks: self.hooks,
        };
        let of_pool = Dress { on_long_poll: None, ..dress.clone() };
        platform.set_pools(Pools::new(self.blocking, self.keep_alive, of_pool));
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
        let runtime = RuntimeOn::over(shared);
        runtime.handle().0.fall.begin(self.unhandled);
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
