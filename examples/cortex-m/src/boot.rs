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

/// The interrupts of the devices, and exceptions that are not expected.
#[exception]
unsafe fn DefaultHandler(number: i16) {
    match u16::try_from(number) {
        Ok(devices::TIMER) => board::on_timer(),
        Ok(devices::SERIAL) => devices::on_serial(|byte| crate::SERIAL.on_byte(byte)),
        _ => panic!("exception {number}"),
    }
}

#[exception]
unsafe fn HardFault(frame: &ExceptionFrame) -> ! {
    panic!("fault: {frame:?}");
}
