//! The future of one waiter.

use core::{
    cell::Cell,
    fmt,
    future::Future,
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll},
};

use super::{
    readiness::Readiness,
    ready::{Event, Ready},
    waiters::{Node, Place},
};

/// The future of [`Readiness::ready`]. The node by which it waits lies inside.
///
/// Polled again after it was ready, it waits for the next time that a bit is set.
#[must_use = "futures do nothing unless polled"]
pub struct WaitReady<'a> {
    cell: &'a Readiness,
    /// Whether the node may be linked; if not, nobody else knows of it. Touched by the owner of the future alone.
    queued: Cell<bool>,
    node: Node,
}

// SAFETY: until it is pinned nobody points to it; then its node is touched under the lock of the cell (INV-WAITERS), and
// wakers go between threads.
unsafe impl Send for WaitReady<'_> {}
// SAFETY: a shared reference gives access to nothing: `queued` is used through `Pin<&mut Self>` and `drop`.
unsafe impl Sync for WaitReady<'_> {}

impl<'a> WaitReady<'a> {
    pub(super) fn new(cell: &'a Readiness, interest: Ready) -> Self {
        Self { cell, queued: Cell::new(false), node: Node::new(interest) }
    }
}

impl Future for WaitReady<'_> {
    type Output = Event;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Event> {
        // No `&mut` to the node, to which others point.
        let this = self.as_ref().get_ref();
        let interest = this.node.interest();
        if !this.queued.get() {
            let event = this.cell.get().only(interest);
            if !event.ready.is_empty() {
                return Poll::Ready(event);
            }
            this.queued.set(true);
        }
        let place = Place::Node(NonNull::from(&this.node));
        // SAFETY: INV-NODE: the node is pinned with the future, which unlinks it when it is dropped, and lent the cell.
        let polled = unsafe { this.cell.register(place, interest, cx.waker()) };
        this.queued.set(polled.is_pending());
        polled
    }
}

impl Drop for WaitReady<'_> {
    fn drop(&mut self) {
        if self.queued.get() {
            // SAFETY: INV-NODE: the node was lent to this cell alone, and is still there.
            drop(unsafe { self.cell.unregister(Place::Node(NonNull::from(&self.node))) });
        }
    }
}

impl fmt::Debug for WaitReady<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitReady").field("interest", &self.node.interest()).finish_non_exhaustive()
    }
}
