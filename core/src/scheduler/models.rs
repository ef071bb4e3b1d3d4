//! Loom models of the idle protocol and of the park word.
