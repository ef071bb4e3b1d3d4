//! The program's output: sums on standard output, the rest on standard error.

use core::fmt::Write as _;
use core::time::Duration;
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write as _};

use filch_examples::names::{quote, reason};
use filch_std::runtime::{Metrics, WorkerMetrics};
use indicatif::{ProgressBar, ProgressStyle};

/// Both outputs. Neither may write into the line of the progress bar.
pub(crate) struct Console {
    bar: ProgressBar,
    sums_on_terminal: bool,
    has_complained: bool,
}

/// The files and bytes that have been hashed.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

impl Console {
    pub(crate) fn new() -> Self {
        Self {
            bar: ProgressBar::hidden(),
            sums_on_terminal: io::stdout().is_terminal(),
            has_complained: false,
        }
    }

    /// indicatif shows the bar only if standard error is a terminal. It counts files and not bytes,
    /// because the sizes would cost a system call per file.
    pub(crate) fn start_bar(&mut self, files: usize) {
        let style = ProgressStyle::with_template("{spinner} {elapsed} [{wide_bar}] {pos}/{len}");
        self.bar = ProgressBar::new(files as u64);
        self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        if !self.bar.is_hidden() {
            // A thread keeps the time going while the bar waits for a huge file.
            self.bar.enable_steady_tick(Duration::from_millis(200));
        }
    }

    pub(crate) fn advance_bar(&self) {
        self.bar.inc(1);
    }

    /// Writes to standard output, which flushes at the end of each line: a closed pipe is noticed
    /// at once, and a reader of the sums waits for the hashing only.
    pub(crate) fn print(&self, text: &[u8]) -> io::Result<()> {
        let print = || io::stdout().write_all(text);
        if self.sums_on_terminal { self.bar.suspend(print) } else { print() }
    }

    pub(crate) fn complain_of(&mut self, path: &OsStr, error: &io::Error) {
        self.complain(&format!("{}: {}", quote(path), reason(error)));
    }

    pub(crate) fn complain(&mut self, message: &str) {
        self.has_complained = true;
        self.note(message);
    }

    pub(crate) fn has_complained(&self) -> bool {
        self.has_complained
    }

    /// The last line: how much was done in which time, and by which workers.
    pub(crate) fn print_summary(&self, totals: &Totals, time: Duration, metrics: &Metrics) {
        self.bar.finish_and_clear();
        let Totals { files, bytes } = totals;
        let rate = *bytes as f64 / 1e6 / time.as_secs_f64();
        let mut line = format!("{files} files, {bytes} bytes, {rate:.1} MB/s");
        for (id, worker) in metrics.workers() {
            let WorkerMetrics { polls, steals, parks, .. } = worker;
            if polls == 0 {
                // The spare slot of a helper, never used.
                continue;
            }
            let index = id.index();
            // Writing to a string cannot fail.
            let _ = write!(line, "; worker {index}: {polls} polls, {steals} steals, {parks} parks");
        }
        self.note(&line);
    }

    /// Writes a line to standard error. If that fails there is no way to report it, and `eprintln!`
    /// would panic.
    fn note(&self, message: &str) {
        let line = format!("checksum: {message}\n");
        let _ = self.bar.suspend(|| io::stderr().write_all(line.as_bytes()));
    }
}
