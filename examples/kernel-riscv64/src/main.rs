//! filch on RISC-V harts without an operating system, under QEMU: the conformance suite, a demonstration, a shell.
//!
//! One source for rv64 and rv32 with four harts, and for one rv32 hart without compare-and-swap, in machine mode; and for
//! rv64 in supervisor mode (feature `sbi`).
#![no_std]
#![no_main]

#[macro_use]
#[cfg_attr(not(feature = "sbi"), path = "machine.rs")]
#[cfg_attr(feature = "sbi", path = "supervisor.rs")]
mod mode;
mod board;
mod boot;
mod devices;
mod hooks;
#[cfg(feature = "hypervisor")]
mod hypervisor;

use board::Board;
use filch::{Config, Executor, TaskPool, WorkerId};
use filch_conformance::{Port, Suite};
use filch_kernel::{Console, Kernel, Mailbox, Serial, Urgent};
#[cfg(feature = "recorder")]
use filch_kernel::{Flight, FlightMemory};

/// The harts that have workers: one, if atomics mask interrupts.
const HARTS: usize = if cfg!(target_has_atomic = "ptr") { 4 } else { 1 };
/// These, and one hart that is no worker, if there are several; the hypervisor has no use for it.
const ALL: usize = if HARTS > 1 && cfg!(not(feature = "hypervisor")) { HARTS + 1 } else { HARTS };

#[cfg(not(feature = "hostile"))]
type Machine = Board;
#[cfg(feature = "hostile")]
type Machine = filch_conformance::Hostile<Board>;

const fn machine() -> Machine {
    #[cfg(not(feature = "hostile"))]
    return Board;
    #[cfg(feature = "hostile")]
    return filch_conformance::Hostile::new(Board, 7);
}

/// No timeouts: a lost wake-up stays lost, and the boot hangs.
const CONFIG: Config = if cfg!(feature = "defaults") {
    Config::new()
} else {
    Config::new().watchdog(None).spin_rounds(0)
};

const PORT: Port = Port {
    raise: Some(board::raise),
    alarm: Some(board::alarm),
    foreign: if HARTS > 1 { Some(hooks::foreign) } else { None },
    halts: Some(board::halts),
    stirs: if cfg!(feature = "hostile") {
        None
    } else if cfg!(feature = "defaults") {
        // The cores that watch the others look around a few times before they rest.
        Some(16)
    } else {
        Some(0)
    },
    wakes: if cfg!(any(feature = "delay", feature = "hostile")) { 5_000 } else { 100_000 },
    ..Port::new(|line| CONSOLE.line(line))
};

/// Bytes of a task. Where there is a flight recorder, tasks keep the place of their spawn.
const SLOT: usize = if cfg!(feature = "recorder") { 288 } else { 256 };

/// So many records of 16 bytes each: for each hart that is a worker, and for all other contexts together.
#[cfg(feature = "recorder")]
const RECORDS: usize = 512;

static EXECUTOR: Executor<Machine, HARTS> = Executor::with_config(machine(), CONFIG);
static SUITE: Suite<Machine, HARTS> = Suite::new(&EXECUTOR, PORT);
static TASKS: TaskPool<SLOT, 72> = TaskPool::new();
static CONSOLE: Console = Console::new(devices::put);
static SERIAL: Serial = Serial::new();
static MAILBOX: Mailbox = Mailbox::new();
static URGENT: Urgent<board::Preempts> = Urgent::new(board::Preempts);
#[cfg(feature = "recorder")]
static FLIGHT_MEMORY: FlightMemory<{ HARTS + 1 }, { (HARTS + 1) * RECORDS }, 64> =
    FlightMemory::new();
#[cfg(feature = "recorder")]
static FLIGHT: Flight<Machine, HARTS> = Flight::new(&FLIGHT_MEMORY, &EXECUTOR, &CONSOLE);
static KERNEL: Kernel<Machine, TaskPool<SLOT, 72>, HARTS> = Kernel {
    executor: &EXECUTOR,
    suite: &SUITE,
    memory: &TASKS,
    tasks: 64,
    serial: &SERIAL,
    print: |line| CONSOLE.line(line),
    urgent: Some(|| URGENT.start(SUITE.cell(), || SUITE.struck_at())),
    stack: None,
    #[cfg(feature = "recorder")]
    trace: Some(|note| FLIGHT.dump(note)),
    #[cfg(not(feature = "recorder"))]
    trace: None,
    exit: devices::exit,
};

/// The kernel's main task, in a slot of exactly its size.
#[filch::task]
async fn main_task() {
    #[cfg(not(feature = "hypervisor"))]
    KERNEL.main().await;
    #[cfg(feature = "hypervisor")]
    hypervisor::main().await;
}

/// Every hart, from boot, with its ID.
extern "C" fn hart_main(id: usize) {
    let hart = board::hart();
    mode::set_up(hart, id);
    if hart == 0 {
        let harts = mode::start_others(id);
        assert!(harts == ALL, "{harts} harts can be had, of {ALL}");
    }
    board::unmask();
    if hart == HARTS {
        hooks::deliver();
    }
    let me = WorkerId::new(hart as u16);
    #[cfg(feature = "hypervisor")]
    hypervisor::set_up();
    // SAFETY: the core's own number; it is no worker yet.
    #[cfg(not(feature = "hypervisor"))]
    unsafe {
        SUITE.contracts(me, &TASKS)
    };
    if hart == 0 {
        devices::enable_uart();
        match main_task().spawn(&EXECUTOR) {
            Ok(task) => task.detach(),
            Err(error) => panic!("{error}"),
        }
    }
    if let Err(error) = EXECUTOR.run(me) {
        panic!("hart {hart}: {error}");
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    CONSOLE.force(format_args!("{info}"));
    #[cfg(feature = "recorder")]
    FLIGHT.on_panic(info);
    CONSOLE.force(format_args!("0 passed, 1 failed"));
    devices::exit(101)
}
