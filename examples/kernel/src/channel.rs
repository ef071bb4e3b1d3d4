//! A bounded channel between tasks, for any number of them, without an allocator.

use core::{cell::UnsafeCell, fmt, hint::spin_loop};

use filch::{
    atomic::{AtomicBool, Ordering},
    io::{Readiness, Ready},
};

/// A queue of at most `CAP` numbers; senders wait for room, receivers for numbers.
pub struct Channel<const CAP: usize> {
    busy: AtomicBool,
    /// INV-LOCKED: accessed by the task that has set `busy`.
    queue: UnsafeCell<Queue<CAP>>,
    state: Readiness,
}

struct Queue<const CAP: usize> {
    items: [u32; CAP],
    first: usize,
    len: usize,
}

// SAFETY: INV-LOCKED.
unsafe impl<const CAP: usize> Sync for Channel<CAP> {}

impl<const CAP: usize> Channel<CAP> {
    /// An empty channel.
    #[expect(clippy::new_without_default, reason = "for statics")]
    pub const fn new() -> Self {
        Self {
            busy: AtomicBool::new(false),
            queue: UnsafeCell::new(Queue { items: [0; CAP], first: 0, len: 0 }),
            state: Readiness::new(),
        }
    }

    /// Sends a number, as soon as there is room.
    pub async fn send(&self, item: u32) {
        self.attempt(Ready::WRITABLE, || {
            self.locked(|queue| {
                let room = queue.len < CAP;
                if room {
                    queue.items[(queue.first + queue.len) % CAP] = item;
                    queue.len += 1;
                }
                room.then_some(())
            })
        })
        .await;
        self.state.set(Ready::READABLE);
    }

    /// Receives a number, as soon as there is one.
    pub async fn receive(&self) -> u32 {
        let item = self
            .attempt(Ready::READABLE, || {
                self.locked(|queue| {
                    let item = (queue.len > 0).then(|| queue.items[queue.first]);
                    if item.is_some() {
                        queue.first = (queue.first + 1) % CAP;
                        queue.len -= 1;
                    }
                    item
                })
            })
            .await;
        self.state.set(Ready::WRITABLE);
        item
    }

    /// Tries, and waits for the next edge if the attempt fails.
    async fn attempt<T>(&self, interest: Ready, mut attempt: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(done) = attempt() {
                return done;
            }
            // An edge since the attempt before keeps the cell ready.
            let event = self.state.ready(interest).await;
            if let Some(done) = attempt() {
                return done;
            }
            self.state.clear(event);
        }
    }

    fn locked<R>(&self, f: impl FnOnce(&mut Queue<CAP>) -> R) -> R {
        while self.busy.swap(true, Ordering::Acquire) {
            spin_loop();
        }
        // SAFETY: INV-LOCKED.
        let result = f(unsafe { &mut *self.queue.get() });
        self.busy.store(false, Ordering::Release);
        result
    }
}

impl<const CAP: usize> fmt::Debug for Channel<CAP> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("state", &self.state).finish_non_exhaustive()
    }
}
