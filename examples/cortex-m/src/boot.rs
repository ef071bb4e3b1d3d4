//! From reset to `kernel_main`, and the handlers.

use cortex_m_rt::{ExceptionFrame, entry, exception};

use crate::{board, devices};

#[entry]
fn reset() -> ! {
    crate::kernel_main()
}

#[exception]
fn PendSV() {
    board::on_pending();
}

/// How many bytes of the stack have been used since the reset: down to the first word that still has the paint.
pub fn stack_used() -> usize {
    unsafe extern "C" {
        static _stack_end: u32;
        static _stack_start: u32;
    }
    let (mut at, top) = (&raw const _stack_end, &raw const _stack_start);
    // SAFETY: the linker's symbols are the ends of the stack, which is memory; a volatile read takes what is there.
    while at < top && unsafe { at.read_volatile() } == cortex_m_rt::STACK_PAINT_VALUE {
        at = at.wrapping_add(1);
    }
    top.addr() - at.addr()
}

/// The interrupts of the devices, and exceptions that are not expected.
#[exception]
unsafe fn DefaultHandler(number: i16) {
    match u16::try_from(number) {
        Ok(devices::TIMER) => board::on_timer(),
        // SAFETY: it is that interrupt, which has one priority.
        Ok(devices::SPARE) => unsafe { crate::URGENT.on_interrupt() },
        Ok(devices::SERIAL) => devices::on_serial(|byte| crate::SERIAL.on_byte(byte)),
        _ => panic!("exception {number}"),
    }
}

#[exception]
unsafe fn HardFault(frame: &ExceptionFrame) -> ! {
    panic!("fault: {frame:?}");
}
