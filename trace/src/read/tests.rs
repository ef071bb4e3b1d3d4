use std::{boxed::Box, string::ToString, vec, vec::Vec};

use filch::{Event, WorkerId};

use super::*;
use crate::Recorder;

fn recorder(records: usize) -> Recorder {
    Recorder::leaked(2, records, 8)
}

fn dump(recorder: &Recorder, now: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    recorder.dump(now, |_| {}, "a test", &mut |part| bytes.extend_from_slice(part));
    bytes
}

fn worker(n: u16) -> Option<WorkerId> {
    Some(WorkerId::new(n))
}

/// Worker 0 wakes task 16, which worker 1 polls; task 32 is polled in that poll.
fn scene(recorder: &Recorder) {
    let mut time = 1 << 47;
    let mut at = |who, event| {
        time += 10;
        recorder.record(who, event, || time);
    };
    at(worker(1), Event::Park);
    at(worker(0), Event::PollStart(48));
    at(worker(0), Event::Wake(16));
    at(worker(1), Event::Unpark);
    at(worker(1), Event::Steal { victim: 0, tasks: 3 });
    at(worker(1), Event::PollStart(16));
    at(worker(1), Event::PollStart(32));
    at(worker(1), Event::PollEnd(32));
    at(worker(1), Event::PollEnd(16));
    at(None, Event::Wake(16));
    at(worker(1), Event::PollStart(16));
    at(worker(1), Event::PollEnd(16));
    at(worker(1), Event::End(16));
    at(worker(0), Event::LongPoll { worker: 1, nanos: 7 });
}

#[test]
fn a_story_is_put_together() {
    let recorder = recorder(64);
    scene(&recorder);
    let begin = 1 << 47;
    let trace = Trace::read(&dump(&recorder, begin + 200)).unwrap();
    assert_eq!((trace.damaged, trace.complete, trace.workers), (0, true, 2));
    assert_eq!(trace.notes, ["a test"]);
    assert_eq!(trace.lanes.len(), 3);
    let story = trace.story();
    assert_eq!(story.span, (begin + 10, begin + 200));
    let task = story.tasks.iter().find(|task| task.address == 16).unwrap();
    assert_eq!((task.polls, task.busy), (2, 20 + 10));
    assert_eq!(task.woken, Some((begin + 100, Cause::Outside)));
    assert_eq!(task.ended, Some(begin + 130));
    assert_eq!(story.delays(), [10, 30]);
    let by = story.tasks.iter().position(|task| task.address == 48).unwrap();
    assert_eq!(story.waits[0].by, Cause::Task(by));
    let sleep = Sleep { worker: 1, start: begin + 10, end: Some(begin + 40) };
    assert_eq!(story.sleeps, [sleep]);
    let depths: Vec<_> = story.polls.iter().map(|poll| (poll.depth, poll.end.is_some())).collect();
    assert_eq!(depths, [(0, false), (0, true), (1, true), (0, true)]);
}

#[test]
fn a_panic_is_told() {
    let recorder = recorder(64);
    let events = [Event::PollStart(16), Event::Panic(16), Event::PollEnd(16), Event::End(16)];
    events.into_iter().for_each(|event| recorder.record(worker(0), event, || 100));
    let trace = Trace::read(&dump(&recorder, 200)).unwrap();
    let story = trace.story();
    assert!(story.tasks[0].panicked && story.tasks[0].ended.is_some());
    let mut chrome = Vec::new();
    trace.chrome(&mut chrome).unwrap();
    assert!(trace.summary().to_string().contains("panic: "));
    assert!(String::from_utf8(chrome).unwrap().contains(r#""name":"panic""#));
}

#[test]
fn a_future_that_is_wrapped_has_its_own_name() {
    let short = |name: &str| Name { name: name.into(), ..Name::default() }.short();
    for (name, expected) in [
        ("filch_std::tracing::Traced<app::serve<app::Http>::{{closure}}>", "app::serve"),
        ("pp::serve<app::Http>::{{closure}}>", "pp::serve"),
        ("app::Timed<app::Job>", "app::Timed"),
    ] {
        assert_eq!(short(name), expected);
    }
}

#[test]
fn what_was_overwritten_is_missing() {
    let recorder = recorder(8);
    (0..100).for_each(|i| recorder.record(worker(0), Event::PollStart(16 * i), || i as u64));
    let trace = Trace::read(&dump(&recorder, 100)).unwrap();
    let tasks: Vec<_> = trace.lanes[0].entries.iter().map(|entry| entry.time).collect();
    assert_eq!(tasks, (92..100).collect::<Vec<_>>());
    assert_eq!((trace.lanes[0].written, trace.lanes[0].lost), (100, 0));
}

#[test]
fn damage_is_counted() {
    let recorder = recorder(64);
    scene(&recorder);
    let whole = dump(&recorder, 1 << 47);
    assert_eq!(Trace::read(&[]).unwrap_err(), ReadError::NoTrace);
    let mut rng = filch_test_support::rng();
    for _ in 0..2_000 {
        let mut bytes = whole.clone();
        for _ in 0..rng.u32(1..5) {
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(..);
        }
        bytes.truncate(rng.usize(..=bytes.len()));
        if let Ok(trace) = Trace::read(&bytes) {
            drop(trace.story());
        }
    }
    // A hole costs what is in it.
    let mut holed = whole.clone();
    let middle = holed.len() / 2;
    holed.drain(middle..middle + 12);
    let (trace, before) = (Trace::read(&holed).unwrap(), Trace::read(&whole).unwrap());
    let count = |trace: &Trace| trace.lanes.iter().map(|lane| lane.entries.len()).sum::<usize>();
    assert!(
        trace.complete && count(&trace) + 3 >= count(&before) && count(&trace) < count(&before)
    );
    drop(Box::new(vec![trace, before]));
}

#[test]
fn another_version_is_refused() {
    let mut bytes = Vec::new();
    let header = Frame::Header { magic: *b"filch", version: VERSION + 1, now: 0, workers: 0 };
    crate::frame::send(&mut |part| bytes.extend_from_slice(part), &header);
    assert_eq!(Trace::read(&bytes).unwrap_err(), ReadError::Version(VERSION + 1));
}

/// Of the clock that is read for one of several events: the records of worker 1 are somewhat early.
#[test]
fn a_poll_comes_after_its_wake() {
    let recorder = recorder(64);
    let at = |who, time, event| recorder.record(worker(who), event, || time);
    at(0, 1_000, Event::PollStart(48));
    at(0, 1_500, Event::Wake(16));
    at(0, 9_000, Event::PollEnd(48));
    at(1, 900, Event::PollStart(16));
    at(1, 1_800, Event::PollEnd(16));
    let story = Trace::read(&dump(&recorder, 10_000)).unwrap().story();
    let poll = story.polls.iter().find(|poll| poll.worker == Some(1)).unwrap();
    assert_eq!((poll.start, poll.end, poll.wait), (1_500, Some(1_800), Some(0)));
    assert_eq!(story.waits.len(), 1);
    assert_eq!((story.waits[0].on, story.waits[0].end), (Some(0), Some(1_500)));
}

/// The waits of a task that two workers wake and poll, with the times of wake, poll and its end on each.
fn waits(times: [[u64; 3]; 2]) -> Vec<(Option<u16>, u64, Option<u64>)> {
    let recorder = recorder(64);
    for (i, [wake, start, end]) in (0..).zip(times) {
        recorder.record(worker(i), Event::Wake(16), || wake);
        recorder.record(worker(i), Event::PollStart(16), || start);
        recorder.record(worker(i), Event::PollEnd(16), || end);
    }
    let story = Trace::read(&dump(&recorder, 1_000)).unwrap().story();
    assert!(story.waits.iter().all(|wait| !wait.lost));
    assert!(story.polls.iter().zip(0..).all(|(poll, wait)| poll.wait == Some(wait)));
    story.waits.iter().map(|wait| (wait.on, wait.start, wait.end)).collect()
}

#[test]
fn a_wake_comes_after_the_poll_that_the_last_one_led_to() {
    // The later wake is early, or the earlier one is the later one.
    let early = waits([[10, 20, 25], [15, 40, 45]]);
    assert_eq!(early, [(Some(0), 10, Some(20)), (Some(1), 20, Some(40))]);
    let overtaken = waits([[10, 80, 100], [12, 15, 20]]);
    assert_eq!(overtaken, [(Some(1), 12, Some(15)), (Some(0), 15, Some(80))]);
    // Both orders are possible.
    let either = waits([[10, 30, 35], [12, 40, 45]]);
    assert_eq!(either, [(Some(0), 10, Some(30)), (Some(1), 30, Some(40))]);
}

#[test]
fn a_poll_of_which_the_end_is_lost_is_not_under_way() {
    let recorder = recorder(64);
    let mut time = 0;
    let mut at = |who, event| {
        time += 10;
        recorder.record(worker(who), event, || time);
    };
    at(0, Event::Wake(16));
    at(0, Event::PollStart(16));
    at(1, Event::Wake(16));
    at(1, Event::PollStart(16));
    at(1, Event::PollEnd(16));
    at(0, Event::PollStart(32));
    at(0, Event::PollStart(32));
    let story = Trace::read(&dump(&recorder, 100)).unwrap().story();
    let polls: Vec<_> = story.polls.iter().map(|poll| (poll.start, poll.end, poll.cut)).collect();
    let expected =
        [(20, Some(60), true), (40, Some(50), false), (60, Some(70), true), (70, None, false)];
    assert_eq!(polls, expected);
    assert!(story.polls.iter().all(|poll| poll.depth == 0));
}

#[test]
fn a_poll_that_ends_ready_wakes_its_task() {
    let recorder = recorder(64);
    for (time, event) in [
        (10, Event::PollStart(16)),
        (20, Event::PollEnd(16)),
        (20, Event::Wake(16)),
        (30, Event::PollStart(16)),
    ] {
        recorder.record(worker(0), event, || time);
    }
    let story = Trace::read(&dump(&recorder, 100)).unwrap().story();
    assert_eq!((story.waits.len(), story.waits[0].by), (1, Cause::Again));
    assert_eq!(story.polls[1].wait, Some(0));
}

/// A task may end by its worker's word after a new one has its address.
#[test]
fn an_end_is_that_of_the_task_polled_last() {
    let mut trace = Trace { now: 100, workers: 2, ..Trace::default() };
    let lane = |worker, entries: &[(u64, What)]| {
        let entries: Vec<_> =
            entries.iter().map(|(time, what)| Entry { time: *time, what: *what }).collect();
        Lane { worker: Some(worker), records: entries.len() as u64, entries, ..Lane::default() }
    };
    let (task, name) = (16, 0);
    trace.lanes.push(lane(
        0,
        &[
            (5, What::Wake { task }),
            (10, What::PollStart { task }),
            (20, What::PollEnd { task }),
            (40, What::End { task }),
        ],
    ));
    trace.lanes.push(lane(1, &[(30, What::Spawn { task, name }), (50, What::PollStart { task })]));
    let story = trace.story();
    let ends: Vec<_> = story.tasks.iter().map(|task| task.ended).collect();
    assert_eq!(ends, [Some(40), None]);
    assert_eq!((story.polls[1].task, story.polls[1].wait), (1, Some(1)));
}

#[test]
fn names_are_fit_for_a_terminal() {
    let mut bytes = Vec::new();
    let mut send =
        |frame: &Frame<'_>| crate::frame::send(&mut |part| bytes.extend_from_slice(part), frame);
    send(&Frame::Header { magic: *b"filch", version: VERSION, now: 9, workers: 1 });
    send(&Frame::Name { number: 1, name: "\x1b[2Jx", file: "a\nb", line: 1, column: 2 });
    send(&Frame::Note { text: "first\nsecond\x07" });
    // Longer than frames are.
    bytes.extend([7; LONGEST]);
    bytes.push(0);
    let trace = Trace::read(&bytes).unwrap();
    assert_eq!((trace.damaged, trace.complete), (1, false));
    let text = trace.summary().to_string();
    assert!(!text.contains(['\x1b', '\x07']), "{text}");
    assert!(text.contains("note: first\n  note: second"), "{text}");
    assert!(text.contains("incomplete: ") && text.contains("damaged: 1 "), "{text}");
}

#[test]
fn a_worker_is_seen_to_poll() {
    let recorder = recorder(8);
    let event = |event| recorder.record(worker(0), event, || 0);
    let polling = || recorder.polling(WorkerId::new(0));
    assert_eq!(polling(), None);
    event(Event::PollStart(16));
    assert_eq!(polling(), Some(16));
    event(Event::PollStart(32));
    assert_eq!(polling(), Some(32));
    event(Event::Wake(64));
    event(Event::PollEnd(32));
    event(Event::PollStart(48));
    event(Event::PollEnd(48));
    event(Event::Wake(48));
    assert_eq!(polling(), Some(16));
    event(Event::PollEnd(16));
    assert_eq!(polling(), None);
    (0..9).for_each(|_| event(Event::Wake(64)));
    assert_eq!(polling(), None);
}
