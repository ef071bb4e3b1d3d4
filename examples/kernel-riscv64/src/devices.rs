//! The registers of QEMU's `virt` board: PLIC, UART, power switch. Any hart may write to all of them.

use core::hint::spin_loop;

use crate::mode;

/// Nanoseconds in a tick of the clock, which counts at 10 MHz.
pub const TICK: u64 = 100;

const PLIC: usize = 0x0C00_0000;
/// The UART's number at the PLIC.
pub const UART_SOURCE: usize = 10;

const UART: usize = 0x1000_0000;
const UART_INTERRUPTS: usize = UART + 1;
const UART_STATUS: usize = UART + 5;

const POWER: usize = 0x0010_0000;

pub fn read<T>(at: usize) -> T {
    // SAFETY: a register of the board, of its own width.
    unsafe { (at as *const T).read_volatile() }
}

pub fn write<T>(at: usize, value: T) {
    // SAFETY: a register of the board, of its own width, which changes no memory.
    unsafe { (at as *mut T).write_volatile(value) };
}

/// The PLIC's threshold for hart 0; its claims and completions follow.
fn plic_context() -> usize {
    PLIC + 0x20_0000 + 0x1000 * mode::context()
}

/// From now on this source interrupts hart 0, which calls this.
pub fn enable(source: usize) {
    let enabled = PLIC + 0x2000 + 0x80 * mode::context();
    write::<u32>(PLIC + 4 * source, 1);
    write::<u32>(enabled, read::<u32>(enabled) | 1 << source);
    write::<u32>(plic_context(), 0);
}

/// From now on the UART's received bytes interrupt hart 0.
pub fn enable_uart() {
    enable(UART_SOURCE);
    write::<u8>(UART_INTERRUPTS, 1);
}

/// Serves each source that interrupts: `serve` makes the device release its interrupt.
pub fn on_external(serve: impl Fn(usize)) {
    let claim = plic_context() + 4;
    loop {
        let source = read::<u32>(claim);
        if source == 0 {
            return;
        }
        serve(source as usize);
        write(claim, source);
    }
}

/// Passes on the bytes that the UART has received.
pub fn receive(mut take: impl FnMut(u8)) {
    while read::<u8>(UART_STATUS) & 1 != 0 {
        take(read::<u8>(UART));
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
