//! A PC as a platform: the one page of a port.

use core::{arch::asm, cell::Cell, task::Waker};

use filch::{
    Context, Event, Instant, Platform, WorkerId,
    atomic::{AtomicU32, AtomicUsize, Ordering},
};
use filch_kernel::Handlers;

use crate::{
    MAILBOX, SERIAL, SUITE,
    boot::{ALL, CORES},
    devices, lapic,
};

pub struct Board;

/// A core's timer: it fires for the earlier of the two, in nanoseconds.
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
/// How often a core came out of a `hlt`.
static HALTS: AtomicUsize = AtomicUsize::new(0);
/// How many wakes there were from one core to another.
static WAKES: AtomicUsize = AtomicUsize::new(0);
/// The core that is no worker: the platform can sleep and wake there all the same.
const SPARE: WorkerId = WorkerId::new(CORES as u16);

/// The calling core's number, which `devices::set_up_core` has put where GS points.
fn core() -> usize {
    let id;
    // SAFETY: reads what GS points to.
    unsafe { asm!("mov {}, gs:[0]", out(reg) id, options(nostack, readonly, preserves_flags)) };
    id
}

fn mask() {
    // SAFETY: this core's own; `unmask` follows.
    unsafe { asm!("cli", options(nostack)) };
}

pub fn unmask() {
    // SAFETY: the handlers are installed.
    unsafe { asm!("sti", options(nostack)) };
}

// SAFETY:
// - Identity: core `w` is worker `w`, and enters it once; the last core is none.
// - Guard: the default, which calls once; panics abort.
// - Sticky wake: `wait` masks interrupts, checks, and halts by `sti; hlt`: interrupts come only
//   once the `hlt` has begun, so one that came in between ends the halt. For one that came before
//   the check, the check sees the changed word.
unsafe impl Platform for Board {
    fn now(&self) -> Instant {
        Instant::from_nanos(lapic::now())
    }

    fn current_worker(&self) -> Option<WorkerId> {
        (core() < CORES).then(|| WorkerId::new(core() as u16))
    }

    fn context(&self) -> Context {
        HANDLERS.context(core())
    }

    unsafe fn wait(&self, _: WorkerId, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        mask();
        if word.load(Ordering::Acquire) == expected {
            set_timer(|timer| timer.deadline.set(deadline.map_or(OFF, Instant::as_nanos)));
            if cfg!(feature = "mutant") {
                unmask();
            }
            if cfg!(feature = "delay") {
                filch_conformance::linger(self);
            }
            // SAFETY: halts until an interrupt, whose handler returns.
            unsafe { asm!("sti; hlt", options(nostack)) };
            mask();
            HALTS.fetch_add(1, Ordering::Relaxed);
            set_timer(|timer| timer.deadline.set(OFF));
        }
        unmask();
    }

    fn wake(&self, w: WorkerId, _: &AtomicU32) {
        // This core is awake: its handler has ended its `hlt`.
        if w.index() == core() {
            return;
        }
        // A broken platform, on purpose.
        if cfg!(feature = "deaf") && WAKES.fetch_add(1, Ordering::Relaxed) % 64 == 63 {
            return;
        }
        lapic::send(w.index(), lapic::WAKE);
    }

    /// No `pause`: QEMU leaves its translated code at each one, for a lock that all cores take.
    fn relax(&self, _: u32) {}

    fn event(&self, _worker: Option<WorkerId>, event: Event) {
        #[cfg(feature = "recorder")]
        crate::FLIGHT.on_event(_worker, event);
        SUITE.on_event(event);
    }
}

/// Changes the deadlines of the core's timer, with interrupts masked.
fn set_timer(change: impl FnOnce(&Timer)) {
    let timer = &TIMERS.0[core()];
    change(timer);
    lapic::set_timer(timer.deadline.get().min(timer.alarm.get()));
}

pub extern "C" fn on_timer() {
    lapic::end_of_interrupt();
    let now = lapic::now();
    let due = |cell: &Cell<u64>| {
        let due = cell.get() <= now;
        if due {
            cell.set(OFF);
        }
        due
    };
    let mut alarmed = false;
    set_timer(|timer| {
        due(&timer.deadline);
        alarmed = due(&timer.alarm);
    });
    if alarmed {
        HANDLERS.run(core(), || SUITE.on_interrupt());
    }
}

/// The word has changed already: nothing is left to do.
pub extern "C" fn on_wake() {
    lapic::end_of_interrupt();
}

pub extern "C" fn on_raise() {
    lapic::end_of_interrupt();
    HANDLERS.run(core(), || SUITE.on_interrupt());
}

pub extern "C" fn on_serial() {
    lapic::end_of_interrupt();
    HANDLERS.run(core(), || devices::on_serial(|byte| SERIAL.on_byte(byte)));
}

/// On core 0, which gets these interrupts.
pub fn enable_serial() {
    mask();
    devices::enable_serial(|byte| SERIAL.on_byte(byte));
    unmask();
}

/// The suite's hook: an interrupt on this core, now.
pub fn raise() {
    lapic::send(core(), lapic::RAISE);
}

/// The suite's hook: an interrupt on this core, after so many nanoseconds.
pub fn alarm(nanos: u32) {
    mask();
    set_timer(|timer| timer.alarm.set(lapic::now() + u64::from(nanos)));
    unmask();
}

/// How many instructions are left until the test's interrupt.
static STEPS: AtomicU32 = AtomicU32::new(0);

/// The suite's hook: an interrupt on this core, after so many instructions, which the processor
/// single-steps.
pub fn after(steps: u32) {
    STEPS.store(steps, Ordering::Relaxed);
    // SAFETY: the trap flag, whose handler is `on_step`.
    unsafe {
        if steps > 0 {
            asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
        } else {
            asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq");
        }
    }
}

/// Called after each instruction. `frame`: the return address, the segment, the flags.
pub extern "C" fn on_step(frame: &mut [u64; 3]) {
    const HLT: u8 = 0xF4;
    let [at, _, flags] = frame;
    let left = STEPS.load(Ordering::Relaxed);
    if left > 1 {
        return STEPS.store(left - 1, Ordering::Relaxed);
    }
    // Single steps also occur where no interrupt can: where interrupts are masked, and between
    // `sti` and `hlt`.
    // SAFETY: the next instruction is mapped.
    if *flags & 0x200 == 0 || unsafe { (*at as *const u8).read() } == HLT {
        return;
    }
    *flags &= !0x100;
    if left == 1 {
        STEPS.store(0, Ordering::Relaxed);
        HANDLERS.run(core(), || SUITE.on_interrupt());
    }
}

/// The suite's hook: the spare core wakes this waker.
pub fn foreign(waker: Waker) {
    MAILBOX.put(waker, |word| Board.wake(SPARE, word));
}

/// The spare core's loop.
pub fn deliver() -> ! {
    // SAFETY: only this core calls it, once.
    unsafe { MAILBOX.deliver(|word, seen| Board.wait(SPARE, word, seen, None)) }
}

pub fn halts() -> usize {
    HALTS.load(Ordering::Relaxed)
}
