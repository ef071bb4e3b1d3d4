//! Scopes: what is spawned in one has ended when it ends, and so may borrow what lives outside.

mod base;
mod fifo;

use core::fmt;

use self::base::{Base, ScopeRef};
pub(crate) use self::fifo::in_place_in as in_place_fifo_in;
pub use self::fifo::{ScopeFifo, in_place_scope_fifo, scope_fifo};
use crate::{broadcast::BroadcastContext, current, registry::Registry};

/// Where closures are spawned that end before the scope does. See [`scope()`].
pub struct Scope<'scope> {
    base: Base<'scope>,
}

/// Runs `op` on a worker of the current pool, and returns when all that it has spawned in the scope has ended. The worker
/// works on that meanwhile, and on whatever else waits.
///
/// # Panics
/// With the first panic of `op` or of what was spawned, when all has ended.
///
/// ```
/// let mut parts = vec![vec![3, 1, 2], vec![9, 8]];
/// rayon_core::scope(|scope| {
///     for part in &mut parts {
///         scope.spawn(|_| part.sort());
///     }
/// });
/// assert_eq!(parts, [vec![1, 2, 3], vec![8, 9]]);
/// ```
///
/// What is spawned may not borrow what lives inside:
///
/// ```compile_fail
/// rayon_core::scope(|scope| {
///     let inside = 7;
///     scope.spawn(|_| drop(&inside));
/// });
/// ```
pub fn scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    current::with(|registry| registry.in_worker(|_| in_place_in(registry, op)))
}

/// As [`scope()`]; `op` runs on the calling thread, and may use what cannot leave it.
///
/// # Panics
/// As [`scope()`].
pub fn in_place_scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R,
{
    current::with(|registry| in_place_in(registry, op))
}

pub(crate) fn in_place_in<'scope, R>(
    registry: &Registry,
    op: impl FnOnce(&Scope<'scope>) -> R,
) -> R {
    // INV-REGISTRY: the caller's reference outlives the scope.
    let scope = Scope { base: Base::new(registry.refer()) };
    scope.base.complete(|| op(&scope))
}

impl<'scope> Scope<'scope> {
    /// Runs a closure in the scope's pool, before the scope ends. On one thread the newest runs first.
    pub fn spawn<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        let this = ScopeRef::new(self);
        self.base.registry.push(self.base.job(move || body(this.get())));
    }

    /// Runs a closure on every thread of the scope's pool, once each, before the scope ends.
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&Scope<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        let this = ScopeRef::new(self);
        self.base.broadcast(move |context| body(this.get(), context));
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}
