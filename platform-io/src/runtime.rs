//! Runtimes: as [`filch_std::runtime`], over [`Polling`].

pub use filch_std::runtime::*;

#[cfg(feature = "polling")]
pub use crate::{builder::Builder, polling::Polling};

/// A runtime whose workers sleep in a poller. From its `new` for one with the defaults, or from a [`Builder`].
///
/// ```
/// let runtime = filch_io::Runtime::new()?;
/// assert_eq!(runtime.block_on(async { filch_io::spawn(async { 3 + 4 }).await })?, 7);
/// let small = filch_io::Runtime::builder().workers(1).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "polling")]
pub type Runtime = filch_std::runtime::RuntimeOn<Polling>;

/// A runtime with a clock that tests can stop. Made by [`Builder::build_pausable`].
#[cfg(feature = "polling")]
pub type PausableRuntime = filch_std::runtime::RuntimeOn<Pausable<Polling>>;

/// A runtime of one thread, which sleeps in a poller. Made by [`Builder::build_local`].
///
/// A loop that is not its own gives it turns ([`turn`](filch_std::LocalRuntime::turn)), and sleeps meanwhile on its descriptor where there
/// is one.
#[cfg(feature = "polling")]
pub type LocalRuntime = filch_std::runtime::LocalRuntimeOn<Polling>;

/// A runtime of one thread with a clock that tests can stop. Made by [`Builder::build_local_pausable`].
#[cfg(feature = "polling")]
pub type PausableLocalRuntime = filch_std::runtime::LocalRuntimeOn<Pausable<Polling>>;
