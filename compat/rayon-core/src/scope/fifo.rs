//! Scopes whose closures run in the order of their spawns.

use core::fmt;

use super::base::{Base, ScopeRef};
use crate::{
    broadcast::BroadcastContext,
    current,
    registry::{Fifo, Registry},
};

/// Where closures are spawned that end before the scope does, first in, first out on each thread. See [`scope_fifo`].
pub struct ScopeFifo<'scope> {
    base: Base<'scope>,
    /// One for each worker.
    fifos: Box<[Fifo]>,
}

/// As [`scope`](crate::scope()); on one thread what was spawned runs in the order of the spawns.
///
/// # Panics
/// With the first panic of `op` or of what was spawned, when all has ended.
pub fn scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    current::with(|registry| registry.in_worker(|_| in_place_in(registry, op)))
}

/// As [`scope_fifo`]; `op` runs on the calling thread, and may use what cannot leave it.
///
/// # Panics
/// With the first panic of `op` or of what was spawned, when all has ended.
pub fn in_place_scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R,
{
    current::with(|registry| in_place_in(registry, op))
}

pub(crate) fn in_place_in<'scope, R>(
    registry: &Registry,
    op: impl FnOnce(&ScopeFifo<'scope>) -> R,
) -> R {
    let fifos = (0..registry.num_queues()).map(|_| Fifo::default()).collect();
    // INV-REGISTRY: the caller's reference outlives the scope.
    let scope = ScopeFifo { base: Base::new(registry.refer()), fifos };
    scope.base.complete(|| op(&scope))
}

impl<'scope> ScopeFifo<'scope> {
    /// Runs a closure in the scope's pool, before the scope ends. On one thread they run in the order of the spawns.
    pub fn spawn_fifo<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&ScopeFifo<'scope>) + Send + 'scope,
    {
        let this = ScopeRef::new(self);
        let job = self.base.job(move || body(this.get()));
        let registry = self.base.registry;
        let Some(worker) = registry.worker() else { return registry.push(job) };
        self.fifos[worker].push(job);
        let this = ScopeRef::new(self);
        // Counted as well, for the queue to be there when it runs.
        registry.push(self.base.job(move || this.get().fifos[worker].run_one()));
    }

    /// Runs a closure on every thread of the scope's pool, once each, before the scope ends.
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&ScopeFifo<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        let this = ScopeRef::new(self);
        self.base.broadcast(move |context| body(this.get(), context));
    }
}

impl fmt::Debug for ScopeFifo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopeFifo").field("fifos", &self.fifos.len()).finish_non_exhaustive()
    }
}
