use std::collections::{BTreeMap, HashSet};

use filch::WorkerId;
use prost::Message;

use super::*;
use crate::{Recorder, read::What};

/// `Trace`.
#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(message, repeated, tag = "1")]
    packets: Vec<Packet>,
}

/// A trace of these events, `(worker, time, event)`; worker 9 is none.
fn trace(events: &[(u16, u64, filch::Event<'_>)]) -> Trace {
    let recorder = Recorder::leaked(3, 64, 0);
    for (worker, time, event) in events {
        let worker = Some(*worker).filter(|worker| *worker < 9).map(WorkerId::new);
        recorder.record(worker, *event, || *time);
    }
    let mut bytes = Vec::new();
    let now = events.last().map_or(0, |event| event.1) + 5;
    recorder.dump(now, |_| {}, "", &mut |part| bytes.extend_from_slice(part));
    Trace::read(&bytes).unwrap()
}

/// Checks what holds of all files: tracks come first, times ascend on each, beginnings and ends are as brackets, and flows come from somewhere.
fn check(file: &File) {
    let mut open: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut flows = HashSet::new();
    for packet in &file.packets {
        let Some(event) = &packet.event else {
            let track = packet.track.as_ref().unwrap();
            assert!(open.insert(track.uuid.unwrap(), (0, 0)).is_none());
            assert_eq!(packet.sequence.map(u64::from), track.uuid);
            continue;
        };
        let (depth, last) = open.get_mut(&event.track.unwrap()).expect("the track was described");
        let time = packet.time.unwrap();
        assert!(time >= *last, "{packet:?}");
        *last = time;
        match event.kind() {
            Kind::Begin => *depth += 1,
            Kind::End => *depth = depth.checked_sub(1).expect("something had begun"),
            _ => assert_eq!(event.kind(), Kind::Instant),
        }
        assert_eq!(event.name.is_some(), event.kind() != Kind::End);
        event.flows.iter().for_each(|flow| assert!(flows.insert(*flow)));
        event.flows_end.iter().for_each(|flow| assert!(flows.remove(flow)));
    }
    assert!(open.values().all(|(depth, _)| *depth == 0), "{open:?}");
    assert!(flows.is_empty());
}

fn export(trace: &Trace) -> File {
    let file = File::decode(&*trace.perfetto()).unwrap();
    check(&file);
    file
}

fn names(file: &File, kind: Kind) -> Vec<(u64, u64, &str)> {
    let of = |packet: &Packet| packet.event.as_ref().is_some_and(|event| event.kind() == kind);
    let packets = file.packets.iter().filter(|packet| of(packet));
    packets
        .map(|packet| {
            let event = packet.event.as_ref().unwrap();
            (event.track.unwrap() - 2, packet.time.unwrap(), event.name())
        })
        .collect()
}

#[test]
fn slices_are_brackets() {
    use filch::Event::*;
    let file = export(&trace(&[
        (1, 10, Park),
        (0, 20, PollStart(16)),
        (0, 30, Wake(32)),
        (1, 40, Unpark),
        (1, 40, Steal { victim: 0, tasks: 2 }),
        (1, 50, PollStart(32)),
        (1, 60, PollStart(48)),
        (1, 60, PollEnd(48)),
        (1, 70, PollEnd(32)),
        (9, 80, Wake(64)),
        (1, 90, Park),
    ]));
    let task = |n: u64| (n, format!("task {n:#x}"));
    let [(_, a), (_, b), (_, c)] = [task(16), task(32), task(48)];
    assert_eq!(
        names(&file, Kind::Begin),
        [(1, 10, "asleep"), (0, 20, &*a), (1, 50, &*b), (1, 60, &*c), (1, 90, "asleep")]
    );
    let ends: Vec<_> = names(&file, Kind::End).iter().map(|end| (end.0, end.1)).collect();
    assert_eq!(ends, [(1, 40), (1, 60), (1, 70), (0, 95), (1, 95)]);
    let outside = 1 << 16;
    assert_eq!(
        names(&file, Kind::Instant),
        [(0, 30, "wake task 0x20"), (1, 40, "steal 2"), (outside, 80, "wake task 0x40")]
    );
    let running = file.packets.iter().filter_map(|packet| packet.event.as_ref());
    let marked = |event: &&Event| event.notes.iter().any(|note| note.name() == "still under way");
    assert_eq!(running.filter(marked).map(Event::name).collect::<Vec<_>>(), [&*a]);
}

#[test]
fn workers_are_threads() {
    let file = export(&trace(&[]));
    let tracks: Vec<_> = file.packets.iter().filter_map(|packet| packet.track.as_ref()).collect();
    assert_eq!(tracks.len(), 1 + 4);
    assert_eq!(tracks[0].process.as_ref().unwrap().process_name(), "filch");
    let names: Vec<_> = tracks[1..].iter().map(|track| track.name()).collect();
    assert_eq!(names, ["worker 0", "worker 1", "worker 2", "other contexts"]);
    assert!(tracks[1..].iter().all(|track| track.parent_uuid == tracks[0].uuid));
}

#[test]
fn odd_records_make_valid_files() {
    let mut rng = filch_test_support::rng();
    for _ in 0..500 {
        let mut made = Trace { now: 1_000, workers: 3, ..Trace::default() };
        for worker in [Some(0), Some(1), None] {
            let mut lane = crate::read::Lane { worker, ..Default::default() };
            for _ in 0..rng.u32(..60) {
                let task = rng.u64(..4);
                let what = match rng.u32(..9) {
                    0 => What::Spawn { task, name: 0 },
                    1 => What::Wake { task },
                    2 | 3 => What::PollStart { task },
                    4 | 5 => What::PollEnd { task },
                    6 => What::End { task },
                    7 => What::Park,
                    _ => What::Unpark,
                };
                lane.entries.push(crate::read::Entry { time: rng.u64(..40), what });
            }
            made.lanes.push(lane);
        }
        export(&made);
        let story = made.story();
        let (begin, end) = story.span;
        assert!(story.tasks.iter().all(|task| task.busy <= 3 * (end - begin)));
        assert!(story.polls.iter().all(|poll| poll.end.is_none_or(|end| end >= poll.start)));
    }
}
