//! A platform with one planted bug, over one that has none.

use core::{
    hint::spin_loop,
    ptr::NonNull,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::Duration,
};
use std::{sync::OnceLock, thread};

use filch::{Event, Instant, Panic, PanicVtable, Platform, Reactor, WorkerId, atomic::AtomicU32};

use crate::threads::{Hook, Hooked};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Each sleep with a deadline ends 20 ms after it.
    Late,
    /// As `Late`, in the reactor only.
    ListensLate,
    /// Deadlines are twice as far away.
    HalfRate,
    /// The clock runs at half the speed of the timer.
    SlowClock,
    /// The clock runs at twice the speed of the timer.
    FastClock,
    /// The upper 32 bits of a deadline are lost.
    Truncates,
    /// A deadline is rounded up to ticks, and overflows.
    RoundsOver,
    /// A deadline more than an hour away is taken for one that has passed.
    FarIsPast,
    /// As `FarIsPast`, for threads that are no workers.
    FarBlockIsPast,
    /// A wake does not end a sleep with a far deadline, until the suite has said so.
    FarSleepsOn,
    /// `wake` takes a lock, which its interrupt handler wants too: until the suite has said so.
    WakeLocks,
    /// A poll runs twice.
    GuardsTwice,
    /// A poll does not run.
    GuardsNothing,
    /// A panic passes `guard`.
    GuardLetsThrough,
    /// A poll that has panicked runs once more.
    GuardRetries,
    /// A panic is taken for a return.
    GuardSwallows,
    /// The payload of a panic is replaced.
    GuardLosesPayload,
    /// The payload of a panic is replaced when the panic is resumed.
    ResumesAnother,
}

pub(crate) struct Faulty<P> {
    inner: P,
    fault: Fault,
    /// When it was made, on the clock below.
    origin: Instant,
    lock: AtomicBool,
}

/// Ends a planted hang: the suite has named it.
pub(crate) static HANG_SEEN: AtomicBool = AtomicBool::new(false);
/// Ends a guard's bug: the suite has checked the guard, and polls tasks next.
pub(crate) static GUARD_SEEN: AtomicBool = AtomicBool::new(false);

impl<P: Platform> Faulty<P> {
    pub(crate) fn new(inner: P, fault: Fault) -> Self {
        HANG_SEEN.store(false, SeqCst);
        GUARD_SEEN.store(false, SeqCst);
        let origin = inner.now();
        Self { inner, fault, origin, lock: AtomicBool::new(false) }
    }

    /// The time of the inner clock that is as far away as `deadline` is on this one, as the timer counts.
    fn deadline(&self, deadline: Option<Instant>) -> Option<Instant> {
        const TICK: u64 = 1_000;
        let end = deadline?;
        let (now, distance) = (self.inner.now(), end - self.now());
        let is_far = distance > Duration::from_secs(3_600);
        Some(match self.fault {
            Fault::Late => end + Duration::from_millis(20),
            Fault::HalfRate => now + distance * 2,
            Fault::SlowClock | Fault::FastClock => now + distance,
            Fault::Truncates => Instant::from_nanos(end.as_nanos() & 0xFFFF_FFFF),
            Fault::RoundsOver => {
                Instant::from_nanos(end.as_nanos().wrapping_add(TICK - 1) / TICK * TICK)
            }
            Fault::FarIsPast if is_far => Instant::ZERO,
            _ => end,
        })
    }

    /// A clock other than the one below.
    fn skewed(&self, rate: impl Fn(u64) -> u64) -> Instant {
        Instant::from_nanos(rate(self.inner.now().nanos_since(self.origin)))
    }
}

// SAFETY: the inner platform's, but for the planted bugs. Those of `guard` end before the suite polls its first task: the closures
// that run before are the suite's own, which may run any number of times.
unsafe impl<P: Platform> Platform for Faulty<P> {
    fn now(&self) -> Instant {
        match self.fault {
            Fault::SlowClock => self.skewed(|n| n / 2),
            Fault::FastClock => self.skewed(|n| n * 2),
            _ => self.inner.now(),
        }
    }

    fn current_worker(&self) -> Option<WorkerId> {
        self.inner.current_worker()
    }

    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        // SAFETY: the caller's.
        unsafe { self.inner.set_worker(worker) };
    }

    unsafe fn wait(
        &self,
        me: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) {
        // SAFETY: the caller's.
        unsafe { self.inner.wait(me, word, expected, self.deadline(deadline)) };
        let far = Duration::from_secs(3_600);
        if self.fault == Fault::FarSleepsOn && deadline.is_some_and(|end| end - self.now() > far) {
            while !HANG_SEEN.load(SeqCst) {
                thread::yield_now();
            }
        }
    }

    fn wake(&self, worker: WorkerId, word: &AtomicU32) {
        if self.fault != Fault::WakeLocks {
            return self.inner.wake(worker, word);
        }
        while self.lock.swap(true, SeqCst) && !HANG_SEEN.load(SeqCst) {
            spin_loop();
        }
        self.inner.wake(worker, word);
        self.lock.store(false, SeqCst);
    }

    fn reactor(&self) -> Option<&dyn Reactor> {
        self.inner.reactor()?;
        Some(self)
    }

    fn guard(&self, poll: &mut dyn FnMut()) -> Result<(), Panic> {
        match self.fault {
            _ if GUARD_SEEN.load(SeqCst) => self.inner.guard(poll),
            Fault::GuardsTwice => {
                self.inner.guard(poll)?;
                self.inner.guard(poll)
            }
            Fault::GuardsNothing => Ok(()),
            Fault::GuardLetsThrough => {
                poll();
                Ok(())
            }
            Fault::GuardRetries => self.inner.guard(poll).or_else(|_| self.inner.guard(poll)),
            Fault::GuardSwallows => self.inner.guard(poll).or(Ok(())),
            Fault::GuardLosesPayload => self.inner.guard(poll).map_err(|_| nameless(&LOST)),
            Fault::ResumesAnother => {
                self.inner.guard(poll).map_err(|panic| match panic.message() {
                    Some(_) => nameless(&FORGETFUL),
                    None => panic,
                })
            }
            _ => self.inner.guard(poll),
        }
    }

    fn relax(&self, round: u32) {
        self.inner.relax(round);
    }

    fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        let is_far = deadline.is_some_and(|end| end - self.now() > Duration::from_secs(3_600));
        let deadline = match self.fault {
            Fault::FarBlockIsPast if is_far => Some(Instant::ZERO),
            // Its bug is planted in the sleeps of workers.
            _ => deadline.map(|end| self.inner.now() + (end - self.now())),
        };
        self.inner.block(word, expected, deadline);
    }

    fn unblock(&self, word: &AtomicU32) {
        self.inner.unblock(word);
    }

    fn event(&self, worker: Option<WorkerId>, event: Event) {
        self.inner.event(worker, event);
    }
}

// SAFETY: as above.
unsafe impl<P: Platform> Reactor for Faulty<P> {
    unsafe fn listen(
        &self,
        me: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) -> bool {
        let late = Duration::from_millis(if self.fault == Fault::ListensLate { 20 } else { 0 });
        let deadline = deadline.map(|end| end + late);
        // SAFETY: the caller's.
        self.inner
            .reactor()
            .is_some_and(|inner| unsafe { inner.listen(me, word, expected, deadline) })
    }

    fn interrupt(&self, worker: WorkerId, word: &AtomicU32) {
        self.inner.reactor().into_iter().for_each(|inner| inner.interrupt(worker, word));
    }

    unsafe fn deliver(&self, worker: WorkerId) -> usize {
        // SAFETY: the caller's.
        self.inner.reactor().map_or(0, |inner| unsafe { inner.deliver(worker) })
    }
}

impl<P: Hooked> Hooked for Faulty<P> {
    fn hook(&self) -> &OnceLock<Hook> {
        self.inner.hook()
    }
}

/// The panic of another payload.
fn nameless(vtable: &'static PanicVtable) -> Panic {
    // SAFETY: the functions of the tables here do not touch the payload.
    unsafe { Panic::from_raw(NonNull::dangling(), vtable) }
}

/// Its message is lost.
static LOST: PanicVtable =
    PanicVtable { drop: |_| {}, message: |_| None, resume: |_| panic!("on purpose") };
/// It has its message until it is resumed.
static FORGETFUL: PanicVtable = PanicVtable {
    drop: |_| {},
    message: |_| Some("on purpose"),
    resume: |_| std::panic::panic_any(()),
};
