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

/// A future that is ready when its deadline has come. From [`Timers::sleep`].
///
/// It enters a timer wheel when it is first polled, and leaves it when it is dropped; the node is inside this very value,
/// which therefore has to be pinned. It may be polled, reset and dropped on any thread, but not in interrupt handlers. If the
/// executor has no worker it never ends; nor does it in a forked child, which has none of its parent's workers.
///
/// A deadline that has passed when it is first polled is over at once: so it wins in a loop that makes it anew each round, beside
/// other branches that are ready. (A [`Timers::sleep`], whose deadline lay ahead, is not looked at a second time for that: first
/// polled when its time has come, it is over at the next look of the wheel.)
///
/// Cost of the first poll, of a reset and of a drop: one uncontended lock and some list links each, whatever the number of
/// timers. A ready one spends a unit of budget.
///
/// # Cancel safety
/// Dropping it loses nothing.
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    timers: Timers,
    deadline: Instant,
    /// The wheel that the node was put into. INV-TIMER: valid while the node's state is not UNLINKED.
    wheel: u16,
    /// The deadline lay ahead when the value was made or reset.
    ahead: bool,
    node: Node,
    _pinned: PhantomPinned,
}

// SAFETY: INV-TIMER: what others reach of it is the node, under the wheel's lock; wakers are `Send` and `Sync`.
unsafe impl Send for Sleep {}
// SAFETY: as above; a shared reference reaches the deadline and the atomic state only.
unsafe impl Sync for Sleep {}

impl UnwindSafe for Sleep {}
impl RefUnwindSafe for Sleep {}

impl Sleep {
    pub(super) fn new(timers: Timers, deadline: Instant, ahead: bool) -> Self {
        Self { timers, deadline, wheel: 0, ahead, node: Node::new(), _pinned: PhantomPinned }
    }

    /// When it ends.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether it has ended. True from when its deadline was noticed; false before it was ever polled.
    pub fn is_elapsed(&self) -> bool {
        // Ordering: says no more than that.
        self.node.state.load(Ordering::Relaxed) == FIRED
    }

    /// Gives it another deadline, whether it has ended or not; whoever waits for it waits for that one. From any thread.
    ///
    /// Cost: as a drop and a first poll, at most. If it has ended it enters a wheel when it is polled.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let (this, node) = self.parts();
        this.deadline = deadline;
        this.ahead = false;
        // Ordering: Acquire pairs with the Release in `Slots::fire`.
        if this.node.state.load(Ordering::Acquire) == LINKED {
            let (timers, index) = (this.timers.0, this.wheel);
            let reset = timers.wheel(index).and_then(|wheel| {
                // SAFETY: INV-TIMER: we are the owner, and that is its wheel.
                unsafe { wheel.reset(node, deadline, timers.tick()) }
            });
            if let Some(first) = reset {
                if first {
                    timers.tell(index);
                }
                return;
            }
            // It has fired; the lock has passed on what the wheel did.
        }
        // Ordering: it is the owner's alone.
        this.node.state.store(UNLINKED, Ordering::Relaxed);
    }

    fn parts(self: Pin<&mut Self>) -> (&mut Self, NonNull<Node>) {
        // SAFETY: nothing is moved out: the node stays where it is.
        let this = unsafe { self.get_unchecked_mut() };
        let node = NonNull::from(&this.node);
        (this, node)
    }

    /// As `poll`, without a budget.
    pub(super) fn has_ended(self: Pin<&mut Self>, cx: &Context<'_>) -> bool {
        let (this, _) = self.parts();
        // Ordering: Acquire pairs with the Release in `Slots::fire`.
        match this.node.state.load(Ordering::Acquire) {
            UNLINKED if this.is_over() => {
                // Ordering: it is the owner's alone.
                this.node.state.store(FIRED, Ordering::Relaxed);
                true
            }
            UNLINKED => {
                this.begin(cx);
                false
            }
            LINKED => this.update(cx),
            _ => true,
        }
    }

    /// Whether a deadline that is in no wheel has passed. One that was a duration from now when it was made is not looked at: that
    /// would be a second look at the clock for each, and the wheel's next one finds it.
    fn is_over(&self) -> bool {
        !self.ahead && self.deadline <= self.timers.now()
    }

    /// Enters a wheel.
    fn begin(&mut self, cx: &Context<'_>) {
        let timers = self.timers.0;
        let Some((index, wheel)) = timers.place() else { return };
        self.wheel = index;
        let waker = cx.waker().clone();
        let node = NonNull::from(&self.node);
        // SAFETY: INV-TIMER: it is unlinked; we are pinned, and `drop` unlinks it.
        let first = unsafe { wheel.insert(node, self.deadline, waker, timers.tick()) };
        if first {
            timers.tell(self.wheel);
        }
    }

    /// Whether the wheel has fired it meanwhile; if not, it will wake this waker.
    fn update(&self, cx: &Context<'_>) -> bool {
        // The wheel may have taken the waker out since: then it is about to wake it, and the next poll sees the end.
        if self.node.wakes(cx.waker()) {
            return false;
        }
        let Some(wheel) = self.timers.0.wheel(self.wheel) else { return false };
        let node = NonNull::from(&self.node);
        // SAFETY: INV-TIMER: we are the owner, and that is its wheel.
        unsafe { wheel.rewake(node, cx.waker().clone()) }.is_err()
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.as_mut().has_ended(cx) {
            return Poll::Pending;
        }
        if !self.timers.0.spend(cx.waker()) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        // Ordering: Acquire pairs with the Release in `Slots::fire`: the wheel is done with the node. In a forked child nobody ever looks
        // at the wheel again.
        if self.node.state.load(Ordering::Acquire) == LINKED {
            if let Some(wheel) = self.timers.0.wheel(self.wheel) {
                // SAFETY: INV-TIMER: we are the owner, and that is its wheel.
                drop(unsafe { wheel.remove(NonNull::from(&self.node)) });
            }
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
