#![doc = include_str!("README.md")]

pub(crate) mod idle;
pub(crate) mod listener;
#[cfg(all(test, filch_loom))]
mod models;
pub(crate) mod park;
pub(crate) mod spin_limit;
