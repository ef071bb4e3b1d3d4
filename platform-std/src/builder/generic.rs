//! What the builders of this crate and of those over it have in common.

use super::Builder;
use crate::{
    error::BuildError,
    host::{Futex, Host},
    local::LocalRuntimeOn,
    pausable::Pausable,
    threaded::RuntimeOn,
};

/// The options of a runtime, of this crate or of one with a host of its own. Hidden, and outside the stability promise.
pub trait RuntimeBuilder: Default {
    /// The host of its runtimes.
    type Host: HasBuilder<Builder = Self>;

    /// Builds a runtime on any host: its own, or one around it.
    ///
    /// # Errors
    /// [`BuildError`].
    fn build_on<H: Host>(self) -> Result<RuntimeOn<H>, BuildError>;

    /// Builds a runtime of one thread.
    ///
    /// # Errors
    /// [`BuildError`].
    fn build_local_on<H: Host>(self) -> Result<LocalRuntimeOn<H>, BuildError>;
}

/// A host whose runtimes have options of their own. Hidden, and outside the stability promise.
pub trait HasBuilder: Host {
    /// Those options.
    type Builder: RuntimeBuilder;
}

impl HasBuilder for Futex {
    type Builder = Builder;
}

impl<H: HasBuilder> HasBuilder for Pausable<H> {
    type Builder = H::Builder;
}

impl RuntimeBuilder for Builder {
    type Host = Futex;

    fn build_on<H: Host>(self) -> Result<RuntimeOn<H>, BuildError> {
        self.build_on()
    }

    fn build_local_on<H: Host>(self) -> Result<LocalRuntimeOn<H>, BuildError> {
        self.build_local_on()
    }
}

impl<H: HasBuilder> RuntimeOn<H> {
    /// A runtime with the defaults.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new() -> Result<Self, BuildError> {
        H::Builder::default().build_on()
    }

    /// The options.
    pub fn builder() -> H::Builder {
        H::Builder::default()
    }
}

impl<H: HasBuilder> LocalRuntimeOn<H> {
    /// A runtime with the defaults.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new() -> Result<Self, BuildError> {
        H::Builder::default().build_local_on()
    }

    /// The options, for [`Builder::build_local`](crate::Builder::build_local).
    pub fn builder() -> H::Builder {
        H::Builder::default()
    }
}
