#![doc = include_str!("README.md")]

pub(crate) mod config;
pub(crate) mod core;
pub(crate) mod erased;
pub(crate) mod error;
pub(crate) mod forks;
pub(crate) mod left;
pub(crate) mod lifecycle;
#[cfg(all(test, filch_loom))]
mod models_broadcast;
#[cfg(all(test, filch_loom, feature = "classes"))]
mod models_classes;
#[cfg(all(test, filch_loom))]
mod models_in_place;
#[cfg(all(test, filch_loom))]
mod models_jobs;
#[cfg(all(test, filch_loom))]
mod models_listen;
#[cfg(all(test, filch_loom))]
mod models_resize;
#[cfg(all(test, filch_loom))]
mod models_single;
#[cfg(all(test, filch_loom))]
mod models_watch;
#[cfg(all(test, filch_loom))]
mod models_whole;
pub(crate) mod placement;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod turn;
pub(crate) mod upkeep;
pub(crate) mod waits;
