//! The token: which worker sleeps in epoll.

use filch::{
    WorkerId,
    atomic::{AtomicU32, Ordering, fence},
};

const FREE: u32 = 0;

fn awake(worker: WorkerId) -> u32 {
    (worker.index() as u32) << 2 | 1
}

fn asleep(worker: WorkerId) -> u32 {
    (worker.index() as u32) << 2 | 2
}

fn is_asleep(state: u32) -> bool {
    state & 2 != 0
}

/// The right to ask epoll; there is one in a runtime.
///
/// | state | the holder | another worker that wants to sleep |
/// |---|---|---|
/// | free | nobody | takes it |
/// | awake | asks without waiting, or delivers what it was told: not for long | comes back soon |
/// | asleep | sleeps in epoll, or is about to | sleeps on its own word |
///
/// So whoever sleeps on its word has seen a worker that would hear of I/O. When that one wakes up and has something else
/// to do it gives the token up, and the next that goes to sleep takes it.
///
/// The models are in `platform-linux/models`.
///
/// INV-TOKEN: what the token guards is touched only by the worker that it names. It goes from one to the next by `give_up`
/// and `take`.
///
/// INV-RING: while a worker is asleep by the token, and for as long as a ring of [`ring_if`](Token::ring_if) that has seen that lasts, the
/// alarm that would wake it is there: what takes it away calls [`close`](Token::close) before, behind the last worker's `give_up`.
#[derive(Debug)]
pub(crate) struct Token {
    holder: AtomicU32,
    /// Threads and signal handlers that are about to ring.
    rings: AtomicU32,
}

/// What came of [`Token::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Take {
    /// The caller has it, by this call or from before.
    Held,
    /// Another has it, and will give it up soon.
    Busy,
    /// Another sleeps in epoll. What the caller does next comes after that in the eyes of [`Token::sleeps`].
    Watched,
}

impl Token {
    pub(crate) fn new() -> Self {
        Self { holder: AtomicU32::new(FREE), rings: AtomicU32::new(0) }
    }

    /// Takes the token, if it is free. Only `me` itself.
    pub(crate) fn take(&self, me: WorkerId) -> Take {
        // Ordering: Acquire pairs with the Release in `give_up`: INV-TOKEN.
        match self.holder.compare_exchange(FREE, awake(me), Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Take::Held,
            Err(state) if state == awake(me) => Take::Held,
            Err(state) if is_asleep(state) => {
                // Ordering: the caller is about to check its word, in the kernel: see `sleeps`.
                fence(Ordering::SeqCst);
                Take::Watched
            }
            Err(_) => Take::Busy,
        }
    }

    /// Whether nobody has it. A hint.
    pub(crate) fn is_free(&self) -> bool {
        self.holder.load(Ordering::Relaxed) == FREE
    }

    pub(crate) fn is_held_by(&self, me: WorkerId) -> bool {
        // Ordering: only `me`, the caller, writes this state, so that it reads its own write or that of another.
        self.holder.load(Ordering::Relaxed) == awake(me)
    }

    /// The worker is about to sleep on its word whether another watches or not: it gives the token up, should it have it.
    pub(crate) fn keep_away(&self, me: WorkerId) {
        if self.is_held_by(me) {
            self.give_up();
        }
        // Ordering: the caller is about to check its word, in the kernel: see `sleeps`.
        fence(Ordering::SeqCst);
    }

    /// The holder is about to sleep in epoll; false if its word is no longer `expected`, and it must not.
    pub(crate) fn fall_asleep(&self, me: WorkerId, word: &AtomicU32, expected: u32) -> bool {
        // Ordering: Dekker with `sleeps`, see there: announce, fence, check.
        self.holder.store(asleep(me), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if word.load(Ordering::Relaxed) == expected {
            return true;
        }
        self.wake_up(me);
        false
    }

    /// The holder sleeps no longer.
    pub(crate) fn wake_up(&self, me: WorkerId) {
        // Ordering: nothing is published; the token stays with `me`.
        self.holder.store(awake(me), Ordering::Relaxed);
    }

    /// The holder is one no longer.
    pub(crate) fn give_up(&self) {
        // Ordering: Release pairs with the Acquire in `take`: INV-TOKEN.
        self.holder.store(FREE, Ordering::Release);
    }

    /// Whether `worker`, whose word has changed, must be woken in epoll; else it is to be woken at its word.
    ///
    /// For any context, signal handlers included.
    pub(crate) fn sleeps(&self, worker: WorkerId) -> bool {
        // Ordering: this fence and the one that `worker` makes before it sleeps (in `fall_asleep`, in `take` when another
        // watches, or in `keep_away`) are in one order. The word has changed before this one; the token was written, or read, before that one.
        // - This one first: the worker sees the changed word, and does not sleep (in epoll by its check, on the word by
        //   that of the futex).
        // - That one first, in `fall_asleep`: we see the worker asleep, or a later state, which says that it woke up.
        // - That one first, in `take` or `keep_away`: we see the state that it read, or a later one. It was another's, and what
        //   `worker` had written before is older; or it was not asleep. So we do not take it to be in epoll, and wake it at its
        //   word.
        fence(Ordering::SeqCst);
        self.holder.load(Ordering::Relaxed) == asleep(worker)
    }

    /// Calls `ring` if `worker`, whose word has changed, must be woken in epoll; whether it did. For any context, signal handlers
    /// included.
    pub(crate) fn ring_if(&self, worker: WorkerId, ring: impl FnOnce()) -> bool {
        // Ordering: the fence in `sleeps` pairs with the one in `close`: either that one sees our count, or we see that nobody sleeps
        // in epoll any more.
        self.rings.fetch_add(1, Ordering::Relaxed);
        let rings = self.sleeps(worker);
        if rings {
            ring();
        }
        // Ordering: Release pairs with the Acquire in `close`: the ring is over.
        self.rings.fetch_sub(1, Ordering::Release);
        rings
    }

    /// Waits until nobody rings, nor will: the last worker has left, and the caller comes after that.
    pub(crate) fn close(&self, relax: impl Fn()) {
        // Ordering: see `ring_if`.
        fence(Ordering::SeqCst);
        while self.rings.load(Ordering::Acquire) != 0 {
            relax();
        }
    }
}

#[cfg(all(test, not(filch_loom)))]
mod tests {
    use super::*;

    const A: WorkerId = WorkerId::new(0);
    const B: WorkerId = WorkerId::new(4_095);

    #[test]
    fn the_token_goes_round() {
        let (token, word) = (Token::new(), AtomicU32::new(1));
        assert_eq!(token.take(A), Take::Held);
        assert_eq!(token.take(A), Take::Held);
        assert_eq!(token.take(B), Take::Busy);
        assert!(token.is_held_by(A) && !token.is_held_by(B) && !token.sleeps(A));

        assert!(token.fall_asleep(A, &word, 1));
        assert!(token.sleeps(A) && !token.sleeps(B));
        assert_eq!(token.take(B), Take::Watched);

        token.wake_up(A);
        assert!(!token.sleeps(A));
        assert!(!token.fall_asleep(A, &word, 0), "the word has changed");
        assert!(token.is_held_by(A) && !token.sleeps(A));

        token.give_up();
        assert!(!token.is_held_by(A));
        assert_eq!(token.take(B), Take::Held);
        assert!(token.fall_asleep(B, &word, 1) && token.sleeps(B));
        assert_eq!(token.take(A), Take::Watched);
    }
}
