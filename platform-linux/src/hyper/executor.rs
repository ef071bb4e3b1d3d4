//! Tasks for hyper.

use core::future::Future;

use filch_std::Handle;

/// Spawns tasks for hyper onto a runtime, detached.
///
/// When the runtime shuts down, they are cancelled; futures that hyper spawns after that are
/// dropped unpolled.
///
/// Cost: that of [`Handle::spawn`]. The executor itself is one word.
#[derive(Clone, Copy, Debug)]
pub struct Executor(Handle);

impl Executor {
    /// Spawns onto the current runtime; the executor may be used from any thread.
    ///
    /// # Panics
    /// If the calling thread is in no runtime: [`Handle::current`] returns an error instead, and
    /// `Executor::from` takes its handle.
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
