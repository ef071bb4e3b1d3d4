//! A pool's thread that lets others' work go first.

use core::cell::Cell;

use crate::{current, registry::Registry};

/// What a yield did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yield {
    /// Something was run.
    Executed,
    /// There was nothing to run.
    Idle,
}

thread_local! {
    /// How many jobs the thread has run, around the count's end.
    static JOBS: Cell<usize> = const { Cell::new(0) };
}

pub(crate) fn count_job() {
    JOBS.set(JOBS.get().wrapping_add(1));
}

/// Runs one thing that waits in the current pool, if the calling thread is in one: what it has spawned itself, else another's,
/// else one task of the runtime.
pub fn yield_now() -> Option<Yield> {
    current::index()?;
    current::with(now)
}

/// Runs one thing that the calling thread has spawned and that waits still, if it is in a pool.
pub fn yield_local() -> Option<Yield> {
    current::index()?;
    current::with(local)
}

/// Whether something waits that the calling thread has spawned, if it is in a pool.
#[inline]
pub fn current_thread_has_pending_tasks() -> Option<bool> {
    current::index()?;
    current::with(has_pending)
}

pub(crate) fn has_pending(registry: &Registry) -> Option<bool> {
    Some(registry.has_jobs(registry.worker()?))
}

pub(crate) fn local(registry: &Registry) -> Option<Yield> {
    let job = registry.take(registry.worker()?);
    Some(match job {
        Some(job) => {
            job.run();
            Yield::Executed
        }
        None => Yield::Idle,
    })
}

pub(crate) fn now(registry: &Registry) -> Option<Yield> {
    if let Yield::Executed = local(registry)? {
        return Some(Yield::Executed);
    }
    let before = JOBS.get();
    // One pass of the worker's loop.
    registry.handle.help_until(&mut || true);
    Some(if JOBS.get() == before { Yield::Idle } else { Yield::Executed })
}
