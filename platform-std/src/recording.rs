//! The flight recorder of a runtime, and its ticks.

use core::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use std::{fs, io, path::Path, thread};

use filch::{Event, Instant, TaskInfo, WorkerId, atomic::AtomicU32};
use filch_trace::Recorder;

use crate::host::Host;

/// Reading the clock takes 10 to 30 ns, and a short poll as long: events that come in so many nanoseconds have one time.
const RESOLUTION: u64 = 1024;
/// The time of an event is right to this: see [`Recorder::tick`].
const TICK: Duration = Duration::from_millis(1);
/// After so many ticks without an event the ticks end.
const PATIENCE: u32 = 100;
/// Kinds of tasks that have a name.
const NAMES: usize = 1024;

/// The thread that ticks does so, rests until there is an event, or ends: states of `Recording::ticker`.
const TICKS: u32 = 0;
const RESTS: u32 = 1;
const ENDS: u32 = 2;

/// What a runtime keeps for its recorder.
pub(crate) struct Recording {
    recorder: Recorder,
    /// What the thread that ticks does; it waits on this word.
    ticker: AtomicU32,
    /// A clock was read for an event since the last tick.
    lives: AtomicBool,
}

impl Recording {
    /// With room for so many records for each worker. The memory is that of a platform, which is never freed.
    pub(crate) fn new(workers: usize, records: usize) -> Self {
        Self {
            recorder: Recorder::leaked(workers, records, NAMES).resolution(RESOLUTION),
            ticker: AtomicU32::new(ENDS),
            lives: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn event(&self, worker: Option<WorkerId>, event: Event<'_>, host: &impl Host) {
        self.recorder.record(worker, event, || {
            self.live(host);
            host.now().as_nanos()
        });
    }

    /// There was an event.
    #[inline]
    fn live(&self, host: &impl Host) {
        // Ordering: Relaxed, here and in `tick`: hints. A tick that comes later makes a time less exact.
        if !self.lives.load(Ordering::Relaxed) {
            self.lives.store(true, Ordering::Relaxed);
        }
        if self.ticker.load(Ordering::Relaxed) == RESTS {
            self.set(RESTS, TICKS, host);
        }
    }

    /// Ends a rest.
    #[cold]
    fn set(&self, from: u32, to: u32, host: &impl Host) {
        // Ordering: Relaxed: the word alone counts.
        if self.ticker.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            host.unblock(&self.ticker);
        }
    }

    /// A runtime begins: a thread of its own calls `tick`.
    pub(crate) fn begin(&self) {
        self.recorder.forget();
        self.ticker.store(TICKS, Ordering::Relaxed);
    }

    /// Ticks for as long as the runtime lives. While nothing happens it sleeps.
    pub(crate) fn tick(&self, host: &impl Host) {
        let mut idle = 0;
        while self.ticker.load(Ordering::Relaxed) != ENDS {
            idle = if self.lives.swap(false, Ordering::Relaxed) { 0 } else { idle + 1 };
            if idle < PATIENCE {
                self.recorder.tick();
                thread::sleep(TICK);
                continue;
            }
            idle = 0;
            // Ordering: Relaxed, as in `set`: nothing is published by the word. A worker that still sees `TICKS` looks again when it next
            // reads the clock; after a pause it does so for each of its first events.
            let order = Ordering::Relaxed;
            let _ = self.ticker.compare_exchange(TICKS, RESTS, order, order);
            // The next event's time is read anew, which ends the rest.
            self.recorder.tick();
            while self.ticker.load(Ordering::Relaxed) == RESTS {
                host.block(&self.ticker, RESTS, None);
            }
        }
    }

    /// The runtime ends.
    pub(crate) fn end(&self, host: &impl Host) {
        self.ticker.store(ENDS, Ordering::Relaxed);
        host.unblock(&self.ticker);
    }

    /// The task that a worker polls.
    pub(crate) fn polling(&self, worker: WorkerId) -> Option<usize> {
        self.recorder.polling(worker)
    }

    pub(crate) fn dump(
        &self,
        now: Instant,
        tasks: impl FnOnce(&mut dyn FnMut(TaskInfo)),
        note: &str,
        out: &mut dyn FnMut(&[u8]),
    ) {
        self.recorder.dump(now.as_nanos(), tasks, note, out);
    }
}

/// What a runtime did last: the file of its flight recorder. [`Handle::snapshot`](crate::Handle::snapshot).
///
/// The program of the crate `filch-trace` says what is in it, and makes a file for Perfetto.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot(pub(crate) Vec<u8>);

impl Snapshot {
    /// The file.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Writes the file, by way of one with `.part` after the name, which then takes its place.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        // At once: a reader, or a crash, never finds half of it.
        let mut part = path.as_ref().as_os_str().to_owned();
        part.push(".part");
        fs::write(&part, &self.0)?;
        fs::rename(&part, path)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("bytes", &self.0.len()).finish_non_exhaustive()
    }
}
