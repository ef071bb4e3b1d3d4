//! A runtime of one thread: the thread that makes it is its worker.

use core::{
    fmt,
    future::Future,
    mem::ManuallyDrop,
    panic::{RefUnwindSafe, UnwindSafe},
    time::Duration,
};
#[cfg(unix)]
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::{io, thread, time::Instant};

use filch::{JoinHandle, SpawnError, Worker, WorkerId, WorkerSlot};

#[cfg(unix)]
use crate::host::Pollable;
use crate::{
    block_on::Entered,
    context::Handle,
    error::BuildError,
    hooks,
    host::{Futex, Host},
    hosted::{Hosted, OnWake, be_punctual},
    threaded::RuntimeOn,
};

/// A [`LocalRuntime`] on this host.
///
/// ```
/// use filch_std::{LocalRuntime, runtime::{Host, LocalRuntimeOn}};
/// fn seven<H: Host>(runtime: &LocalRuntimeOn<H>) -> u32 {
///     runtime.block_on(async { 7 })
/// }
/// assert_eq!(seven(&LocalRuntime::new()?), 7);
/// # Ok::<(), filch_std::runtime::BuildError>(())
/// ```
pub struct LocalRuntimeOn<H: Host> {
    /// Only `drop` takes these, in this order. The worker keeps this type on its thread.
    worker: ManuallyDrop<Worker<Hosted<H>, Box<[WorkerSlot]>>>,
    runtime: ManuallyDrop<RuntimeOn<H>>,
}

/// A runtime whose tasks all run on the thread that has made it: in [`block_on`](Self::block_on), or in the [`turn`](Self::turn)s that
/// another loop gives it. They need not be `Send`.
///
/// ```
/// use std::{cell::Cell, rc::Rc};
/// let runtime = filch_std::LocalRuntime::new()?;
/// let sum = Rc::new(Cell::new(0));
/// let output = runtime.block_on(async {
///     let add = |n| {
///         let sum = Rc::clone(&sum);
///         filch_std::spawn_local(async move { sum.set(sum.get() + n) }).expect("the thread is the worker")
///     };
///     for task in [add(3), add(4)] {
///         task.await?;
///     }
///     Ok::<_, filch_std::JoinError>(sum.get())
/// })?;
/// assert_eq!(output, 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Everything of a [`Runtime`](crate::Runtime) works in it: [`spawn`](crate::spawn), also from other threads by the [`Handle`]; timers,
/// I/O,
/// [`spawn_blocking`](crate::spawn_blocking), whose pool is the only further threads of this crate (a host may have one of its own); fork-join runs, which run in place. Wakes from
/// other threads end its sleep. Between two calls of `block_on` or `turn` nothing runs, and the tasks wait.
///
/// While it lives its thread is in it, for functions as [`spawn`](crate::spawn), unless the thread is in another runtime. A thread may have
/// several, and then is in the oldest that lives; it may be a worker of another runtime, too. The hooks of
/// [`Builder::on_thread_start`](crate::Builder::on_thread_start) are not called for this thread. The timeouts of this thread's sleeps
/// become exact (on Linux, `PR_SET_TIMERSLACK`), as those of worker threads are.
///
/// Dropping it cancels its tasks, and drops their futures on this thread; it waits for tasks that hold a [`shield`](crate::task::shield).
/// Dropped inside a poll of its own, or in a hook of a runtime, it ends after that. If it is leaked, its futures are never dropped.
///
/// It stays on its thread:
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>(_: T) {}
/// is_send(filch_std::LocalRuntime::new().unwrap());
/// ```
///
/// ```compile_fail,E0277
/// fn is_sync<T: Sync>(_: &T) {}
/// is_sync(&filch_std::LocalRuntime::new().unwrap());
/// ```
///
/// Idea: tokio's type of the same name, glib's and winit's loops.
pub type LocalRuntime = LocalRuntimeOn<Futex>;

/// What a loop does after it gave a [`LocalRuntime`] a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Turn {
    /// The turn was too short for all there is to do: give it another one soon.
    Again,
    /// There is nothing to do. The next turn comes when [`Builder::on_wake`](crate::Builder::on_wake)'s closure is called, when the
    /// descriptor of the runtime is readable, or after this time if there is one. The runtime has a descriptor if its host is `Pollable`:
    /// filch-linux's, and filch-io's where the system's poller is a file (Linux, BSD, Apple's). On a host that has I/O and no descriptor,
    /// as filch-io's on Windows, only turns hear of I/O.
    Rests(Option<Duration>),
    /// The runtime has shut down, since a task has panicked (`UnhandledPanic::ShutDown`). There will be nothing to do.
    Stopped,
}

impl Turn {
    /// How long the loop may sleep before the next turn, unless it is woken: `None` for ever. As `poll` and its like take it.
    ///
    /// ```
    /// use core::time::Duration;
    /// use filch_std::runtime::Turn;
    /// assert_eq!(Turn::Again.timeout(), Some(Duration::ZERO));
    /// assert_eq!(Turn::Rests(None).timeout(), None);
    /// ```
    pub fn timeout(self) -> Option<Duration> {
        match self {
            Self::Again => Some(Duration::ZERO),
            Self::Rests(time) => time,
            Self::Stopped => None,
        }
    }
}

impl<H: Host> LocalRuntimeOn<H> {
    /// The calling thread becomes the worker of a runtime without threads.
    pub(crate) fn enter(
        runtime: RuntimeOn<H>,
        on_wake: Option<OnWake>,
    ) -> Result<Self, BuildError> {
        let executor = &runtime.shared().executor;
        let entered = executor.worker(WorkerId::new(0));
        let worker = entered.map_err(|error| BuildError::Thread(io::Error::other(error)))?;
        executor.platform().reside();
        be_punctual();
        executor.platform().on_wake.set(on_wake, thread::yield_now);
        Ok(Self { worker: ManuallyDrop::new(worker), runtime: ManuallyDrop::new(runtime) })
    }

    /// A handle to spawn with, from anywhere.
    pub fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// The host under the runtime.
    pub fn host(&self) -> &H {
        self.runtime.host()
    }

    /// [`Handle::spawn`].
    ///
    /// # Panics
    /// In a forked child; when the allocator has no more memory.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.runtime.spawn(future)
    }

    /// Spawns a task that need not be `Send`: [`Handle::spawn_local`].
    ///
    /// # Errors
    /// [`SpawnError`], with the future: in a forked child, or if the runtime has shut down.
    #[cfg_attr(feature = "tracing", track_caller)]
    pub fn spawn_local<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.handle().spawn_local(future)
    }

    /// Runs a future on this thread, and the tasks while it waits. It may be called inside a task.
    ///
    /// # Panics
    /// As [`Handle::block_on`].
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.check();
        let mut future = Some(future);
        self.runtime.shared().executor.as_poll(|| {
            let Some(future) = future.take() else { unreachable!("it is called once") };
            self.runtime.block_on(future)
        })
    }

    /// Gives the runtime a turn in a loop that is not its own, as that of a GUI or a game: at most `polls` polls of tasks, fewer if there
    /// is nothing to do. Fires timers that are due, and delivers I/O. Never blocks, unless a task does.
    ///
    /// A loop begins with a turn, and goes on as [`Turn`] says. What the loop does with the runtime between two turns (a spawn, a
    /// `block_on`, a timer that it polls) is seen to in the next; if the runtime was at rest,
    /// [`Builder::on_wake`](crate::Builder::on_wake)'s closure is called. Inside a task of this runtime a turn is a part of the task's poll, and never rests.
    ///
    /// With a stopped clock ([`time::pause`](crate::time::pause)) the time of [`Turn::Rests`] does not pass: the clock moves by
    /// [`time::advance`](crate::time::advance) alone.
    ///
    /// ```
    /// use core::time::Duration;
    /// use filch_std::{LocalRuntime, runtime::Turn};
    /// let runtime = LocalRuntime::new()?;
    /// let task = runtime.spawn_local(async { filch_std::time::sleep(Duration::from_millis(2)).await })?;
    /// loop {
    ///     let turn = runtime.turn(64);
    ///     if task.is_finished() {
    ///         break;
    ///     }
    ///     match turn {
    ///         Turn::Again => {}
    ///         Turn::Rests(time) => std::thread::sleep(time.expect("there is a timer")),
    ///         Turn::Stopped => unreachable!("no task panics"),
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// In a forked child.
    pub fn turn(&self, polls: usize) -> Turn {
        self.drive(|worker| worker.turn(polls))
    }

    /// As [`turn`](Self::turn), for about so long: it ends with the poll in which this time is over. At least one poll, if there is a
    /// task to poll.
    ///
    /// # Panics
    /// As [`turn`](Self::turn).
    ///
    /// ```
    /// use core::time::Duration;
    /// use filch_std::{LocalRuntime, runtime::Host};
    /// let runtime = LocalRuntime::builder().name("pool").build_local()?;
    /// let began = runtime.host().now();
    /// let task = runtime.spawn(async { 7 });
    /// runtime.handle().spawn(async {}).detach();
    /// while !task.is_finished() {
    ///     // 8 ms for the tasks, and the rest of the frame for the game.
    ///     let turn = runtime.turn_for(Duration::from_millis(8));
    ///     assert_ne!(turn, filch_std::runtime::Turn::Stopped);
    /// }
    /// assert!(runtime.host().now() >= began);
    /// # Ok::<(), filch_std::runtime::BuildError>(())
    /// ```
    pub fn turn_for(&self, slice: Duration) -> Turn {
        // In real time, whether the runtime's clock goes or not.
        let begin = Instant::now();
        self.drive(|worker| {
            loop {
                match worker.turn(1) {
                    filch::Turn::Again if begin.elapsed() < slice => {}
                    other => return other,
                }
            }
        })
    }

    fn drive(
        &self,
        turn: impl FnOnce(&Worker<Hosted<H>, Box<[WorkerSlot]>>) -> filch::Turn,
    ) -> Turn {
        self.check();
        let _entered = Entered::new(*self.handle());
        match turn(&self.worker) {
            filch::Turn::Again => Turn::Again,
            filch::Turn::Rests(end) => Turn::Rests(end.map(|end| end - self.now())),
            filch::Turn::Stopped => Turn::Stopped,
        }
    }

    fn now(&self) -> filch::Instant {
        self.handle().0.timers.now()
    }

    #[track_caller]
    fn check(&self) {
        if let Err(kind) = self.handle().check() {
            panic!("{kind}");
        }
    }
}

impl<H: Host> Drop for LocalRuntimeOn<H> {
    fn drop(&mut self) {
        // SAFETY: each is taken once, here.
        let (worker, runtime) = unsafe {
            (ManuallyDrop::take(&mut self.worker), ManuallyDrop::take(&mut self.runtime))
        };
        if runtime.handle().check().is_err() {
            // A forked child: the worker's memory is a copy, and what it holds of the system is the parent's.
            core::mem::forget(worker);
            return;
        }
        let own = *runtime.handle();
        own.0.core.begin_shutdown();
        if worker.is_at_work() || hooks::are_on_stack() {
            // It goes offline at the end of that, and another thread sees to the rest.
            drop(worker);
        } else {
            let _entered = Entered::new(own);
            worker.run();
        }
        drop(runtime);
    }
}

/// The descriptor for a loop that sleeps in `poll` or its like between two turns ([`LocalRuntime::turn`]): readable as soon as there is
/// I/O for the runtime, or a wake. For reading alone: nothing else may be done with it.
#[cfg(unix)]
impl<H: Pollable> AsFd for LocalRuntimeOn<H> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the contract of `Pollable`; the thread is the worker for as long as this lives.
        unsafe { BorrowedFd::borrow_raw(self.host().raw_fd()) }
    }
}

/// As [`AsFd`], for libraries that take a number.
#[cfg(unix)]
impl<H: Pollable> AsRawFd for LocalRuntimeOn<H> {
    fn as_raw_fd(&self) -> RawFd {
        self.host().raw_fd()
    }
}

impl<H: Host> UnwindSafe for LocalRuntimeOn<H> {}
impl<H: Host> RefUnwindSafe for LocalRuntimeOn<H> {}

impl<H: Host> fmt::Debug for LocalRuntimeOn<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalRuntime").field("runtime", &self.runtime).finish()
    }
}
