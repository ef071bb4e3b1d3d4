//! A core without a worker, which wakes the wakers that it is sent: the suite's context that is no
//! worker.

use core::{cell::UnsafeCell, fmt, hint::spin_loop, task::Waker};

use filch::atomic::{AtomicU32, Ordering};

const EMPTY: u32 = 0;
const WRITING: u32 = 1;
const FULL: u32 = 2;

/// Room for one waker, on its way to another core.
pub struct Mailbox {
    word: AtomicU32,
    /// INV-LETTER: belongs to the context that changed `word` from `EMPTY` to `WRITING`; while it
    /// is `FULL`, to the core that delivers.
    letter: UnsafeCell<Option<Waker>>,
}

// SAFETY: INV-LETTER, and wakers are `Send`.
unsafe impl Sync for Mailbox {}

impl Mailbox {
    /// An empty mailbox.
    #[expect(clippy::new_without_default, reason = "for statics")]
    pub const fn new() -> Self {
        Self { word: AtomicU32::new(EMPTY), letter: UnsafeCell::new(None) }
    }

    /// Puts a waker in as soon as there is room, and calls `wake` to wake the core that waits for
    /// the word. Not from interrupt handlers.
    pub fn put(&self, waker: Waker, wake: impl FnOnce(&AtomicU32)) {
        // Ordering: Acquire pairs with the Release of `EMPTY` in `deliver`.
        while self
            .word
            .compare_exchange(EMPTY, WRITING, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            spin_loop();
        }
        // SAFETY: INV-LETTER.
        unsafe { *self.letter.get() = Some(waker) };
        // Ordering: Release pairs with the Acquire in `deliver`.
        self.word.store(FULL, Ordering::Release);
        wake(&self.word);
    }

    /// Wakes each waker that comes, for ever; `wait` sleeps while the word has this value. By one
    /// core.
    ///
    /// # Safety
    /// Called only once for a mailbox.
    pub unsafe fn deliver(&self, wait: impl Fn(&AtomicU32, u32)) -> ! {
        loop {
            // Ordering: Acquire pairs with the Release in `put`.
            let seen = self.word.load(Ordering::Acquire);
            if seen != FULL {
                wait(&self.word, seen);
                continue;
            }
            // SAFETY: INV-LETTER, and no other core delivers.
            let waker = unsafe { (*self.letter.get()).take() };
            // Ordering: Release pairs with the Acquire in `put`.
            self.word.store(EMPTY, Ordering::Release);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("word", &self.word).finish_non_exhaustive()
    }
}
