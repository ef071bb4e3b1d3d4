//! A flight recorder on the serial line.

use core::{
    fmt::{self, Write},
    hint::spin_loop,
    panic::PanicInfo,
};

use filch::{
    Executor, Platform, WorkerId,
    atomic::{AtomicUsize, Ordering},
};
use filch_trace::Recorder;
use heapless::String;

/// Bytes of the trace in a line.
const PIECE: usize = 32;
/// A trace has room for so long a note.
const NOTE: usize = 200;

/// Prints what a recorder has and which tasks live, with a note on why, in lines that begin with `filch-trace: `.
///
/// The program `filch-trace` reads it with `--serial`. From any context in which `print` may be called. It allocates nothing.
pub fn dump<P: Platform, const N: usize, const RING: usize>(
    recorder: &Recorder,
    executor: &'static Executor<P, N, RING>,
    note: &str,
    print: fn(fmt::Arguments<'_>),
) {
    let now = executor.platform().now().as_nanos();
    let mut piece = Piece { bytes: [0; PIECE], length: 0, print };
    recorder.dump(now, |visit| executor.tasks(visit), note, &mut |bytes| piece.put(bytes));
    piece.end();
}

/// As [`dump`], at a panic, whose text is the note.
///
/// It dumps once: a panic in the midst of it returns at once. A core that panics while another one dumps waits for the end of the machine.
pub fn dump_panic<P: Platform, const N: usize, const RING: usize>(
    recorder: &Recorder,
    executor: &'static Executor<P, N, RING>,
    info: &PanicInfo<'_>,
    print: fn(fmt::Arguments<'_>),
) {
    /// The context that dumps; 0 is none, 1 all that have no worker.
    static DUMPS: AtomicUsize = AtomicUsize::new(0);
    let worker = executor.platform().current_worker().map(WorkerId::index);
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
    dump(recorder, executor, &note.0, print);
}

/// The part of the trace that has no line yet.
struct Piece {
    bytes: [u8; PIECE],
    length: usize,
    print: fn(fmt::Arguments<'_>),
}

impl Piece {
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
