//! A 64-bit core: from reset to `core_main`, at exception level 1, with the MMU on, since exclusive
//! loads and stores need Normal memory; the entry of the interrupt handler; special registers.

use core::arch::{asm, global_asm};

/// PSCI's function that turns a core on.
pub const CPU_ON: usize = 0xC400_0003;

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

/// The calling core's number, which boot has put into a register.
pub fn number() -> usize {
    let number;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, tpidr_el1", out(reg) number, options(nomem, nostack)) };
    number
}

pub fn mask() {
    // SAFETY: this core's own; `unmask` follows.
    unsafe { asm!("msr daifset, #2", options(nostack)) };
}

pub fn unmask() {
    // SAFETY: the handlers are installed since boot.
    unsafe { asm!("msr daifclr, #2", options(nostack)) };
}

/// The frequency of the generic timer, in Hz.
pub fn frequency() -> u64 {
    let frequency;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack)) };
    frequency
}

pub fn time() -> u64 {
    let ticks;
    // SAFETY: reads a register; not before what comes before.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack)) };
    ticks
}

/// The timer's interrupt is pending from this time on; `u64::MAX`: never.
pub fn set_timer(at: u64) {
    let on = u64::from(at != u64::MAX);
    // SAFETY: this core's timer.
    unsafe {
        asm!("msr cntv_cval_el0, {}", "msr cntv_ctl_el0, {}", "isb", in(reg) at, in(reg) on, options(nostack));
    }
}

/// Calls the firmware.
///
/// # Safety
/// The function may run: a core that it turns on, and this core if it turns this one off.
pub unsafe fn psci(function: usize, arguments: [usize; 3]) -> i32 {
    let [x1, x2, x3] = arguments;
    let result: isize;
    // SAFETY: the caller's contract. A core that is turned on sees what was written before.
    unsafe {
        asm!(
            "dsb sy",
            "hvc #0",
            inlateout("x0") function => result,
            in("x1") x1,
            in("x2") x2,
            in("x3") x3,
            clobber_abi("C"),
        );
    }
    result as i32
}

/// Calls the emulator's semihosting, with an operation that reads these words.
pub fn semihost(operation: usize, words: &[usize]) {
    // SAFETY: it only reads.
    unsafe {
        asm!("hlt #0xF000", inlateout("x0") operation => _, in("x1") words.as_ptr(), options(nostack));
    }
}
