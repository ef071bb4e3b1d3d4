//! `join`.

use core::marker::PhantomData;

use filch_std::parallel::{Fork, inside, with_here};

use crate::current;

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

    /// Whether the closure runs on another thread than the one that called `join_context`.
    #[inline]
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

/// Runs both closures, `b` on another worker if one is without work, and returns both outcomes.
///
/// A caller that waits for a `b` that was taken works on pieces of it and on other joins meanwhile, and on nothing that was
/// spawned.
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
    here(a, b, |(a, b), fork, _| fork.join(|_| a(), |fork| inside(fork, b)))
}

/// As [`join`], with closures that are told whether they have changed threads.
///
/// # Panics
/// As [`join`].
#[inline]
pub fn join_context<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    here(a, b, |(a, b), fork, injected| {
        let home = thread_mark();
        fork.join(
            |_| a(FnContext::new(injected)),
            |fork| inside(fork, || b(FnContext::new(injected || thread_mark() != home))),
        )
    })
}

/// Calls `f` in the fork-join run that the thread is in, or in a new one on a worker of the current pool; says whether
/// the calling thread was no worker.
#[inline]
fn here<A: Send, B: Send, R: Send>(
    a: A,
    b: B,
    f: impl FnOnce((A, B), Fork<'_>, bool) -> R + Send,
) -> R {
    with_here(|fork| match fork {
        Some(fork) => f((a, b), fork, false),
        None => begin(|fork, injected| f((a, b), fork, injected)),
    })
}

#[cold]
fn begin<R: Send>(f: impl FnOnce(Fork<'_>, bool) -> R + Send) -> R {
    current::with(|registry| {
        registry.in_worker(|injected| registry.handle.fork(|fork| f(fork, injected)))
    })
}

/// An address that is this thread's own.
#[inline]
fn thread_mark() -> usize {
    thread_local! {
        static MARK: u8 = const { 0 };
    }
    MARK.with(|mark| core::ptr::from_ref(mark).addr())
}
