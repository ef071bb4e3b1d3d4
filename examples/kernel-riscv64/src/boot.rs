//! Up to `hart_main`, on every hart, in either mode. Also the entry of the trap handler.

use core::arch::global_asm;

use crate::{board, mode};

// `mode` has `_start`, which gets each hart to `_enter`: its number in `tp`, its ID in `a0`.
global_asm!(
    ".globl _origin",
    ".set _origin, {origin}",
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
    ".text",
    ".globl _enter",
    "_enter:",
    // A stack of 64 KiB each.
    "la sp, _stacks",
    "addi t0, tp, 1",
    "slli t0, t0, 16",
    "add sp, sp, t0",
    "la t0, 3f",
    concat!("csrw ", csr!("tvec"), ", t0"),
    // Software, timer and external interrupts, once `hart_main` enables them.
    "li t0, {interrupts}",
    concat!("csrw ", csr!("ie"), ", t0"),
    "call {main}",
    "2: wfi",
    "j 2b",
    // A trap: saves the registers that a function may change, on the stack of the interrupted code.
    ".align 4",
    "3: addi sp, sp, -16 * {word}",
    "put ra, 0; put t0, 1; put t1, 2; put t2, 3; put t3, 4; put t4, 5; put t5, 6; put t6, 7",
    "put a0, 8; put a1, 9; put a2, 10; put a3, 11; put a4, 12; put a5, 13; put a6, 14; put a7, 15",
    concat!("csrr a0, ", csr!("cause")),
    concat!("csrr a1, ", csr!("epc")),
    "call {trap}",
    "get ra, 0; get t0, 1; get t1, 2; get t2, 3; get t3, 4; get t4, 5; get t5, 6; get t6, 7",
    "get a0, 8; get a1, 9; get a2, 10; get a3, 11; get a4, 12; get a5, 13; get a6, 14; get a7, 15",
    // The return keeps the handler's reservation, which the `sc` of the interrupted code could take
    // for its own. A store-conditional into the dead frame clears it.
    ".if {atomics}",
    ".option push",
    ".option arch, +a",
    "sc.w zero, zero, (sp)",
    ".option pop",
    ".endif",
    "addi sp, sp, 16 * {word}",
    csr!("ret"),
    origin = const mode::ORIGIN,
    interrupts = const 1 << mode::SOFTWARE | 1 << mode::TIMER | 1 << mode::EXTERNAL,
    atomics = const cfg!(target_has_atomic = "ptr") as usize,
    wide = const size_of::<usize>() / 8,
    word = const size_of::<usize>(),
    main = sym crate::hart_main,
    trap = sym trap,
);

extern "C" fn trap(cause: usize, at: usize) {
    const INTERRUPT: usize = 1 << (usize::BITS - 1);
    board::handle(|| match cause ^ INTERRUPT {
        mode::SOFTWARE => board::on_software(),
        mode::TIMER => board::on_timer(),
        mode::EXTERNAL => board::on_external(),
        _ => panic!("trap: cause {cause:#x} at {at:#x}"),
    });
}
