//! Waits of tasks in sync code, which the end of their runtime ends.

use core::{
    cell::Cell,
    fmt,
    pin::Pin,
    task::{Context, Waker},
    time::Duration,
};
use std::{panic::resume_unwind, thread};

use filch::{Instant, Sleep, TaskId};

use crate::context::{Handle, current};

/// How long a task may wait in sync code once its runtime ends: destructors have something to save.
const PATIENCE: Duration = Duration::from_secs(5);

thread_local! {
    /// The runtime whose task the thread polls, while that waits in `block_on`.
    static HOME: Cell<Option<Handle>> = const { Cell::new(None) };
    /// The run of a runtime at whose end a task of this thread waited last, the task, and when its waits end.
    static LAST_WAIT: Cell<Option<(u64, TaskId, Instant)>> = const { Cell::new(None) };
}

/// A wait of a task in sync code: it is cancelled when its runtime ends, but has come to no poll boundary at which it could be dropped. So the wait
/// unwinds, five seconds later, unless the task holds a shield. Outside of tasks it is no such wait, and goes on.
///
/// For functions like `block_on`, of this crate and of others.
#[doc(hidden)]
pub struct TaskWait {
    /// The runtime of the task.
    home: Option<Handle>,
    /// What `HOME` was.
    before: Option<Handle>,
    /// What the end of the runtime wakes.
    listed: Option<Waker>,
    limit: Option<Limit>,
}

impl TaskWait {
    /// A wait of the calling thread in this runtime, to which it comes from where it is.
    #[must_use]
    pub fn begin(runtime: Handle) -> Self {
        let polls = |runtime: &Handle| runtime.0.spawner.task().is_some();
        let home = Some(runtime).filter(polls).or_else(|| current().filter(polls));
        let home = home.or(HOME.get());
        Self { home, before: HOME.replace(home), listed: None, limit: None }
    }

    /// Whether the runtime of the task is this one.
    pub(crate) fn is_of(&self, runtime: Handle) -> bool {
        self.home.is_some_and(|home| home.is(runtime))
    }

    /// Has the end of the task's runtime call this waker.
    pub(crate) fn listen(&mut self, waker: &Waker) {
        let Some(home) = self.home else { return };
        if !self.listed.as_ref().is_some_and(|listed| listed.will_wake(waker)) {
            self.forget();
            home.0.fall.list(waker.clone());
            self.listed = Some(waker.clone());
        }
    }

    /// Takes `listen` back.
    pub(crate) fn forget(&mut self) {
        if let (Some(home), Some(listed)) = (self.home, self.listed.take()) {
            home.0.fall.unlist(&listed);
        }
    }

    /// Whether the runtime of the task is at its end, and the wait does not know yet.
    pub(crate) fn has_news(&self) -> bool {
        self.limit.is_none() && self.is_ending()
    }

    fn is_ending(&self) -> bool {
        self.home.is_some_and(|home| home.0.fall.is_ending())
    }

    /// After a poll of what is waited for that was pending.
    ///
    /// # Panics
    /// It unwinds if the runtime has ended, and the time is over.
    pub(crate) fn check(&mut self, cx: &mut Context<'_>) {
        if let Some(home) = self.home.filter(|_| self.is_ending()) {
            self.limit.get_or_insert_with(|| Limit::begin(home)).check(cx);
        }
    }

    /// `listen` and `check`, for a wait that knows nothing but wakers.
    pub fn poll(&mut self, cx: &mut Context<'_>) {
        self.listen(cx.waker());
        self.check(cx);
    }
}

impl fmt::Debug for TaskWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskWait").finish_non_exhaustive()
    }
}

impl Drop for TaskWait {
    fn drop(&mut self) {
        self.forget();
        HOME.set(self.before);
    }
}

/// The end of a wait in sync code by the end of the runtime; none for a task that holds a shield.
struct Limit(Option<Pin<Box<Sleep>>>);

impl Limit {
    /// Called at the end of the runtime, in a poll of a task if this is one.
    fn begin(handle: Handle) -> Self {
        let task = handle.0.spawner.task().filter(|task| task.shields == 0);
        // In an unwind another panic would end the program; without unwinding any would.
        let may_unwind = cfg!(panic = "unwind") && !thread::panicking();
        Self(task.filter(|_| may_unwind).map(|task| {
            let (timers, number) = (handle.0.timers, handle.0.fall.number());
            let until = match LAST_WAIT.get() {
                Some((run, id, until)) if (run, id) == (number, task.id) => until,
                _ => timers.now() + PATIENCE,
            };
            LAST_WAIT.set(Some((number, task.id, until)));
            Box::pin(timers.sleep_until(until))
        }))
    }

    /// Unwinds if the time is over.
    fn check(&mut self, cx: &mut Context<'_>) {
        if self.0.as_mut().is_some_and(|sleep| sleep.as_mut().poll(cx).is_ready()) {
            // It is no surprise that a panic hook should report.
            resume_unwind(Box::new("the runtime has ended while its task waited in `block_on`"));
        }
    }
}
