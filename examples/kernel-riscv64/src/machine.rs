//! Machine mode, without firmware (`-bios none`): every hart enters at `_start` by itself, and the
//! CLINT has its timer and its software interrupt.

use core::arch::{asm, global_asm};

use crate::{
    ALL,
    devices::{read, write},
};

/// The name of a control and status register in this mode.
macro_rules! csr {
    ($name:literal) => {
        concat!("m", $name)
    };
}

/// Where the memory begins: `_start` must be there.
pub const ORIGIN: usize = 0x8000_0000;
/// The bit of `mstatus` that lets interrupts through.
pub const ENABLE: usize = 1 << 3;
/// The causes of interrupts.
pub const SOFTWARE: usize = 3;
pub const TIMER: usize = 7;
pub const EXTERNAL: usize = 11;

/// The CLINT's software interrupt of each hart, its timer compare, and its time.
const MSIP: usize = 0x0200_0000;
const MTIMECMP: usize = 0x0200_4000;
const MTIME: usize = 0x0200_BFF8;

// The number of a hart is its ID. QEMU's memory is zero at reset, so `.bss` need not be cleared, and
// no hart waits for another to do it.
global_asm!(
    ".section .text.boot, \"ax\"",
    ".globl _start",
    "_start:",
    "csrr a0, mhartid",
    "mv tp, a0",
    "csrw mstatus, zero",
    "li t0, {all}",
    "bltu tp, t0, _enter",
    "2: wfi",
    "j 2b",
    all = const ALL,
);

/// Nothing is left to do.
pub fn set_up(_hart: usize, _id: usize) {}

/// Each hart has entered by itself.
pub fn start_others(_me: usize) -> usize {
    ALL
}

/// The PLIC's number for this hart in machine mode.
pub fn context() -> usize {
    // Hart 0.
    0
}

/// `mtime`, in halves where a register is 32 bits wide.
pub fn time() -> u64 {
    if cfg!(target_pointer_width = "64") {
        return read(MTIME);
    }
    loop {
        let (high, low) = (read::<u32>(MTIME + 4), read::<u32>(MTIME));
        if read::<u32>(MTIME + 4) == high {
            return u64::from(high) << 32 | u64::from(low);
        }
    }
}

/// The hart's timer interrupt comes at this time.
pub fn set_timer(hart: usize, at: u64) {
    let register = MTIMECMP + 8 * hart;
    if cfg!(target_pointer_width = "64") {
        return write(register, at);
    }
    // Neither half may form an early time together with the other's old value.
    write(register + 4, u32::MAX);
    write(register, at as u32);
    write(register + 4, (at >> 32) as u32);
}

/// Raises the hart's software interrupt, which then sees earlier writes.
pub fn interrupt(hart: usize) {
    // SAFETY: a fence: memory before the interrupt.
    unsafe { asm!("fence rw, ow", options(nostack)) };
    write(MSIP + 4 * hart, 1_u32);
}

/// Takes the software interrupt of the calling hart back.
pub fn acknowledge(hart: usize) {
    write(MSIP + 4 * hart, 0_u32);
    // SAFETY: a fence: the interrupt before memory.
    unsafe { asm!("fence ow, rw", options(nostack)) };
}
