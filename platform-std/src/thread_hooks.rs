//! What a program wants done in each of a runtime's threads.

use core::fmt;
use std::sync::Arc;

use filch::WorkerId;

use crate::panics::quietly;

/// What a thread of a runtime is for: see [`Builder::name_fn`](crate::Builder::name_fn).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThreadRole {
    /// It is this worker. At and above the number of workers it is a compensation worker for one that waits in sync code.
    Worker(WorkerId),
    /// It is of the blocking pool, and so many were started before it.
    Blocking(usize),
}

/// Called with what the thread is for; `None` for one of the host.
pub(crate) type Hook = Arc<dyn Fn(Option<ThreadRole>) + Send + Sync>;
pub(crate) type Around = Arc<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// Called as a thread begins and as it ends, and around a worker.
#[derive(Clone, Default)]
pub(crate) struct ThreadHooks {
    pub(crate) start: Option<Hook>,
    pub(crate) stop: Option<Hook>,
    pub(crate) around_worker: Option<Around>,
}

impl ThreadHooks {
    /// A thread begins. A hook that panics does no harm, here and below; its panic has been printed.
    pub(crate) fn started(&self, role: Option<ThreadRole>) {
        if let Some(start) = &self.start {
            quietly(|| start(role));
        }
    }

    /// A thread ends.
    pub(crate) fn stopped(&self, role: Option<ThreadRole>) {
        if let Some(stop) = &self.stop {
            quietly(|| stop(role));
        }
    }

    /// Runs the body of a thread.
    pub(crate) fn around(&self, role: Option<ThreadRole>, body: impl FnOnce()) {
        self.started(role);
        body();
        self.stopped(role);
    }

    /// Runs the body of a worker's thread. A hook that does not call it leaves that to the caller.
    pub(crate) fn worker(&self, body: impl FnOnce()) {
        let mut body = Some(body);
        let mut once = || {
            if let Some(body) = body.take() {
                body();
            }
        };
        if let Some(around) = &self.around_worker {
            quietly(|| around(&mut once));
        }
        once();
    }
}

impl fmt::Debug for ThreadHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, stop) = (self.start.is_some(), self.stop.is_some());
        let around = self.around_worker.is_some();
        let mut hooks = f.debug_struct("ThreadHooks");
        hooks.field("start", &start).field("stop", &stop).field("around_worker", &around).finish()
    }
}
