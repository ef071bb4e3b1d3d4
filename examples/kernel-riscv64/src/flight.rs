//! The flight recorder of this kernel.

use core::panic::PanicInfo;

use filch::{Event, Platform, WorkerId};
use filch_trace::{Lane, NameSlot, Recorder, Slot};

use crate::{CONSOLE, EXECUTOR, HARTS, board::Board};

/// So many records each, of 16 bytes: for each hart that is a worker, and for all other contexts together.
const RECORDS: usize = 512;

static LANES: [Lane; HARTS + 1] = [const { Lane::new() }; HARTS + 1];
static SLOTS: [Slot; (HARTS + 1) * RECORDS] = [const { Slot::new() }; (HARTS + 1) * RECORDS];
static NAMES: [NameSlot; 64] = [const { NameSlot::new() }; 64];
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
