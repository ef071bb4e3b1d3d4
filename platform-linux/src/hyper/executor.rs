//! Tasks of hyper's.

use core::future::Future;

use filch_std::Handle;

/// Spawns tasks for hyper onto a runtime, detached.
///
/// When the runtime shuts down they are cancelled; what hyper spawns after that is dropped unpolled.
///
/// Cost: copies two pointers and a few words; a task costs what [`Handle::spawn`] does.
#[derive(Clone, Copy, Debug)]
pub struct Executor(Handle);

impl Executor {
    /// Spawns onto the current runtime, from whatever thread it is used then.
    ///
    /// # Panics
    /// If the calling thread is in no runtime: [`Handle::current`] says so in a value, and `Executor::from` takes its handle.
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "a default should not depend on the thread")]
    pub fn new() -> Self {
        Self(current())
    }
}

impl From<Handle> for Executor {
    fn from(handle: Handle) -> Self {
        Self(handle)
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
