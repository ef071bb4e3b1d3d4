//! `join`.

use core::marker::PhantomData;

use filch_std::internal::{join_open, try_join_open};

use crate::{current, yields::count_job};

/// What a side of [`join_context`] is told of where it runs.
#[derive(Debug)]
pub struct FnContext {
    migrated: bool,
    /// It is the calling thread's.
    not_send: PhantomData<*mut ()>,
}

impl FnContext {
    #[inline]
    fn new(migrated: bool) -> Self {
        Self { migrated, not_send: PhantomData }
    }

    /// Whether the closure may run on another thread than the one that called `join_context`.
    #[inline]
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

/// Runs both closures, `b` on another worker if one is without work, and returns both outcomes.
///
/// `a` runs at once on the calling thread, if that is a worker; then `b`, unless another worker has taken it. Then the thread runs
/// parts of `b` until `b` is complete, and sleeps if there are none. It runs nothing else meanwhile, so a lock may be held across the
/// call, as long as neither `a` nor `b` takes it. The crate's README names the exceptions.
///
/// # Panics
/// With the panic of `a`, else of `b`; both have run to their end by then.
///
/// ```
/// let (a, b) = rayon_core::join(|| 6 * 7, || "b");
/// assert_eq!((a, b), (42, "b"));
/// ```
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    join_context(|_| a(), |_| b())
}

/// As [`join`], with closures that are told whether they may have changed threads.
///
/// # Panics
/// As [`join`].
pub fn join_context<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    let a = |moved| a(FnContext::new(moved));
    let b = |moved| {
        if moved {
            count_job();
        }
        b(FnContext::new(moved))
    };
    match try_join_open(a, b) {
        Ok(outcomes) => outcomes,
        Err((a, b)) => begin(a, b),
    }
}

/// The outermost join of a thread.
#[cold]
#[inline(never)]
fn begin<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(bool) -> RA + Send,
    B: FnOnce(bool) -> RB + Send,
    RA: Send,
    RB: Send,
{
    current::with(|registry| {
        registry.in_worker(|injected| join_open(registry.handle, injected, a, b))
    })
}
