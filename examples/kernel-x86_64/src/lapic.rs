//! The interrupt controller of each core, with its timer and the interrupts between cores; and the
//! common clock, the time stamp counter.

use core::{
    arch::{asm, x86_64::_rdtsc},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::devices;

/// Vectors.
pub const TIMER: u8 = 0x20;
pub const WAKE: u8 = 0x21;
pub const RAISE: u8 = 0x22;
pub const SERIAL: u8 = 0x24;
pub const SPURIOUS: u8 = 0xFF;

const BASE: usize = 0xFEE0_0000;
const END: usize = 0xB0;
const SPURIOUS_VECTOR: usize = 0xF0;
const COMMAND: usize = 0x300;
const COMMAND_TARGET: usize = 0x310;
const TIMER_VECTOR: usize = 0x320;
const TIMER_COUNT: usize = 0x380;
const TIMER_LEFT: usize = 0x390;
const TIMER_DIVIDER: usize = 0x3E0;

/// Nanoseconds in a tick of the time stamp counter, and ticks of the timer in a nanosecond, in
/// fixed point with 32 fractional bits.
static NANOS: AtomicU64 = AtomicU64::new(0);
static TICKS: AtomicU64 = AtomicU64::new(0);

fn read(register: usize) -> u32 {
    // SAFETY: a register of this core's own.
    unsafe { ((BASE + register) as *const u32).read_volatile() }
}

fn write(register: usize, value: u32) {
    // SAFETY: as above.
    unsafe { ((BASE + register) as *mut u32).write_volatile(value) };
}

fn stamp() -> u64 {
    // SAFETY: every processor in long mode has it.
    unsafe { _rdtsc() }
}

/// Monotonic nanoseconds.
pub fn now() -> u64 {
    ((u128::from(stamp()) * u128::from(NANOS.load(Ordering::Relaxed))) >> 32) as u64
}

/// Enables the calling core's controller.
pub fn enable() {
    write(SPURIOUS_VECTOR, 0x100 | u32::from(SPURIOUS));
    // The timer counts each tick of the bus, and fires once.
    write(TIMER_DIVIDER, 0xB);
    write(TIMER_VECTOR, TIMER.into());
}

/// Measures both clocks against a third of known rate.
pub fn calibrate() {
    const MILLIS: u64 = 40;
    write(TIMER_COUNT, u32::MAX);
    let begin = stamp();
    devices::pause_millis(MILLIS as u16);
    let (stamps, ticks) = (stamp() - begin, u64::from(u32::MAX - read(TIMER_LEFT)));
    write(TIMER_COUNT, 0);
    let nanos = MILLIS * 1_000_000;
    NANOS.store((nanos << 32) / stamps, Ordering::Relaxed);
    TICKS.store((ticks << 32) / nanos, Ordering::Relaxed);
}

/// The timer's interrupt comes at `at` on the clock, or some time before.
pub fn set_timer(at: u64) {
    let nanos = at.saturating_sub(now());
    let ticks = (u128::from(nanos) * u128::from(TICKS.load(Ordering::Relaxed))) >> 32;
    let ticks = if at == u64::MAX { 0 } else { ticks.clamp(1, u32::MAX.into()) };
    write(TIMER_COUNT, ticks as u32);
}

pub fn end_of_interrupt() {
    write(END, 0);
}

/// Interrupts a core.
pub fn send(core: usize, vector: u8) {
    command(core, vector.into());
}

/// Starts another core at the page `page`, in real mode.
pub fn start(core: usize, page: usize) {
    command(core, 0x4500);
    devices::pause_millis(10);
    for _ in 0..2 {
        command(core, 0x4600 | page as u32);
        devices::pause_millis(1);
    }
}

/// Two writes, which must not interleave with those of an interrupt handler.
fn command(core: usize, command: u32) {
    let flags: u64;
    // SAFETY: the flags are put back below.
    unsafe { asm!("pushfq; pop {}; cli", out(reg) flags) };
    while read(COMMAND) & 1 << 12 != 0 {}
    write(COMMAND_TARGET, (core as u32) << 24);
    write(COMMAND, command | 1 << 14);
    if flags & 1 << 9 != 0 {
        crate::board::unmask();
    }
}
