//! A hypervisor: guests in the virtual supervisor mode of RISC-V's H extension. Each has a virtual processor, which is a task, and its
//! own memory. The hypervisor is the firmware of its guests.
//!
//! Section 11 of docs/porting.md has another way: the worker's `wait` runs the guest. Both were built for these eight guests, with slices
//! of 100 us. On four harts in QEMU, on two busy processors, the median of 25 runs:
//!
//! | | exits a second | timer interrupts late, guest waits | guest computes |
//! |---|---:|---:|---:|
//! | tasks | 61,000 | 3.4 ms | 5.5 ms |
//! | `wait`, two guests to a worker | 57,000 | 2.5 ms | 6.1 ms |
//!
//! When QEMU counts instructions (`-icount shift=1,sleep=off`), a busy host does not show: 475,000 exits against 407,000, 0.6 ms against
//! 0.3 ms, 0.1 ms against 0.6 ms. An exit costs the same in both, as neither goes through the scheduler. A task finds an idle hart by
//! itself, whereas `wait` keeps a guest on its worker: two that compute share a hart while others are idle. In `wait` a guest's timer
//! is the hart's own, in place of one that the worker looks at between two polls. So this is with tasks: they balance, and a processor
//! is owned by its future.

mod calls;
mod guest;
mod memory;
mod plan;
mod vcpu;

use filch::JoinHandle;

use self::{
    calls::Firmware,
    guest::{End, Guest, Report, live},
    memory::Memory,
    vcpu::Vcpu,
};
use crate::{CONSOLE, EXECUTOR, KERNEL, SUITE};

const GUESTS: usize = 8;
/// What each guest runs.
static IMAGE: &[u8] =
    include_bytes!(env!("GUEST", "the image of the guests, which examples/boot.sh builds"));
static MEMORY: [Memory; GUESTS] = [const { Memory::new() }; GUESTS];

/// Prepares the calling hart.
pub fn set_up() {
    vcpu::set_up(GUESTS);
}

/// Runs all guests to their ends, and ends the machine.
pub async fn main() {
    let began = EXECUTOR.timers().now();
    let tasks: [_; GUESTS] = core::array::from_fn(start);
    let mut reports = [None; GUESTS];
    for (task, report) in tasks.into_iter().zip(&mut reports) {
        if let Some(task) = task {
            *report = task.await.ok();
        }
    }
    let exits: u32 = reports.iter().flatten().map(|report| report.exits).sum();
    CONSOLE.line(format_args!(
        "{exits} exits in {} ms",
        (EXECUTOR.timers().now() - began).as_millis()
    ));
    check(&reports);
    KERNEL.verdict()
}

fn start(number: usize) -> Option<JoinHandle<Report>> {
    let space = MEMORY[number].take(IMAGE)?;
    // As firmware does: the hart's ID, and one argument more. VMID 0 is the host's.
    let vcpu = Vcpu::new(memory::START, [0, number as u64], space.tables(), number + 1);
    let guest = Guest { vcpu, space, firmware: Firmware::new(number), number };
    live(guest).spawn(&EXECUTOR).ok()
}

fn check(reports: &[Option<Report>; GUESTS]) {
    CONSOLE.line(format_args!("guest    exits    waits preempted    ticks    moves    lines"));
    for (number, report) in reports.iter().enumerate() {
        if let Some(r) = report {
            CONSOLE.line(format_args!(
                "{number:5} {:8} {:8} {:9} {:8} {:8} {:8}",
                r.exits, r.waits, r.preempted, r.ticks, r.moves, r.lines
            ));
        }
    }
    let all = |holds: &dyn Fn(usize, &Report) -> bool| {
        reports.iter().enumerate().all(|(n, report)| report.as_ref().is_some_and(|r| holds(n, r)))
    };
    SUITE.check("every guest has an end, and has printed lines", all(&|_, r| r.lines > 0));
    SUITE.check(
        "the guest that writes outside its memory is killed",
        all(&|n, r| {
            n != plan::STRAY
                || matches!(r.end, End::Stray { cause: 23, address: plan::STRAY_ADDRESS, .. })
        }),
    );
    SUITE.check(
        "the guest with an illegal instruction and no handler is killed",
        all(&|n, r| n != plan::ILLEGAL || matches!(r.end, End::Unhandled { cause: 2, .. })),
    );
    SUITE.check(
        "the others halt",
        all(&|n, r| n == plan::STRAY || n == plan::ILLEGAL || r.end == End::Halted),
    );
    SUITE.check(
        "each guest has got its timer interrupts, and no more",
        all(&|n, r| r.ticks == plan::ticks_waiting(n) + plan::ticks_computing(n)),
    );
    SUITE.check("guests that wait leave their harts", all(&|_, r| r.waits > 0));
    SUITE.check(
        "guests that compute are preempted",
        all(&|n, r| plan::ticks_computing(n) == 0 || r.preempted > 0),
    );
    SUITE.check(
        "guests move from hart to hart",
        reports.iter().flatten().any(|report| report.moves > 0),
    );
}
