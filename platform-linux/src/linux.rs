//! The host: workers sleep in epoll, one at a time, the others on their words.

use core::{
    cell::{Cell, UnsafeCell},
    fmt,
    time::Duration,
};
use std::{
    io::{self, Write},
    thread,
};

use filch::{
    Instant, WorkerId,
    atomic::{AtomicU32, Ordering, fence},
};
use filch_std::{Futex, Host};
use rustix::io::Errno;

use crate::{
    poller::{Events, Poller},
    slab::{Key, Slab},
    token::{Take, Token},
};

/// How often a worker looks whether the token is free, or is with one that sleeps, before it sleeps for a while itself.
const LOOKS: usize = 32;

/// How long that is: it is the time for which nobody may listen, should the token become free meanwhile.
const SOON: Duration = Duration::from_millis(1);

/// Timeouts have an end; spurious returns are allowed.
const LONGEST: Duration = Duration::from_secs(3_600);

/// From here on the kernel's allowance for a timeout of epoll is worth a second, shorter wait: see [`Linux::sleep`].
const ROUGH: Duration = Duration::from_millis(20);

/// The host of a runtime with I/O: one epoll, of which one worker at a time holds the token.
///
/// The holder sleeps in epoll, until the very deadline, and an eventfd interrupts it; the others sleep on futexes. What the
/// holder was told it delivers itself, in `poll_io`, so that the tasks come into its own queue, and then gives the token
/// up: a worker that is stuck in a long poll keeps I/O from nobody, for as long as another watches and takes its place.
pub struct Linux {
    /// Time, and sleep on a word.
    futex: Futex,
    token: Token,
    pub(crate) poller: Poller,
    pub(crate) sources: Slab,
    /// INV-TOKEN guards it. What is here when the token is given up the next holder delivers.
    events: UnsafeCell<Events>,
    workers: AtomicU32,
    /// Counts the runtimes that have ended on this host: see `Source`.
    lives: AtomicU32,
    /// A forked child shares the epoll, and must not change it.
    process: u32,
}

// SAFETY: INV-TOKEN: `events`, which alone is not `Sync`, is touched by one thread at a time, and holds plain numbers.
unsafe impl Sync for Linux {}

thread_local! {
    /// Whether the last `listen` slept on its word, so that there is nothing to deliver.
    static SLEPT: Cell<bool> = const { Cell::new(false) };
}

// SAFETY:
// - Sticky wake: on the word, the futex's contract; in epoll, the alarm is an edge that the next wait finds, and whether
//   it is to be rung is argued in `Token::sleeps`.
// - Wake from anywhere: fences, loads and one system call.
// - Clock: that of `Futex`.
unsafe impl Host for Linux {
    fn new() -> io::Result<Self> {
        Ok(Self {
            futex: Futex::new()?,
            token: Token::new(),
            poller: Poller::new()?,
            sources: Slab::new(),
            events: UnsafeCell::new(Events::new()),
            workers: AtomicU32::new(0),
            lives: AtomicU32::new(0),
            process: filch_std::fork::generation(),
        })
    }

    unsafe fn open(&self) -> io::Result<()> {
        self.poller.open()
    }

    unsafe fn close(&self) {
        // SAFETY: INV-TOKEN: no worker is there that could hold it: the caller's.
        let events = unsafe { &mut *self.events.get() };
        // What nobody has delivered was for sources of a runtime that has ended.
        while events.pop().is_some() {}
        self.token.close(thread::yield_now);
        self.poller.close();
    }

    unsafe fn enter(&self, _: WorkerId) {
        // Ordering: a count; see `leave`.
        self.workers.fetch_add(1, Ordering::Relaxed);
    }

    unsafe fn leave(&self, me: WorkerId) {
        // What is buffered stays for the next holder. There is one: before a worker leaves it wakes another, which does not
        // sleep on its word while we are awake with the token.
        if self.token.is_held_by(me) {
            self.token.give_up();
        }
        // Ordering: AcqRel makes the last one see the others gone.
        if self.workers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.end_life();
        }
    }

    fn now(&self) -> Instant {
        self.futex.now()
    }

    unsafe fn wait(
        &self,
        me: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) {
        self.token.keep_away(me);
        // SAFETY: the caller's.
        unsafe { self.futex.wait(me, word, expected, deadline) };
    }

    unsafe fn listen(
        &self,
        me: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) {
        if self.poller.is_broken() {
            // SAFETY: the caller's.
            return unsafe { self.wait(me, word, expected, deadline) };
        }
        for _ in 0..LOOKS {
            match self.token.take(me) {
                Take::Held => return self.sleep(me, word, expected, deadline),
                Take::Watched => {
                    SLEPT.set(true);
                    // SAFETY: the caller's.
                    return unsafe { self.futex.wait(me, word, expected, deadline) };
                }
                // Ordering: a look; the caller looks again.
                Take::Busy if word.load(Ordering::Relaxed) != expected => return,
                Take::Busy => thread::yield_now(),
            }
        }
        // A waker that the holder runs takes long. Ordering: as where another watches, see `Token::sleeps`.
        fence(Ordering::SeqCst);
        let soon = self.now() + SOON;
        let until = deadline.map_or(soon, |deadline| deadline.min(soon));
        SLEPT.set(true);
        // SAFETY: the caller's.
        unsafe { self.futex.wait(me, word, expected, Some(until)) };
    }

    fn wake(&self, worker: WorkerId, word: &AtomicU32) {
        // A look first, so that wakes of others share no count.
        // SAFETY: in `ring_if`.
        let ring = || unsafe { self.poller.ring() };
        if !self.token.sleeps(worker) || !self.token.ring_if(worker, ring) {
            self.futex.wake(worker, word);
        }
    }

    unsafe fn poll_io(&self, me: WorkerId) -> usize {
        let slept = SLEPT.replace(false);
        if !self.token.is_held_by(me) {
            if self.poller.is_broken() {
                return 0;
            }
            if slept || self.token.take(me) != Take::Held {
                return 0;
            }
            // SAFETY: INV-TOKEN: we have just taken it.
            let events = unsafe { &mut *self.events.get() };
            if events.is_empty() {
                // Interrupted or broken, there is nothing.
                let _ = self.poller.wait(events, Some(Duration::ZERO));
            }
        }
        self.deliver(me)
    }

    fn is_unwatched(&self) -> bool {
        self.token.is_free() && !self.sources.is_empty() && !self.poller.is_broken()
    }

    fn has_io(&self) -> bool {
        self.poller.has_events()
    }

    fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        self.futex.block(word, expected, deadline);
    }

    fn unblock(&self, word: &AtomicU32) {
        self.futex.unblock(word);
    }
}

impl Linux {
    /// Sleeps in epoll, as the holder.
    ///
    /// Besides the slack of a thread's timers, which the runtime turns off, the kernel allows itself to be late by a thousandth
    /// of a timeout of epoll (a two-hundredth in a process that is nice). So a long sleep ends a little early, and the rest is
    /// a sleep of its own.
    fn sleep(&self, me: WorkerId, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        loop {
            let left = deadline.map(|end| end - self.now());
            let longest =
                left.map(|left| if left < ROUGH { left } else { (left - left / 128).min(LONGEST) });
            // SAFETY: INV-TOKEN: we are the holder. No waker runs while this borrow is alive.
            let events = unsafe { &mut *self.events.get() };
            if !events.is_empty() || !self.token.fall_asleep(me, word, expected) {
                return;
            }
            let slept = self.poller.wait(events, longest);
            self.token.wake_up(me);
            match slept {
                Ok(()) if longest == left => return,
                Ok(()) => {}
                Err(error) => {
                    if self.poller.is_broken_by(error) {
                        self.lament(error);
                    }
                    return;
                }
            }
        }
    }

    /// Somebody has closed the descriptor of epoll, which is not theirs. Workers sleep on their words from now on, and those that wait
    /// for I/O hear that it is over.
    #[cold]
    fn lament(&self, error: Errno) {
        // It must not panic, as `eprintln` does where nobody reads.
        let _ = writeln!(
            io::stderr(),
            "filch-linux: epoll_wait fails ({error}): a descriptor of the runtime was closed behind its back. Its I/O is over."
        );
        self.end_life();
    }

    /// Nobody asks epoll any more: who waits for a source hears that.
    fn end_life(&self) {
        // Ordering: Release pairs with the Acquire in `lives`; the edges of `wake_all` pass it on too.
        self.lives.fetch_add(1, Ordering::Release);
        self.sources.wake_all();
    }

    /// Delivers what the holder was told, and gives the token up; how many events there were.
    fn deliver(&self, me: WorkerId) -> usize {
        let mut n = 0;
        // A waker may do anything, also come here again, and leave nothing to be done.
        while self.token.is_held_by(me) {
            // SAFETY: INV-TOKEN; the borrow ends before the waker runs.
            let Some((key, ready)) = (unsafe { &mut *self.events.get() }).pop() else {
                self.token.give_up();
                break;
            };
            n += usize::from(self.sources.deliver(Key(key), ready));
        }
        n
    }

    /// Whether the calling process is the one that made the runtime.
    pub(crate) fn is_ours(&self) -> bool {
        self.process == filch_std::fork::generation()
    }

    /// How many runtimes have ended here.
    pub(crate) fn lives(&self) -> u32 {
        // Ordering: Acquire pairs with the Release in `leave`.
        self.lives.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Linux {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Linux")
            .field("poller", &self.poller)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
