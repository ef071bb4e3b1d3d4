//! What the tests across the crates share: the deterministic simulation of a whole executor.

pub mod simulate;
