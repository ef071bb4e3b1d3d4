//! Supervisor mode, under firmware that has the RISC-V SBI: it enters one hart, any one, and starts
//! the others (extension HSM), sends interrupts from hart to hart (IPI), and sets timers (TIME) of
//! harts that cannot do so themselves (Sstc).

use core::arch::{asm, global_asm};

use filch::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::{ALL, CONSOLE, board};

/// The name of a control and status register in this mode.
macro_rules! csr {
    ($name:literal) => {
        concat!("s", $name)
    };
}

/// Where the firmware jumps to: `_start` must be there.
pub const ORIGIN: usize = 0x8020_0000;
/// The bit of `sstatus` that lets interrupts through.
pub const ENABLE: usize = 1 << 1;
/// The causes of interrupts.
pub const SOFTWARE: usize = 1;
pub const TIMER: usize = 5;
pub const EXTERNAL: usize = 9;

const _: () = assert!(usize::BITS == 64, "registers of 64 bits, in assembly and in calls");

/// An SBI function: its extension, and its number there.
#[derive(PartialEq, Eq)]
pub struct Function(pub usize, pub usize);

#[allow(dead_code, reason = "of the hypervisor and its guests")]
pub const SPEC_VERSION: Function = Function(0x10, 0);
pub const SET_TIMER: Function = Function(0x5449_4D45, 0);
#[allow(dead_code, reason = "of the hypervisor and its guests")]
pub const CONSOLE_WRITE: Function = Function(0x4442_434E, 0);
#[allow(dead_code, reason = "of the hypervisor and its guests")]
pub const CONSOLE_WRITE_BYTE: Function = Function(0x4442_434E, 2);
#[allow(dead_code, reason = "of the hypervisor and its guests")]
pub const SYSTEM_RESET: Function = Function(0x5352_5354, 0);
const SEND_IPI: Function = Function(0x73_5049, 0);
const HART_START: Function = Function(0x48_534D, 0);
const HART_STATUS: Function = Function(0x48_534D, 2);
/// The status of a hart that can be started.
const STOPPED: isize = 1;
/// Hart IDs may have gaps, and those that no hart has are refused. The search ends here.
const IDS_TRIED: usize = 4_096;

/// The hart ID of each number: hart 0 is the one that the firmware has entered. Set before that hart
/// runs, so that the harts that know of it know its ID.
static IDS: [AtomicUsize; ALL] = [const { AtomicUsize::new(0) }; ALL];
/// Whether a hart has Sstc: `stimecmp` of its own.
static SSTC: [AtomicBool; ALL] = [const { AtomicBool::new(false) }; ALL];

unsafe extern "C" {
    fn _start_other();
    /// Whether this hart may write to `stimecmp`; it is off afterwards.
    safe fn probe_sstc() -> bool;
}

// The firmware enters with the hart's ID in `a0`, with interrupts masked, and without translation of
// addresses.
global_asm!(
    ".section .text.boot, \"ax\"",
    ".globl _start",
    "_start:",
    "la t0, _bss",
    "la t1, _stacks",
    "2: bgeu t0, t1, 3f",
    "sd zero, (t0)",
    "addi t0, t0, 8",
    "j 2b",
    "3: mv tp, zero",
    "j _enter",
    // Started by `start_others`, with the number in `a1`. The fence: sees what hart 0 wrote before.
    ".globl _start_other",
    "_start_other:",
    "fence rw, rw",
    "mv tp, a1",
    "j _enter",
    // An access that traps continues at the 4, and what returns is still 0. Interrupts are masked, and
    // no trap is under way.
    ".globl probe_sstc",
    "probe_sstc:",
    "la t0, 4f",
    "csrrw t0, stvec, t0",
    "li t1, -1",
    "li a0, 0",
    "csrw 0x14D, t1",
    "li a0, 1",
    ".balign 4",
    "4: csrw stvec, t0",
    "ret",
);

/// Sets up the calling hart's timer; hart 0 then starts the others.
pub fn set_up(hart: usize, id: usize) {
    let sstc = probe_sstc();
    // Ordering: Relaxed; only this hart reads it.
    SSTC[hart].store(sstc, Ordering::Relaxed);
    if hart == 0 {
        CONSOLE.line(format_args!(
            "hart {id} boots, and its timer is set by {}",
            if sstc { "stimecmp" } else { "SBI" }
        ));
    }
}

/// Hart 0 starts the others, as far as there are any: how many harts run now.
pub fn start_others(me: usize) -> usize {
    IDS[0].store(me, Ordering::Relaxed);
    let mut number = 1;
    for id in (0..IDS_TRIED).filter(|id| *id != me) {
        if number == ALL {
            break;
        }
        if call(HART_STATUS, [id, 0, 0]) == Ok(STOPPED) {
            // Ordering: Relaxed; the fence in `call` publishes it, with the start.
            IDS[number].store(id, Ordering::Relaxed);
            if let Err(error) = call(HART_START, [id, _start_other as *const () as usize, number]) {
                panic!("hart {id} does not start: {error}");
            }
            number += 1;
        }
    }
    number
}

/// The PLIC's number for hart 0 in supervisor mode.
pub fn context() -> usize {
    2 * IDS[0].load(Ordering::Relaxed) + 1
}

pub fn time() -> u64 {
    let ticks;
    // SAFETY: reads a register.
    unsafe { asm!("csrr {}, time", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// The timer interrupt of the calling hart comes at this time.
pub fn set_timer(hart: usize, at: u64) {
    if SSTC[hart].load(Ordering::Relaxed) {
        // SAFETY: this hart's timer: `stimecmp`.
        unsafe { asm!("csrw 0x14D, {}", in(reg) at, options(nostack)) };
    } else if let Err(error) = call(SET_TIMER, [at as usize, 0, 0]) {
        panic!("no timer: {error}");
    }
}

/// Raises the hart's software interrupt, which then sees earlier writes.
pub fn interrupt(hart: usize) {
    if hart == board::hart() {
        // SAFETY: this hart's own interrupt.
        unsafe { asm!("csrs sip, {}", in(reg) 1 << SOFTWARE, options(nostack)) };
    } else if let Err(error) = call(SEND_IPI, [1, IDS[hart].load(Ordering::Relaxed), 0]) {
        panic!("no interrupt: {error}");
    }
}

/// Takes the software interrupt of the calling hart back.
pub fn acknowledge(_hart: usize) {
    // SAFETY: this hart's own interrupt; and a fence: the interrupt before memory.
    unsafe {
        asm!("csrc sip, {}", "fence iorw, iorw", in(reg) 1 << SOFTWARE, options(nostack));
    }
}

/// Calls the firmware: the value, or the error's number.
pub fn call(function: Function, arguments: [usize; 3]) -> Result<isize, isize> {
    let (error, value): (isize, isize);
    // SAFETY: one of the functions above, of which none writes to our memory; another hart, which it
    // starts or interrupts, sees what was written before.
    unsafe {
        asm!(
            "fence rw, ow",
            "ecall",
            inlateout("a0") arguments[0] => error,
            inlateout("a1") arguments[1] => value,
            in("a2") arguments[2],
            in("a6") function.1,
            in("a7") function.0,
            options(nostack),
        );
    }
    if error == 0 { Ok(value) } else { Err(error) }
}
