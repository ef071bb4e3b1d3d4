//! A 32-bit core (ARMv7-A): from reset to `core_main`, in supervisor mode, with the MMU on, since
//! exclusive loads and stores need Normal memory; the entry of the interrupt handler; special
//! registers.

use core::arch::{asm, global_asm};

/// PSCI's function that turns a core on.
pub const CPU_ON: usize = 0x8400_0003;

unsafe extern "C" {
    pub fn _start();
    fn psci_entry(function: usize, r1: usize, r2: usize, r3: usize) -> i32;
}

/// Each MiB, mapped to itself: devices in the first GiB, 64 MiB of memory in the second one.
///
/// A constant, so that no core writes to it while its own cache is off and another's is on.
#[repr(align(0x4000))]
struct Table(#[expect(dead_code, reason = "the MMU reads it")] [u32; 4_096]);

static TABLE: Table = {
    // A section, for privileged code, shareable; never executed if it is a device. Which of the two
    // attributes in PRRR and NMRR it has is the bit after the type.
    const DEVICE: u32 = 0x1_0412;
    const NORMAL: u32 = 0x1_0406;
    let mut table = [0; 4_096];
    let mut mib = 0;
    while mib < 0x440 {
        table[mib] = (mib as u32) << 20 | if mib < 0x400 { DEVICE } else { NORMAL };
        mib += 1;
    }
    Table(table)
};

// QEMU's memory is zero at reset, so `.bss` need not be cleared. Every core enters at `_start`: the
// first one at reset, the others when they are turned on.
global_asm!(
    ".text",
    ".arm",
    ".macro address reg, symbol",
    "movw \\reg, #:lower16:\\symbol",
    "movt \\reg, #:upper16:\\symbol",
    ".endm",
    ".globl _start",
    "_start:",
    // Supervisor mode, interrupts masked.
    "cpsid aif, #0x13",
    "mrc p15, 0, r0, c0, c0, 5",
    "and r0, r0, #0xff",
    "mcr p15, 0, r0, c13, c0, 4",
    // A stack of 64 KiB each.
    "address r1, _stacks",
    "add r2, r0, #1",
    "add sp, r1, r2, lsl #16",
    // Nothing is left in the TLB, in the instruction cache and in the branch predictor.
    "mov r1, #0",
    "mcr p15, 0, r1, c8, c7, 0",
    "mcr p15, 0, r1, c7, c5, 0",
    "mcr p15, 0, r1, c7, c5, 6",
    // Addresses of 32 bits, by one table of sections; cached walks, inner shareable.
    "mcr p15, 0, r1, c2, c0, 2",
    "address r1, {table}",
    "orr r1, r1, #0x6a",
    "mcr p15, 0, r1, c2, c0, 0",
    "mov r1, #1",
    "mcr p15, 0, r1, c3, c0, 0",
    // PRRR and NMRR: the first attribute is Device, the second one Normal memory, written back;
    // what is shareable is inner shareable.
    "address r1, 0x030a0009",
    "mcr p15, 0, r1, c10, c2, 0",
    "address r1, 0x00040004",
    "mcr p15, 0, r1, c10, c2, 1",
    "address r1, vectors",
    "mcr p15, 0, r1, c12, c0, 0",
    "dsb",
    "isb",
    // MMU, caches, branch prediction and these attributes on; low vectors, in Arm state.
    "mrc p15, 0, r1, c1, c0, 0",
    "address r2, 0x10001805",
    "orr r1, r1, r2",
    "address r2, 0x60002002",
    "bic r1, r1, r2",
    "mcr p15, 0, r1, c1, c0, 0",
    "isb",
    "bl {main}",
    "2: wfi",
    "b 2b",
    // An interrupt, in a mode with its own `sp`, `lr` and saved state: saves the return address and
    // that state, and the registers that a function may change, on the stack of the interrupted
    // code. This is in supervisor mode, as all is but the first two instructions.
    "on_irq_entry:",
    "sub lr, lr, #4",
    "srsdb sp!, #0x13",
    "cps #0x13",
    "push {{r0-r3, r12, lr}}",
    // Between two instructions the stack may be aligned to 4 bytes only: a call needs 8.
    "and r1, sp, #4",
    "sub sp, sp, r1",
    "push {{r1, r2}}",
    "bl {irq}",
    "pop {{r1, r2}}",
    "add sp, sp, r1",
    "pop {{r0-r3, r12, lr}}",
    // The return keeps the handler's reservation, which a `strex` of the interrupted code could take
    // for its own.
    "clrex",
    "rfeia sp!",
    // All other exceptions are bugs.
    ".macro fault number",
    "mov r0, #\\number",
    "b 3f",
    ".endm",
    "4: fault 1",
    "5: fault 2",
    "6: fault 3",
    "7: fault 4",
    "8: fault 5",
    "9: fault 7",
    "3: mov r1, lr",
    "cpsid aif, #0x13",
    "bic sp, sp, #7",
    "bl {fault}",
    // The first entry is not used: reset is at `_start`.
    ".balign 32",
    "vectors:",
    "b 8b",
    "b 4b",
    "b 5b",
    "b 6b",
    "b 7b",
    "b 8b",
    "b on_irq_entry",
    "b 9b",
    // Firmware calls: function and arguments are in the registers already.
    ".arch_extension virt",
    "psci_entry:",
    "dsb",
    "hvc #0",
    "bx lr",
    main = sym crate::core_main,
    irq = sym crate::board::on_interrupt,
    table = sym TABLE,
    fault = sym fault,
);

extern "C" fn fault(vector: usize, at: usize) -> ! {
    panic!("exception: vector {vector} near {at:#x}");
}

/// The calling core's number, which boot has put into a register: `TPIDRPRW`.
pub fn number() -> usize {
    let number;
    // SAFETY: reads a register.
    unsafe { asm!("mrc p15, 0, {}, c13, c0, 4", out(reg) number, options(nomem, nostack)) };
    number
}

pub fn mask() {
    // SAFETY: this core's own; `unmask` follows.
    unsafe { asm!("cpsid i", options(nostack)) };
}

pub fn unmask() {
    // SAFETY: the handlers are installed since boot.
    unsafe { asm!("cpsie i", options(nostack)) };
}

/// The frequency of the generic timer, in Hz: `CNTFRQ`.
pub fn frequency() -> u64 {
    let frequency: u32;
    // SAFETY: reads a register.
    unsafe { asm!("mrc p15, 0, {}, c14, c0, 0", out(reg) frequency, options(nomem, nostack)) };
    frequency.into()
}

/// `CNTVCT`.
pub fn time() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a register; not before what comes before.
    unsafe {
        asm!("isb", "mrrc p15, 1, {}, {}, c14", out(reg) low, out(reg) high, options(nostack));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// The timer's interrupt is pending from this time on; `u64::MAX`: never. `CNTV_CVAL`, `CNTV_CTL`.
pub fn set_timer(at: u64) {
    let on = u32::from(at != u64::MAX);
    let (low, high) = (at as u32, (at >> 32) as u32);
    // SAFETY: this core's timer.
    unsafe {
        asm!(
            "mcrr p15, 3, {}, {}, c14",
            "mcr p15, 0, {}, c14, c3, 1",
            "isb",
            in(reg) low,
            in(reg) high,
            in(reg) on,
            options(nostack),
        );
    }
}

/// Calls the firmware.
///
/// # Safety
/// The function may run: a core that it turns on, and this core if it turns this one off.
pub unsafe fn psci(function: usize, arguments: [usize; 3]) -> i32 {
    let [r1, r2, r3] = arguments;
    // SAFETY: the caller's contract. A core that is turned on sees what was written before.
    unsafe { psci_entry(function, r1, r2, r3) }
}

/// Calls the emulator's semihosting, with an operation that reads these words.
pub fn semihost(operation: usize, words: &[usize]) {
    // SAFETY: it only reads. On a machine without semihosting this is an exception, which changes `lr`.
    unsafe {
        asm!(
            "svc #0x123456",
            inlateout("r0") operation => _,
            in("r1") words.as_ptr(),
            out("lr") _,
            options(nostack),
        );
    }
}
