//! Reports of polls that take too long.

#[cfg(all(feature = "observe", target_os = "linux"))]
use core::sync::atomic::AtomicI32;
use core::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use std::{
    io::{self, Write},
    sync::Arc,
    time::SystemTime,
};

use filch::{TaskInfo, WorkerId};

/// A poll that has lasted longer than [`Builder::poll_limit`](crate::Builder::poll_limit), and is
/// still running.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LongPoll {
    /// The worker that runs the poll.
    pub worker: WorkerId,
    /// How long it has lasted, measured from when another worker first saw it.
    pub so_far: Duration,
    /// The task, if the runtime has a flight recorder (`Builder::recorder`), and the task has not ended meanwhile.
    pub task: Option<TaskInfo>,
    /// The worker's thread, as the system numbers it.
    #[cfg(all(feature = "observe", target_os = "linux"))]
    pub(crate) thread: i32,
    /// Where the thread stands that is the worker now.
    #[cfg(all(feature = "observe", target_os = "linux"))]
    pub(crate) now: Option<&'static AtomicI32>,
}

impl LongPoll {
    /// Where the worker's thread is now: a line for each frame, the innermost first. `None` if it does not answer within 200 ms, is no
    /// longer the worker, has less than 32 KiB of its stack left or is on another one; and if the program handles the signal that this
    /// uses, the eighth to last one for real-time programs.
    ///
    /// The signal interrupts the thread, which walks its stack: a system call that it blocks in is restarted, but for those that the system
    /// does not restart (`signal(7)`). To be called in the hook of [`Builder::on_long_poll`](crate::Builder::on_long_poll). Names and lines
    /// need debug information. Cost: some milliseconds, the first time some 100.
    ///
    /// ```
    /// use core::time::Duration;
    /// let runtime = filch_std::Runtime::builder()
    ///     .poll_limit(Some(Duration::from_millis(50)))
    ///     .on_long_poll(|poll| eprintln!("{poll}, here:\n{}", poll.stack().unwrap_or_default()))
    ///     .build()?;
    /// # Ok::<(), filch_std::runtime::BuildError>(())
    /// ```
    #[cfg(all(feature = "observe", target_os = "linux"))]
    pub fn stack(&self) -> Option<String> {
        // Ordering: Relaxed: a number alone.
        let is_worker = self.now?.load(Ordering::Relaxed) == self.thread;
        if is_worker { crate::stacks::of(self.thread) } else { None }
    }

    /// Prints to the standard error, at most once a second in the whole process.
    pub(crate) fn print(&self, runtime: &str) {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        // Ordering: pairs with nothing; it only limits the output.
        if LAST.swap(now, Ordering::Relaxed) != now {
            // It must not panic, as `eprintln` does when the standard error is closed.
            let _ = writeln!(
                io::stderr(),
                "{runtime}: {self} (`Builder::poll_limit`); `spawn_blocking` is for code that blocks"
            );
            #[cfg(all(feature = "observe", target_os = "linux"))]
            self.print_stack();
        }
    }

    /// To the standard error, in a thread of its own: names take time, and the worker that calls is one of those left.
    #[cfg(all(feature = "observe", target_os = "linux"))]
    fn print_stack(&self) {
        let poll = self.clone();
        let prints = move || {
            if let Some(stack) = poll.stack() {
                let _ = writeln!(io::stderr(), "{stack}");
            }
        };
        // Without a thread there is no stack.
        drop(std::thread::Builder::new().name("filch-stack".into()).spawn(prints));
    }
}

/// The task, as far as it is known, the worker and the time.
impl fmt::Display for LongPoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            None => f.write_str("a task")?,
            Some(task) => {
                write!(f, "task {}", task.name.or(task.type_name).unwrap_or("?"))?;
                if let Some(location) = task.location {
                    write!(f, " ({location})")?;
                }
            }
        }
        let Self { worker, so_far, .. } = self;
        write!(f, " has been in one poll of worker {} for {so_far:?}", worker.index())
    }
}

/// The user's hook for long polls.
#[derive(Clone)]
pub(crate) struct Hook(Arc<dyn Fn(LongPoll) + Send + Sync>);

impl Hook {
    pub(crate) fn new(f: impl Fn(LongPoll) + Send + Sync + 'static) -> Self {
        Self(Arc::new(f))
    }

    pub(crate) fn call(&self, poll: LongPoll) {
        (self.0)(poll);
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}
