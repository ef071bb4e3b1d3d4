//! The options of a runtime with I/O.

use std::io;

use filch_std::{
    Handle,
    internal::RuntimeBuilder,
    runtime::{BuildError, Host, LocalRuntimeOn, RuntimeOn, ThreadRole},
};

use crate::{
    LocalRuntime, Runtime,
    runtime::{Linux, PausableLocalRuntime, PausableRuntime},
};

/// The options of a runtime: those of [`filch_std::Builder`], by the same names.
///
/// ```
/// use filch_linux::{LocalRuntime, Runtime, runtime::{Linux, PausableLocalRuntime, PausableRuntime}};
/// let runtime: Runtime = filch_linux::Builder::new().workers(2).name("server").build()?;
/// assert!(runtime.handle().host::<Linux>().is_some());
/// let tested: PausableRuntime = filch_linux::Builder::new().build_pausable()?;
/// tested.block_on(async { filch_linux::time::pause() });
///
/// let local: LocalRuntime = filch_linux::Builder::new().build_local()?;
/// assert_eq!(local.block_on(async { 7 }), 7);
/// let tested: PausableLocalRuntime = filch_linux::Builder::new().build_local_pausable()?;
/// tested.block_on(async { filch_linux::time::pause() });
/// # Ok::<(), filch_linux::runtime::BuildError>(())
/// ```
#[must_use = "options do nothing until a runtime is built"]
#[derive(Clone, Debug)]
pub struct Builder {
    inner: filch_std::Builder,
    options: Options,
}

/// What the host of a new runtime has to know.
#[derive(Clone, Debug)]
struct Options {
    #[cfg(feature = "tokio")]
    tokio: bool,
    #[cfg(feature = "io-uring")]
    rings: bool,
}

filch_io::host_builder!(Linux, "an epoll");

impl RuntimeBuilder for Builder {
    type Host = Linux;

    fn build_on<H: Host>(self) -> Result<RuntimeOn<H>, BuildError> {
        self.inner.build_with(|runtime| self.options.prepare(runtime))
    }

    fn build_local_on<H: Host>(self) -> Result<LocalRuntimeOn<H>, BuildError> {
        self.inner.build_local_with(|runtime| self.options.prepare(runtime))
    }
}

#[cfg(feature = "io-uring")]
impl Builder {
    /// Whether [`fs`](crate::fs) may use io_uring, where the kernel has it (default: true).
    ///
    /// ```
    /// use filch_linux::fs::{Way, way};
    /// let runtime = filch_linux::Builder::new().workers(1).io_uring(false).build()?;
    /// assert_eq!(runtime.block_on(async { way() })?, Way::Pool);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn io_uring(mut self, on: bool) -> Self {
        self.options.rings = on;
        self
    }
}

#[doc(hidden)]
impl Builder {
    /// As [`filch_std::Builder::around_worker`].
    pub fn around_worker(
        mut self,
        f: impl Fn(Handle, &mut dyn FnMut()) + Send + Sync + 'static,
    ) -> Self {
        self.inner = self.inner.around_worker(f);
        self
    }

    /// As [`filch_std::Builder::on_threads`].
    pub fn on_threads(
        mut self,
        start: impl Fn(Option<ThreadRole>) + Send + Sync + 'static,
        stop: impl Fn(Option<ThreadRole>) + Send + Sync + 'static,
    ) -> Self {
        self.inner = self.inner.on_threads(start, stop);
        self
    }

    /// As [`build`](Self::build); calls `prepare` before the first thread starts, and fails if that does.
    ///
    /// # Errors
    /// As there.
    pub fn build_with(
        self,
        prepare: impl FnOnce(&Handle) -> io::Result<()>,
    ) -> Result<Runtime, BuildError> {
        let Self { inner, options } = self;
        inner.build_with(|runtime| {
            prepare(runtime.handle())?;
            options.prepare(runtime)
        })
    }
}

impl Builder {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            inner: filch_std::Builder::new(),
            options: Options {
                #[cfg(feature = "tokio")]
                tokio: true,
                #[cfg(feature = "io-uring")]
                rings: true,
            },
        }
    }

    /// Whether the runtime's threads are in a tokio runtime too (default: true): see [`tokio`](crate::tokio), also for
    /// what it costs.
    ///
    /// ```
    /// let runtime = filch_linux::Builder::new().workers(1).tokio(false).build()?;
    /// assert!(runtime.block_on(async { tokio::runtime::Handle::try_current().is_err() }));
    /// # Ok::<(), filch_linux::runtime::BuildError>(())
    /// ```
    #[cfg(feature = "tokio")]
    pub fn tokio(mut self, on: bool) -> Self {
        self.options.tokio = on;
        self
    }
}

impl Options {
    /// Tells the host of a new runtime.
    fn prepare<H: Host>(self, runtime: &RuntimeOn<H>) -> io::Result<()> {
        #[cfg(any(feature = "tokio", feature = "io-uring"))]
        if let Some(host) = runtime.handle().host::<Linux>() {
            #[cfg(feature = "io-uring")]
            host.rings.allow(self.rings);
            #[cfg(feature = "tokio")]
            if self.tokio {
                filch_io::tokio::Companion::start(host.beside(), *runtime.handle())?;
            }
        }
        let _ = runtime;
        Ok(())
    }
}
