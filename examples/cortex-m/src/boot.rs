//! The vector table: from reset to `kernel_main`, and the handlers.

use crate::{board, devices};

type Handler = unsafe extern "C" fn();

const FAULT: Handler = fault;

/// After the stack, which link.ld puts first: system exceptions, then the interrupts of the devices.
#[unsafe(link_section = ".vectors")]
#[used]
static VECTORS: [Handler; 15 + 16] = {
    let mut vectors = [FAULT; 15 + 16];
    vectors[0] = reset;
    vectors[13] = on_pending;
    vectors[15 + devices::TIMER] = on_timer;
    vectors[15 + devices::SERIAL] = on_serial;
    vectors
};

/// QEMU's memory is zero at reset, and it has loaded `.data`.
#[unsafe(no_mangle)]
unsafe extern "C" fn reset() {
    crate::kernel_main();
}

unsafe extern "C" fn on_pending() {
    board::on_pending();
}

unsafe extern "C" fn on_timer() {
    board::on_timer();
}

unsafe extern "C" fn on_serial() {
    devices::on_serial(|byte| crate::SERIAL.on_byte(byte));
}

unsafe extern "C" fn fault() {
    panic!("an exception that nobody expects");
}
