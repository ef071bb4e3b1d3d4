//! A guest's life: a task that runs its virtual processor, slice by slice.

use core::fmt;

use filch::Instant;

use super::{
    calls::{After, Firmware},
    memory::Space,
    vcpu::{Exit, Vcpu},
};
use crate::{CONSOLE, EXECUTOR, board, devices, mode};

/// How long a guest runs before its task lets others run: 100 us, in ticks of the clock. A worker with long polls looks at its timers
/// after every eighth, so a guest's timer interrupt may come so many slices late.
const SLICE: u64 = 100_000 / devices::TICK;
/// The cause of a guest page fault at a fetch, and at a read.
const FETCH: u64 = 20;
const READ: u64 = 21;

pub struct Guest {
    pub vcpu: Vcpu,
    pub space: Space,
    pub firmware: Firmware,
    pub number: usize,
}

/// Why a guest has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Halted,
    /// It has halted, and said that it failed.
    Failed,
    /// It waits for an interrupt, and none can come.
    Stuck,
    /// It has accessed what is not its memory.
    Stray {
        cause: u64,
        address: u64,
        at: u64,
    },
    /// An exception for which it has no handler.
    Unhandled {
        cause: u64,
        at: u64,
    },
    /// An exception that the hypervisor does not know.
    Unknown {
        cause: u64,
        at: u64,
    },
}

/// What has become of a guest.
#[derive(Clone, Copy)]
pub struct Report {
    pub end: End,
    pub exits: u32,
    /// How often its time was up.
    pub preempted: u32,
    /// How often it waited for its timer.
    pub waits: u32,
    /// How many timer interrupts it has got.
    pub ticks: u32,
    /// How often it went to another hart.
    pub moves: u32,
    /// How many lines it has printed.
    pub lines: u32,
}

/// Why the poll of a guest's task ends.
enum Pause {
    Preempted,
    Waits(Instant),
    Ended(End),
}

/// Lives this guest's life. Any worker may poll it next.
#[filch::task(pool_size = 8)]
pub async fn live(mut guest: Guest) -> Report {
    let mut report =
        Report { end: End::Halted, exits: 0, preempted: 0, waits: 0, ticks: 0, moves: 0, lines: 0 };
    loop {
        match guest.slice(&mut report) {
            Pause::Preempted => filch::yield_now().await,
            Pause::Waits(until) => EXECUTOR.timers().sleep_until(until).await,
            Pause::Ended(end) => {
                guest.firmware.end();
                CONSOLE.line(format_args!("guest {} {end}", guest.number));
                return Report { end, lines: guest.firmware.lines, ..report };
            }
        }
    }
}

impl Guest {
    /// Runs the guest on the calling hart, until its time is up, or it waits or ends.
    fn slice(&mut self, report: &mut Report) -> Pause {
        report.moves += u32::from(self.vcpu.load());
        let end = mode::time() + SLICE;
        let pause = loop {
            // An alarm between this look at the clock and the guest ends the run, as it stays pending.
            board::mask();
            let now = mode::time();
            if now >= end {
                report.preempted += 1;
                break Pause::Preempted;
            }
            let due = self.firmware.deadline <= now;
            if due && !self.firmware.told {
                self.firmware.told = true;
                report.ticks += 1;
            }
            board::arm(if due { end } else { end.min(self.firmware.deadline) });
            report.exits += 1;
            let exit = self.vcpu.run(due);
            if let Some(pause) = self.handle(exit) {
                break pause;
            }
        };
        report.waits += u32::from(matches!(pause, Pause::Waits(_)));
        self.vcpu.unload();
        board::mask();
        board::arm(board::OFF);
        board::unmask();
        pause
    }

    /// Does what the exit asks for; `None` if the guest goes on.
    fn handle(&mut self, exit: Exit) -> Option<Pause> {
        let at = self.vcpu.at();
        let end = match exit {
            Exit::Interrupt => return None,
            Exit::Call => match self.firmware.serve(&mut self.vcpu, &mut self.space) {
                After::GoesOn => return None,
                After::Halts { failed: false } => End::Halted,
                After::Halts { failed: true } => End::Failed,
            },
            Exit::Wait => {
                self.vcpu.skip();
                return self.wait();
            }
            Exit::Refused => {
                self.vcpu.refuse();
                return None;
            }
            Exit::PageFault { cause, address } => {
                let stray = End::Stray { cause, address, at };
                // The hart has gone to the guest's own handler, and there is none.
                let unhandled = (cause == FETCH).then(|| self.vcpu.unhandled()).flatten();
                unhandled.map_or(stray, |(cause, at)| End::Unhandled { cause, at })
            }
            Exit::Other { cause } => End::Unknown { cause, at },
        };
        Some(Pause::Ended(end))
    }

    /// `wfi`: until the guest's timer, if no interrupt is pending.
    fn wait(&self) -> Option<Pause> {
        let deadline = self.firmware.deadline;
        if deadline <= mode::time() || self.vcpu.is_interrupted() {
            return None;
        }
        Some(if deadline == u64::MAX {
            Pause::Ended(End::Stuck)
        } else {
            Pause::Waits(Instant::from_nanos(deadline.saturating_mul(devices::TICK)))
        })
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Halted => f.write_str("has halted"),
            Self::Failed => f.write_str("has failed"),
            Self::Stuck => f.write_str("is killed: it waits, and its timer is off"),
            Self::Stray { cause, address, at } => {
                let access = match cause {
                    FETCH => "fetched from",
                    READ => "read from",
                    _ => "wrote to",
                };
                write!(
                    f,
                    "is killed: it {access} {address:#x}, which is not its memory, at {at:#x}"
                )
            }
            Self::Unhandled { cause, at } => {
                write!(f, "is killed: it has no handler for its exception {cause} at {at:#x}")
            }
            Self::Unknown { cause, at } => write!(f, "is killed: exception {cause} at {at:#x}"),
        }
    }
}
