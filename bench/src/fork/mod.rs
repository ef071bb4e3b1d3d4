//! Fork and join: what a join costs that nobody steals, and what two workers gain.

mod chili;
mod fib;
mod filch;
mod rayon;
mod sequential;
mod tree;
mod uneven;

use crate::{meter::Figure, peers::FILCH, workloads::Run};

pub(crate) const NAMES: &[&str] =
    &["fork_fib", "fork_tree_small", "fork_tree_large", "fork_uneven"];

/// The plain computation, in the place of a peer.
pub(crate) const SEQUENTIAL: &str = "sequential";

/// A pool that forks and joins.
pub(crate) trait Fork: Sized {
    /// What joins are called on; passed down, or empty if the pool is found by the thread.
    type Scope<'a>;

    fn start(workers: usize) -> Self;

    /// Runs a computation on the pool.
    fn enter<R: Send>(&self, run: impl FnOnce(&mut Self::Scope<'_>) -> R + Send) -> R;

    /// Runs two closures, at the same time if a worker is free.
    fn join<A: Send, B: Send>(
        scope: &mut Self::Scope<'_>,
        a: impl FnOnce(&mut Self::Scope<'_>) -> A + Send,
        b: impl FnOnce(&mut Self::Scope<'_>) -> B + Send,
    ) -> (A, B);
}

pub(crate) fn peers(workload: &str, workers: usize) -> Vec<&'static str> {
    match (workload, workers) {
        // It has four in any case.
        ("fork_uneven", 1) => vec![],
        (_, 1) => vec![FILCH, "rayon", "chili", SEQUENTIAL],
        _ => vec![FILCH, "rayon", "chili"],
    }
}

pub(crate) fn run(workload: &str, peer: &str, run: Run) -> Option<Vec<Figure>> {
    Some(match peer {
        FILCH => measure::<filch::Filch>(workload, run),
        "rayon" => measure::<rayon::Rayon>(workload, run),
        "chili" => measure::<chili::Chili>(workload, run),
        SEQUENTIAL => measure::<sequential::Sequential>(workload, run),
        _ => return None,
    })
}

fn measure<F: Fork>(workload: &str, run: Run) -> Vec<Figure> {
    match workload {
        "fork_fib" => fib::run::<F>(run),
        "fork_tree_small" => tree::small::<F>(run),
        "fork_uneven" => uneven::run::<F>(run),
        _ => tree::large::<F>(run),
    }
}

/// What forking adds: the time of all workers beyond that of the plain computation, per join; and how much sooner it is done than
/// that.
fn figures(workers: usize, joins: usize, plain: f64, forked: f64) -> Vec<Figure> {
    let added = (forked * workers as f64 - plain) / joins as f64;
    vec![Figure::new("added", "ns", added), Figure::new("speedup", "x", plain / forked)]
}
