//! Waits in sync code, the workers that they block, and those that stand in for these.

pub(crate) mod blocked;
pub(crate) mod compensate;
pub(crate) mod face;
pub(crate) mod help;
pub(crate) mod in_place;
