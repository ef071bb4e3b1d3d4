//! The options of a runtime with I/O.

use filch_std::{
    internal::RuntimeBuilder,
    runtime::{BuildError, Host, LocalRuntimeOn, RuntimeOn},
};

use crate::{
    LocalRuntime, Runtime,
    runtime::{PausableLocalRuntime, PausableRuntime, Polling},
};

/// The options of a runtime: those of [`filch_std::Builder`], by the same names.
///
/// ```
/// use filch_io::{LocalRuntime, Runtime, runtime::{PausableLocalRuntime, PausableRuntime, Polling}};
/// let runtime: Runtime = filch_io::Builder::new().workers(2).name("server").build()?;
/// assert!(runtime.handle().host::<Polling>().is_some());
/// let tested: PausableRuntime = filch_io::Builder::new().build_pausable()?;
/// tested.block_on(async { filch_io::time::pause() });
///
/// let local: LocalRuntime = filch_io::Builder::new().build_local()?;
/// assert_eq!(local.block_on(async { 7 }), 7);
/// let tested: PausableLocalRuntime = filch_io::Builder::new().build_local_pausable()?;
/// tested.block_on(async { filch_io::time::pause() });
/// # Ok::<(), filch_io::runtime::BuildError>(())
/// ```
#[must_use = "options do nothing until a runtime is built"]
#[derive(Clone, Debug)]
pub struct Builder {
    inner: filch_std::Builder,
}

crate::host_builder!(Polling, "a poller");

impl RuntimeBuilder for Builder {
    type Host = Polling;

    fn build_on<H: Host>(self) -> Result<RuntimeOn<H>, BuildError> {
        self.inner.build_on()
    }

    fn build_local_on<H: Host>(self) -> Result<LocalRuntimeOn<H>, BuildError> {
        self.inner.build_local_on()
    }
}

impl Builder {
    /// The defaults.
    pub fn new() -> Self {
        Self { inner: filch_std::Builder::new() }
    }
}
