//! The driver: the clock, its registration, and what the keeper is told.

use core::{error::Error, fmt, mem::MaybeUninit, task::Waker};

use filch::{
    Instant, Timers,
    atomic::{AtomicU32, Ordering, UnsafeCell, fence},
};

use crate::{
    keeper::Keeper,
    table::{self, Put, Slot},
    ticks::{self, NEVER},
};

/// A time driver with room for `N` wakes, for a `static`. [`driver!`](crate::driver) makes one, and links it to embassy-time.
///
/// Before its registration the clock stands at zero, and wakes wait in the table. From then on the clock is that of the
/// registered executor, counted from the moment of the registration, so that no timer from before is early.
///
/// All methods may be called in any context, interrupt handlers included, in which wakers may be woken.
pub struct Driver<const N: usize = 32> {
    shared: Shared,
    slots: [Slot; N],
}

/// What does not depend on the number of slots.
pub(crate) struct Shared {
    /// NEW, then STARTING, then OPEN, then CLOSED.
    state: AtomicU32,
    /// INV-CLOCK: written by the context that changed `state` from NEW to STARTING, and constant since OPEN.
    clock: UnsafeCell<MaybeUninit<Clock>>,
    /// INV-KEEPER-WAKER: written once, by the keeper, before it sets `polled`.
    waker: UnsafeCell<MaybeUninit<Waker>>,
    polled: AtomicU32,
    /// When the keeper looks at the table next: coarse ticks, twice; or `AWAKE`.
    next: AtomicU32,
    evicted: AtomicU32,
}

/// No executor is registered.
const NEW: u32 = 0;
/// The clock is being written.
const STARTING: u32 = 1;
const OPEN: u32 = 2;
/// The keeper has gone, and will not come back.
const CLOSED: u32 = 3;

/// The keeper is about to look, or wants to hear of each wake.
const AWAKE: u32 = 1;

struct Clock {
    timers: Timers,
    /// When the executor was registered.
    origin: Instant,
}

// SAFETY: INV-CLOCK, INV-KEEPER-WAKER: constant once others see them; timers and wakers are `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above: both are `Send`.
unsafe impl Send for Shared {}

/// The driver has an executor already: [`Driver::register`]. It keeps that one for ever, since `Instant`s of one clock mean
/// nothing on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyRegistered(());

impl fmt::Display for AlreadyRegistered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time driver has an executor already, and keeps it")
    }
}

impl Error for AlreadyRegistered {}

impl<const N: usize> Driver<N> {
    /// A driver without an executor.
    ///
    /// # Panics
    /// If `N` is zero: at compile time in a `static`.
    #[expect(clippy::new_without_default, reason = "for statics")]
    pub const fn new() -> Self {
        assert!(N > 0, "a driver needs room for a wake");
        Self { shared: Shared::new(), slots: [const { Slot::new() }; N] }
    }

    /// From now on the time is that of these timers. The keeper that is returned is a future, to be spawned on their
    /// executor: it wakes what is due. See [`Keeper`] for its end.
    ///
    /// # Errors
    /// [`AlreadyRegistered`], from the second call on.
    pub fn register(&'static self, timers: Timers) -> Result<Keeper, AlreadyRegistered> {
        if self.shared.start(timers) {
            Ok(Keeper::new(&self.shared, &self.slots, timers))
        } else {
            Err(AlreadyRegistered(()))
        }
    }

    /// How often a wake found the table full, so that another one woke early in its place. A number that grows says that
    /// tasks poll in a loop: make `N` larger. It wraps.
    pub fn evictions(&self) -> u32 {
        // Ordering: Relaxed: a counter.
        self.shared.evictions().load(Ordering::Relaxed)
    }

    /// As `register`, if no executor is registered. For [`driver!`](crate::driver).
    #[doc(hidden)]
    #[inline]
    pub fn begin(&'static self, timers: impl FnOnce() -> Timers, spawn: impl FnOnce(Keeper)) {
        if self.shared.is_new() {
            let _ = self.register(timers()).map(spawn);
        }
    }
}

impl<const N: usize> embassy_time_driver::Driver for Driver<N> {
    fn now(&self) -> u64 {
        self.shared.now()
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        if self.shared.is_due(at) {
            return waker.wake_by_ref();
        }
        let put = table::put(&self.slots, at, waker, self.shared.evictions());
        self.shared.tell(put, at, &self.slots);
    }
}

impl<const N: usize> fmt::Debug for Driver<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("now", &self.shared.now())
            .field("room", &N)
            .field("evictions", &self.evictions())
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) const fn new() -> Self {
        Self {
            state: AtomicU32::new(NEW),
            clock: UnsafeCell::new(MaybeUninit::uninit()),
            waker: UnsafeCell::new(MaybeUninit::uninit()),
            polled: AtomicU32::new(0),
            next: AtomicU32::new(AWAKE),
            evicted: AtomicU32::new(0),
        }
    }

    pub(crate) fn evictions(&self) -> &AtomicU32 {
        &self.evicted
    }

    fn is_new(&self) -> bool {
        // Ordering: Relaxed: a hint; `start` decides.
        self.state.load(Ordering::Relaxed) == NEW
    }

    /// Starts the clock. False if it has been started before.
    fn start(&self, timers: Timers) -> bool {
        // Ordering: Relaxed: it publishes nothing, and only one context succeeds.
        let (to, relaxed) = (STARTING, Ordering::Relaxed);
        if self.state.compare_exchange(NEW, to, relaxed, relaxed).is_err() {
            return false;
        }
        let clock = Clock { timers, origin: timers.now() };
        // SAFETY: INV-CLOCK: we changed the state.
        self.clock.with_mut(|place| unsafe { (*place).write(clock) });
        // Ordering: Release pairs with the Acquire in `clock`.
        self.state.store(OPEN, Ordering::Release);
        true
    }

    /// The clock, once it runs.
    fn clock(&self) -> Option<&Clock> {
        // Ordering: Acquire pairs with the Release in `start`. `close` comes after it, by a context that has seen it.
        if self.state.load(Ordering::Acquire) < OPEN {
            return None;
        }
        // SAFETY: INV-CLOCK: it has been written, and is constant.
        Some(self.clock.with(|clock| unsafe { (*clock).assume_init_ref() }))
    }

    /// The time in ticks.
    pub(crate) fn now(&self) -> u64 {
        let now = |clock: &Clock| clock.timers.now().nanos_since(clock.origin);
        self.clock().map_or(0, |clock| ticks::from_nanos(now(clock)))
    }

    /// The instant, on the executor's clock, at which the time is `at`.
    pub(crate) fn instant(&self, at: u64) -> Instant {
        let origin = self.clock().map_or(Instant::ZERO, |clock| clock.origin);
        origin.after_nanos(ticks::to_nanos(at))
    }

    /// Whether the clock runs, and has come to `at`.
    fn is_due(&self, at: u64) -> bool {
        self.clock().is_some() && at <= self.now()
    }

    /// A wake has been put into the table: tells the keeper, if it would sleep beyond the time. Where there is no keeper
    /// any more, it is woken at once, and with it all that is in the table.
    pub(crate) fn tell(&self, put: Put, at: u64, slots: &[Slot]) {
        // Ordering: SeqCst fence, between the slot that was SET and the loads of `state`, `polled` and `next`. It pairs with
        // the fences in `close`, `hear` and `look`, which come between a store to one of these words and a look at all
        // slots. If that fence comes first, we see the store here; if ours does, the look sees the slot.
        fence(Ordering::SeqCst);
        // Ordering: Acquire pairs with the Release in `hear`, for the waker. Relaxed: see the fence.
        if self.state.load(Ordering::Relaxed) == CLOSED {
            table::fire(slots, NEVER);
        } else if self.polled.load(Ordering::Acquire) != 0 && self.is_news(put, at) {
            // SAFETY: INV-KEEPER-WAKER: it has been written, and stays.
            self.waker.with(|waker| unsafe { (*waker).assume_init_ref() }.wake_by_ref());
        }
    }

    /// Whether the keeper would sleep too long.
    fn is_news(&self, put: Put, at: u64) -> bool {
        // Ordering: Relaxed: see the fence in `tell`.
        let next = self.next.load(Ordering::Relaxed);
        match put {
            Put::Passed => true,
            Put::Merged => false,
            // Coarse times wrap. `at` may be later by any amount, and then the worst is a look for nothing. It is never earlier
            // by as much as half of the range, as it is not over, and the keeper looks within a quarter of the range.
            Put::New => next == AWAKE || (word(at).wrapping_sub(next) as i32) <= 0,
        }
    }

    /// As the keeper: is told by this waker from now on. False if that was another one before.
    pub(crate) fn hear(&self, waker: &Waker) -> bool {
        // Ordering: Relaxed: only the keeper stores it.
        if self.polled.load(Ordering::Relaxed) != 0 {
            // SAFETY: INV-KEEPER-WAKER: it has been written, and stays.
            return self.waker.with(|mine| unsafe { (*mine).assume_init_ref() }.will_wake(waker));
        }
        // SAFETY: INV-KEEPER-WAKER: this is the keeper, and the first time.
        self.waker.with_mut(|place| unsafe { (*place).write(waker.clone()) });
        // Ordering: Release pairs with the Acquire in `tell`. `look` follows, with a fence.
        self.polled.store(1, Ordering::Release);
        true
    }

    /// As the keeper: wakes what is due by this clock. Returns when it must look again; none if there is nothing to wait for.
    pub(crate) fn look(&self, slots: &[Slot], now: impl FnOnce() -> u64) -> Option<u64> {
        // Ordering: Relaxed, and the SeqCst fence: see `tell`.
        self.next.store(AWAKE, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let now = now();
        let next = table::fire(slots, now);
        if next == NEVER {
            return None;
        }
        let next = next.min(now.saturating_add(ticks::LONGEST));
        // Ordering: Relaxed: a context that reads it has put its wake after `AWAKE` was stored, or before the look.
        self.next.store(word(next), Ordering::Relaxed);
        Some(next)
    }

    /// As the keeper: it goes, and will not come back.
    pub(crate) fn close(&self, slots: &[Slot]) {
        // Ordering: Release, for a context that sees the clock by it; and the SeqCst fence: see `tell`.
        self.state.store(CLOSED, Ordering::Release);
        fence(Ordering::SeqCst);
        table::fire(slots, NEVER);
    }
}

/// A time for `Shared::next`.
fn word(ticks: u64) -> u32 {
    (ticks::coarse(ticks) as u32) << 1
}
