//! The census: how many workers there are, and how many of them cannot run tasks.
//!
//! | count | workers that |
//! |---|---|
//! | `online` | a context runs |
//! | `coming` | the platform was asked to start, and that are not online yet |
//! | `compensations` | are compensation workers, online or coming |
//! | `blocked` | are in a wait that is too deep to help in, or block in place |
//! | `blocked_asleep` | are blocked, and sleep until a timer or I/O: they see to themselves |
//! | `joining` | sleep until a stolen job is done |
//! | `helpers` | are helpers |
//! | `blocked_helpers` | are both blocked and helpers |
//! | `thieves` | run a job of another worker from their loop, once for each such job on their stacks |
//!
//! INV-CENSUS: each of the last six is the number of its [`Counted`] values. A worker makes one while it is online, and drops it
//! before it leaves; it has one at a time in each count but `thieves`. So none is negative, and all are zero when no worker is
//! online. Debug builds check this.

use core::fmt;

use crate::{
    atomic::{AtomicU32, Ordering, fence, maybe_const},
    parts::{Blocks, Kept, Parts, Switch},
    platform::WorkerId,
};

/// See the module's text.
pub(crate) struct Census<F: Parts> {
    online: AtomicU32,
    coming: AtomicU32,
    compensations: AtomicU32,
    /// How many waits have ever been too deep to help in.
    waits: AtomicU32,
    pub(crate) blocked: Count<Blocks<F>>,
    pub(crate) blocked_asleep: Count<Blocks<F>>,
    pub(crate) joining: Count<F::Forks>,
    pub(crate) helpers: Count<Blocks<F>>,
    pub(crate) blocked_helpers: Count<Blocks<F>>,
    pub(crate) thieves: Count<F::Forks>,
}

impl<F: Parts> Census<F> {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self {
                online: AtomicU32::new(0),
                coming: AtomicU32::new(0),
                compensations: AtomicU32::new(0),
                waits: AtomicU32::new(0),
                blocked: Count::new(),
                blocked_asleep: Count::new(),
                joining: Count::new(),
                helpers: Count::new(),
                blocked_helpers: Count::new(),
                thieves: Count::new(),
            }
        }
    }

    /// How many workers are online. A hint.
    #[inline(always)]
    pub(crate) fn online(&self) -> u32 {
        // Ordering: a hint.
        if F::Cores::ON { self.online.load(Ordering::Relaxed) } else { 1 }
    }

    /// Whether no worker is online. What the workers did before they left is seen then.
    pub(crate) fn is_empty(&self) -> bool {
        // Ordering: Acquire pairs with the AcqRel in `leave`.
        self.online.load(Ordering::Acquire) == 0
    }

    /// As `is_empty`, and no worker is on its way either.
    pub(crate) fn is_deserted(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `arrive`: a worker that was on its way is seen online, or has gone.
        self.coming.load(Ordering::Acquire) == 0 && self.is_empty()
    }

    /// The calling worker is online; how many others are.
    pub(crate) fn enter(&self) -> u32 {
        // Ordering: AcqRel: Release pairs with the Acquire in `others_can_work`.
        self.online.fetch_add(1, Ordering::AcqRel)
    }

    /// The calling worker is offline.
    pub(crate) fn leave(&self) {
        // Ordering: AcqRel: Release pairs with the Acquire in `is_empty`.
        self.online.fetch_sub(1, Ordering::AcqRel);
    }

    /// The platform is about to start a worker. `arrive` follows, whatever comes of that.
    pub(crate) fn await_start(&self) {
        // Ordering: a count.
        self.coming.fetch_add(1, Ordering::Relaxed);
    }

    /// A worker that was started is online, or will not come.
    pub(crate) fn arrive(&self) {
        // Ordering: Release pairs with the Acquires in `others_can_work` and `is_deserted`.
        self.coming.fetch_sub(1, Ordering::Release);
    }

    /// One more wait is too deep to help in; how many there were before.
    pub(crate) fn begin_wait(&self) -> u32 {
        // Ordering: a count.
        self.waits.fetch_add(1, Ordering::Relaxed)
    }

    /// How many waits have begun since `begin_wait` returned `wait`, that one included.
    pub(crate) fn waits_since(&self, wait: u32) -> u32 {
        // Ordering: a count.
        self.waits.load(Ordering::Relaxed).wrapping_sub(wait)
    }

    /// Whether a worker that can run tasks is online or on its way: one that neither sleeps in a wait in which it cannot help,
    /// nor is about to leave.
    pub(crate) fn others_can_work(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `arrive`: a worker that is no longer on its way is seen online.
        let coming = self.coming.load(Ordering::Acquire);
        // Ordering: Acquire pairs with the AcqRel in `enter` and `leave`.
        coming > 0 || self.unable() < self.online.load(Ordering::Acquire)
    }

    /// How many workers cannot run tasks: they sleep in waits in which they cannot help, or are helpers.
    pub(crate) fn unable(&self) -> u32 {
        let all = self.blocked.get() + self.joining.get() + self.helpers.get();
        // A helper that is blocked is one worker.
        all.saturating_sub(self.blocked_helpers.get())
    }

    /// Whether a worker may have to be seen to, while so many are parked: one that is awake, or that sleeps until a stolen job is
    /// done. A blocked worker sees to itself while it sleeps, but not in user code. A hint.
    pub(crate) fn is_one_awake(&self, parked: usize) -> bool {
        parked + (self.blocked_asleep.get() as usize) < self.online() as usize
    }

    /// Counts one more compensation worker, unless there are `most`.
    pub(crate) fn add_compensation(&self, most: u32) -> bool {
        let more = |n: u32| (n < most).then_some(n + 1);
        // Ordering: a count; the slot's state and the platform's start pass on what matters.
        self.compensations.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// A compensation worker does not come.
    pub(crate) fn drop_compensation(&self) {
        // Ordering: a count.
        self.compensations.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts an idle compensation worker out, if there are more than are needed. Then it must leave.
    pub(crate) fn remove_surplus(&self) -> bool {
        // As many as may be started: see `Scheduler::retry`.
        let needed = || if self.blocked.is_zero() { 0 } else { self.unable() };
        let most = needed();
        let less = |n: u32| (n > most).then(|| n - 1);
        // Ordering: a count.
        if self.compensations.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err() {
            return false;
        }
        // Ordering: pairs with the fence in `Scheduler::block`: either a worker that begins to rely on compensation workers sees one less,
        // or this worker sees the blocked one.
        fence(Ordering::SeqCst);
        !self.add_compensation(needed())
    }

    /// The executor begins anew, and no worker is there. Compensation workers that left because of a shutdown have not counted themselves
    /// out.
    pub(crate) fn reset(&self) {
        let Self { blocked, blocked_asleep, joining, helpers, blocked_helpers, thieves, .. } = self;
        let are_zero =
            [blocked, blocked_asleep, helpers, blocked_helpers].into_iter().all(Count::is_zero);
        let are_zero = are_zero && [joining, thieves].into_iter().all(Count::is_zero);
        debug_assert!(are_zero, "INV-CENSUS");
        // Ordering: no worker is there to look at it.
        self.compensations.store(0, Ordering::Relaxed);
    }
}

/// A number of workers (INV-CENSUS); none without the part to which it belongs.
pub(crate) struct Count<S: Switch>(Kept<AtomicU32, S>);

impl<S: Switch> Count<S> {
    maybe_const! {
        fn new() -> Self {
            Self(Kept::new(AtomicU32::new(0)))
        }
    }

    /// Counts the calling worker, for as long as the result lives.
    pub(crate) fn up(&self) -> Counted<'_> {
        let count = self.0.get();
        if let Some(count) = count {
            // Ordering: AcqRel: Release pairs with the Acquire in `get`.
            let before = count.fetch_add(1, Ordering::AcqRel);
            debug_assert!(before <= WorkerId::MAX.into(), "INV-CENSUS");
        }
        Counted(count)
    }

    pub(crate) fn get(&self) -> u32 {
        // Ordering: Acquire pairs with the AcqRel of `up` and of `Counted`.
        self.0.get().map_or(0, |count| count.load(Ordering::Acquire))
    }

    /// Whether it is zero. A hint, or after the caller's fence.
    #[inline(always)]
    pub(crate) fn is_zero(&self) -> bool {
        // Ordering: see above.
        self.0.get().is_none_or(|count| count.load(Ordering::Relaxed) == 0)
    }
}

impl<S: Switch> fmt::Debug for Count<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// One worker in a [`Count`], for as long as this lives.
#[must_use]
pub(crate) struct Counted<'a>(Option<&'a AtomicU32>);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.0 {
            // Ordering: AcqRel: Release pairs with the Acquire in `Count::get`.
            let before = count.fetch_sub(1, Ordering::AcqRel);
            debug_assert!(before > 0, "INV-CENSUS");
        }
    }
}
