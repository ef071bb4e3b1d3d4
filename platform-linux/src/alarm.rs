//! The alarm: the descriptor that ends a wait in epoll, for as long as it is open.

use filch::atomic::{AtomicU32, Ordering, fence};

const CLOSED: u32 = u32::MAX;

/// A descriptor that is rung by any thread or signal handler, and taken away by one thread.
///
/// INV-ALARM: a descriptor that [`take`](Alarm::take) has given back is rung by no thread any more.
#[derive(Debug)]
pub(crate) struct Alarm {
    fd: AtomicU32,
    /// Threads and signal handlers that ring.
    rings: AtomicU32,
}

impl Alarm {
    pub(crate) fn closed() -> Self {
        Self { fd: AtomicU32::new(CLOSED), rings: AtomicU32::new(0) }
    }

    pub(crate) fn set(&self, fd: i32) {
        // Ordering: Release pairs with the Acquire in `ring`: it was opened before.
        self.fd.store(fd as u32, Ordering::Release);
    }

    /// Calls `ring` with the descriptor, if it is open. For any context, signal handlers included.
    pub(crate) fn ring(&self, ring: impl FnOnce(i32)) {
        // Ordering: the fence pairs with the one in `take`: either that one sees this count, or we see that the alarm has gone.
        self.rings.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // Ordering: Acquire pairs with the Release in `set`.
        let fd = self.fd.load(Ordering::Acquire);
        if fd != CLOSED {
            ring(fd as i32);
        }
        // Ordering: Release pairs with the Acquire in `take`: the ring is over.
        self.rings.fetch_sub(1, Ordering::Release);
    }

    /// Takes the descriptor away, if it is open, and waits until no thread rings it.
    pub(crate) fn take(&self, relax: impl Fn()) -> Option<i32> {
        // Ordering: see `ring`.
        let fd = self.fd.swap(CLOSED, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while self.rings.load(Ordering::Acquire) != 0 {
            relax();
        }
        (fd != CLOSED).then_some(fd as i32)
    }
}
