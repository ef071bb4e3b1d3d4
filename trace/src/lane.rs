//! A ring of records: what one worker did last, or what all other contexts did.

use filch::atomic::{AtomicU32, AtomicUsize, AtomicWord, Ordering, Word, fence};

/// Words of a record: it has 16 bytes.
const WORDS: usize = 16 / size_of::<Word>();
/// Bits of a time, in nanoseconds: 9 hours.
pub(crate) const TIME: u32 = 45;
/// Bits of a record's subject.
const SUBJECT: u32 = 56;

/// What is recorded of an event, packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packed {
    /// What it is, by `Kind`; not 0.
    pub(crate) code: u8,
    /// A task, or a number, of 56 bits.
    pub(crate) subject: u64,
    /// When, in nanoseconds, of which the lowest 45 bits are kept.
    pub(crate) time: u64,
    /// Below 0xffff.
    pub(crate) extra: u16,
}

impl Packed {
    /// The largest subject; larger ones become it.
    pub(crate) const MOST: u64 = (1 << SUBJECT) - 1;

    #[inline(always)]
    fn halves(self, lap: usize) -> [u64; 2] {
        let time = self.time & ((1 << TIME) - 1);
        [
            u64::from(self.code) | self.subject.min(Self::MOST) << 8,
            mark_of(lap) | u64::from(self.extra) << 3 | time << 19,
        ]
    }

    fn of([first, second]: [u64; 2]) -> Self {
        Self {
            code: first as u8,
            subject: first >> 8,
            time: second >> 19,
            extra: (second >> 3) as u16,
        }
    }
}

/// The last word of a slot that a context writes to, which may be one of several. No record has this `extra`.
const BUSY: Word = Word::MAX;

/// Room for one record.
///
/// INV-LAP: the lowest three bits of the last word tell the lap by which it was written, or are 0, and the word is stored last.
///
/// INV-BUSY: in the ring that many contexts write to, a context makes the last word `BUSY` before it writes. One that finds it so, or a later
/// record than its own, gives its record up.
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

    /// As `write`, beside other contexts. INV-BUSY. `is_late`: the slot may have a later record.
    fn write_shared(&self, packed: Packed, lap: usize, is_late: impl FnOnce() -> bool) {
        let last = &self.0[WORDS - 1];
        let seen = last.load(Ordering::Relaxed);
        // Ordering: Acquire pairs with the Release in `write`: these words come after those of the context before.
        let (set, load) = (Ordering::Acquire, Ordering::Relaxed);
        if seen == BUSY || last.compare_exchange(seen, BUSY, set, load).is_err() {
            return;
        }
        if is_late() {
            // Ordering: Release pairs with the Acquire in `read`, for the words of the record that stays.
            return last.store(seen, Ordering::Release);
        }
        self.write(packed, lap);
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

    /// Adds marks to the code of this record, if that is what the slot holds. Only by the context that wrote it.
    #[inline(always)]
    fn mark(&self, code: u8, subject: u64, marks: u8) -> bool {
        let half = u64::from(code) | subject << 8;
        let first = |i: usize| (half >> (Word::BITS * i as u32)) as Word;
        // Ordering: Relaxed: the context's own. A reader sees the record with these marks or without.
        let is_it = (0..WORDS / 2).all(|i| self.0[i].load(Ordering::Relaxed) == first(i));
        if is_it {
            self.0[0].store(first(0) | Word::from(marks), Ordering::Relaxed);
        }
        is_it
    }

    fn read(&self, lap: usize) -> Option<Packed> {
        let mut words = [0; WORDS];
        for i in (0..WORDS).rev() {
            // Ordering: Acquire pairs with the Release in `write`: the words that are read after the last one are of its lap, or later.
            words[i] = self.0[i].load(Ordering::Acquire);
        }
        let halves = whole(words);
        if words[WORDS - 1] == BUSY {
            return None;
        }
        (halves[1] & 7 == mark_of(lap)).then(|| Packed::of(halves))
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::new()
    }
}

/// How a slot shows its lap: not 0, as before the first one.
#[inline(always)]
fn mark_of(lap: usize) -> u64 {
    4 | lap as u64 & 3
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
/// record is overwritten, and a reader may see parts of both.
#[derive(Debug)]
#[repr(align(64))]
pub struct Lane {
    /// Records claimed.
    claimed: AtomicUsize,
    /// The number of the first that counts.
    since: AtomicUsize,
    /// How many events more have the time that was read last. The worker's own, as the rest; but others may make it 0.
    left: AtomicU32,
    /// How many events may have the time that was read last, and that one itself.
    had: AtomicU32,
    /// How many events in a row have come so fast that one time would do for some.
    fast: AtomicU32,
    /// The time that was read last. On targets with narrow words, two of them.
    time: [AtomicWord; HALVES],
}

/// Words of a time.
const HALVES: usize = 8 / size_of::<Word>();
/// So many events have one time at most.
const MOST: u64 = 32;
/// Of so many fast events in a row, the next one may do without a time of its own.
const ROW: u32 = 8;

impl Lane {
    maybe_const! {
        /// An empty one.
        pub fn new() -> Self {
            Self {
                claimed: AtomicUsize::new(0),
                since: AtomicUsize::new(0),
                left: AtomicU32::new(0),
                had: AtomicU32::new(1),
                fast: AtomicU32::new(0),
                #[cfg(not(filch_loom))]
                time: [const { AtomicWord::new(0) }; HALVES],
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

    /// The numbers of the records that may be there.
    pub(crate) fn numbers(&self, size: usize) -> core::ops::Range<usize> {
        // Ordering: Relaxed: hints; `read` looks at each.
        let (since, end) = (self.since.load(Ordering::Relaxed), self.claimed());
        since.max(end.saturating_sub(size))..end
    }

    /// How many records were claimed that count.
    pub(crate) fn written(&self) -> usize {
        self.claimed().wrapping_sub(self.since.load(Ordering::Relaxed))
    }

    /// What is there counts no more. While no context writes.
    pub(crate) fn forget(&self) {
        self.since.store(self.claimed(), Ordering::Relaxed);
        self.forget_time();
    }

    /// Whether the time that was read last is that of one event more.
    #[inline(always)]
    pub(crate) fn has_time(&self) -> bool {
        // Ordering: Relaxed, here and below: the worker's own, or a hint.
        self.left.load(Ordering::Relaxed) > 0
    }

    /// The worker reads the time for its next event; or for the one after the next `forget`, if it counts at this moment.
    pub(crate) fn forget_time(&self) {
        self.left.store(0, Ordering::Relaxed);
    }

    /// The time that was read last, for one event more: see `has_time`.
    #[inline(always)]
    pub(crate) fn use_time(&self) -> u64 {
        self.left.store(self.left.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
        self.time()
    }

    #[inline(always)]
    fn time(&self) -> u64 {
        join(core::array::from_fn(|i| self.time[i].load(Ordering::Relaxed)))
    }

    /// Reads the time. It is that of as many events more as came in `resolution` nanoseconds of late; of none, unless the last ones came fast: the
    /// polls of a worker that has slept are timed.
    #[inline(never)]
    pub(crate) fn read_time(&self, resolution: u64, now: impl FnOnce() -> u64) -> u64 {
        let (before, now) = (self.time(), now());
        // Ordering: Relaxed, as above.
        let (had, left) = (self.had.load(Ordering::Relaxed), self.left.load(Ordering::Relaxed));
        let events = had.saturating_sub(left).max(1);
        let passed = now.saturating_sub(before).max(1);
        let row = self.fast.load(Ordering::Relaxed) + events;
        let fast = if passed > 2 * resolution { 0 } else { row.min(ROW * MOST as u32) };
        // A division by a power of two that is less than the time is close enough.
        let next = (u64::from(events) * resolution) >> passed.ilog2();
        let next = next.min(MOST).min(u64::from(fast / ROW)) as u32;
        self.fast.store(fast, Ordering::Relaxed);
        self.had.store(next + 1, Ordering::Relaxed);
        self.left.store(next, Ordering::Relaxed);
        for (i, word) in self.time.iter().enumerate() {
            word.store((now >> (32 * i)) as Word, Ordering::Relaxed);
        }
        now
    }

    /// Adds marks to the last record, if it is this one, and has this worker's time of now.
    #[inline(always)]
    pub(crate) fn mark(&self, slots: &[Slot], code: u8, subject: u64, marks: u8) -> bool {
        // Ordering: Relaxed: the worker's own. A handler that interrupts it here writes to other slots.
        let number = self.claimed.load(Ordering::Relaxed).wrapping_sub(1);
        place(slots, number).0.mark(code, subject, marks)
    }

    /// Writes a record. `alone`: only this worker writes here.
    #[inline(always)]
    pub(crate) fn write(&self, slots: &[Slot], packed: Packed, alone: bool) {
        let number = self.claim(alone);
        // Ordering: Release pairs with the Acquires in `Slot::read`: a reader that sees a word of this record sees that it was claimed.
        fence(Ordering::Release);
        let (slot, lap) = place(slots, number);
        if alone {
            return slot.write(packed, lap);
        }
        self.write_shared(slots, packed, number);
    }

    /// Writes the record that this context has claimed, beside other contexts.
    fn write_shared(&self, slots: &[Slot], packed: Packed, number: usize) {
        let (slot, lap) = place(slots, number);
        // Ordering: Relaxed: what the slot had was read by an Acquire, and was claimed before it was written.
        let claimed = || self.claimed.load(Ordering::Relaxed).wrapping_sub(number);
        slot.write_shared(packed, lap, || claimed() > slots.len());
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
        // Ordering: Relaxed: the Acquires in `Slot::read` come before. They pair with the fence in `write`: had a word been of a later record,
        // that one would be seen to be claimed.
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

#[inline(always)]
fn join(parts: [Word; HALVES]) -> u64 {
    #[allow(clippy::unnecessary_cast, reason = "a word may be one of 32 bits")]
    parts.iter().enumerate().fold(0, |all, (i, part)| all | (*part as u64) << (32 * i))
}

#[cfg(all(test, not(filch_loom)))]
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
    fn the_time_is_read_by_the_pace_of_the_events() {
        let lane = Lane::new();
        let mut now = 1 << 40;
        // The mean time between two reads, once the lane knows the pace.
        let mut reads = |pace: u64| {
            let mut before = (now, 0);
            let mut count = 0;
            for i in 0..1_100 {
                now += pace;
                if lane.has_time() {
                    assert_eq!(
                        now - lane.use_time() <= 1_100,
                        i >= 100 || now - lane.time() <= 1_100
                    );
                } else {
                    assert_eq!(lane.read_time(512, || now), now);
                    count += 1;
                }
                if i == 100 {
                    before = (now, count);
                }
            }
            (now - before.0) / (count - before.1)
        };
        for pace in [16, 20, 100, 300] {
            let mean = reads(pace);
            assert!((256..=1_100).contains(&mean), "{pace}: {mean}");
        }
        assert_eq!([reads(1_100), reads(2_000)], [1_100, 2_000]);
        reads(16);
        while !lane.has_time() {
            lane.read_time(512, || now);
        }
        lane.forget_time();
        assert!(!lane.has_time());
    }

    #[test]
    fn after_a_pause_the_first_events_are_timed() {
        let lane = Lane::new();
        let mut now = 0;
        for _ in 0..100 {
            now += 1_000_000;
            lane.read_time(512, || now);
            for _ in 0..5 {
                now += 20;
                assert!(!lane.has_time());
                lane.read_time(512, || now);
            }
        }
        for _ in 0..20 {
            lane.read_time(512, || now);
        }
        assert!(lane.has_time());
    }

    #[test]
    fn a_context_that_is_late_leaves_later_records_alone() {
        let (lane, slots) = (Lane::new(), [const { Slot::new() }; 2]);
        let record = |i: u64| Packed { code: 1, subject: i, time: i, extra: 0 };
        let slow = lane.claim(false);
        (1..=2).for_each(|i| lane.write(&slots, record(i), false));
        lane.write_shared(&slots, record(0), slow);
        assert_eq!(
            [0, 1, 2].map(|n| lane.read(&slots, n)),
            [None, Some(record(1)), Some(record(2))]
        );
        // In time, but after the next one.
        let slow = lane.claim(false);
        lane.write(&slots, record(4), false);
        lane.write_shared(&slots, record(3), slow);
        assert_eq!([3, 4].map(|n| lane.read(&slots, n)), [Some(record(3)), Some(record(4))]);
    }

    #[test]
    fn a_ring_forgets() {
        let (lane, slots) = (Lane::new(), [const { Slot::new() }; 4]);
        let record = Packed { code: 1, ..Packed::default() };
        (0..6).for_each(|_| lane.write(&slots, record, true));
        assert_eq!(lane.numbers(4), 2..6);
        lane.forget();
        assert_eq!(lane.numbers(4), 6..6);
        lane.write(&slots, record, true);
        assert_eq!(lane.numbers(4), 6..7);
    }

    #[test]
    fn a_record_is_marked_while_it_is_the_last() {
        let (lane, slots) = (Lane::new(), [const { Slot::new() }; 4]);
        let record = |code, subject| Packed { code, subject, time: 3, extra: 0 };
        lane.write(&slots, record(3, 1 << 50), true);
        assert!(!lane.mark(&slots, 3, 1 << 49, 32) && !lane.mark(&slots, 2, 1 << 50, 32));
        assert!(lane.mark(&slots, 3, 1 << 50, 32));
        assert!(lane.mark(&slots, 3 | 32, 1 << 50, 64));
        assert_eq!(lane.read(&slots, 0), Some(record(3 | 32 | 64, 1 << 50)));
        lane.write(&slots, record(2, 7), true);
        assert!(!lane.mark(&slots, 3 | 32 | 64, 1 << 50, 128));
    }
}
