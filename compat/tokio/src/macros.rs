//! What the macros `select!` and `join!` of the crate `tokio` use.

pub use real::macros::support;
