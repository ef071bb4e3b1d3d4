//! Waits of tasks in sync code, which the end of their runtime ends.

use core::{
    cell::Cell,
    fmt,
    task::{Context, Waker},
};
use std::{panic::resume_unwind, thread};

use crate::{
    context::{Handle, current},
    unhandled::End,
};

thread_local! {
    /// The runtime whose task the thread polls, while that waits in `block_on`.
    static HOME: Cell<Option<Handle>> = const { Cell::new(None) };
}

/// A wait of a task in sync code: it is cancelled when its runtime ends, but has come to no poll boundary at which it could be dropped. So
/// all such waits of a runtime unwind five seconds after its end has begun, but those of tasks that hold a shield, and those of threads
/// that unwind already: another panic would end the program. Outside of tasks it is no such wait, and goes on.
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
    /// What it knows of the runtime's end.
    seen: End,
}

impl TaskWait {
    /// A wait of the calling thread in this runtime, to which it comes from where it is.
    #[must_use]
    pub fn begin(runtime: Handle) -> Self {
        let polls = |runtime: &Handle| runtime.0.spawner.task().is_some();
        let home = Some(runtime).filter(polls).or_else(|| current().filter(polls));
        let home = home.or(HOME.get());
        Self { home, before: HOME.replace(home), listed: None, seen: End::Far }
    }

    /// Whether the runtime of the task is this one.
    pub(crate) fn is_of(&self, runtime: Handle) -> bool {
        self.home == Some(runtime)
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

    fn end(&self) -> End {
        self.home.map_or(End::Far, |home| home.0.fall.how_far())
    }

    /// Whether the runtime of the task has come nearer to its end than the wait knows.
    pub(crate) fn has_news(&self) -> bool {
        self.end() != self.seen
    }

    /// After a poll of what is waited for that was pending.
    ///
    /// # Panics
    /// It unwinds if the runtime has ended, and the time is over.
    pub(crate) fn check(&mut self, cx: &mut Context<'_>) {
        let Some(home) = self.home else { return };
        // Each look is at one value: an end that begins right after it is news.
        self.seen = self.end();
        if self.seen != End::Far {
            // First: what comes from here on calls the waker.
            self.listen(cx.waker());
            home.0.fall.limit();
            self.seen = self.end();
        }
        if self.seen == End::Over && self.may_unwind(home) {
            // It is no surprise that a panic hook should report.
            resume_unwind(Box::new("the runtime has ended while its task waited in `block_on`"));
        }
    }

    fn may_unwind(&self, home: Handle) -> bool {
        // Without unwinding any panic would end the program.
        let may = cfg!(panic = "unwind") && !thread::panicking();
        may && home.0.spawner.task().is_some_and(|task| task.shields == 0)
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
