//! Channels and locks: the real tokio's own.

pub use real::sync::*;

// A timeout of the real one asks that one's runtime for a timer. With a companion there is one, and other crates have the channels of the real one.
#[cfg(not(feature = "companion"))]
pub mod mpsc;
