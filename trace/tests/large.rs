//! Odd traces with many records: what is done with them takes no longer than their size explains. The watchdog ends what takes half a minute,
//! where half a second does; the crate is optimised in tests too.
#![cfg(feature = "read")]

use core::time::Duration;

use filch_trace::read::{Entry, Lane, Trace, What};

/// Records of each ring.
const MANY: u64 = 50_000;

/// A record by its place in the ring.
type Record = fn(u64) -> (u64, What);

/// Does all that can be done with rings of these records.
fn look_at(rings: [Record; 2]) -> String {
    let _watchdog = filch_test_support::watchdog_of(Duration::from_secs(30));
    let lane = |(worker, record): (usize, &Record)| {
        let entries = (0..MANY).map(record).map(|(time, what)| Entry { time, what }).collect();
        let worker = Some(worker as u16);
        Lane { worker, written: MANY, records: MANY, entries, ..Lane::default() }
    };
    let lanes = rings.iter().enumerate().map(lane).collect();
    let trace = Trace { now: MANY, workers: 2, lanes, complete: true, ..Trace::default() };
    trace.chrome(&mut std::io::sink()).unwrap();
    assert!(!trace.perfetto().is_empty());
    trace.summary().to_string()
}

#[test]
fn ends_without_beginnings() {
    // Polls that never end, and ends of others.
    let text = look_at([
        |i| {
            if i < MANY / 2 {
                (i, What::PollStart { task: i })
            } else {
                (i, What::PollEnd { task: 7 * MANY + i })
            }
        },
        |i| (i, What::End { task: i / 3 }),
    ]);
    assert!(text.contains("Still under way at the end"));
}

#[test]
fn polls_of_one_task_that_never_end() {
    look_at([|i| (i, What::PollStart { task: 1 }), |i| (i, What::PollStart { task: i % 2 })]);
}

#[test]
fn wakes_of_one_task_at_one_time() {
    look_at([|_| (0, What::Wake { task: 1 }), |i| (i / MANY, What::Wake { task: 1 })]);
    look_at([
        |i| (i / 9, if i % 2 == 0 { What::PollStart { task: 1 } } else { What::Wake { task: 2 } }),
        |i| (i / 9, if i % 2 == 0 { What::PollStart { task: 2 } } else { What::Wake { task: 1 } }),
    ]);
}

#[test]
fn sleeps_and_polls_that_cross() {
    look_at([
        |i| (i, [What::Park, What::PollStart { task: i }, What::Unpark][i as usize % 3]),
        |i| (MANY - i, [What::PollEnd { task: i }, What::PollStart { task: i }][i as usize % 2]),
    ]);
}

#[test]
fn a_long_stack_of_polls() {
    look_at([
        |i| {
            if i < MANY / 2 {
                (i, What::PollStart { task: i })
            } else {
                (i, What::PollEnd { task: MANY - 1 - i })
            }
        },
        |i| (i, What::LongPoll { worker: 0, nanos: u64::MAX }),
    ]);
}
