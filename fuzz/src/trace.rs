//! The reader of traces: on any bytes, and on what a recorder has written of any events, whole or damaged. What it makes of them
//! is checked for sense, and for size.

use arbitrary::{Arbitrary, Unstructured};
use filch::{Event, WorkerId};
use filch_trace::{
    Lane, Recorder, Slot,
    read::{Story, Trace, serial},
};

/// Workers of the recorder.
const WORKERS: usize = 3;
/// Records of each ring.
const RECORDS: usize = 64;
/// Bytes written for each one read, at most: a record of seven bytes may show two names several times.
const GROWTH: usize = 4_000;

#[derive(Arbitrary)]
enum Op {
    /// The clock goes on by so much.
    Pass(u32),
    /// It jumps.
    Jump(u64),
    Record(u8, What, u8),
    Tick,
}

#[derive(Arbitrary)]
enum What {
    Wake,
    Start,
    End,
    Over,
    Steal(u16),
    Park,
    Unpark,
    LongPoll(u64),
}

pub(crate) fn run(input: &mut Unstructured<'_>) {
    let kind: u8 = crate::value(input);
    if kind % 2 == 0 {
        let bytes = input.bytes(input.len()).unwrap_or_default();
        look_at(bytes);
        return look_at(&serial(bytes));
    }
    let mut bytes = record(input, kind >= 128);
    look_at(&bytes);
    // Damage.
    let (at, by): (u16, u8) = (crate::value(input), crate::value(input));
    let at = usize::from(at) % bytes.len();
    bytes[at] ^= by;
    look_at(&bytes);
    bytes.truncate(at);
    look_at(&bytes);
}

/// What a recorder writes of the operations in the input.
fn record(input: &mut Unstructured<'_>, is_coarse: bool) -> Vec<u8> {
    let lanes: Box<[Lane]> = (0..=WORKERS).map(|_| Lane::new()).collect();
    let slots: Box<[Slot]> = (0..(WORKERS + 1) * RECORDS).map(|_| Slot::new()).collect();
    let (lanes, slots) = (Box::into_raw(lanes), Box::into_raw(slots));
    // SAFETY: they live until they are taken back below.
    let recorder = unsafe { Recorder::new(&*lanes, &*slots, &[]) };
    let recorder = recorder.resolution(if is_coarse { 100 } else { 0 });
    let mut now = 1 << 50;
    let mut bytes = Vec::new();
    for op in crate::operations(input, 300) {
        match op {
            Op::Pass(nanos) => now += u64::from(nanos),
            Op::Jump(to) => now = to,
            Op::Record(worker, what, task) => {
                let worker = usize::from(worker) % (WORKERS + 1);
                let worker = (worker < WORKERS).then(|| WorkerId::new(worker as u16));
                recorder.record(worker, event(what, usize::from(task % 8) * 16), || now);
            }
            Op::Tick => recorder.tick(),
        }
        now = now.min(u64::MAX / 2);
    }
    recorder.dump(now, |_| {}, "fuzzed", &mut |part| bytes.extend_from_slice(part));
    // SAFETY: they came from boxes, and the recorder, which alone refers to them, is used no more.
    unsafe {
        drop(Box::from_raw(lanes));
        drop(Box::from_raw(slots));
    }
    bytes
}

fn event(what: What, task: usize) -> Event<'static> {
    match what {
        What::Wake => Event::Wake(task),
        What::Start => Event::PollStart(task),
        What::End => Event::PollEnd(task),
        What::Over => Event::End(task),
        What::Steal(victim) => Event::Steal { victim, tasks: task as u16 },
        What::Park => Event::Park,
        What::Unpark => Event::Unpark,
        What::LongPoll(nanos) => Event::LongPoll { worker: task as u16 / 16, nanos },
    }
}

fn look_at(bytes: &[u8]) {
    let Ok(trace) = Trace::read(bytes) else { return };
    check(&trace.story());
    let most = GROWTH * (bytes.len() + 100);
    assert!(trace.summary().to_string().len() <= most);
    let mut json = Vec::new();
    trace.chrome(&mut json).expect("a vector takes all");
    assert!(json.len() <= most, "{} of {}", json.len(), bytes.len());
    assert!(trace.perfetto().len() <= most);
}

fn check(story: &Story) {
    let (begin, end) = story.span;
    let in_span = |from: u64, to: Option<u64>| {
        let to = to.unwrap_or(end);
        assert!(begin <= from && from <= to && to <= end);
    };
    for poll in &story.polls {
        in_span(poll.start, poll.end);
        if let Some(wait) = poll.wait {
            assert_eq!(story.waits[wait].end, Some(poll.start));
            assert_eq!(story.waits[wait].task, poll.task);
        }
    }
    story.sleeps.iter().for_each(|sleep| in_span(sleep.start, sleep.end));
    story.waits.iter().for_each(|wait| in_span(wait.start, wait.end));
    assert_eq!(story.tasks.iter().map(|task| task.polls).sum::<usize>(), story.polls.len());
}
