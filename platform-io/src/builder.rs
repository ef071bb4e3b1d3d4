//! The options of a runtime with I/O.

use core::time::Duration;

use filch_std::{BuildError, LongPoll, UnhandledPanic};
#[cfg(feature = "task-hooks")]
use filch_std::{SpawnInfo, TaskId};

use crate::{PausableRuntime, Runtime};

/// The options of a runtime: those of [`filch_std::Builder`], by the same names.
///
/// ```
/// use filch_io::{PausableRuntime, Polling, Runtime};
/// let runtime: Runtime = filch_io::builder().workers(2).name("server").build()?;
/// assert!(runtime.handle().host::<Polling>().is_some());
/// let tested: PausableRuntime = filch_io::builder().build_pausable()?;
/// tested.block_on(async { filch_io::time::pause() });
/// # Ok::<(), filch_io::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder(filch_std::Builder);

/// The options of a runtime, at the defaults of `filch-std`.
///
/// Example: [`Builder`].
pub fn builder() -> Builder {
    Builder(filch_std::Runtime::builder())
}

macro_rules! knobs {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {
        impl Builder {
            $(
                #[doc = concat!("As [`filch_std::Builder::", stringify!($name), "`].")]
                #[doc = concat!("\n\nExample: [`filch_std::Builder::", stringify!($name), "`].")]
                pub fn $name(self, $($arg: $type),*) -> Self {
                    Self(self.0.$name($($arg),*))
                }
            )*
        }
    };
}

knobs! {
    workers(n: usize);
    max_workers(most: usize);
    name(name: impl Into<String>);
    stack_size(bytes: usize);
    stealing(on: bool);
    classes(on: bool);
    background_share(n: u32);
    lifo_cap(polls: u32);
    budget(units: u16);
    spin_rounds(rounds: u32);
    watchdog(timeouts: Option<(Duration, Duration)>);
    park_timeout(longest: Option<Duration>);
    poll_limit(limit: Option<Duration>);
    nesting(depth: u32);
    job_slice(slice: Duration);
    job_workers(most: u16);
    blocking_threads(most: usize);
    on_long_poll(f: impl Fn(LongPoll) + Send + Sync + 'static);
    on_thread_start(f: impl Fn() + Send + Sync + 'static);
    on_thread_stop(f: impl Fn() + Send + Sync + 'static);
    unhandled_panic(policy: UnhandledPanic);
}

#[cfg(feature = "class-metrics")]
knobs! {
    class_metrics(on: bool);
}

#[cfg(feature = "task-metrics")]
knobs! {
    task_metrics(tasks: usize);
}

#[cfg(feature = "task-hooks")]
knobs! {
    on_task_spawn(f: impl Fn(TaskId, SpawnInfo) + Send + Sync + 'static);
    on_task_end(f: impl Fn(TaskId) + Send + Sync + 'static);
}

#[cfg(feature = "recorder")]
knobs! {
    recorder(records: usize);
}

impl Builder {
    /// Builds the runtime, with a poller of its own.
    /// Example: [`Builder`].
    ///
    /// # Errors
    /// [`BuildError`]; threads that were started have ended by then.
    pub fn build(self) -> Result<Runtime, BuildError> {
        self.0.build_on()
    }

    /// As [`build`](Self::build), with a clock that tests can stop:
    /// [`time::pause`](crate::time::pause). It goes at first.
    /// Example: [`Builder`].
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_pausable(self) -> Result<PausableRuntime, BuildError> {
        self.0.build_on()
    }
}
