//! What the rooms keep: of the executor, and of each worker.

pub(crate) mod broadcasts;
pub(crate) mod census;
pub(crate) mod classes;
pub(crate) mod gate;
pub(crate) mod lifo;
pub(crate) mod retiring;
pub(crate) mod rng;
pub(crate) mod worker_waker;
