//! From reset to `hart_main`, on every hart: machine mode, no firmware (`-bios none`).

use core::arch::global_asm;

/// Harts that the executor has workers for.
pub const HARTS: usize = 4;

// All harts come here. QEMU's memory is zero at reset, so that `.bss` needs no clearing, and no hart needs to wait for
// another to do it.
global_asm!(
    ".section .text.boot",
    ".globl _start",
    "_start:",
    "csrr a0, mhartid",
    "li t0, {harts}",
    "bgeu a0, t0, 2f",
    // A stack of 64 KiB each.
    "la sp, _stacks",
    "addi t0, a0, 1",
    "slli t0, t0, 16",
    "add sp, sp, t0",
    // A trap is a bug: nothing enables interrupts here.
    "la t0, 3f",
    "csrw mtvec, t0",
    "csrw mstatus, zero",
    // Pending software and timer interrupts end a wfi, masked as they are.
    "li t0, 0x88",
    "csrw mie, t0",
    "call {main}",
    "2: wfi",
    "j 2b",
    ".align 4",
    "3: csrr a0, mcause",
    "csrr a1, mepc",
    "call {trap}",
    "j 2b",
    harts = const HARTS,
    main = sym crate::hart_main,
    trap = sym trap,
);

extern "C" fn trap(cause: usize, at: usize) -> ! {
    panic!("trap: cause {cause:#x} at {at:#x}");
}
