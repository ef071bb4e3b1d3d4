//! From reset to `hart_main`, on every hart: machine mode, no firmware (`-bios none`). Also the
//! entry of the trap handler.

use core::arch::global_asm;

use crate::board;

/// The harts that have workers: one, if atomics mask interrupts.
pub const HARTS: usize = if cfg!(target_has_atomic = "ptr") { 4 } else { 1 };
/// These, and one hart that is no worker, if there are several.
pub const ALL: usize = if HARTS > 1 { HARTS + 1 } else { HARTS };

// All harts enter at `_start`. QEMU's memory is zero at reset, so `.bss` need not be cleared, and
// no hart waits for another to do it.
global_asm!(
    ".macro put reg, at",
    ".if {wide}",
    "sd \\reg, 8 * \\at(sp)",
    ".else",
    "sw \\reg, 4 * \\at(sp)",
    ".endif",
    ".endm",
    ".macro get reg, at",
    ".if {wide}",
    "ld \\reg, 8 * \\at(sp)",
    ".else",
    "lw \\reg, 4 * \\at(sp)",
    ".endif",
    ".endm",
    ".section .text.boot, \"ax\"",
    ".globl _start",
    "_start:",
    "csrr a0, mhartid",
    "li t0, {all}",
    "bgeu a0, t0, 2f",
    // A stack of 64 KiB each.
    "la sp, _stacks",
    "addi t0, a0, 1",
    "slli t0, t0, 16",
    "add sp, sp, t0",
    "la t0, 3f",
    "csrw mtvec, t0",
    // Software, timer and external interrupts, once `hart_main` enables them.
    "li t0, 0x888",
    "csrw mie, t0",
    "csrw mstatus, zero",
    "call {main}",
    "2: wfi",
    "j 2b",
    // A trap: saves the registers that a function may change, on the stack of the interrupted code.
    ".align 4",
    "3: addi sp, sp, -16 * {word}",
    "put ra, 0; put t0, 1; put t1, 2; put t2, 3; put t3, 4; put t4, 5; put t5, 6; put t6, 7",
    "put a0, 8; put a1, 9; put a2, 10; put a3, 11; put a4, 12; put a5, 13; put a6, 14; put a7, 15",
    "csrr a0, mcause",
    "csrr a1, mepc",
    "call {trap}",
    "get ra, 0; get t0, 1; get t1, 2; get t2, 3; get t3, 4; get t4, 5; get t5, 6; get t6, 7",
    "get a0, 8; get a1, 9; get a2, 10; get a3, 11; get a4, 12; get a5, 13; get a6, 14; get a7, 15",
    // `mret` keeps the handler's reservation, which the `sc` of the interrupted code could take for
    // its own. A store-conditional into the dead frame clears it.
    ".if {atomics}",
    ".option push",
    ".option arch, +a",
    "sc.w zero, zero, (sp)",
    ".option pop",
    ".endif",
    "addi sp, sp, 16 * {word}",
    "mret",
    atomics = const cfg!(target_has_atomic = "ptr") as usize,
    wide = const size_of::<usize>() / 8,
    word = const size_of::<usize>(),
    all = const ALL,
    main = sym crate::hart_main,
    trap = sym trap,
);

extern "C" fn trap(cause: usize, at: usize) {
    const INTERRUPT: usize = 1 << (usize::BITS - 1);
    match cause ^ INTERRUPT {
        3 => board::on_software(),
        7 => board::on_timer(),
        11 => board::on_external(),
        _ => panic!("trap: cause {cause:#x} at {at:#x}"),
    }
}
