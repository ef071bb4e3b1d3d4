//! `spawn`.

use crate::{current, job::Job, registry::Registry};

/// Runs a closure in the current pool, some time; the pool's threads stay as long. On one thread the newest runs first.
///
/// A panic goes to the pool's panic handler, and ends the program if there is none.
///
/// ```
/// let (sender, receiver) = std::sync::mpsc::channel();
/// rayon_core::spawn(move || sender.send(7).unwrap());
/// assert_eq!(receiver.recv(), Ok(7));
/// ```
pub fn spawn<F>(f: F)
where
    F: FnOnce() + Send + 'static,
{
    current::with(|registry| spawn_in(registry, f));
}

/// As [`spawn`]; on one thread what was spawned so runs in the order of the spawns.
pub fn spawn_fifo<F>(f: F)
where
    F: FnOnce() + Send + 'static,
{
    current::with(|registry| spawn_fifo_in(registry, f));
}

pub(crate) fn spawn_in(registry: &Registry, f: impl FnOnce() + Send + 'static) {
    let job = held(registry, f);
    registry.push(job);
}

pub(crate) fn spawn_fifo_in(registry: &Registry, f: impl FnOnce() + Send + 'static) {
    let job = held(registry, f);
    registry.push_fifo(job);
}

/// The closure as a job for which the pool's threads stay.
fn held(registry: &Registry, f: impl FnOnce() + Send + 'static) -> Job {
    registry.hold(1);
    // INV-REGISTRY: until `release`, and the thread that runs it keeps it.
    let registry = registry.refer();
    Job::new(move || {
        registry.contain(f);
        registry.release();
    })
}
