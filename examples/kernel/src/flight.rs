//! A flight recorder on the serial line.

use core::{
    fmt::{self, Write},
    hint::spin_loop,
    panic::PanicInfo,
};

use filch::{
    Event, Executor, Platform, TaskInfo, WorkerId,
    atomic::{AtomicUsize, Ordering},
};
use filch_trace::{Lane, NameSlot, Recorder, Slot};
use heapless::String;

use crate::Console;

/// Bytes of the trace in a line.
const PIECE: usize = 32;
/// A trace has room for so long a note.
const NOTE: usize = 200;

/// Memory of a [`Flight`]: a lane for each worker and one for all other contexts; so many records of 16 bytes in all, which the lanes share
/// out; and room for so many kinds of tasks.
#[derive(Debug)]
pub struct FlightMemory<const LANES: usize, const RECORDS: usize, const NAMES: usize> {
    lanes: [Lane; LANES],
    slots: [Slot; RECORDS],
    names: [NameSlot; NAMES],
}

impl<const LANES: usize, const RECORDS: usize, const NAMES: usize>
    FlightMemory<LANES, RECORDS, NAMES>
{
    /// Memory for a static.
    #[allow(clippy::new_without_default, reason = "a kernel has it in a static")]
    pub const fn new() -> Self {
        Self {
            lanes: [const { Lane::new() }; LANES],
            slots: [const { Slot::new() }; RECORDS],
            names: [const { NameSlot::new() }; NAMES],
        }
    }
}

/// The flight recorder of a kernel, which prints what it has on the serial line.
#[derive(Debug)]
pub struct Flight<P: Platform, const N: usize, const RING: usize = 256> {
    recorder: Recorder,
    executor: &'static Executor<P, N, RING>,
    console: &'static Console,
}

impl<P: Platform, const N: usize, const RING: usize> Flight<P, N, RING> {
    /// A recorder for this executor, with the time of its platform.
    pub const fn new<const LANES: usize, const RECORDS: usize, const NAMES: usize>(
        memory: &'static FlightMemory<LANES, RECORDS, NAMES>,
        executor: &'static Executor<P, N, RING>,
        console: &'static Console,
    ) -> Self {
        let recorder = Recorder::new(&memory.lanes, &memory.slots, &memory.names);
        Self { recorder, executor, console }
    }

    /// Records an event: what the platform is told.
    pub fn on_event(&self, worker: Option<WorkerId>, event: Event<'_>) {
        self.recorder.record(worker, event, || self.now());
    }

    fn now(&self) -> u64 {
        self.executor.platform().now().as_nanos()
    }

    /// Prints what it has and which tasks live, with a note on why, in lines that begin with `filch-trace: `.
    ///
    /// The program `filch-trace` reads it with `--serial`. From any context in which `Console::line` may be called. It allocates nothing.
    pub fn dump(&self, note: &str) {
        self.dump_by(note, &|line| self.console.line(line));
    }

    /// As [`dump`](Self::dump), at a panic, whose text is the note.
    ///
    /// It dumps once: a panic in the midst of it returns at once. A core that panics while another one dumps waits for the end of the machine.
    pub fn on_panic(&self, info: &PanicInfo<'_>) {
        /// The context that dumps; 0 is none, 1 all that have no worker.
        static DUMPS: AtomicUsize = AtomicUsize::new(0);
        let worker = self.executor.platform().current_worker().map(WorkerId::index);
        let me = worker.map_or(1, |worker| worker + 2);
        // Ordering: Relaxed: only the word itself is told.
        match DUMPS.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {}
            Err(other) if other == me => return,
            Err(_) => loop {
                spin_loop();
            },
        }
        let mut note = Note(String::new());
        let _ = write!(note, "{info}");
        self.dump_by(&note.0, &|line| self.console.force(line));
    }

    fn dump_by(&self, note: &str, print: &dyn Fn(fmt::Arguments<'_>)) {
        let mut piece = Piece { bytes: [0; PIECE], length: 0, print };
        let tasks = |visit: &mut dyn FnMut(TaskInfo)| self.executor.tasks(visit);
        self.recorder.dump(self.now(), tasks, note, &mut |bytes| piece.put(bytes));
        piece.end();
    }
}

/// The part of the trace that has no line yet.
struct Piece<'a> {
    bytes: [u8; PIECE],
    length: usize,
    print: &'a dyn Fn(fmt::Arguments<'_>),
}

impl Piece<'_> {
    fn put(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.bytes[self.length] = *byte;
            self.length += 1;
            if self.length == PIECE {
                self.end();
            }
        }
    }

    fn end(&mut self) {
        let bytes = &self.bytes[..core::mem::take(&mut self.length)];
        if !bytes.is_empty() {
            (self.print)(format_args!("filch-trace: {}", Hex(bytes)));
        }
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The beginning of a text.
struct Note(String<NOTE>);

impl Write for Note {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| self.0.push(c).map_err(|_| fmt::Error))
    }
}
