//! A Cortex-M as a platform: one core, wakes from interrupt handlers.

use core::cell::Cell;

use cortex_m::{
    asm, interrupt,
    peripheral::{SCB, scb::VectActive},
};
use filch::{
    Context, Event, Instant, Platform, WorkerId,
    atomic::{AtomicU32, AtomicUsize, Ordering},
};

use crate::{SUITE, devices};

pub struct Board;

/// The state of the timer and the clock, in ticks. INV-MASKED: accessed with interrupts masked.
struct Clock {
    /// When the current sleep ends.
    deadline: Cell<u64>,
    /// When a test wants an interrupt.
    alarm: Cell<u64>,
    /// The last reading.
    last: Cell<u64>,
}

// SAFETY: INV-MASKED, and there is one core.
unsafe impl Sync for Clock {}

const OFF: u64 = u64::MAX;
static CLOCK: Clock = Clock { deadline: Cell::new(OFF), alarm: Cell::new(OFF), last: Cell::new(0) };
/// How often the core came out of a `wfi`.
static HALTS: AtomicUsize = AtomicUsize::new(0);

fn unmask() {
    // SAFETY: the handlers are installed since reset, and no caller is in a critical section.
    unsafe { interrupt::enable() };
}

// SAFETY:
// - Identity: there is one core.
// - Guard: the default, which calls once; panics abort.
// - Sticky wake: `wait` masks interrupts, checks, and halts. An interrupt whose handler would
//   change the word in between stays pending, which ends the `wfi`; the handler runs when
//   interrupts are unmasked.
unsafe impl Platform for Board {
    fn now(&self) -> Instant {
        Instant::from_nanos(interrupt::free(|_| ticks()) * devices::TICK)
    }

    fn current_worker(&self) -> Option<WorkerId> {
        Some(WorkerId::new(0))
    }

    /// By the number of the exception under way: zero in a thread.
    fn context(&self) -> Context {
        if SCB::vect_active() == VectActive::ThreadMode {
            Context::Thread
        } else {
            Context::Handler
        }
    }

    unsafe fn wait(&self, _: WorkerId, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        interrupt::disable();
        if word.load(Ordering::Acquire) == expected {
            set_timer(|clock| {
                clock
                    .deadline
                    .set(deadline.map_or(OFF, |end| end.as_nanos().div_ceil(devices::TICK)));
            });
            if cfg!(feature = "mutant") {
                unmask();
            }
            if cfg!(feature = "delay") {
                filch_conformance::linger(self);
            }
            // It halts until an interrupt is pending, masked or not.
            asm::dsb();
            asm::wfi();
            interrupt::disable();
            HALTS.fetch_add(1, Ordering::Relaxed);
            set_timer(|clock| clock.deadline.set(OFF));
        }
        unmask();
    }

    /// The caller runs on the only core, so that core is awake.
    fn wake(&self, _: WorkerId, _: &AtomicU32) {}

    fn event(&self, _worker: Option<WorkerId>, event: Event) {
        #[cfg(feature = "recorder")]
        crate::FLIGHT.on_event(_worker, event);
        SUITE.on_event(event);
    }
}

/// The platform of the executor that preempts this one: its worker is run by an interrupt that no device has, below all others.
pub struct Preempts;

// SAFETY:
// - Identity: the interrupt does not interrupt itself, and in handlers that interrupt it the context is none.
// - Guard: the default, which calls once; panics abort.
// - Sticky wake: a pending interrupt stays pending until its handler runs.
unsafe impl Platform for Preempts {
    fn now(&self) -> Instant {
        Board.now()
    }

    fn current_worker(&self) -> Option<WorkerId> {
        let is_ours = devices::is_spare(SCB::vect_active());
        is_ours.then(|| WorkerId::new(0))
    }

    /// The worker rests between two turns.
    unsafe fn wait(&self, _: WorkerId, _: &AtomicU32, _: u32, _: Option<Instant>) {}

    fn wake(&self, _: WorkerId, _: &AtomicU32) {
        devices::pend_spare();
    }
}

/// The time in ticks: the machine's counter, which has 32 bits, and the number of its wraps. With
/// interrupts masked.
fn ticks() -> u64 {
    let (last, low) = (CLOCK.last.get(), u64::from(devices::counter()));
    let turns = (last >> 32) + u64::from(low < last & 0xFFFF_FFFF);
    CLOCK.last.set(turns << 32 | low);
    turns << 32 | low
}

/// Changes the timer's deadlines, with interrupts masked. The timer fires at least once per wrap of
/// the counter.
fn set_timer(change: impl FnOnce(&Clock)) {
    change(&CLOCK);
    let next = CLOCK.deadline.get().min(CLOCK.alarm.get());
    let left = next.saturating_sub(ticks()).clamp(1, 1 << 31);
    devices::set_timer(left as u32);
}

pub fn on_timer() {
    let due = |cell: &Cell<u64>| {
        let due = cell.get() <= ticks();
        if due {
            cell.set(OFF);
        }
        due
    };
    let alarmed = interrupt::free(|_| {
        devices::quench_timer();
        let mut alarmed = false;
        set_timer(|clock| {
            due(&clock.deadline);
            alarmed = due(&clock.alarm);
        });
        alarmed
    });
    if alarmed {
        SUITE.on_interrupt();
    }
}

pub fn on_pending() {
    SUITE.on_interrupt();
}

/// The suite's hook: an interrupt, now. It is PendSV, which comes after at most one more
/// instruction.
pub fn raise() {
    SCB::set_pendsv();
    asm::dsb();
    asm::isb();
}

/// The suite's hook: an interrupt after so many nanoseconds.
pub fn alarm(nanos: u32) {
    interrupt::free(|_| {
        let at = ticks() + u64::from(nanos) / devices::TICK;
        set_timer(|clock| clock.alarm.set(at));
    });
}

pub fn halts() -> usize {
    HALTS.load(Ordering::Relaxed)
}
