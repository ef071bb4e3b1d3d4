//! What the guests of the hypervisor run: a program for supervisor mode under firmware, which is the hypervisor. It starts as the
//! kernel does, and has the kernel's own way to call the firmware.
#![no_std]
#![no_main]

#[macro_use]
#[path = "supervisor.rs"]
#[expect(dead_code, reason = "a guest has one hart, and no devices")]
mod mode;
mod boot;
#[path = "hypervisor/plan.rs"]
mod plan;

use core::{
    arch::{asm, global_asm},
    cell::UnsafeCell,
    ptr::without_provenance_mut,
};

use filch::atomic::{AtomicU32, AtomicUsize, Ordering};
use filch_kernel::Console;

use mode::{CONSOLE_WRITE, CONSOLE_WRITE_BYTE, SPEC_VERSION, SYSTEM_RESET, call};

/// The guests that have page tables of their own.
const PAGED: [usize; 2] = [4, 5];
/// The harts of a guest.
const ALL: usize = 1;
/// 1 ms, in ticks of the clock, which counts at 10 MHz.
const PERIOD: u64 = 10_000;
const OFF: u64 = u64::MAX;

static CONSOLE: Console = Console::new(put);
static TIMER: Timer = Timer {
    ticks: AtomicU32::new(0),
    target: AtomicU32::new(0),
    deadline: AtomicUsize::new(OFF as usize),
    late: AtomicUsize::new(0),
    latest: AtomicUsize::new(0),
};

/// All of it is accessed by one hart, and its handler.
struct Timer {
    ticks: AtomicU32,
    /// How many ticks there shall be.
    target: AtomicU32,
    deadline: AtomicUsize,
    /// How late the handler ran, in sum and at worst, in ticks of the clock.
    late: AtomicUsize,
    latest: AtomicUsize,
}

// Fills all registers that can be with numbers that follow from `a1`, counts `a0` down, and returns a fold of the registers. Neither
// the stack pointer nor the hart's number is used for it, as an interrupt needs them.
unsafe extern "C" {
    safe fn hold_registers(rounds: u64, seed: u64) -> u64;
}

global_asm!(
    ".globl hold_registers",
    "hold_registers:",
    "addi sp, sp, -14 * 8",
    "sd ra, 0(sp); sd gp, 8(sp)",
    "sd s0, 16(sp); sd s1, 24(sp); sd s2, 32(sp); sd s3, 40(sp); sd s4, 48(sp); sd s5, 56(sp)",
    "sd s6, 64(sp); sd s7, 72(sp); sd s8, 80(sp); sd s9, 88(sp); sd s10, 96(sp); sd s11, 104(sp)",
    ".irp n, 1,3,5,6,7,8,9,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "addi x\\n, a1, \\n",
    ".endr",
    "2: addi a0, a0, -1",
    "bnez a0, 2b",
    ".irp n, 1,3,5,6,7,8,9,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    // Times 31.
    "slli a1, a0, 5",
    "sub a0, a1, a0",
    "add a0, a0, x\\n",
    ".endr",
    "ld ra, 0(sp); ld gp, 8(sp)",
    "ld s0, 16(sp); ld s1, 24(sp); ld s2, 32(sp); ld s3, 40(sp); ld s4, 48(sp); ld s5, 56(sp)",
    "ld s6, 64(sp); ld s7, 72(sp); ld s8, 80(sp); ld s9, 88(sp); ld s10, 96(sp); ld s11, 104(sp)",
    "addi sp, sp, 14 * 8",
    "ret",
);

/// What `hold_registers` returns.
fn fold(seed: u64) -> u64 {
    let held = [1, 3].into_iter().chain(5..=9).chain(12..=31);
    held.fold(0, |fold: u64, n| fold.wrapping_mul(31).wrapping_add(seed + n))
}

/// From boot: the hart's ID, and the guest's number.
extern "C" fn hart_main(id: usize, number: usize) {
    mode::set_up(0, id);
    let paged = PAGED.contains(&number).then(|| translate(number));
    wait_for_ticks(plan::ticks_waiting(number));
    report(format_args!("waiting"));
    match number {
        plan::STRAY => stray(),
        plan::ILLEGAL => fail_unhandled(),
        _ => {}
    }
    compute_for_ticks(plan::ticks_computing(number), number as u64);
    report(format_args!("computing"));
    if let Some(alias) = paged {
        // SAFETY: the other address of the same word.
        let seen = unsafe { alias.read_volatile() };
        assert!(seen == WITNESS.get(), "another guest's tables");
        CONSOLE.line(format_args!("its own page tables have held"));
    }
    count_exits();
    halt()
}

/// Takes so many timer interrupts, and waits in between.
fn wait_for_ticks(count: u32) {
    TIMER.start(count);
    while TIMER.runs() {
        // Masked: an interrupt between the check and the `wfi` ends the `wfi`.
        // SAFETY: the handler is installed since boot.
        unsafe { asm!("csrci sstatus, 2") };
        if TIMER.runs() {
            // SAFETY: waits for an interrupt.
            unsafe { asm!("wfi") };
        }
        // SAFETY: as above.
        unsafe { asm!("csrsi sstatus, 2") };
    }
}

/// Takes so many timer interrupts while it computes: no exit but for them.
fn compute_for_ticks(count: u32, seed: u64) {
    TIMER.start(count);
    let seed = seed << 32;
    while TIMER.runs() {
        assert!(hold_registers(20_000, seed) == fold(seed), "a register has changed");
        WITNESS.set(WITNESS.get() + 1);
    }
}

impl Timer {
    fn start(&self, count: u32) {
        self.late.store(0, Ordering::Relaxed);
        self.latest.store(0, Ordering::Relaxed);
        self.ticks.store(0, Ordering::Relaxed);
        self.target.store(count, Ordering::Relaxed);
        self.set(mode::time() + PERIOD);
        // SAFETY: the handler is installed since boot.
        unsafe { asm!("csrsi sstatus, 2") };
    }

    fn runs(&self) -> bool {
        self.ticks.load(Ordering::Relaxed) < self.target.load(Ordering::Relaxed)
    }

    fn set(&self, at: u64) {
        self.deadline.store(at as usize, Ordering::Relaxed);
        mode::set_timer(0, at);
    }

    fn on_interrupt(&self) {
        let now = mode::time();
        let late = now as usize - self.deadline.load(Ordering::Relaxed);
        self.late.fetch_add(late, Ordering::Relaxed);
        self.latest.fetch_max(late, Ordering::Relaxed);
        self.ticks.fetch_add(1, Ordering::Relaxed);
        self.set(if self.runs() { now + PERIOD } else { OFF });
    }
}

fn report(what: core::fmt::Arguments<'_>) {
    let ticks = TIMER.ticks.load(Ordering::Relaxed);
    let micros = |sum: &AtomicUsize| sum.load(Ordering::Relaxed) / 10;
    CONSOLE.line(format_args!(
        "{ticks} ticks {what}, {} us late on average, {} at most",
        micros(&TIMER.late) / ticks.max(1) as usize,
        micros(&TIMER.latest)
    ));
}

/// A table of Sv39; and a word that shows whose memory this is.
#[repr(align(4096))]
struct Table(UnsafeCell<[u64; 512]>);
struct Witness(UnsafeCell<u64>);

// SAFETY: the guest has one hart, and its handler accesses neither.
unsafe impl Sync for Table {}
// SAFETY: as above.
unsafe impl Sync for Witness {}

static ROOT: Table = Table(UnsafeCell::new([0; 512]));
static WITNESS: Witness = Witness(UnsafeCell::new(0));

impl Witness {
    fn get(&self) -> u64 {
        // SAFETY: one hart. Volatile, as it has another address too.
        unsafe { self.0.get().read_volatile() }
    }

    fn set(&self, value: u64) {
        // SAFETY: as above.
        unsafe { self.0.get().write_volatile(value) };
    }
}

/// Maps the third gigabyte to itself, and to another one, which depends on the guest. Returns the witness's address there.
fn translate(number: usize) -> *mut u64 {
    /// A gigabyte at 0x8000_0000: valid, readable, writable, executable, accessed, dirty.
    const LEAF: u64 = (0x8000_0000 >> 12) << 10 | 0b1100_1111;
    let root = ROOT.0.get();
    // SAFETY: the table is not used yet; what runs is mapped to itself.
    unsafe {
        (*root)[2] = LEAF;
        (*root)[number] = LEAF;
        let satp = 8 << 60 | root as u64 >> 12;
        asm!("sfence.vma", "csrw satp, {}", "sfence.vma", in(reg) satp);
    }
    let offset = WITNESS.0.get() as usize - 0x8000_0000;
    without_provenance_mut(number << 30 | offset)
}

/// How many calls there can be in a second.
fn count_exits() {
    const CALLS: u64 = 5_000;
    let before = mode::time();
    for _ in 0..CALLS {
        assert!(call(SPEC_VERSION, [0; 3]).is_ok_and(|version| version >> 24 >= 2));
    }
    let ticks = (mode::time() - before).max(1);
    CONSOLE.line(format_args!("{} calls a second", CALLS * 10_000_000 / ticks));
}

fn stray() -> ! {
    // SAFETY: none; this guest is killed for it.
    unsafe { without_provenance_mut::<u64>(plan::STRAY_ADDRESS as usize).write_volatile(1) };
    panic!("a write to the host's memory")
}

fn fail_unhandled() -> ! {
    // SAFETY: none; this guest is killed for it.
    unsafe { asm!("csrw stvec, zero", "unimp", options(noreturn)) }
}

fn halt() -> ! {
    let text = "halts\n";
    // Guest-physical is what it is linked for, also where it has tables.
    let written = call(CONSOLE_WRITE, [text.len(), text.as_ptr() as usize, 0]);
    shut_down(usize::from(written != Ok(text.len() as isize)))
}

fn shut_down(reason: usize) -> ! {
    let _ = call(SYSTEM_RESET, [0, reason, 0]);
    loop {
        core::hint::spin_loop();
    }
}

fn put(byte: u8) {
    let _ = call(CONSOLE_WRITE_BYTE, [byte.into(), 0, 0]);
}

/// What the entry of traps calls.
mod board {
    /// Nothing asks whether the guest is in a handler.
    pub fn handle(handler: impl FnOnce()) {
        handler();
    }

    pub fn hart() -> usize {
        0
    }

    pub fn on_timer() {
        super::TIMER.on_interrupt();
    }

    pub fn on_software() {
        panic!("no hart sends this");
    }

    pub fn on_external() {
        panic!("no device sends this");
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    CONSOLE.force(format_args!("{info}"));
    shut_down(1)
}
