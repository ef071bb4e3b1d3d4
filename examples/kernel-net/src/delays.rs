//! From an interrupt of the card to the poll of the interface's task.

use core::fmt;

use filch::atomic::{AtomicUsize, Ordering};
use spin::Mutex;

use crate::{devices, mode};

/// How many delays there were of each length, in ticks of the clock, below this one: 1 ms.
const LENGTHS: usize = 1_000_000 / devices::TICK as usize;

/// When the first interrupt came that the task has not seen; 0: none.
static FIRST: AtomicUsize = AtomicUsize::new(0);
static DELAYS: Mutex<Delays> = Mutex::new(Delays { counts: [0; LENGTHS], longer: 0, longest: 0 });

struct Delays {
    counts: [u32; LENGTHS],
    longer: u32,
    longest: u64,
}

/// In the handler, first of all.
pub fn interrupted() {
    let now = mode::time();
    // Ordering: Release pairs with the Acquire in `seen`. If there was one before, that is the one to be seen.
    let _ = FIRST.compare_exchange(0, now as usize, Ordering::Release, Ordering::Relaxed);
}

/// In the task's poll, first of all.
pub fn seen() {
    // Ordering: Acquire pairs with the Release in `interrupted`.
    let first = FIRST.swap(0, Ordering::Acquire);
    if first == 0 {
        return;
    }
    let delay = mode::time().saturating_sub(first as u64);
    let mut delays = DELAYS.lock();
    match delays.counts.get_mut(delay as usize) {
        Some(count) => *count += 1,
        None => delays.longer += 1,
    }
    delays.longest = delays.longest.max(delay);
}

/// The delays so far, as a line.
pub struct Figures;

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let delays = DELAYS.lock();
        let total = delays.counts.iter().sum::<u32>() + delays.longer;
        // The least length that so many delays do not exceed; the longest, if it has no count of its own.
        let rank = |wanted: u32| {
            let mut sum = 0;
            let length = delays.counts.iter().position(|count| {
                sum += count;
                sum >= wanted
            });
            Micros(length.map_or(delays.longest, |ticks| ticks as u64))
        };
        let (least, median, longest) = (rank(1), rank(total.div_ceil(2)), Micros(delays.longest));
        write!(
            f,
            "{total} interrupts; to the poll of the interface's task, in us: \
             {least} at least, {median} median, {longest} at most"
        )
    }
}

/// Ticks, shown in microseconds.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0 * devices::TICK;
        write!(f, "{}.{}", nanos / 1_000, nanos % 1_000 / 100)
    }
}
