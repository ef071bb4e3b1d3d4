//! filch on four Arm cores without an operating system, under QEMU: the conformance suite, a demonstration, a shell.
//!
//! One source for 64-bit cores, from docs/porting.md, and for 32-bit ones (ARMv7-A).
#![no_std]
#![no_main]

mod board;
mod cores;
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "arm", path = "arm.rs")]
mod cpu;
mod devices;

use board::Board;
use filch::{Config, Executor, TaskPool, WorkerId};
use filch_conformance::{Port, Suite};
use filch_kernel::{Console, Kernel, Mailbox, Serial};
#[cfg(feature = "recorder")]
use filch_kernel::{Flight, FlightMemory};

/// The cores that have workers.
const CORES: usize = 4;
/// These, and one core that is no worker.
const ALL: usize = CORES + 1;

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
    foreign: Some(cores::foreign),
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

/// So many records of 16 bytes each: for each core that is a worker, and for all other contexts together.
#[cfg(feature = "recorder")]
const RECORDS: usize = 512;

static EXECUTOR: Executor<Machine, CORES> = Executor::with_config(machine(), CONFIG);
static SUITE: Suite<Machine, CORES> = Suite::new(&EXECUTOR, PORT);
static TASKS: TaskPool<SLOT, 72> = TaskPool::new();
static MAIN: TaskPool<2_048, 1> = TaskPool::new();
static CONSOLE: Console = Console::new(devices::put);
static SERIAL: Serial = Serial::new();
static MAILBOX: Mailbox = Mailbox::new();
#[cfg(feature = "recorder")]
static FLIGHT_MEMORY: FlightMemory<{ CORES + 1 }, { (CORES + 1) * RECORDS }, 64> =
    FlightMemory::new();
#[cfg(feature = "recorder")]
static FLIGHT: Flight<Machine, CORES> = Flight::new(&FLIGHT_MEMORY, &EXECUTOR, &CONSOLE);
static KERNEL: Kernel<Machine, TaskPool<SLOT, 72>, CORES> = Kernel {
    executor: &EXECUTOR,
    suite: &SUITE,
    memory: &TASKS,
    tasks: 64,
    serial: &SERIAL,
    print: |line| CONSOLE.line(line),
    urgent: None,
    stack: None,
    #[cfg(feature = "recorder")]
    trace: Some(|note| FLIGHT.dump(note)),
    #[cfg(not(feature = "recorder"))]
    trace: None,
    exit: devices::exit,
};

/// Every core, each time it is turned on: first for the contracts, then as a worker.
extern "C" fn core_main(core: usize) {
    devices::set_up_core();
    cpu::unmask();
    if core == CORES {
        cores::be_spare(start_workers);
    }
    if let Some(entry) = cores::entry(core) {
        entry.run();
    } else {
        if core == 0 {
            cores::turn_on();
        }
        // SAFETY: the core's own number; it is no worker yet.
        unsafe { SUITE.contracts(WorkerId::new(core as u16), &TASKS) };
    }
    cores::turn_off(core);
}

/// On the core that is no worker.
fn start_workers() {
    devices::enable_uart();
    match EXECUTOR.spawn(&MAIN, KERNEL.main()) {
        Ok(task) => task.detach(),
        Err(error) => panic!("{error}"),
    }
    SUITE.start();
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    CONSOLE.force(format_args!("{info}"));
    #[cfg(feature = "recorder")]
    FLIGHT.on_panic(info);
    CONSOLE.force(format_args!("0 passed, 1 failed"));
    devices::exit(101)
}
