//! From reset to `core_main`, on every core: exception level 1, with the MMU on, since exclusive
//! loads and stores need Normal memory. Also the entry of the interrupt handler.

use core::arch::global_asm;

/// The cores that have workers.
pub const CORES: usize = 4;
/// These, and one core that is no worker.
pub const ALL: usize = CORES + 1;

unsafe extern "C" {
    pub fn _start();
}

// QEMU's memory is zero at reset, so `.bss` need not be cleared. Every core enters at `_start`: the
// first one at reset, the others when they are turned on.
global_asm!(
    ".text",
    ".globl _start",
    "_start:",
    "mrs x0, mpidr_el1",
    "and x0, x0, #0xff",
    "msr tpidr_el1, x0",
    // A stack of 64 KiB each.
    "adrp x1, _stacks",
    "add x1, x1, x0, lsl #16",
    "add x1, x1, #0x10, lsl #12",
    "mov sp, x1",
    // The first 2 GiB, identity-mapped: devices in the lower one, memory in the upper one. All
    // cores write the same.
    "adrp x1, table",
    "mov x2, #0x401",
    "movk x2, #0x60, lsl #48",
    "mov x3, #0x705",
    "movk x3, #0x4000, lsl #16",
    "stp x2, x3, [x1]",
    "dsb sy",
    "msr ttbr0_el1, x1",
    "mov x1, #0xff00",
    "msr mair_el1, x1",
    // 39 bits of addresses, cached and shared walks, no upper half.
    "ldr x1, =0x200803519",
    "msr tcr_el1, x1",
    "adr x1, vectors",
    "msr vbar_el1, x1",
    "tlbi vmalle1",
    "dsb sy",
    "isb",
    "mrs x1, sctlr_el1",
    "mov x2, #0x1005",
    "orr x1, x1, x2",
    "msr sctlr_el1, x1",
    "isb",
    "bl {main}",
    "2: wfi",
    "b 2b",
    // Saves the registers that a function may change, on the stack of the interrupted code.
    "on_irq_entry:",
    "stp x0, x1, [sp, #-160]!",
    "stp x2, x3, [sp, #16]",
    "stp x4, x5, [sp, #32]",
    "stp x6, x7, [sp, #48]",
    "stp x8, x9, [sp, #64]",
    "stp x10, x11, [sp, #80]",
    "stp x12, x13, [sp, #96]",
    "stp x14, x15, [sp, #112]",
    "stp x16, x17, [sp, #128]",
    "stp x18, x30, [sp, #144]",
    "bl {irq}",
    "ldp x2, x3, [sp, #16]",
    "ldp x4, x5, [sp, #32]",
    "ldp x6, x7, [sp, #48]",
    "ldp x8, x9, [sp, #64]",
    "ldp x10, x11, [sp, #80]",
    "ldp x12, x13, [sp, #96]",
    "ldp x14, x15, [sp, #112]",
    "ldp x16, x17, [sp, #128]",
    "ldp x18, x30, [sp, #144]",
    "ldp x0, x1, [sp], #160",
    "eret",
    // Sixteen entries of 128 bytes; an interrupt at this level has its own entry, all others are
    // bugs.
    ".macro fault",
    ".balign 0x80",
    "mrs x0, esr_el1",
    "mrs x1, elr_el1",
    "bl {fault}",
    ".endm",
    ".balign 0x800",
    "vectors:",
    "fault",
    "fault",
    "fault",
    "fault",
    "fault",
    ".balign 0x80",
    "b on_irq_entry",
    ".rept 10",
    "fault",
    ".endr",
    ".bss",
    ".balign 4096",
    "table: .skip 4096",
    ".text",
    main = sym crate::core_main,
    irq = sym crate::board::on_interrupt,
    fault = sym fault,
);

extern "C" fn fault(syndrome: usize, at: usize) -> ! {
    panic!("exception: syndrome {syndrome:#x} at {at:#x}");
}
