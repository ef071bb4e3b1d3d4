//! Joins for crates that present another API, such as rayon's: a worker may take the second side at any time, and urgent tasks run
//! between the sides. Hidden, and outside the stability promise.

use core::{cell::Cell, sync::atomic::Ordering};

use filch::Fork;

use super::{HERE, Run, inside};
use crate::context::{self, Handle};

/// Joins between two looks for urgent tasks that I/O or a timer would wake: after a look that came too early, and after one in time
/// (`Scheduler::give_way_and_look`). So these wait for the pieces of 64 joins at most; and where joins cost nanoseconds, the time of
/// day is read for each 64th.
const JOINS: [u32; 2] = [64, 16];

thread_local! {
    /// The count of urgent tasks at the thread's last look, and how many joins are left until the next one.
    static LOOKED: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// Calls both closures in the run that the thread is in, if that is one of the thread's runtime, and returns both outcomes. The
/// closures are told whether they have left the thread.
///
/// # Errors
/// The closures. [`join_open`] calls them in a new run.
///
/// # Panics
/// As [`join`](super::join).
#[inline(always)]
pub fn try_join_open<A, B, RA, RB>(a: A, b: B) -> Result<(RA, RB), (A, B)>
where
    A: FnOnce(bool) -> RA + Send,
    B: FnOnce(bool) -> RB + Send,
    RA: Send,
    RB: Send,
{
    match HERE.get() {
        Run { fork, runtime: Some(runtime) } if is_current(runtime) => {
            Ok(join::<false, _, _, _, _>(runtime, fork, a, b))
        }
        _ => Err((a, b)),
    }
}

/// Whether the thread is still in that runtime: in a run it may have entered another.
#[inline(always)]
fn is_current(runtime: Handle) -> bool {
    context::current() == Some(runtime)
}

/// As [`try_join_open`], in a new run on this runtime. `moved`: the closures have left their thread already.
///
/// # Panics
/// As [`join`](super::join).
pub fn join_open<A, B, RA, RB>(runtime: Handle, moved: bool, a: A, b: B) -> (RA, RB)
where
    A: FnOnce(bool) -> RA + Send,
    B: FnOnce(bool) -> RB + Send,
    RA: Send,
    RB: Send,
{
    super::fork(runtime, None, |fork| match moved {
        true => join::<true, _, _, _, _>(runtime, fork, a, b),
        false => join::<false, _, _, _, _>(runtime, fork, a, b),
    })
}

#[inline(always)]
fn join<const MOVED: bool, A, B, RA, RB>(runtime: Handle, fork: Fork<'_>, a: A, b: B) -> (RA, RB)
where
    A: FnOnce(bool) -> RA + Send,
    B: FnOnce(bool) -> RB + Send,
    RA: Send,
    RB: Send,
{
    // `b` alone is in the closure that waits in the deque: with a flag beside it, it would be copied in other parts than it was
    // written in, and such a load waits for the stores (10 ns).
    fork.join_open(
        |_| {
            let outcome = a(MOVED);
            give_way(runtime);
            outcome
        },
        |fork, stolen| inside(fork, stolen, || b(MOVED || stolen)),
    )
}

/// Between two pieces: urgent tasks do not wait for the end of a whole iterator.
#[inline(always)]
fn give_way(runtime: Handle) {
    let (seen, left) = LOOKED.get();
    // Ordering: a hint; `give_way_and_look` looks again.
    let count = runtime.0.urgent.map_or(seen, |urgent| urgent.load(Ordering::Relaxed));
    if count == seen && left > 0 {
        LOOKED.set((seen, left - 1));
    } else {
        look(runtime, count);
    }
}

#[cold]
#[inline(never)]
fn look(runtime: Handle, count: u32) {
    // Before the urgent tasks run, which may join.
    LOOKED.set((count, JOINS[0]));
    if runtime.0.core.give_way_and_look() {
        LOOKED.set((count, JOINS[1]));
    }
}
