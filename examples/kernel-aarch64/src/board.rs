//! QEMU's `virt` board for Arm as a platform: the one page of a port.

use core::{arch::asm, cell::Cell};

use filch::{
    Context, Event, Instant, Platform, StartError, WorkerEntry, WorkerId,
    atomic::{AtomicU32, AtomicUsize, Ordering},
};
use filch_kernel::Handlers;

use crate::{
    ALL, CORES, SERIAL, SUITE, cores,
    cpu::{self, mask, unmask},
    devices,
};

pub struct Board;

/// A core's timer: it fires for the earlier of the two.
struct Timer {
    /// When the current sleep ends.
    deadline: Cell<u64>,
    /// When a test wants an interrupt.
    alarm: Cell<u64>,
}

/// INV-OWN-CORE: each core accesses its own, with interrupts masked.
struct Timers([Timer; ALL]);

// SAFETY: INV-OWN-CORE.
unsafe impl Sync for Timers {}

const OFF: u64 = u64::MAX;
static TIMERS: Timers =
    Timers([const { Timer { deadline: Cell::new(OFF), alarm: Cell::new(OFF) } }; ALL]);
/// Which cores are in a handler.
static HANDLERS: Handlers<ALL> = Handlers::new();
/// How often a core came out of a `wfi`.
static HALTS: AtomicUsize = AtomicUsize::new(0);
/// How many wakes there were from one core to another.
static WAKES: AtomicUsize = AtomicUsize::new(0);

// SAFETY:
// - Identity: core `w` is worker `w`, and enters it once at a time; the last core is none.
// - Start: on a core that was off, once.
// - Guard: the default, which calls once; panics abort.
// - Sticky wake: `wait` masks interrupts, checks, and halts. An interrupt that comes in between
//   stays pending, and ends the `wfi` although it is masked. For one that came before the check,
//   the check sees the changed word.
unsafe impl Platform for Board {
    fn now(&self) -> Instant {
        Instant::from_nanos(cpu::time() * devices::TICK)
    }

    fn current_worker(&self) -> Option<WorkerId> {
        (cpu::number() < CORES).then(|| WorkerId::new(cpu::number() as u16))
    }

    fn context(&self) -> Context {
        HANDLERS.context(cpu::number())
    }

    unsafe fn wait(&self, w: WorkerId, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        mask();
        if word.load(Ordering::Acquire) == expected {
            set_timer(w.index(), |timer| {
                timer
                    .deadline
                    .set(deadline.map_or(OFF, |end| end.as_nanos().div_ceil(devices::TICK)));
            });
            if cfg!(feature = "mutant") {
                unmask();
            }
            if cfg!(feature = "delay") {
                filch_conformance::linger(self);
            }
            // SAFETY: halts until an interrupt is pending.
            unsafe { asm!("dsb sy", "wfi", options(nostack)) };
            mask();
            HALTS.fetch_add(1, Ordering::Relaxed);
            set_timer(w.index(), |timer| timer.deadline.set(OFF));
        }
        unmask();
    }

    fn wake(&self, w: WorkerId, _: &AtomicU32) {
        // This core is awake: its handler has ended its `wfi`.
        if w.index() == cpu::number() {
            return;
        }
        // A broken platform, on purpose.
        if cfg!(feature = "deaf") && WAKES.fetch_add(1, Ordering::Relaxed) % 64 == 63 {
            return;
        }
        devices::send(w.index(), devices::WAKE);
    }

    fn start(&self, entry: WorkerEntry) -> Result<(), StartError> {
        cores::start(entry)
    }

    fn event(&self, _worker: Option<WorkerId>, event: Event) {
        #[cfg(feature = "recorder")]
        crate::FLIGHT.on_event(_worker, event);
        SUITE.on_event(event);
    }
}

/// Changes the deadlines of the core's timer, with interrupts masked.
fn set_timer(core: usize, change: impl FnOnce(&Timer)) {
    let timer = &TIMERS.0[core];
    change(timer);
    cpu::set_timer(timer.deadline.get().min(timer.alarm.get()));
}

pub extern "C" fn on_interrupt() {
    HANDLERS.run(cpu::number(), take_interrupts);
}

fn take_interrupts() {
    let mut struck = false;
    devices::take_interrupts(|interrupt| match interrupt {
        // The word has changed already: nothing is left to do.
        devices::WAKE => {}
        devices::RAISE => struck = true,
        devices::TIMER => struck |= on_timer(),
        devices::SERIAL => devices::on_serial(|byte| SERIAL.on_byte(byte)),
        other => panic!("interrupt {other}"),
    });
    if struck {
        SUITE.on_interrupt();
    }
}

/// Returns whether it was a test's interrupt.
fn on_timer() -> bool {
    let due = |cell: &Cell<u64>| {
        let due = cell.get() <= cpu::time();
        if due {
            cell.set(OFF);
        }
        due
    };
    let mut alarmed = false;
    set_timer(cpu::number(), |timer| {
        due(&timer.deadline);
        alarmed = due(&timer.alarm);
    });
    alarmed
}

/// The suite's hook: an interrupt on this core, now.
pub fn raise() {
    devices::send(cpu::number(), devices::RAISE);
}

/// The suite's hook: an interrupt on this core, after so many nanoseconds.
pub fn alarm(nanos: u32) {
    mask();
    let at = cpu::time() + u64::from(nanos) / devices::TICK;
    set_timer(cpu::number(), |timer| timer.alarm.set(at));
    unmask();
}

pub fn halts() -> usize {
    HALTS.load(Ordering::Relaxed)
}
