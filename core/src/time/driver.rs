//! What timers need of the executor whose workers fire them.

use core::{
    fmt,
    future::Future,
    panic::{RefUnwindSafe, UnwindSafe},
    ptr::NonNull,
    task::Waker,
    time::Duration,
};

use super::{interval::Interval, node::Node, sleep::Sleep, timeout::Timeout, wheel::Wheel};
use crate::{instant::Instant, parts::Switch};

/// The executor's side: its clock, and one wheel for each worker. The scheduler implements it.
pub(crate) trait Wheels: Sync {
    /// Whether the wheels have many slots.
    type Many: Switch;

    fn now(&self) -> Instant;
    /// The base-2 logarithm of a tick in nanoseconds.
    fn wheel_slot_log2(&self) -> u32;
    /// The wheel for a timer that is first polled in the calling context, and the wheel's index; and whether the timer is an urgent task's.
    /// `None` if timers must not be touched ([`Context::Forked`](crate::Context::Forked)).
    fn place(&self) -> Option<(u16, &Wheel<Self::Many>, bool)>;
    /// The wheel with an index from `place`. `None` as there.
    fn wheel(&self, index: u16) -> Option<&Wheel<Self::Many>>;
    /// A wheel has a new earliest deadline: tells the worker that fires it.
    fn tell(&self, index: u16);
    /// Spends a unit of the budget of the task that the waker wakes. False if there was none left.
    fn spend(&'static self, waker: &Waker) -> bool;
    /// There was none left: wakes the task, which gives way.
    fn force_yield(&'static self, waker: &Waker);
    /// The task of this waker sleeps: for a dump.
    #[cfg(feature = "task-dump")]
    fn note_sleep(&self, waker: &Waker, until: Instant);
}

/// The same, as a timer sees it: one call for each operation, whatever the type of the wheels.
pub(crate) trait Driver: Sync {
    fn now(&self) -> Instant;
    fn spend(&'static self, waker: &Waker) -> bool;
    fn force_yield(&'static self, waker: &Waker);
    #[cfg(feature = "task-dump")]
    fn note_sleep(&self, waker: &Waker, until: Instant);

    /// Puts the node into a wheel; its index. `None` if timers must not be touched.
    ///
    /// # Safety
    /// As [`Wheel::insert`].
    unsafe fn insert(&self, node: NonNull<Node>, deadline: Instant, waker: &Waker) -> Option<u16>;
    /// Takes the node out of its wheel, if it is in there.
    ///
    /// # Safety
    /// As [`Wheel::remove`], for the wheel with this index.
    unsafe fn remove(&self, index: u16, node: NonNull<Node>);
    /// Sets another deadline; false if the node has fired.
    ///
    /// # Safety
    /// As [`Wheel::reset`], for the wheel with this index.
    unsafe fn reset(&self, index: u16, node: NonNull<Node>, deadline: Instant) -> bool;
    /// Sets another waker; false if the node has fired.
    ///
    /// # Safety
    /// As [`Wheel::rewake`], for the wheel with this index.
    unsafe fn rewake(&self, index: u16, node: NonNull<Node>, waker: &Waker) -> bool;
}

impl<W: Wheels> Driver for W {
    fn now(&self) -> Instant {
        Wheels::now(self)
    }

    fn spend(&'static self, waker: &Waker) -> bool {
        Wheels::spend(self, waker)
    }

    fn force_yield(&'static self, waker: &Waker) {
        Wheels::force_yield(self, waker);
    }

    #[cfg(feature = "task-dump")]
    fn note_sleep(&self, waker: &Waker, until: Instant) {
        Wheels::note_sleep(self, waker, until);
    }

    unsafe fn insert(&self, node: NonNull<Node>, deadline: Instant, waker: &Waker) -> Option<u16> {
        let (index, wheel, is_urgent) = self.place()?;
        // SAFETY: the caller's.
        if unsafe { wheel.insert(node, deadline, waker.clone(), self.wheel_slot_log2(), is_urgent) }
        {
            self.tell(index);
        }
        Some(index)
    }

    unsafe fn remove(&self, index: u16, node: NonNull<Node>) {
        if let Some(wheel) = self.wheel(index) {
            // SAFETY: the caller's.
            drop(unsafe { wheel.remove(node) });
        }
    }

    unsafe fn reset(&self, index: u16, node: NonNull<Node>, deadline: Instant) -> bool {
        // SAFETY: the caller's.
        let reset =
            |wheel: &Wheel<W::Many>| unsafe { wheel.reset(node, deadline, self.wheel_slot_log2()) };
        let Some(first) = self.wheel(index).and_then(reset) else { return false };
        if first {
            self.tell(index);
        }
        true
    }

    unsafe fn rewake(&self, index: u16, node: NonNull<Node>, waker: &Waker) -> bool {
        // SAFETY: the caller's.
        self.wheel(index).is_none_or(|wheel| unsafe { wheel.rewake(node, waker.clone()) }.is_ok())
    }
}

/// The clock and the timers of an executor. See the [module](crate::time).
///
/// It is `Copy`. From [`Scheduler::timers`](crate::Scheduler::timers); the runtimes over an operating system also have
/// free functions that use the current runtime's.
///
/// ```
/// # filch_test_support::board!();
/// # use core::{future::pending, pin::{Pin, pin}, time::Duration};
/// use filch::Timers;
/// const SECOND: Duration = Duration::from_secs(1);
/// async fn example(timers: Timers) {
///     let begin = timers.now();
///     timers.sleep(SECOND).await;
///     timers.sleep_until(begin + 2 * SECOND).await;
///     assert!(timers.now() >= begin + 2 * SECOND);
///     assert!(timers.timeout(SECOND, pending::<()>()).await.is_err());
///     // The future comes first, even if the deadline has passed.
///     assert_eq!(timers.timeout_at(begin, async { 7 }).await, Ok(7));
///     let first = timers.interval(SECOND).tick().await;
///     assert!(first <= timers.now(), "it is due at once");
///     let next = first + 5 * SECOND;
///     assert_eq!(timers.interval_at(next, SECOND).tick().await, next);
/// }
/// # use filch::{Executor, TaskPool, WorkerId};
/// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
/// # static TASKS: TaskPool<2048, 8> = TaskPool::new();
/// # let mut task = EXECUTOR.spawn(&TASKS, example(EXECUTOR.timers()))?;
/// # let worker = EXECUTOR.worker(WorkerId::new(0))?;
/// # while !task.is_finished() {
/// #     worker.run_for(8);
/// #     worker.park();
/// # }
/// # task.join()?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Timers(pub(crate) &'static dyn Driver);

impl Timers {
    /// The time on the executor's clock.
    pub fn now(self) -> Instant {
        self.0.now()
    }

    /// Sleeps for `duration` from now. A duration of zero gives way to other ready tasks. A duration beyond the clock's
    /// range (584 years) never ends.
    ///
    /// Cost: one read of the clock, and about 100 bytes in the caller's future. No allocation.
    pub fn sleep(self, duration: Duration) -> Sleep {
        Sleep::new(self, self.now() + duration, true)
    }

    /// Sleeps until `deadline`. A deadline in the past is ready at once.
    ///
    /// Cost: the first poll reads the clock.
    pub fn sleep_until(self, deadline: Instant) -> Sleep {
        Sleep::new(self, deadline, false)
    }

    /// Limits `future` to `duration` from now, see [`Timeout`].
    pub fn timeout<F: Future>(self, duration: Duration, future: F) -> Timeout<F> {
        Timeout::new(self.sleep(duration), future)
    }

    /// Limits `future` to the time until `deadline`, see [`Timeout`].
    pub fn timeout_at<F: Future>(self, deadline: Instant, future: F) -> Timeout<F> {
        Timeout::new(self.sleep_until(deadline), future)
    }

    /// Ticks now and then once every `period`, see [`Interval`].
    pub fn interval(self, period: Duration) -> Interval {
        self.interval_at(self.now(), period)
    }

    /// Ticks at `first` and then once every `period`, see [`Interval`].
    pub fn interval_at(self, first: Instant, period: Duration) -> Interval {
        Interval::new(self, first, period)
    }
}

impl UnwindSafe for Timers {}
impl RefUnwindSafe for Timers {}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").field("now", &self.now()).finish()
    }
}
