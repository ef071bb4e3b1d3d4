//! What this kernel has of the board beyond a platform: the interrupts of its devices.

use filch::{Event, WorkerId};

use crate::{SERIAL, devices, nic};

/// Nothing traces the scheduler.
pub fn on_event(_worker: Option<WorkerId>, _event: Event) {}

/// Nothing raises such an interrupt.
pub fn on_interrupt() {}

/// This kernel has one executor.
///
/// # Safety
/// None is needed here; that of the other kernel has a need.
pub unsafe fn on_turn() {}

/// An interrupt of a device, on hart 0.
pub fn on_external(source: usize) {
    if source == devices::UART_SOURCE {
        devices::receive(|byte| SERIAL.on_byte(byte));
    } else {
        nic::on_interrupt();
    }
}
