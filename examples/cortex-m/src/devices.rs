//! The devices of the two machines, and their common parts.

use core::hint::spin_loop;

use cortex_m::{
    interrupt::InterruptNumber,
    peripheral::{NVIC, scb::VectActive},
};
use cortex_m_semihosting::debug;

#[cfg(target_has_atomic = "ptr")]
pub use mps2::*;
#[cfg(not(target_has_atomic = "ptr"))]
pub use nrf51::*;

fn read(at: usize) -> u32 {
    // SAFETY: a register of the machine.
    unsafe { (at as *const u32).read_volatile() }
}

fn write(at: usize, value: u32) {
    // SAFETY: a register of the machine, which changes no memory.
    unsafe { (at as *mut u32).write_volatile(value) };
}

/// An interrupt of a device.
#[derive(Clone, Copy)]
struct Line(u16);

// SAFETY: both machines have 16 interrupts at least, and the numbers stay.
unsafe impl InterruptNumber for Line {
    fn number(self) -> u16 {
        self.0
    }
}

/// From now on this interrupt is taken.
fn enable(line: u16) {
    // SAFETY: outside of critical sections.
    unsafe { NVIC::unmask(Line(line)) };
}

/// An interrupt that neither machine's devices use, for software.
pub const SPARE: u16 = 25;

/// The spare interrupt comes after all others, so that it interrupts tasks and no handler; it is taken from now on.
pub fn enable_spare() {
    // SAFETY: once, at boot; and no critical section depends on a priority: they mask all interrupts.
    unsafe { cortex_m::Peripherals::steal().NVIC.set_priority(Line(SPARE), 0xC0) };
    enable(SPARE);
}

/// The spare interrupt's handler runs, now or after the handler under way.
pub fn pend_spare() {
    NVIC::pend(Line(SPARE));
}

/// Whether that is the handler under way.
pub fn is_spare(active: VectActive) -> bool {
    matches!(active, VectActive::Interrupt { irqn } if u16::from(irqn) == SPARE)
}

/// Ends QEMU by semihosting: status 0, or 1.
pub fn exit(status: u32) -> ! {
    debug::exit(if status == 0 { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE });
    loop {
        spin_loop();
    }
}

/// The board of Arm's application note 385: a Cortex-M3 at 25 MHz, with the timers and UARTs of the CMSDK.
#[cfg(target_has_atomic = "ptr")]
mod mps2 {
    use super::{enable, read, write};

    /// Nanoseconds in a tick.
    pub const TICK: u64 = 40;
    /// Interrupts: of the second timer, and of the first UART's receiver.
    pub const TIMER: u16 = 9;
    pub const SERIAL: u16 = 0;

    const CLOCK: usize = 0x4000_0000;
    const ALARM: usize = 0x4000_1000;
    const UART: usize = 0x4000_4000;

    pub fn set_up() {
        // The first timer counts down for ever.
        write(CLOCK + 8, u32::MAX);
        write(CLOCK, 1);
        // The second one counts down once, and then interrupts.
        write(ALARM + 8, 0);
        write(ALARM, 1 | 8);
        write(UART + 0x10, 16);
        write(UART + 8, 1 | 2 | 8);
        enable(TIMER);
    }

    pub fn counter() -> u32 {
        !read(CLOCK + 4)
    }

    pub fn set_timer(left: u32) {
        write(ALARM + 4, left);
    }

    pub fn quench_timer() {
        write(ALARM + 0xC, 1);
    }

    pub fn enable_serial() {
        enable(SERIAL);
    }

    pub fn on_serial(mut take: impl FnMut(u8)) {
        write(UART + 0xC, 2);
        while read(UART + 4) & 2 != 0 {
            take(read(UART) as u8);
        }
    }

    pub fn put(byte: u8) {
        while read(UART + 4) & 1 != 0 {}
        write(UART, byte.into());
    }
}

/// Nordic's nRF51 of the micro:bit: a Cortex-M0 with 16 KiB of memory.
#[cfg(not(target_has_atomic = "ptr"))]
mod nrf51 {
    use cortex_m::peripheral::NVIC;

    use super::{Line, enable, read, write};

    /// Nanoseconds in a tick.
    pub const TICK: u64 = 1_000;
    /// Interrupts: of the first timer, and of the UART.
    pub const TIMER: u16 = 8;
    pub const SERIAL: u16 = 2;

    const CLOCK: usize = 0x4000_8000;
    /// Copies the counter into the second compare register.
    const CAPTURE: usize = CLOCK + 0x44;
    const CAPTURED: usize = CLOCK + 0x544;
    const COMPARE: usize = CLOCK + 0x540;
    const COMPARED: usize = CLOCK + 0x140;
    const UART: usize = 0x4000_2000;
    const RECEIVED: usize = UART + 0x108;
    const SENT: usize = UART + 0x11C;

    pub fn set_up() {
        // 32 bits, 16 MHz divided by 2^4, an interrupt at the first compare register's value.
        write(CLOCK + 0x508, 3);
        write(CLOCK + 0x510, 4);
        write(CLOCK + 0x304, 1 << 16);
        write(CLOCK, 1);
        write(UART + 0x500, 4);
        write(UART + 0x304, 1 << 2);
        write(UART, 1);
        write(UART + 8, 1);
        enable(TIMER);
    }

    pub fn counter() -> u32 {
        write(CAPTURE, 1);
        read(CAPTURED)
    }

    pub fn set_timer(left: u32) {
        let end = counter().wrapping_add(left);
        write(COMPARE, end);
        // It compares when the counter moves: a deadline that has passed meanwhile would fire a
        // whole wrap later.
        if counter().wrapping_sub(end) < 1 << 31 {
            NVIC::pend(Line(TIMER));
        }
    }

    pub fn quench_timer() {
        write(COMPARED, 0);
    }

    pub fn enable_serial() {
        enable(SERIAL);
    }

    pub fn on_serial(mut take: impl FnMut(u8)) {
        while read(RECEIVED) != 0 {
            write(RECEIVED, 0);
            take(read(UART + 0x518) as u8);
        }
    }

    pub fn put(byte: u8) {
        write(SENT, 0);
        write(UART + 0x51C, byte.into());
        while read(SENT) == 0 {}
    }
}
