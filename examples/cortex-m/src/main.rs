//! filch on one small core without an operating system, under QEMU: the conformance suite, a demonstration, a shell.
//!
//! A Cortex-M3, and a Cortex-M0 without compare-and-swap and with 16 KiB of memory.
#![no_std]
#![no_main]

mod board;
mod boot;
mod devices;

use board::Board;
use filch::{Config, Executor, TaskPool, WorkerId};
use filch_conformance::{Port, Suite};
use filch_kernel::{Console, Kernel, Serial, Urgent};
#[cfg(feature = "recorder")]
use filch_kernel::{Flight, FlightMemory};

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

/// The capacity of the worker's ring: so small that it overflows.
const RING: usize = 4;

/// No timeouts: a lost wake-up stays lost, and the boot hangs.
const CONFIG: Config = if cfg!(feature = "defaults") {
    Config::new()
} else {
    Config::new().watchdog(None).spin_rounds(0)
};

const PORT: Port = Port {
    raise: Some(board::raise),
    alarm: Some(board::alarm),
    halts: Some(board::halts),
    stirs: if cfg!(feature = "hostile") {
        None
    } else if cfg!(feature = "defaults") {
        // The cores that watch the others look around a few times before they rest.
        Some(16)
    } else {
        Some(0)
    },
    wakes: if cfg!(any(feature = "delay", feature = "hostile")) { 5_000 } else { 20_000 },
    tasks: 8,
    ..Port::new(|line| CONSOLE.line(line))
};

/// Bytes of a task. Where there is a flight recorder, tasks keep the place of their spawn.
const SLOT: usize = if cfg!(feature = "recorder") { 240 } else { 224 };

/// So many records of 16 bytes for the worker; all other contexts together have as many. A core without compare-and-swap is a small one.
#[cfg(feature = "recorder")]
const RECORDS: usize = if cfg!(target_has_atomic = "ptr") { 128 } else { 64 };

static EXECUTOR: Executor<Machine, 1, RING> = Executor::with_config(machine(), CONFIG);
static SUITE: Suite<Machine, 1, RING> = Suite::new(&EXECUTOR, PORT);
static TASKS: TaskPool<SLOT, 12> = TaskPool::new();
static CONSOLE: Console = Console::new(devices::put);
static SERIAL: Serial = Serial::new();
static URGENT: Urgent<board::Preempts> = Urgent::new(board::Preempts);
#[cfg(feature = "recorder")]
static FLIGHT_MEMORY: FlightMemory<2, { 2 * RECORDS }, 32> = FlightMemory::new();
#[cfg(feature = "recorder")]
static FLIGHT: Flight<Machine, 1, RING> = Flight::new(&FLIGHT_MEMORY, &EXECUTOR, &CONSOLE);
static KERNEL: Kernel<Machine, TaskPool<SLOT, 12>, 1, RING> = Kernel {
    executor: &EXECUTOR,
    suite: &SUITE,
    memory: &TASKS,
    tasks: 8,
    serial: &SERIAL,
    print: |line| CONSOLE.line(line),
    urgent: Some(|| URGENT.start(SUITE.cell(), || SUITE.struck_at())),
    stack: Some(boot::stack_used),
    #[cfg(feature = "recorder")]
    trace: Some(|note| FLIGHT.dump(note)),
    #[cfg(not(feature = "recorder"))]
    trace: None,
    exit: devices::exit,
};

/// The kernel's main task, in a slot of exactly its size.
#[filch::task]
async fn main_task() {
    KERNEL.main().await;
}

/// Called at reset, once the memory has its initial values.
fn kernel_main() -> ! {
    devices::set_up();
    let me = WorkerId::new(0);
    // SAFETY: the core's own number; it is no worker yet.
    unsafe { SUITE.contracts(me, &TASKS) };
    devices::enable_serial();
    devices::enable_spare();
    match main_task().spawn(&EXECUTOR) {
        Ok(task) => task.detach(),
        Err(error) => panic!("{error}"),
    }
    let end = EXECUTOR.run(me);
    panic!("the executor has ended: {end:?}");
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    CONSOLE.force(format_args!("{info}"));
    #[cfg(feature = "recorder")]
    FLIGHT.on_panic(info);
    CONSOLE.force(format_args!("0 passed, 1 failed"));
    devices::exit(101)
}
