//! The registers of QEMU's `virt` board: CLINT, PLIC, UART, power switch. Any hart may write to all
//! of them.

use core::{arch::asm, hint::spin_loop};

/// The CLINT's software interrupt of each hart, its timer compare, and its time.
const MSIP: usize = 0x0200_0000;
const MTIMECMP: usize = 0x0200_4000;
const MTIME: usize = 0x0200_BFF8;
/// Nanoseconds in a tick of `mtime`, which counts at 10 MHz.
pub const TICK: u64 = 100;

const PLIC: usize = 0x0C00_0000;
/// Claims and completions of hart 0 in machine mode.
const PLIC_CLAIM: usize = PLIC + 0x20_0004;
const UART_SOURCE: usize = 10;

const UART: usize = 0x1000_0000;
const UART_INTERRUPTS: usize = UART + 1;
const UART_STATUS: usize = UART + 5;

const POWER: usize = 0x0010_0000;

fn read<T>(at: usize) -> T {
    // SAFETY: one of the registers above, of its own width.
    unsafe { (at as *const T).read_volatile() }
}

fn write<T>(at: usize, value: T) {
    // SAFETY: one of the registers above, of its own width; none of them changes memory.
    unsafe { (at as *mut T).write_volatile(value) };
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

/// Raises or clears the hart's software interrupt.
pub fn set_software(hart: usize, on: bool) {
    // SAFETY: a fence: memory before the interrupt, and the interrupt before memory.
    unsafe { asm!("fence rw, ow", options(nostack)) };
    write(MSIP + 4 * hart, u32::from(on));
    // SAFETY: as above.
    unsafe { asm!("fence ow, rw", options(nostack)) };
}

/// From now on the UART's received bytes interrupt hart 0.
pub fn enable_uart() {
    write::<u32>(PLIC + 4 * UART_SOURCE, 1);
    write::<u32>(PLIC + 0x2000, 1 << UART_SOURCE);
    write::<u32>(PLIC + 0x20_0000, 0);
    write::<u8>(UART_INTERRUPTS, 1);
}

/// Passes on the bytes that the UART has received.
pub fn on_external(mut take: impl FnMut(u8)) {
    loop {
        let source = read::<u32>(PLIC_CLAIM);
        if source == 0 {
            return;
        }
        while read::<u8>(UART_STATUS) & 1 != 0 {
            take(read::<u8>(UART));
        }
        write(PLIC_CLAIM, source);
    }
}

pub fn put(byte: u8) {
    // QEMU's transmit register is always ready.
    write(UART, byte);
}

/// Ends QEMU with this status.
pub fn exit(status: u32) -> ! {
    write::<u32>(POWER, if status == 0 { 0x5555 } else { status << 16 | 0x3333 });
    loop {
        spin_loop();
    }
}
