//! The flight recorder of this kernel.

use core::panic::PanicInfo;

use filch::{Event, Platform, WorkerId};
use filch_trace::{Lane, NameSlot, Recorder, Slot};

use crate::{CONSOLE, EXECUTOR, board::Board};

/// So many records of 16 bytes for the worker; all other contexts together have as many. A core without compare-and-swap is a small one.
const RECORDS: usize = if cfg!(target_has_atomic = "ptr") { 128 } else { 64 };

static LANES: [Lane; 2] = [const { Lane::new() }; 2];
static SLOTS: [Slot; 2 * RECORDS] = [const { Slot::new() }; 2 * RECORDS];
static NAMES: [NameSlot; 32] = [const { NameSlot::new() }; 32];
static RECORDER: Recorder = Recorder::new(&LANES, &SLOTS, &NAMES);

pub fn on_event(worker: Option<WorkerId>, event: Event) {
    RECORDER.record(worker, event, || Board.now().as_nanos());
}

/// Prints what it has recorded.
pub fn dump(note: &str) {
    filch_kernel::dump(&RECORDER, &EXECUTOR, note, |line| CONSOLE.line(line));
}

/// As `dump`, at a panic.
pub fn on_panic(info: &PanicInfo<'_>) {
    filch_kernel::dump_panic(&RECORDER, &EXECUTOR, info, |line| CONSOLE.force(line));
}
