//! QEMU's `virt` board for Arm: interrupt controller (GICv2), generic timer, UART (PL011), exit.

use core::{arch::asm, hint::spin_loop};

use crate::cpu;

/// Nanoseconds in a tick of the generic timer.
pub const TICK: u64 = 16;

/// Interrupts: from core to core, the virtual timer, the UART.
pub const WAKE: u32 = 0;
pub const RAISE: u32 = 1;
pub const TIMER: u32 = 27;
pub const SERIAL: u32 = 33;

const DISTRIBUTOR: usize = 0x0800_0000;
const INTERFACE: usize = 0x0801_0000;
const UART: usize = 0x0900_0000;

fn read(at: usize) -> u32 {
    // SAFETY: a register of the board.
    unsafe { (at as *const u32).read_volatile() }
}

fn write(at: usize, value: u32) {
    // SAFETY: a register of the board, which changes no memory.
    unsafe { (at as *mut u32).write_volatile(value) };
}

/// Sets up the calling core: lets its interrupts through.
pub fn set_up_core() {
    let frequency = cpu::frequency();
    assert!(frequency * TICK == 1_000_000_000, "the timer runs at {frequency} Hz");
    write(DISTRIBUTOR, 1);
    write(DISTRIBUTOR + 0x100, 1 << WAKE | 1 << RAISE | 1 << TIMER);
    write(INTERFACE + 4, 0xFF);
    write(INTERFACE, 1);
}

/// Interrupts a core, which then sees earlier writes.
pub fn send(core: usize, interrupt: u32) {
    // SAFETY: a barrier.
    unsafe { asm!("dsb ish", options(nostack)) };
    write(DISTRIBUTOR + 0xF00, 1 << (16 + core) | interrupt);
    // SAFETY: as above: the interrupt has been sent.
    unsafe { asm!("dsb sy", "isb", options(nostack)) };
}

/// Acknowledges and handles the pending interrupts.
pub fn take_interrupts(mut handle: impl FnMut(u32)) {
    loop {
        let taken = read(INTERFACE + 0xC);
        if taken & 0x3FF >= 1_020 {
            return;
        }
        handle(taken & 0x3FF);
        write(INTERFACE + 0x10, taken);
    }
}

/// From now on the UART's received bytes interrupt core 0.
pub fn enable_uart() {
    // SAFETY: the register has one byte for each interrupt: its cores.
    unsafe { ((DISTRIBUTOR + 0x800 + SERIAL as usize) as *mut u8).write_volatile(1) };
    write(DISTRIBUTOR + 0x104, 1 << (SERIAL - 32));
    write(UART + 0x38, 1 << 4);
}

/// Passes on the bytes that the UART has received.
pub fn on_serial(mut take: impl FnMut(u8)) {
    write(UART + 0x44, 1 << 4);
    while read(UART + 0x18) & 1 << 4 == 0 {
        take(read(UART) as u8);
    }
}

pub fn put(byte: u8) {
    while read(UART + 0x18) & 1 << 5 != 0 {
        spin_loop();
    }
    write(UART, byte.into());
}

/// Ends QEMU with this status, by semihosting.
pub fn exit(status: u32) -> ! {
    const EXIT: usize = 0x20;
    const BY_PROGRAM: usize = 0x2_0026;
    cpu::semihost(EXIT, &[BY_PROGRAM, status as usize]);
    loop {
        spin_loop();
    }
}
