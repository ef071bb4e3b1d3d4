//! A shell on the serial line.

use core::time::Duration;

use filch::{
    Memory, Platform,
    atomic::{AtomicU32, Ordering},
};

use heapless::String;

use crate::Kernel;

/// A line, at most so many bytes long: what is longer is cut off.
type Line = String<32>;

const COMMANDS: &str = "help, spawn N, sleep MS, metrics, delays, trace, panic, exit";

static RAN: AtomicU32 = AtomicU32::new(0);

impl<P: Platform, M: Memory + 'static, const N: usize, const RING: usize> Kernel<P, M, N, RING> {
    /// Reads commands until `exit`.
    pub(crate) async fn shell(&'static self) {
        (self.print)(format_args!("shell: {COMMANDS}"));
        let mut commands = 0;
        loop {
            let line = self.read_line().await;
            (self.print)(format_args!("> {line}"));
            let mut words = line.split_ascii_whitespace();
            let Some(command) = words.next() else { continue };
            let number = words.next().and_then(|word| word.parse().ok()).unwrap_or(1);
            commands += 1;
            match command {
                "spawn" => self.spawn_some(number).await,
                "sleep" => self.executor.sleep(Duration::from_millis(number.into())).await,
                "metrics" => self.show_metrics(),
                "delays" => self.delays().await,
                "trace" => self.show_trace(),
                "panic" => self.panic().await,
                "exit" => break,
                _ => (self.print)(format_args!("have: {COMMANDS}")),
            }
        }
        self.suite.check("the shell has run what came on the serial line", commands > 0);
    }

    async fn read_line(&self) -> Line {
        let mut line = Line::new();
        loop {
            match self.serial.read().await {
                b'\n' | b'\r' => return line,
                byte if byte.is_ascii_graphic() || byte == b' ' => drop(line.push(byte.into())),
                _ => {}
            }
        }
    }

    async fn spawn_some(&'static self, tasks: u32) {
        RAN.store(0, Ordering::Relaxed);
        for _ in 0..tasks {
            // There is no memory at the moment: lets earlier tasks end first.
            while self.spawn(ran()).is_none() {
                filch::yield_now().await;
            }
        }
        while RAN.load(Ordering::Acquire) < tasks {
            // Not in a flight recorder, where polls of this task would take the place of all others.
            if cfg!(feature = "recorder") {
                self.executor.sleep(Duration::from_millis(1)).await;
            } else {
                filch::yield_now().await;
            }
        }
        (self.print)(format_args!("{tasks} tasks have run"));
    }

    fn show_trace(&self) {
        match self.trace {
            Some(trace) => trace("asked for by the shell"),
            None => (self.print)(format_args!("this kernel has no flight recorder")),
        }
    }

    /// A task panics, which ends the machine.
    async fn panic(&'static self) {
        if let Some(task) = self.spawn(panics()) {
            let _ = task.await;
        }
    }

    fn show_metrics(&self) {
        let metrics = self.executor.metrics();
        let totals = metrics.totals();
        (self.print)(format_args!(
            "{} spawned, {} completed, {} live, {} cores asleep",
            totals.spawned, totals.completed, totals.live, totals.parked
        ));
        self.figures();
    }
}

async fn ran() {
    filch::yield_now().await;
    RAN.fetch_add(1, Ordering::AcqRel);
}

async fn panics() {
    panic!("the shell was asked to");
}
