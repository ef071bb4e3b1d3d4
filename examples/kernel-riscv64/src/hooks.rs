//! What the conformance suite has of the board beyond a platform: the interrupts that tests raise, the serial line, and
//! the hart that is no worker.

use core::task::Waker;

use filch::{Event, Platform, WorkerId};

use crate::{HARTS, MAILBOX, SERIAL, SUITE, URGENT, board::Board, devices};

/// The hart that is no worker: the platform can sleep and wake there all the same.
const SPARE: WorkerId = WorkerId::new(HARTS as u16);

pub fn on_event(_worker: Option<WorkerId>, event: Event) {
    #[cfg(feature = "recorder")]
    crate::FLIGHT.on_event(_worker, event);
    SUITE.on_event(event);
}

/// The interrupt that a test has raised. In the hypervisor it has made a guest exit, which is all.
pub fn on_interrupt() {
    if !cfg!(feature = "hypervisor") {
        SUITE.on_interrupt();
    }
}

/// A turn of the urgent worker.
///
/// # Safety
/// As `Urgent::on_interrupt`.
pub unsafe fn on_turn() {
    // SAFETY: the caller's promise.
    unsafe { URGENT.on_interrupt() };
}

/// An interrupt of a device: only the serial line has any.
pub fn on_external(_source: usize) {
    devices::receive(|byte| SERIAL.on_byte(byte));
}

/// The spare hart wakes this waker.
pub fn foreign(waker: Waker) {
    MAILBOX.put(waker, |word| Board.wake(SPARE, word));
}

/// The spare hart's loop.
pub fn deliver() -> ! {
    // SAFETY: only this hart calls it, once.
    unsafe { MAILBOX.deliver(|word, seen| Board.wait(SPARE, word, seen, None)) }
}
