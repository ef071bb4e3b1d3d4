//! The options of a runtime with I/O.

use filch_std::{BuildError, HasBuilder, Host, LocalRuntimeOn, RuntimeBuilder, RuntimeOn};

use crate::{LocalRuntime, PausableLocalRuntime, PausableRuntime, Polling, Runtime};

/// The options of a runtime: those of [`filch_std::Builder`], by the same names.
///
/// ```
/// use filch_io::{LocalRuntime, PausableLocalRuntime, PausableRuntime, Polling, Runtime};
/// let runtime: Runtime = filch_io::builder().workers(2).name("server").build()?;
/// assert!(runtime.handle().host::<Polling>().is_some());
/// let tested: PausableRuntime = filch_io::Builder::new().build_pausable()?;
/// tested.block_on(async { filch_io::time::pause() });
///
/// let local: LocalRuntime = filch_io::builder().build_local()?;
/// assert_eq!(local.block_on(async { 7 }), 7);
/// let tested: PausableLocalRuntime = filch_io::builder().build_local_pausable()?;
/// tested.block_on(async { filch_io::time::pause() });
/// # Ok::<(), filch_io::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder(filch_std::Builder);

/// The options of a runtime, at the defaults of `filch-std`.
pub fn builder() -> Builder {
    Builder::new()
}

impl HasBuilder for Polling {
    type Builder = Builder;
}

impl RuntimeBuilder for Builder {
    type Host = Polling;

    fn build_on<H: Host>(self) -> Result<RuntimeOn<H>, BuildError> {
        self.0.build_on()
    }

    fn build_local_on<H: Host>(self) -> Result<LocalRuntimeOn<H>, BuildError> {
        self.0.build_local_on()
    }
}

/// As [`builder`].
impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

macro_rules! knobs {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {
        impl Builder {
            $(
                #[doc = concat!("As [`filch_std::Builder::", stringify!($name), "`].")]
                pub fn $name(self, $($arg: $type),*) -> Self {
                    Self(self.0.$name($($arg),*))
                }
            )*
        }
    };
}

filch_std::for_each_knob!(knobs);

impl Builder {
    /// The defaults; as [`builder`].
    pub fn new() -> Self {
        Self(filch_std::Builder::new())
    }

    /// Builds the runtime, with a poller of its own.
    ///
    /// # Errors
    /// [`BuildError`]; threads that were started have ended by then.
    pub fn build(self) -> Result<Runtime, BuildError> {
        self.0.build_on()
    }

    /// As [`build`](Self::build), with a clock that tests can stop:
    /// [`time::pause`](crate::time::pause). It goes at first.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_pausable(self) -> Result<PausableRuntime, BuildError> {
        self.0.build_on()
    }

    /// Builds a runtime of one thread, the calling one, with a poller of its own: [`filch_std::Builder::build_local`].
    ///
    /// # Errors
    /// [`BuildError`]; `TooManyWorkers` if [`workers`](Self::workers) says more than one.
    pub fn build_local(self) -> Result<LocalRuntime, BuildError> {
        self.0.build_local_on()
    }

    /// As [`build_local`](Self::build_local), with a clock that tests can stop.
    ///
    /// # Errors
    /// As [`build_local`](Self::build_local).
    pub fn build_local_pausable(self) -> Result<PausableLocalRuntime, BuildError> {
        self.0.build_local_on()
    }
}
