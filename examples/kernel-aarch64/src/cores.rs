//! Turns cores on and off, through the firmware's PSCI. The core that is no worker starts the
//! others as workers.

use core::{cell::UnsafeCell, hint::spin_loop, task::Waker};

use filch::{
    Platform, StartError, WorkerEntry, WorkerId,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use crate::{ALL, CORES, MAILBOX, board::Board, cpu};

const CPU_OFF: usize = 0x8400_0002;
/// PSCI's answer for a core that is on.
const ALREADY_ON: i32 = -4;

/// The core that is no worker: the platform can sleep and wake there all the same.
const SPARE: WorkerId = WorkerId::new(CORES as u16);

/// The state of a core across its reset.
struct Desk {
    /// The core is off, or about to be, and is not being started.
    off: AtomicBool,
    /// INV-DESK: belongs to the core that cleared `off`, until this core is on; then to this core.
    entry: UnsafeCell<Option<WorkerEntry>>,
}

// SAFETY: INV-DESK, and an entry is `Send`.
unsafe impl Sync for Desk {}

static DESKS: [Desk; CORES] =
    [const { Desk { off: AtomicBool::new(false), entry: UnsafeCell::new(None) } }; CORES];
/// How many cores have been turned off.
static GONE: AtomicU32 = AtomicU32::new(0);

/// Turns the other cores on, for the first time.
pub fn turn_on() {
    for core in 1..ALL {
        let result = turn_on_one(core);
        assert!(result == 0, "core {core} does not start: {result}");
    }
}

/// Starts a worker for the platform: on the core of its number, which must be off.
pub fn start(entry: WorkerEntry) -> Result<(), StartError> {
    let core = entry.worker().index();
    let desk = DESKS.get(core).ok_or(StartError::Unsupported)?;
    // Ordering: Acquire pairs with the Release in `turn_off`.
    if !desk.off.swap(false, Ordering::Acquire) {
        return Err(StartError::Refused(ALREADY_ON));
    }
    // SAFETY: INV-DESK.
    unsafe { *desk.entry.get() = Some(entry) };
    loop {
        match turn_on_one(core) {
            0 => return Ok(()),
            // It has announced that it turns off, and is not off yet.
            ALREADY_ON => spin_loop(),
            error => {
                // SAFETY: INV-DESK.
                unsafe { *desk.entry.get() = None };
                desk.off.store(true, Ordering::Release);
                return Err(StartError::Refused(error));
            }
        }
    }
}

/// The entry that this core was started for; `None` at its first start. Called by each core when it
/// starts.
pub fn entry(core: usize) -> Option<WorkerEntry> {
    let desk = DESKS.get(core)?;
    // SAFETY: INV-DESK: this is the core, and it is on. It sees what was written before `CPU_ON`.
    unsafe { (*desk.entry.get()).take() }
}

/// Turns this core off.
pub fn turn_off(core: usize) -> ! {
    // Ordering: Release pairs with the Acquire in `start`.
    DESKS[core].off.store(true, Ordering::Release);
    // Ordering: Release pairs with the Acquire in `be_spare`.
    GONE.fetch_add(1, Ordering::Release);
    Board.wake(SPARE, &GONE);
    // SAFETY: this core has nothing left to do.
    let result = unsafe { cpu::psci(CPU_OFF, [0; 3]) };
    panic!("core {core} stays on: {result}");
}

/// The suite's hook: the spare core wakes this waker.
pub fn foreign(waker: Waker) {
    MAILBOX.put(waker, |word| Board.wake(SPARE, word));
}

/// The spare core's loop: once all others are off it calls `start_workers`, and then wakes wakers
/// for the suite.
pub fn be_spare(start_workers: impl FnOnce()) -> ! {
    loop {
        // Ordering: Acquire pairs with the Release in `turn_off`.
        let gone = GONE.load(Ordering::Acquire);
        if gone == CORES as u32 {
            break;
        }
        // SAFETY: this is the spare core, and no other core is that worker.
        unsafe { Board.wait(SPARE, &GONE, gone, None) };
    }
    start_workers();
    // SAFETY: only this core calls it, once.
    unsafe { MAILBOX.deliver(|word, seen| Board.wait(SPARE, word, seen, None)) }
}

fn turn_on_one(core: usize) -> i32 {
    // SAFETY: the core enters at `_start`, on its own stack.
    unsafe { cpu::psci(cpu::CPU_ON, [core, cpu::_start as *const () as usize, 0]) }
}
