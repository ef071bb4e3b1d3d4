//! Runtimes: as [`filch_std::runtime`], over [`Linux`].

pub use filch_std::runtime::*;

pub use crate::{builder::Builder, linux::Linux};

/// A runtime whose workers sleep in epoll. From its `new` for one with the defaults, or from a [`Builder`].
///
/// ```
/// let runtime = filch_linux::Runtime::new()?;
/// assert_eq!(runtime.block_on(async { filch_linux::spawn(async { 3 + 4 }).await })?, 7);
/// let small = filch_linux::Runtime::builder().workers(1).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Runtime = filch_std::runtime::RuntimeOn<Linux>;

/// A runtime with a clock that tests can stop. Made by [`Builder::build_pausable`].
pub type PausableRuntime = filch_std::runtime::RuntimeOn<Pausable<Linux>>;

/// A runtime of one thread, the one that makes it, which sleeps in epoll. Made by [`Builder::build_local`].
///
/// A loop that is not its own gives it turns ([`turn`](filch_std::LocalRuntime::turn)), and sleeps meanwhile on its descriptor: the epoll,
/// which is readable when there is I/O or a wake.
///
/// ```
/// use filch_linux::runtime::Turn;
/// use rustix::event::{PollFd, PollFlags, Timespec, poll};
///
/// let runtime = filch_linux::Builder::new().build_local()?;
/// let handle = *runtime.handle();
/// let task = runtime.spawn_local(async { filch_linux::spawn_blocking(|| 7).await })?;
/// loop {
///     let turn = runtime.turn(64);
///     if task.is_finished() {
///         break;
///     }
///     let time = turn.timeout().map(|time| Timespec::try_from(time).expect("it is short"));
///     poll(&mut [PollFd::new(&runtime, PollFlags::IN)], time.as_ref())?;
/// }
/// assert_eq!(runtime.block_on(task)??, 7);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type LocalRuntime = filch_std::runtime::LocalRuntimeOn<Linux>;

/// A runtime of one thread with a clock that tests can stop. Made by [`Builder::build_local_pausable`].
pub type PausableLocalRuntime = filch_std::runtime::LocalRuntimeOn<Pausable<Linux>>;
