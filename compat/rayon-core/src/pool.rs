//! A pool of one's own.

use core::{error::Error, fmt};
use std::sync::Arc;

use crate::{
    broadcast::{BroadcastContext, broadcast_in, spawn_broadcast_in},
    join::join,
    registry::Registry,
    scope::{Scope, ScopeFifo, in_place_fifo_in, in_place_in, scope, scope_fifo},
    spawn::{spawn_fifo_in, spawn_in},
    thread::Owner,
    yields::{self, Yield},
};

/// A pool of threads: a filch runtime of its own, with as many workers.
///
/// When it has been dropped, and all that was spawned in it has ended, its threads end. The drop waits for neither, unless the
/// pool's last thread has ended before.
pub struct ThreadPool {
    owner: Arc<Owner>,
}

impl ThreadPool {
    pub(crate) fn of(owner: Arc<Owner>) -> Self {
        Self { owner }
    }

    /// The old form of [`ThreadPoolBuilder::build`](crate::ThreadPoolBuilder::build).
    ///
    /// # Errors
    /// [`ThreadPoolBuildError`](crate::ThreadPoolBuildError); threads that were started end by themselves.
    #[deprecated(note = "use `ThreadPoolBuilder::build`")]
    #[allow(deprecated, reason = "part of the interface")]
    pub fn new(configuration: crate::Configuration) -> Result<Self, Box<dyn Error>> {
        configuration.build()
    }

    fn registry(&self) -> &Registry {
        self.owner.registry()
    }

    /// Runs `op` in the pool, and waits for it: at once if the calling thread is in it. A worker of another pool works for
    /// that one meanwhile.
    ///
    /// # Panics
    /// With the panic of `op`.
    pub fn install<OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce() -> R + Send,
        R: Send,
    {
        let registry = self.registry();
        registry.in_worker(|moved| {
            // One run for all joins to come, rather than one for each.
            if moved { registry.handle.fork(|_| op()) } else { op() }
        })
    }

    /// [`broadcast`](crate::broadcast()) in this pool.
    ///
    /// # Panics
    /// With one of the closure's panics, when all threads are through.
    pub fn broadcast<OP, R>(&self, op: OP) -> Vec<R>
    where
        OP: Fn(BroadcastContext<'_>) -> R + Sync,
        R: Send,
    {
        broadcast_in(self.registry(), op)
    }

    /// How many threads the pool has.
    #[inline]
    pub fn current_num_threads(&self) -> usize {
        self.registry().num_threads()
    }

    /// The calling thread's index, if it is in this pool.
    #[inline]
    pub fn current_thread_index(&self) -> Option<usize> {
        self.registry().worker().filter(|index| *index < self.current_num_threads())
    }

    /// Whether something waits that the calling thread has spawned, if it is in this pool.
    #[inline]
    pub fn current_thread_has_pending_tasks(&self) -> Option<bool> {
        yields::has_pending(self.registry())
    }

    /// [`join`](crate::join()) in this pool.
    ///
    /// # Panics
    /// With the panic of `a`, else of `b`; both have run to their end by then.
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.install(|| join(a, b))
    }

    /// [`scope`](crate::scope()) in this pool.
    ///
    /// # Panics
    /// With the first panic of `op` or of what was spawned, when all has ended.
    pub fn scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| scope(op))
    }

    /// [`scope_fifo`](crate::scope_fifo()) in this pool.
    ///
    /// # Panics
    /// With the first panic of `op` or of what was spawned, when all has ended.
    pub fn scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| scope_fifo(op))
    }

    /// [`in_place_scope`](crate::in_place_scope()) whose spawns run in this pool.
    ///
    /// # Panics
    /// With the first panic of `op` or of what was spawned, when all has ended.
    pub fn in_place_scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R,
    {
        in_place_in(self.registry(), op)
    }

    /// [`in_place_scope_fifo`](crate::in_place_scope_fifo()) whose spawns run in this pool.
    ///
    /// # Panics
    /// With the first panic of `op` or of what was spawned, when all has ended.
    pub fn in_place_scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        in_place_fifo_in(self.registry(), op)
    }

    /// [`spawn`](crate::spawn()) in this pool.
    pub fn spawn<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        spawn_in(self.registry(), op);
    }

    /// [`spawn_fifo`](crate::spawn_fifo()) in this pool.
    pub fn spawn_fifo<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        spawn_fifo_in(self.registry(), op);
    }

    /// [`spawn_broadcast`](crate::spawn_broadcast()) in this pool.
    pub fn spawn_broadcast<OP>(&self, op: OP)
    where
        OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
    {
        spawn_broadcast_in(self.registry(), op);
    }

    /// [`yield_now`](crate::yield_now()), if the calling thread is in this pool.
    pub fn yield_now(&self) -> Option<Yield> {
        yields::now(self.registry())
    }

    /// [`yield_local`](crate::yield_local()), if the calling thread is in this pool.
    pub fn yield_local(&self) -> Option<Yield> {
        yields::local(self.registry())
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.registry().release();
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool")
            .field("num_threads", &self.current_num_threads())
            .finish_non_exhaustive()
    }
}
