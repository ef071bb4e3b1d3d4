//! The options of a runtime with I/O.

use core::{fmt, marker::PhantomData, time::Duration};

use filch_std::{BuildError, Host, LongPoll, Pausable, Runtime, UnhandledPanic};
#[cfg(feature = "task-hooks")]
use filch_std::{SpawnInfo, TaskId};

/// The options of a runtime over the host `H`: those of [`filch_std::Builder`], by the same names.
///
/// ```
/// let runtime = filch_io::builder().workers(2).name("server").build()?;
/// # Ok::<(), filch_io::BuildError>(())
/// ```
pub struct Builder<H>(filch_std::Builder, PhantomData<fn() -> H>);

/// The defaults of `filch-std`.
impl<H: Host> Default for Builder<H> {
    fn default() -> Self {
        Self(Runtime::builder(), PhantomData)
    }
}

macro_rules! knobs {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {
        impl<H: Host> Builder<H> {
            $(
                #[doc = concat!("As [`filch_std::Builder::", stringify!($name), "`].")]
                pub fn $name(self, $($arg: $type),*) -> Self {
                    Self(self.0.$name($($arg),*), PhantomData)
                }
            )*
        }
    };
}

knobs! {
    workers(n: usize);
    name(name: impl Into<String>);
    stack_size(bytes: usize);
    stealing(on: bool);
    classes(on: bool);
    background_share(n: u32);
    lifo_cap(polls: u32);
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

impl<H: Host> Builder<H> {
    /// Builds the runtime, with a host of its own.
    ///
    /// # Errors
    /// [`BuildError`]; threads that were started have ended by then.
    pub fn build(self) -> Result<Runtime<H>, BuildError> {
        self.0.build_on()
    }

    /// As [`build`](Self::build), with a clock that tests can stop:
    /// [`time::pause`](filch_std::time::pause). It goes at first.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_pausable(self) -> Result<Runtime<Pausable<H>>, BuildError> {
        self.0.build_on()
    }
}

impl<H> Clone for Builder<H> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<H> fmt::Debug for Builder<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Builder").field(&self.0).finish()
    }
}
