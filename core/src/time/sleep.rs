//! A sleep: one deadline in a wheel.

use core::{
    fmt,
    future::Future,
    marker::PhantomPinned,
    panic::{RefUnwindSafe, UnwindSafe},
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll},
};

use super::{
    driver::Timers,
    node::{FIRED, LINKED, Node, UNLINKED},
};
use crate::{atomic::Ordering, instant::Instant};

/// A future that is ready once its deadline has passed. From [`Timers::sleep`].
///
/// The first poll puts it into a timer wheel, and its drop takes it out. The node is inside this value, which therefore
/// must be pinned. It may be polled, reset and dropped on any thread, but not in interrupt handlers. If the executor
/// has no worker, it never ends; nor does it in a forked child, which has none of its parent's workers.
///
/// A deadline that has passed at the first poll is ready at once. So it wins against other ready branches in a loop
/// that makes it anew each round. A [`Timers::sleep`] is an exception: its deadline lay ahead when it was made, and the
/// first poll does not read the clock again. If the deadline has passed by then, the sleep ends when the wheel is next
/// checked.
///
/// Cost of the first poll, of a reset and of a drop: one uncontended lock and some list links each, whatever the number
/// of timers. A poll that is ready spends a unit of budget. If there is none left, it is refused once: then the sleep ends with
/// the next poll, even if a future beside it has used up the budget of that one too.
///
/// # Cancel safety
/// Dropping it loses nothing.
///
/// ```
/// # filch_test_support::board!();
/// # use core::{future::pending, pin::{Pin, pin}, time::Duration};
/// use filch::{Sleep, Timers};
/// const SECOND: Duration = Duration::from_secs(1);
/// async fn example(timers: Timers) {
///     let mut sleep: Pin<&mut Sleep> = pin!(timers.sleep(SECOND));
///     let later = sleep.deadline() + SECOND;
///     sleep.as_mut().reset(later);
///     assert!(!sleep.is_elapsed());
///     sleep.as_mut().await;
///     assert!(sleep.is_elapsed() && timers.now() >= later);
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
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    timers: Timers,
    deadline: Instant,
    /// The wheel that the node was put into. INV-TIMER: valid unless the node's state is UNLINKED.
    wheel: u16,
    /// Whether the deadline lay ahead when the value was made.
    ahead: bool,
    /// Whether a budget has refused the end.
    refused: bool,
    node: Node,
    _pinned: PhantomPinned,
}

// SAFETY: INV-TIMER: other threads reach only the node, under the wheel's lock; wakers are `Send` and `Sync`.
unsafe impl Send for Sleep {}
// SAFETY: as above; a shared reference reaches only the deadline and the atomic state.
unsafe impl Sync for Sleep {}

impl UnwindSafe for Sleep {}
impl RefUnwindSafe for Sleep {}

impl Sleep {
    pub(super) fn new(timers: Timers, deadline: Instant, ahead: bool) -> Self {
        let (node, _pinned) = (Node::new(), PhantomPinned);
        Self { timers, deadline, wheel: 0, ahead, refused: false, node, _pinned }
    }

    /// The deadline.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether it has ended. True once a poll or a worker has noticed the deadline; false before the first poll.
    pub fn is_elapsed(&self) -> bool {
        // Ordering: Relaxed: the result publishes nothing else.
        self.node.state.load(Ordering::Relaxed) == FIRED
    }

    /// Sets another deadline, whether the old one has passed or not. A task that waits for the sleep then waits for the
    /// new one. From any thread.
    ///
    /// Cost: at most that of a drop and a first poll. A sleep that has ended enters a wheel at its next poll.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let (this, node) = self.parts();
        this.deadline = deadline;
        (this.ahead, this.refused) = (false, false);
        // Ordering: Acquire pairs with the Release in `Slots::fire`.
        if this.node.state.load(Ordering::Acquire) == LINKED {
            // SAFETY: INV-TIMER: we are the owner, and that is its wheel.
            if unsafe { this.timers.0.reset(this.wheel, node, deadline) } {
                return;
            }
            // It has fired, and the lock has passed on what the wheel did.
        }
        // Ordering: Relaxed: the node belongs to its owner alone.
        this.node.state.store(UNLINKED, Ordering::Relaxed);
    }

    fn parts(self: Pin<&mut Self>) -> (&mut Self, NonNull<Node>) {
        // SAFETY: nothing is moved out, so that the node stays in place.
        let this = unsafe { self.get_unchecked_mut() };
        let node = NonNull::from(&this.node);
        (this, node)
    }

    /// As `poll`, without a budget.
    fn has_ended(self: Pin<&mut Self>, cx: &Context<'_>) -> bool {
        let (this, _) = self.parts();
        // Ordering: Acquire pairs with the Release in `Slots::fire`.
        let ended = match this.node.state.load(Ordering::Acquire) {
            UNLINKED if this.is_over() => {
                // Ordering: Relaxed: the node belongs to its owner alone.
                this.node.state.store(FIRED, Ordering::Relaxed);
                true
            }
            UNLINKED => {
                this.begin(cx);
                false
            }
            LINKED => this.update(cx),
            _ => true,
        };
        #[cfg(feature = "task-dump")]
        if !ended {
            this.timers.0.note_sleep(cx.waker(), this.deadline);
        }
        ended
    }

    /// Whether a deadline that is in no wheel has passed. One that was a duration from now when it was made is not
    /// checked: that would read the clock a second time for each sleep, and the wheel finds it at its next check.
    /// The end of time is: no wheel comes to it.
    fn is_over(&self) -> bool {
        let is_checked = !self.ahead || self.deadline == Instant::MAX;
        is_checked && self.deadline <= self.timers.now()
    }

    /// Puts the node into a wheel.
    fn begin(&mut self, cx: &Context<'_>) {
        let node = NonNull::from(&self.node);
        // SAFETY: INV-TIMER: the node is unlinked; we are pinned, and `drop` unlinks it.
        let wheel = unsafe { self.timers.0.insert(node, self.deadline, cx.waker()) };
        self.wheel = wheel.unwrap_or_default();
    }

    /// Whether the wheel has fired the node. If not, the wheel will wake this waker.
    fn update(&self, cx: &Context<'_>) -> bool {
        // If the wheel has just taken the waker out, it is about to wake it, and the next poll sees the end.
        if self.node.wakes(cx.waker()) {
            return false;
        }
        let node = NonNull::from(&self.node);
        // SAFETY: INV-TIMER: we are the owner, and that is its wheel.
        !unsafe { self.timers.0.rewake(self.wheel, node, cx.waker()) }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.as_mut().has_ended(cx) {
            return Poll::Pending;
        }
        let (this, _) = self.parts();
        if !this.timers.0.spend(cx.waker()) && !core::mem::replace(&mut this.refused, true) {
            this.timers.0.force_yield(cx.waker());
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        // Ordering: Acquire pairs with the Release in `Slots::fire`: the wheel has finished with the node. In a forked
        // child no worker uses the wheel again.
        if self.node.state.load(Ordering::Acquire) == LINKED {
            // SAFETY: INV-TIMER: we are the owner, and that is its wheel.
            unsafe { self.timers.0.remove(self.wheel, NonNull::from(&self.node)) };
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .field("elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}
