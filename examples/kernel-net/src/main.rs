//! An HTTP server on RISC-V harts without an operating system: smoltcp over a virtio network card, by interrupts. Each
//! connection is a task, and so is the interface; they run on all harts, by work stealing.
//!
//! Boot, traps and the platform are those of `kernel-riscv64`, in supervisor mode. It runs on as many harts as the
//! machine has, up to four; the workers of the others stay offline. A line on the serial line ends it.
#![no_std]
#![no_main]

#[macro_use]
#[path = "../../kernel-riscv64/src/supervisor.rs"]
mod mode;
#[path = "../../kernel-riscv64/src/board.rs"]
#[allow(
    dead_code,
    reason = "the conformance suite raises interrupts and counts halts, this kernel does not"
)]
mod board;
#[path = "../../kernel-riscv64/src/boot.rs"]
mod boot;
#[path = "../../kernel-riscv64/src/devices.rs"]
mod devices;

mod delays;
mod hooks;
mod http;
mod nic;
mod stack;
mod tcp;

use board::Board;
use filch::{Config, Executor, WorkerId};
use filch_kernel::{Console, Serial};
use stack::SOCKETS;

/// No timeouts: a lost wake-up stays lost.
const CONFIG: Config = Config::new().watchdog(None).spin_rounds(0);

/// The harts that have workers.
const HARTS: usize = 4;
/// These, and one that boots and is no worker.
const ALL: usize = HARTS + 1;

static EXECUTOR: Executor<Board, HARTS> = Executor::with_config(Board, CONFIG);
static CONSOLE: Console = Console::new(devices::put);
static SERIAL: Serial = Serial::new();

/// Starts the server, and ends it when a line comes on the serial line.
#[filch::task]
async fn main_task(harts: usize) {
    let handles = match stack::set_up() {
        Ok(handles) => handles,
        Err(error) => panic!("no network: {error}"),
    };
    match stack::interface().spawn(&EXECUTOR) {
        Ok(task) => task.detach(),
        Err(error) => panic!("{error}"),
    }
    for handle in handles {
        match http::connections(handle).spawn(&EXECUTOR) {
            Ok(task) => task.detach(),
            Err(error) => panic!("{error}"),
        }
    }
    let (address, more) = (stack::ADDRESSES[0], stack::ADDRESSES.len() - 1);
    CONSOLE.line(format_args!(
        "{harts} harts listen at {address} and {more} more, with {SOCKETS} sockets"
    ));
    while SERIAL.read().await != b'\n' {}
    figures();
    devices::exit(0);
}

/// What the kernel has done.
fn figures() {
    CONSOLE.line(format_args!("hart    polls   stolen    parks   timers"));
    for (hart, m) in EXECUTOR.metrics().workers().filter(|(_, m)| m.online) {
        let hart = hart.index();
        CONSOLE.line(format_args!(
            "{hart:4} {:8} {:8} {:8} {:8}",
            m.polls, m.stolen, m.parks, m.timers
        ));
    }
    CONSOLE.line(format_args!("{}", delays::Figures));
    CONSOLE.line(format_args!("{}", http::Figures));
}

/// Every hart, from boot, with its ID.
extern "C" fn hart_main(id: usize) {
    let hart = board::hart();
    mode::set_up(hart, id);
    if hart >= HARTS {
        // No worker's: it halts.
        return;
    }
    if hart == 0 {
        let harts = mode::start_others(id).min(HARTS);
        devices::enable_uart();
        match main_task(harts).spawn(&EXECUTOR) {
            Ok(task) => task.detach(),
            Err(error) => panic!("{error}"),
        }
    }
    board::unmask();
    if let Err(error) = EXECUTOR.run(WorkerId::new(hart as u16)) {
        panic!("hart {hart}: {error}");
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    CONSOLE.force(format_args!("{info}"));
    devices::exit(101)
}
