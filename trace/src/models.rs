//! Loom models of the rings and the names, with the real code.
//!
//! ```sh
//! RUSTFLAGS="--cfg filch_loom" cargo test -p filch-trace --release --lib --target-dir target/loom
//! ```

use core::panic::Location;
use std::boxed::Box;

use loom::{sync::Arc, thread};

use crate::{
    lane::{Lane, Packed, Slot},
    names::{self, Label, NameSlot},
};

/// Runs the model in all schedules with so few preemptions, if the variable `LOOM_MAX_PREEMPTIONS` does not say otherwise.
fn check(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(2));
    model.check(f);
}

struct Ring {
    lane: Lane,
    slots: [Slot; 2],
}

impl Ring {
    fn new() -> Arc<Self> {
        Arc::new(Self { lane: Lane::new(), slots: [Slot::new(), Slot::new()] })
    }

    /// A record all of whose parts have its number.
    fn write(&self, number: u64, alone: bool) {
        let packed = Packed { code: 1, subject: number, time: number, extra: number as u16 };
        self.lane.write(&self.slots, packed, alone);
    }

    /// Whether the record is there, and all its parts are of one record.
    fn read(&self, number: usize) -> Option<u64> {
        let packed = self.lane.read(&self.slots, number)?;
        assert_eq!(packed.subject, packed.time, "the record is one record");
        assert_eq!(u64::from(packed.extra), packed.time, "the record is one record");
        Some(packed.time)
    }
}

/// A worker overwrites records while a reader copies them: what the reader takes for a record is the one with that number.
#[test]
fn models_a_worker_against_a_reader() {
    check(|| {
        let ring = Ring::new();
        ring.write(1, true);
        let worker = thread::spawn({
            let ring = Arc::clone(&ring);
            move || (2..=4).for_each(|number| ring.write(number, true))
        });
        for number in 0..2 {
            if let Some(read) = ring.read(number) {
                assert_eq!(read, number as u64 + 1);
            }
        }
        worker.join().unwrap();
        assert_eq!([0, 1, 2, 3].map(|number| ring.read(number)), [None, None, Some(3), Some(4)]);
    });
}

/// A worker marks its last record while a reader copies it.
#[test]
fn models_a_mark_against_a_reader() {
    check(|| {
        let ring = Ring::new();
        let worker = thread::spawn({
            let ring = Arc::clone(&ring);
            move || {
                ring.write(1, true);
                assert!(ring.lane.mark(&ring.slots, 1, 1, 32));
                ring.write(2, true);
            }
        });
        assert!(ring.read(0).is_none_or(|read| read == 1));
        worker.join().unwrap();
        assert_eq!([ring.read(0), ring.read(1)], [Some(1), Some(2)]);
    });
}

/// Two contexts write to one ring, and one of them twice, so that a slow one may find its slot taken: a reader sees whole records.
#[test]
fn models_two_contexts_and_a_reader() {
    check(|| {
        let ring = Ring::new();
        let other = thread::spawn({
            let ring = Arc::clone(&ring);
            move || ring.write(7, false)
        });
        let reader = thread::spawn({
            let ring = Arc::clone(&ring);
            move || {
                ring.read(0);
                ring.read(2);
            }
        });
        (1..=3).for_each(|number| ring.write(number, false));
        other.join().unwrap();
        reader.join().unwrap();
        assert_eq!(ring.lane.claimed(), 4);
        assert!((0..4).filter(|number| ring.read(*number).is_some()).count() <= 2);
    });
}

/// Two contexts bring labels, and a third finds them: a number that it sees leads to a whole label.
#[test]
fn models_names_are_whole() {
    let place = Location::caller();
    check(move || {
        let slots: Arc<Box<[NameSlot]>> = Arc::new((0..2).map(|_| NameSlot::new()).collect());
        let of = |name| Label { name, place: Some(place) };
        let bring = |name| {
            let slots = Arc::clone(&slots);
            thread::spawn(move || names::number(&slots, of(name)))
        };
        let one = bring("one");
        let reader = thread::spawn({
            let slots = Arc::clone(&slots);
            move || {
                for label in slots.iter().filter_map(NameSlot::get) {
                    assert!(["one", "two"].contains(&label.name) && label.place.is_some());
                }
            }
        });
        let two = names::number(&slots, of("two"));
        let one = one.join().unwrap();
        reader.join().unwrap();
        assert!(one != two && one != 0 && two != 0);
    });
}
