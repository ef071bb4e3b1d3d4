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

/// The future of [`Readiness::ready`]. It contains the node that is linked into the cell's list.
///
/// If it is polled again after it was ready, it waits for the next time that a bit is set.
#[must_use = "futures do nothing unless polled"]
pub struct WaitReady<'a> {
    cell: &'a Readiness,
    /// Whether the node may be linked. If not, no other context knows of it. Touched only by the owner of the future.
    queued: Cell<bool>,
    node: Node,
}

// SAFETY: before it is pinned, nothing points to it. After that its node is touched only under the lock of the cell
// (INV-WAITERS), and wakers may move between threads.
unsafe impl Send for WaitReady<'_> {}
// SAFETY: a shared reference gives no access: `queued` is used only through `Pin<&mut Self>` and in `drop`.
unsafe impl Sync for WaitReady<'_> {}

impl<'a> WaitReady<'a> {
    pub(super) fn new(cell: &'a Readiness, interest: Ready) -> Self {
        Self { cell, queued: Cell::new(false), node: Node::new(interest) }
    }
}

impl Future for WaitReady<'_> {
    type Output = Event;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Event> {
        // No `&mut` to the node, because the list points to it.
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
        // SAFETY: INV-NODE: the node is pinned with the future, which unlinks it in its drop, and it is used with this
        // cell only.
        let polled = unsafe { this.cell.register(place, interest, cx.waker()) };
        this.queued.set(polled.is_pending());
        polled
    }
}

impl Drop for WaitReady<'_> {
    fn drop(&mut self) {
        if self.queued.get() {
            // SAFETY: INV-NODE: the node was used with this cell only, and is alive.
            drop(unsafe { self.cell.unregister(Place::Node(NonNull::from(&self.node))) });
        }
    }
}

impl fmt::Debug for WaitReady<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitReady").field("interest", &self.node.interest()).finish_non_exhaustive()
    }
}
