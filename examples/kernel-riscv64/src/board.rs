//! QEMU's `virt` board as a platform: the one page of a port.

use core::{arch::asm, cell::Cell};

use filch::{
    Context, Event, Instant, Platform, WorkerId,
    atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
};
use filch_kernel::Handlers;

use crate::{ALL, HARTS, devices, hooks, mode};

pub struct Board;

/// A hart's timer: it fires for the earlier of the two.
struct Timer {
    /// When the current sleep ends.
    deadline: Cell<u64>,
    /// When a test wants an interrupt.
    alarm: Cell<u64>,
}

/// INV-OWN-HART: each hart accesses its own, with interrupts masked.
struct Timers([Timer; ALL]);

// SAFETY: INV-OWN-HART.
unsafe impl Sync for Timers {}

pub const OFF: u64 = u64::MAX;
static TIMERS: Timers =
    Timers([const { Timer { deadline: Cell::new(OFF), alarm: Cell::new(OFF) } }; ALL]);
/// A test wants an interrupt of this hart.
static RAISED: [AtomicBool; ALL] = [const { AtomicBool::new(false) }; ALL];
/// How often a hart came out of a `wfi`.
static HALTS: AtomicUsize = AtomicUsize::new(0);
/// Which harts are in a handler.
static HANDLERS: Handlers<{ HARTS + 1 }> = Handlers::new();
/// How many wakes there were from one hart to another.
static WAKES: AtomicUsize = AtomicUsize::new(0);

/// The calling hart's number, which boot has put into a register.
pub fn hart() -> usize {
    let number;
    // SAFETY: reads a register.
    unsafe { asm!("mv {}, tp", out(reg) number, options(nomem, nostack)) };
    number
}

pub fn mask() {
    // SAFETY: this hart's own; `unmask` follows.
    unsafe {
        asm!(concat!("csrci ", csr!("status"), ", {}"), const mode::ENABLE, options(nostack))
    };
}

pub fn unmask() {
    // SAFETY: the handlers are installed since boot.
    unsafe {
        asm!(concat!("csrsi ", csr!("status"), ", {}"), const mode::ENABLE, options(nostack))
    };
}

// SAFETY:
// - Identity: hart `w` is worker `w`, and enters it once; the last hart is none.
// - Guard: the default, which calls once; panics abort.
// - Sticky wake: `wait` masks interrupts, checks, and halts. An interrupt that comes in between
//   stays pending, and ends the `wfi` although it is masked. For one that came before the check,
//   the check sees the changed word.
unsafe impl Platform for Board {
    fn now(&self) -> Instant {
        Instant::from_nanos(mode::time() * devices::TICK)
    }

    fn current_worker(&self) -> Option<WorkerId> {
        (hart() < HARTS).then(|| WorkerId::new(hart() as u16))
    }

    fn context(&self) -> Context {
        HANDLERS.context(hart())
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
            unsafe { asm!("wfi", options(nostack)) };
            mask();
            HALTS.fetch_add(1, Ordering::Relaxed);
            set_timer(w.index(), |timer| timer.deadline.set(OFF));
        }
        unmask();
    }

    fn wake(&self, w: WorkerId, _: &AtomicU32) {
        // This hart is awake: its handler has ended its `wfi`.
        if w.index() == hart() {
            return;
        }
        // A broken platform, on purpose.
        if cfg!(feature = "deaf") && WAKES.fetch_add(1, Ordering::Relaxed) % 64 == 63 {
            return;
        }
        mode::interrupt(w.index());
    }

    fn event(&self, worker: Option<WorkerId>, event: Event) {
        hooks::on_event(worker, event);
    }
}

/// Runs a handler on this hart. One that interrupts the urgent tasks is none of them.
pub fn handle(handler: impl FnOnce()) {
    let hart = hart();
    let in_turn = hart == 0 && IN_TURN.swap(false, Ordering::Relaxed);
    HANDLERS.run(hart, handler);
    if in_turn {
        IN_TURN.store(true, Ordering::Relaxed);
    }
}

/// The platform of the executor that preempts this one: hart 0 runs its worker in the software interrupt.
pub struct Preempts;

/// Hart 0 is in a turn of that worker.
static IN_TURN: AtomicBool = AtomicBool::new(false);
/// That worker is to have a turn.
static PENDING: AtomicBool = AtomicBool::new(false);

// SAFETY:
// - Identity: the software interrupt does not interrupt itself, and in handlers that interrupt it the context is none.
// - Guard: the default, which calls once; panics abort.
// - Sticky wake: the mark stays until the turn that follows it, and so does the interrupt.
unsafe impl Platform for Preempts {
    fn now(&self) -> Instant {
        Board.now()
    }

    fn current_worker(&self) -> Option<WorkerId> {
        (hart() == 0 && IN_TURN.load(Ordering::Relaxed)).then(|| WorkerId::new(0))
    }

    /// The worker rests between two turns.
    unsafe fn wait(&self, _: WorkerId, _: &AtomicU32, _: u32, _: Option<Instant>) {}

    fn wake(&self, _: WorkerId, _: &AtomicU32) {
        // Ordering: Release pairs with the Acquire in `on_software`.
        PENDING.store(true, Ordering::Release);
        mode::interrupt(0);
    }
}

/// A turn of the urgent worker, with the interrupts of devices and timers let through.
fn take_turn() {
    let (status, epc): (usize, usize);
    // SAFETY: a trap in the turn overwrites both registers, which are put back below. It saves all others. Software interrupts stay out.
    unsafe {
        asm!(concat!("csrr {}, ", csr!("status")), out(reg) status, options(nostack));
        asm!(concat!("csrr {}, ", csr!("epc")), out(reg) epc, options(nostack));
        asm!(concat!("csrc ", csr!("ie"), ", {}"), in(reg) 1_usize << mode::SOFTWARE, options(nostack));
    }
    IN_TURN.store(true, Ordering::Relaxed);
    unmask();
    // SAFETY: software interrupts stay out meanwhile, and hart 0 alone gets here.
    unsafe { hooks::on_turn() };
    mask();
    IN_TURN.store(false, Ordering::Relaxed);
    // SAFETY: as above; interrupts are masked until the trap returns.
    unsafe {
        asm!(concat!("csrs ", csr!("ie"), ", {}"), in(reg) 1_usize << mode::SOFTWARE, options(nostack));
        asm!(concat!("csrw ", csr!("epc"), ", {}"), in(reg) epc, options(nostack));
        asm!(concat!("csrw ", csr!("status"), ", {}"), in(reg) status, options(nostack));
    }
}

/// Changes the deadlines of the hart's timer, with interrupts masked.
fn set_timer(hart: usize, change: impl FnOnce(&Timer)) {
    let timer = &TIMERS.0[hart];
    change(timer);
    mode::set_timer(hart, timer.deadline.get().min(timer.alarm.get()));
}

pub fn on_timer() {
    let hart = hart();
    let due = |cell: &Cell<u64>| {
        let due = cell.get() <= mode::time();
        if due {
            cell.set(OFF);
        }
        due
    };
    let mut alarmed = false;
    set_timer(hart, |timer| {
        due(&timer.deadline);
        alarmed = due(&timer.alarm);
    });
    if alarmed {
        hooks::on_interrupt();
    }
}

/// A wake: the word has changed already, so this only acknowledges the interrupt.
pub fn on_software() {
    let hart = hart();
    mode::acknowledge(hart);
    if RAISED[hart].swap(false, Ordering::Acquire) {
        hooks::on_interrupt();
    }
    // Ordering: Acquire pairs with the Release in `Preempts::wake`. Last: what the handler above has woken may be in it.
    if hart == 0 && PENDING.swap(false, Ordering::Acquire) {
        take_turn();
    }
}

pub fn on_external() {
    devices::on_external(hooks::on_external);
}

/// An interrupt on this hart, now.
pub fn raise() {
    let hart = hart();
    RAISED[hart].store(true, Ordering::Release);
    mode::interrupt(hart);
}

/// An interrupt on this hart, after so many nanoseconds.
pub fn alarm(nanos: u32) {
    mask();
    arm(mode::time() + u64::from(nanos) / devices::TICK);
    unmask();
}

/// An interrupt on this hart at this time; `OFF` is never. With interrupts masked.
pub fn arm(at: u64) {
    let hart = hart();
    if TIMERS.0[hart].alarm.get() != at {
        set_timer(hart, |timer| timer.alarm.set(at));
    }
}

/// How often a hart has halted.
pub fn halts() -> usize {
    HALTS.load(Ordering::Relaxed)
}
