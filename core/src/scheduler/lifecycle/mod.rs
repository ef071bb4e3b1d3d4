//! Tasks that begin; workers that come and go; the end of the executor.

pub(crate) mod admit;
pub(crate) mod entry;
pub(crate) mod face;
pub(crate) mod resize;
pub(crate) mod shutdown;
