//! A ring of records: what one worker did last, or what all other contexts did.

use filch::atomic::{AtomicU32, AtomicUsize, AtomicWord, Ordering, Word, fence};

/// Words of a record: it has 16 bytes.
const WORDS: usize = 16 / size_of::<Word>();
/// Bits of a time, in nanoseconds: 19 hours.
pub(crate) const TIME: u32 = 46;
/// Bits of a record's subject.
const SUBJECT: u32 = 56;

/// What is recorded of an event, packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packed {
    /// What it is, by `Kind`; not 0.
    pub(crate) code: u8,
    /// A task, or a number, of 56 bits.
    pub(crate) subject: u64,
    /// When, in nanoseconds, of which the lowest 46 bits are kept.
    pub(crate) time: u64,
    /// Below 0xffff.
    pub(crate) extra: u16,
}

impl Packed {
    /// The largest subject; larger ones become it.
    pub(crate) const MOST: u64 = (1 << SUBJECT) - 1;

    fn halves(self, lap: usize) -> [u64; 2] {
        let time = self.time & ((1 << TIME) - 1);
        [
            u64::from(self.code) | self.subject.min(Self::MOST) << 8,
            (lap as u64 & 3) | u64::from(self.extra) << 2 | time << 18,
        ]
    }

    fn of([first, second]: [u64; 2]) -> Self {
        Self {
            code: first as u8,
            subject: first >> 8,
            time: second >> 18,
            extra: (second >> 2) as u16,
        }
    }
}

/// The last word of a slot that a context writes to, which may be one of several. No record has this `extra`.
const BUSY: Word = Word::MAX;

/// Room for one record.
///
/// INV-LAP: the lowest two bits of the last word are the lap by which it was written, and the word is stored last.
///
/// INV-BUSY: in the ring that many contexts write to, a context makes the last word `BUSY` before it writes, and one that finds it so
/// gives its record up.
#[derive(Debug)]
pub struct Slot([AtomicWord; WORDS]);

impl Slot {
    maybe_const! {
        /// An empty one.
        pub fn new() -> Self {
            #[cfg(not(filch_loom))]
            { Self([const { AtomicWord::new(0) }; WORDS]) }
            #[cfg(filch_loom)]
            { Self(core::array::from_fn(|_| AtomicWord::new(0))) }
        }
    }

    /// As `write`, beside other contexts. INV-BUSY.
    fn write_shared(&self, packed: Packed, lap: usize) {
        let last = &self.0[WORDS - 1];
        let seen = last.load(Ordering::Relaxed);
        // Ordering: Acquire pairs with the Release in `write`: these words come after those of the context before.
        let (set, load) = (Ordering::Acquire, Ordering::Relaxed);
        if seen != BUSY && last.compare_exchange(seen, BUSY, set, load).is_ok() {
            self.write(packed, lap);
        }
    }

    #[inline(always)]
    fn write(&self, packed: Packed, lap: usize) {
        let halves = packed.halves(lap);
        let last = WORDS - 1;
        for (i, word) in self.0.iter().enumerate() {
            // Ordering: Release of the last word, INV-LAP, pairs with the Acquire in `read`: a reader that sees the lap sees the words
            // of that lap. Relaxed of the others: `Lane::claim` comes before them.
            let order = if i == last { Ordering::Release } else { Ordering::Relaxed };
            word.store(part(halves, i), order);
        }
    }

    fn read(&self, lap: usize) -> Option<Packed> {
        let mut words = [0; WORDS];
        for i in (0..WORDS).rev() {
            // Ordering: Acquire pairs with the Release in `write`: the words that are read after the last one are of its lap, or later.
            words[i] = self.0[i].load(Ordering::Acquire);
        }
        let halves = whole(words);
        if words[WORDS - 1] == BUSY || halves[0] as u8 == 0 {
            return None;
        }
        (halves[1] & 3 == lap as u64 & 3).then(|| Packed::of(halves))
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::new()
    }
}

/// The bits of the second half that has the lap come last.
#[inline(always)]
fn part(halves: [u64; 2], i: usize) -> Word {
    if WORDS == 2 {
        return halves[i] as Word;
    }
    // Four words: the low one of the second half is the last.
    [halves[0], halves[0] >> 32, halves[1] >> 32, halves[1]][i] as Word
}

fn whole(words: [Word; WORDS]) -> [u64; 2] {
    #[allow(clippy::unnecessary_cast, reason = "a word may be one of 32 bits")]
    let word = |i: usize| words[i] as u64;
    if WORDS == 2 {
        return [word(0), word(1)];
    }
    [word(0) | word(1) << 32, word(3) | word(2) << 32]
}

/// The state of a ring. Its slots are the recorder's.
///
/// INV-CLAIM: a context claims the number of a record, by which it has a slot and a lap, before it writes it. In the ring of a worker only
/// the worker and the handlers that interrupt it do. A handler may take the number that the interrupted code is about to claim: then its
/// record is lost.
#[derive(Debug)]
#[repr(align(64))]
pub struct Lane {
    /// Records claimed.
    claimed: AtomicUsize,
    /// The worker's own, as the next two: how many events more have the time that was read last.
    left: AtomicU32,
    /// The recorder's tick when it was read.
    tick: AtomicU32,
    /// The time that was read last. On targets with narrow words, two of them.
    time: [AtomicWord; 8 / size_of::<Word>()],
}

impl Lane {
    maybe_const! {
        /// An empty one.
        pub fn new() -> Self {
            Self {
                claimed: AtomicUsize::new(0),
                left: AtomicU32::new(0),
                tick: AtomicU32::new(0),
                #[cfg(not(filch_loom))]
                time: [const { AtomicWord::new(0) }; 8 / size_of::<Word>()],
                #[cfg(filch_loom)]
                time: core::array::from_fn(|_| AtomicWord::new(0)),
            }
        }
    }

    /// How many records were claimed.
    pub(crate) fn claimed(&self) -> usize {
        // Ordering: Relaxed: a hint where the last ones are.
        self.claimed.load(Ordering::Relaxed)
    }

    /// The time for the worker's next record: read anew if `must`, after so many events, or in another tick.
    #[inline(always)]
    pub(crate) fn time(&self, must: bool, every: u32, tick: u32, now: impl FnOnce() -> u64) -> u64 {
        // Ordering: Relaxed, here and below: only the worker uses them.
        let left = self.left.load(Ordering::Relaxed);
        if !must && left > 0 && self.tick.load(Ordering::Relaxed) == tick {
            self.left.store(left - 1, Ordering::Relaxed);
            let parts = core::array::from_fn(|i| self.time[i].load(Ordering::Relaxed));
            return join(parts);
        }
        let time = now();
        self.left.store(every - 1, Ordering::Relaxed);
        self.tick.store(tick, Ordering::Relaxed);
        for (i, word) in self.time.iter().enumerate() {
            word.store((time >> (32 * i)) as Word, Ordering::Relaxed);
        }
        time
    }

    /// Writes a record. `alone`: only this worker writes here.
    #[inline(always)]
    pub(crate) fn write(&self, slots: &[Slot], packed: Packed, alone: bool) {
        let number = self.claim(alone);
        // Ordering: Release pairs with the fence in `read`: a reader that sees a word of this record sees that it was claimed.
        fence(Ordering::Release);
        let (slot, lap) = place(slots, number);
        if alone { slot.write(packed, lap) } else { slot.write_shared(packed, lap) }
    }

    #[inline(always)]
    fn claim(&self, alone: bool) -> usize {
        if alone {
            // Ordering: Relaxed: the fence in `write` follows.
            let number = self.claimed.load(Ordering::Relaxed);
            self.claimed.store(number.wrapping_add(1), Ordering::Relaxed);
            return number;
        }
        // Ordering: as above.
        self.claimed.fetch_add(1, Ordering::Relaxed)
    }

    /// The record of this number, if it is complete and was not overwritten.
    pub(crate) fn read(&self, slots: &[Slot], number: usize) -> Option<Packed> {
        let (slot, lap) = place(slots, number);
        let packed = slot.read(lap)?;
        // Ordering: Acquire pairs with the fence in `write`: had a word been of a later record, that one would be seen to be claimed.
        fence(Ordering::Acquire);
        let claimed = self.claimed.load(Ordering::Relaxed);
        (claimed.wrapping_sub(number) <= slots.len()).then_some(packed)
    }
}

impl Default for Lane {
    fn default() -> Self {
        Self::new()
    }
}

/// The slot and the lap of a record. The number of slots is a power of two.
#[inline(always)]
fn place(slots: &[Slot], number: usize) -> (&Slot, usize) {
    (&slots[number & (slots.len() - 1)], number >> slots.len().trailing_zeros())
}

fn join(parts: [Word; 8 / size_of::<Word>()]) -> u64 {
    #[allow(clippy::unnecessary_cast, reason = "a word may be one of 32 bits")]
    parts.iter().enumerate().fold(0, |all, (i, part)| all | (*part as u64) << (32 * i))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were() {
        let packed =
            Packed { code: 0xa5, subject: Packed::MOST - 2, time: (1 << TIME) - 3, extra: 0xbeef };
        for lap in 0..8 {
            let slot = Slot::new();
            slot.write(packed, lap);
            assert_eq!(slot.read(lap), Some(packed));
            assert_eq!(slot.read(lap + 1), None);
        }
        let large = Packed { subject: u64::MAX, time: u64::MAX, ..packed };
        let slot = Slot::new();
        slot.write(large, 0);
        assert_eq!(
            slot.read(0),
            Some(Packed { subject: Packed::MOST, time: (1 << TIME) - 1, ..packed })
        );
    }

    #[test]
    fn a_ring_keeps_the_last_records() {
        let (lane, slots) = (Lane::new(), [const { Slot::new() }; 4]);
        let record = |i: u64| Packed { code: 1, subject: i, time: i, extra: 0 };
        assert_eq!(lane.read(&slots, 0), None);
        (0..10).for_each(|i| lane.write(&slots, record(i), i % 2 == 0));
        assert_eq!(lane.claimed(), 10);
        for i in 0..12 {
            assert_eq!(lane.read(&slots, i), (6..10).contains(&i).then(|| record(i as u64)));
        }
    }

    #[test]
    fn a_time_is_read_anew_after_so_many_events() {
        let lane = Lane::new();
        let time = |must, tick, now| lane.time(must, 3, tick, || now);
        assert_eq!([time(false, 0, 1 << 40), time(false, 0, 2), time(false, 0, 3)], [1 << 40; 3]);
        assert_eq!([time(false, 0, 4), time(true, 0, 5), time(false, 0, 6)], [4, 5, 5]);
        assert_eq!(time(false, 1, 7), 7);
    }
}
