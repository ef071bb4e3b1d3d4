//! QEMU's `virt` board as a platform: the page that a port takes.

use core::{
    arch::asm,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
};

use filch::{Instant, Platform, WorkerId};

/// The CLINT's software interrupt of each hart, its timer compare, and its time.
const MSIP: usize = 0x0200_0000;
const MTIMECMP: usize = 0x0200_4000;
const MTIME: usize = 0x0200_BFF8;
/// `mtime` counts at 10 MHz.
const NANOS: u64 = 100;
const UART: *mut u8 = 0x1000_0000 as *mut u8;
const SIFIVE_TEST: *mut u32 = 0x0010_0000 as *mut u32;

pub struct Board;

/// How often a hart came out of a `wfi`.
pub static HALTS: AtomicUsize = AtomicUsize::new(0);

fn hart() -> usize {
    let id;
    // SAFETY: reads a register.
    unsafe { asm!("csrr {}, mhartid", out(reg) id, options(nomem, nostack)) };
    id
}

// SAFETY:
// - Identity: hart `w` is worker `w`, and enters it once.
// - Guard: the default, which calls once; panics abort.
// - Sticky wake: interrupts stay masked; one that comes between the check and the `wfi` stays pending, and the `wfi` falls
//   through. It is cleared after the `wfi` only, and the core looks at the word again then.
unsafe impl Platform for Board {
    fn now(&self) -> Instant {
        // SAFETY: the CLINT's time register.
        Instant::from_nanos(unsafe { (MTIME as *const u64).read_volatile() } * NANOS)
    }

    fn current_worker(&self) -> Option<WorkerId> {
        Some(WorkerId::new(hart() as u16))
    }

    fn wait(&self, w: WorkerId, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        let ticks = deadline.map_or(u64::MAX, |end| end.as_nanos().div_ceil(NANOS));
        // SAFETY: this hart's own timer and software interrupt.
        unsafe {
            ((MTIMECMP + 8 * w.index()) as *mut u64).write_volatile(ticks);
            if cfg!(feature = "mutant") {
                halt_carelessly(w, word, expected);
            } else if word.load(Ordering::Acquire) == expected {
                delay();
                asm!("wfi", options(nostack));
                HALTS.fetch_add(1, Ordering::Relaxed);
            }
            ((MSIP + 4 * w.index()) as *mut u32).write_volatile(0);
        }
    }

    fn wake(&self, w: WorkerId, _: &AtomicU32) {
        // SAFETY: that hart's software interrupt. The fence orders the word before the interrupt.
        unsafe {
            asm!("fence rw, ow", options(nostack));
            ((MSIP + 4 * w.index()) as *mut u32).write_volatile(1);
        }
    }
}

/// What a platform must not do: take the interrupt between check and halt, as a handler would with interrupts enabled, and
/// sleep all the same.
unsafe fn halt_carelessly(w: WorkerId, word: &AtomicU32, expected: u32) {
    if word.load(Ordering::Acquire) == expected {
        delay();
        // SAFETY: this hart's own software interrupt.
        unsafe {
            ((MSIP + 4 * w.index()) as *mut u32).write_volatile(0);
            asm!("wfi", options(nostack));
        }
    }
}

fn delay() {
    if cfg!(feature = "delay") {
        (0..500).for_each(|_| core::hint::spin_loop());
    }
}

/// The serial line, one line at a time.
pub struct Console;

impl core::fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        // SAFETY: the UART's transmit register; QEMU's is always ready.
        text.bytes().for_each(|byte| unsafe { UART.write_volatile(byte) });
        Ok(())
    }
}

/// Ends QEMU with this status.
pub fn exit(status: u32) -> ! {
    let word = if status == 0 { 0x5555 } else { status << 16 | 0x3333 };
    // SAFETY: the board's power switch.
    unsafe { SIFIVE_TEST.write_volatile(word) };
    loop {
        core::hint::spin_loop();
    }
}
