#![doc = include_str!("README.md")]

pub(crate) mod admit;
pub(crate) mod bell;
pub(crate) mod blocked;
pub(crate) mod broadcast;
pub(crate) mod broadcasts;
pub(crate) mod census;
pub(crate) mod classes;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod dispatch;
pub(crate) mod door;
pub(crate) mod duties;
pub(crate) mod entry;
pub(crate) mod erased;
pub(crate) mod error;
pub(crate) mod estimate;
pub(crate) mod executor;
pub(crate) mod find;
pub(crate) mod gate;
pub(crate) mod held;
pub(crate) mod help;
pub(crate) mod helper;
pub(crate) mod in_place;
pub(crate) mod jobs;
pub(crate) mod leave_loop;
mod left;
pub(crate) mod lifo;
pub(crate) mod listening;
pub(crate) mod look;
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
pub(crate) mod nested;
pub(crate) mod offline;
pub(crate) mod pace;
pub(crate) mod parking;
pub(crate) mod replace;
pub(crate) mod resize;
pub(crate) mod rng;
pub(crate) mod shutdown;
pub(crate) mod slot;
pub(crate) mod snapshot;
pub(crate) mod steal;
pub(crate) mod stop;
pub(crate) mod tick;
pub(crate) mod timing;
pub(crate) mod turn;
pub(crate) mod wake;
pub(crate) mod watch;
pub(crate) mod worker;
