//! What a program wants done in each of a runtime's threads.

use core::fmt;
use std::sync::Arc;

use crate::panics::quietly;

type Hook = Arc<dyn Fn() + Send + Sync>;
type Names = Arc<dyn Fn() -> String + Send + Sync>;

/// Called as a thread begins and as it ends.
#[derive(Clone, Default)]
pub(crate) struct ThreadHooks {
    pub(crate) start: Option<Hook>,
    pub(crate) stop: Option<Hook>,
    /// The names of workers.
    pub(crate) names: Option<Names>,
}

impl ThreadHooks {
    /// Runs the body of a thread. A hook that panics does no harm; its panic has been printed.
    pub(crate) fn around(&self, body: impl FnOnce()) {
        if let Some(start) = &self.start {
            quietly(|| start());
        }
        body();
        if let Some(stop) = &self.stop {
            quietly(|| stop());
        }
    }
}

impl fmt::Debug for ThreadHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, stop) = (self.start.is_some(), self.stop.is_some());
        f.debug_struct("ThreadHooks").field("start", &start).field("stop", &stop).finish()
    }
}
