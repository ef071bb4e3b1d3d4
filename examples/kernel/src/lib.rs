//! What the example kernels share: after the conformance suite a demonstration, a shell on the
//! serial line, the figures of each core, and a verdict. A kernel adds its boot code and its
//! platform.
#![no_std]

mod console;
mod delays;
mod demo;
#[cfg(feature = "recorder")]
mod flight;
mod handlers;
mod lock;
mod mailbox;
mod shell;
mod urgent;

use core::fmt;

use filch::{Executor, Memory, Platform};
use filch_conformance::Suite;

#[cfg(feature = "recorder")]
pub use crate::flight::{Flight, FlightMemory};
pub use crate::{
    console::{Console, Serial},
    handlers::Handlers,
    lock::TaskLock,
    mailbox::Mailbox,
    urgent::Urgent,
};

/// A kernel: an executor, the suite over it, and a serial line.
pub struct Kernel<P: Platform, M: Memory + 'static, const N: usize, const RING: usize = 256> {
    /// Its executor.
    pub executor: &'static Executor<P, N, RING>,
    /// The suite over the executor.
    pub suite: &'static Suite<P, N, RING>,
    /// Memory for the tasks of suite and demonstration.
    pub memory: &'static M,
    /// How many tasks the demonstration may have at the same time.
    pub tasks: u32,
    /// The bytes received on the serial line.
    pub serial: &'static Serial,
    /// Prints a line.
    pub print: fn(fmt::Arguments<'_>),
    /// Starts the task of an [`Urgent`] executor, where the kernel has one: it awaits the suite's cell.
    pub urgent: Option<fn()>,
    /// How many bytes of its stack a core has used at most, where the kernel can tell.
    pub stack: Option<fn() -> usize>,
    /// Prints what its flight recorder has, with this note, where the kernel has a recorder.
    pub trace: Option<fn(&str)>,
    /// Ends the machine with this status.
    pub exit: fn(u32) -> !,
}

impl<P: Platform, M: Memory + 'static, const N: usize, const RING: usize> Kernel<P, M, N, RING> {
    /// The kernel's main task, to be spawned once its workers run.
    pub async fn main(&'static self) {
        self.suite.tasks(self.memory).await;
        self.demonstrate().await;
        self.preempt().await;
        self.shell().await;
        self.figures();
        self.verdict();
    }

    /// What each core has done.
    fn figures(&self) {
        (self.print)(format_args!("core    polls   steals   stolen    parks   timers"));
        for (core, m) in self.executor.metrics().workers() {
            (self.print)(format_args!(
                "{:4} {:8} {:8} {:8} {:8} {:8}",
                core.index(),
                m.polls,
                m.steals,
                m.stolen,
                m.parks,
                m.timers
            ));
        }
        if let Some(used) = self.stack {
            (self.print)(format_args!("stack: {} bytes", used()));
        }
    }

    /// Prints how many checks have passed and failed, and ends the machine with the number of failures.
    pub fn verdict(&self) -> ! {
        let (passed, failed) = self.suite.verdict();
        (self.print)(format_args!("{passed} passed, {failed} failed"));
        (self.exit)(failed)
    }
}

impl<P: Platform, M: Memory + 'static, const N: usize, const RING: usize> fmt::Debug
    for Kernel<P, M, N, RING>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("cores", &N).finish_non_exhaustive()
    }
}
