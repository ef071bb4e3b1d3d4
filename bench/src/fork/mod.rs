//! Fork and join: the cost of a join that is not stolen, and the gain of two workers.

mod chili;
mod fib;
mod filch;
mod rayon;
mod sequential;
mod tree;
mod uneven;

use self::tree::Node;
use crate::{meter::Figure, peers::FILCH, workloads::Run};

pub(crate) const NAMES: &[&str] =
    &["fork_fib", "fork_tree_small", "fork_tree_large", "fork_uneven"];

/// The plain computation, in the place of a peer.
pub(crate) const SEQUENTIAL: &str = "sequential";

/// A pool that forks and joins, and the computations: [`computations`] gives each pool the same.
pub(crate) trait Fork: Sized {
    fn start(workers: usize) -> Self;

    /// Fibonacci's n-th number, the naive way.
    fn fib(&self, n: u32) -> u64;

    /// The sum of a tree.
    fn sum(&self, tree: &Node) -> u64;

    /// Jobs of so many pieces each, split finely.
    fn jobs(&self, all: &[usize], piece: fn());
}

/// The computations, over the value that a pool passes down to forks: by value, or by reference, as
/// its users would. The module has a `fn join(scope, a, b)`, and its pool a `fn enter(&self, run)`.
macro_rules! computations {
    ($pool:ty, $scope:ty) => {
        use crate::fork::tree::Node;

        impl super::Fork for $pool {
            fn start(workers: usize) -> Self {
                Self::new(workers)
            }

            fn fib(&self, n: u32) -> u64 {
                self.enter(|scope| fib(scope, n))
            }

            fn sum(&self, tree: &Node) -> u64 {
                self.enter(|scope| sum(scope, tree))
            }

            fn jobs(&self, all: &[usize], piece: fn()) {
                self.enter(|scope| jobs(scope, all, piece));
            }
        }

        fn fib(scope: $scope, n: u32) -> u64 {
            if n < 2 {
                return u64::from(n);
            }
            let (a, b) = join(scope, |scope| fib(scope, n - 1), |scope| fib(scope, n - 2));
            a + b
        }

        fn sum(scope: $scope, node: &Node) -> u64 {
            let Some((left, right)) = &node.sides else { return node.value };
            let (a, b) = join(scope, |scope| sum(scope, left), |scope| sum(scope, right));
            node.value + a + b
        }

        fn jobs(scope: $scope, all: &[usize], piece: fn()) {
            if let [pieces] = all {
                return job(scope, *pieces, piece);
            }
            let (left, right) = all.split_at(all.len() / 2);
            join(scope, |scope| jobs(scope, left, piece), |scope| jobs(scope, right, piece));
        }

        fn job(scope: $scope, pieces: usize, piece: fn()) {
            if pieces == 1 {
                return piece();
            }
            let half = pieces / 2;
            join(scope, |scope| job(scope, half, piece), |scope| job(scope, pieces - half, piece));
        }
    };
}
use computations;

pub(crate) fn peers(workload: &str, workers: usize) -> Vec<&'static str> {
    match (workload, workers) {
        // It has four workers in any case.
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

/// The cost of forking: the time of all workers beyond that of the plain computation, per join; and
/// the speed-up over it.
fn figures(workers: usize, joins: usize, plain: f64, forked: f64) -> Vec<Figure> {
    let added = (forked * workers as f64 - plain) / joins as f64;
    vec![Figure::new("added", "ns", added), Figure::new("speedup", "x", plain / forked)]
}
