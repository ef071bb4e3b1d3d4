//! Tasks for hyper.

use core::future::Future;

use filch_std::{Handle, TaskOptions};

/// Spawns tasks for hyper onto a runtime, detached.
///
/// When the runtime shuts down, they are cancelled; futures that hyper spawns after that are
/// dropped unpolled.
///
/// Cost: that of [`Handle::spawn`]. The executor itself is a few words.
#[derive(Clone, Copy, Debug)]
pub struct Executor(Handle, Option<TaskOptions>);

impl Executor {
    /// Spawns onto the current runtime; the executor may be used from any thread.
    ///
    /// # Panics
    /// If the calling thread is in no runtime: [`Handle::current`] returns an error instead, and
    /// `Executor::from` takes its handle.
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "a default should not depend on the thread")]
    pub fn new() -> Self {
        Self(current(), None)
    }

    /// The tasks that it spawns have these options: an urgent class, for connections that must be served at once.
    ///
    /// ```
    /// use filch_io::{TaskOptions, hyper::Executor, task::Class};
    /// let runtime = filch_io::Builder::new().workers(1).build()?;
    /// let urgent = TaskOptions::new().class(Class::Urgent);
    /// let executor = Executor::from(*runtime.handle()).with(urgent);
    /// # let _ = executor;
    /// # Ok::<(), filch_io::runtime::BuildError>(())
    /// ```
    pub fn with(self, options: TaskOptions) -> Self {
        Self(self.0, Some(options))
    }
}

impl From<Handle> for Executor {
    fn from(handle: Handle) -> Self {
        Self(handle, None)
    }
}

/// # Panics
/// As [`Handle::spawn`].
impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let future = match self.1 {
            None => future,
            Some(options) => match self.0.spawn_with(options, future) {
                Ok(task) => return task.detach(),
                Err(refused) => refused.future,
            },
        };
        // Also for what to do if there is no such runtime any more.
        self.0.spawn(future).detach();
    }
}

#[track_caller]
pub(super) fn current() -> Handle {
    match Handle::current() {
        Ok(handle) => handle,
        Err(error) => panic!("{error}"),
    }
}

#[cfg(all(test, feature = "polling"))]
mod tests {
    use filch_std::{
        TaskOptions,
        task::{Class, class},
    };
    use hyper::rt::Executor as _;

    use super::Executor;

    #[test]
    fn tasks_have_the_options_of_the_executor() {
        let runtime = crate::Builder::new().workers(1).build().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let executor = Executor::from(*runtime.handle());
        for executor in [executor, executor.with(TaskOptions::new().class(Class::Urgent))] {
            let tell = tell.clone();
            executor.execute(async move { tell.send(class()).unwrap() });
            let _ = executor;
        }
        let mut seen = [told.recv().unwrap(), told.recv().unwrap()];
        seen.sort_by_key(|class| class.map(|class| class as u8));
        assert_eq!(seen, [Some(Class::Urgent), Some(Class::Normal)]);
    }
}
