//! The simulation: programs under all faults, the same trace from the same seed, and bugs that it
//! must find.

use std::{fs, path::Path, thread};

use filch_tests::simulate::{
    Counts, Failure, Fault, Faults, Options, Program, record, replay, run, shrink,
};
use filch_trace::read::Trace;
use serde_json::Value;

/// Runs episodes of every program. A failure prints the command that replays it.
fn simulate(seeds: core::ops::Range<u64>, steps: u64, faults: Faults) -> Counts {
    let mut sum = Counts::default();
    for program in Program::ALL {
        for seed in seeds.clone() {
            let options = Options { steps, program: Some(program), faults, ..Options::new(seed) };
            match run(&options) {
                Ok(report) => sum.add(&report.counts),
                Err(failure) => panic!("simulate {options}\n{failure}"),
            }
        }
    }
    println!("{sum:?}");
    sum
}

#[test]
fn programs_keep_what_is_promised_under_all_faults() {
    let sum = simulate(1..9, 5_000, Faults::all());
    // All of these have happened.
    let happened = [
        sum.steals,
        sum.parks,
        sum.wakes,
        sum.interrupts,
        sum.faults,
        sum.tasks,
        sum.timers,
        sum.jobs,
    ];
    assert!(happened.iter().all(|n| *n > 100), "{sum:?}");
}

#[test]
fn programs_keep_what_is_promised_without_faults() {
    assert_eq!(simulate(100..103, 5_000, Faults::none()).faults, 0);
}

/// Many tasks, so that queues are full and workers do not sleep.
#[test]
fn crowds_keep_what_is_promised() {
    for seed in 1..25 {
        let program = Program::ALL[seed as usize % Program::ALL.len()];
        // The first is one in which two pinned tasks kept a worker in a sync join away from all
        // other work.
        let (seed, program) = match seed {
            1 => (12_866_979_474_472_037_708, Program::Mixed),
            _ => (seed, program),
        };
        let program = Some(program);
        let options = Options { steps: 20_000, program, size: 160, ..Options::new(seed) };
        run(&options).unwrap_or_else(|failure| panic!("simulate {options}\n{failure}"));
    }
}

/// With more tasks than any worker can finish, no worker sleeps: a busy worker takes the tasks
/// behind another's long poll, and its timers. Without `relieve`, or without `expire`, in `look_at`
/// this fails.
#[test]
fn busy_workers_see_to_one_that_is_stuck() {
    let mut stuck = 0;
    for (seed, faults) in (0..16).flat_map(|seed| [(seed, Faults::none()), (seed, Faults::all())]) {
        let program = Some(Program::Greedy);
        let options = Options {
            steps: 100_000,
            workers: Some(2),
            program,
            faults,
            size: 200,
            ..Options::new(seed)
        };
        let report =
            run(&options).unwrap_or_else(|failure| panic!("simulate {options}\n{failure}"));
        stuck += report.counts.stuck;
    }
    assert!(stuck > 10, "workers were stuck, with tasks behind them: {stuck}");
}

#[test]
fn equal_seeds_make_equal_traces() {
    let mut hashes = Vec::new();
    for seed in 1_000..1_012 {
        let options = Options { steps: 5_000, ..Options::new(seed) };
        let first = run(&options).unwrap_or_else(|failure| panic!("simulate {options}\n{failure}"));
        // Another thread has other addresses.
        let again = options.clone();
        let second = thread::spawn(move || run(&again)).join().expect("episodes do not panic");
        assert_eq!(Ok(first), second, "simulate {options}");
        hashes.push(first.hash);
    }
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 12, "other seeds make other traces");
}

/// A platform that loses wakes: the loss is found in nearly every episode, replays exactly, and can
/// be shrunk.
#[test]
fn a_lost_wake_is_seen() {
    let mut seen = 0;
    for seed in 0..20 {
        let faults = Faults::none().with(Fault::Lose).with(Fault::Short);
        let options = Options { steps: 20_000, faults, ..Options::new(seed) };
        let Err(failure) = run(&options) else { continue };
        seen += 1;
        let again = run(&options).expect_err("it has failed before");
        assert_eq!((&failure.what, failure.hash), (&again.what, again.hash), "simulate {options}");
        if seen == 1 {
            let smaller = shrink(&options, failure, 40);
            assert!(smaller.options.steps < options.steps, "{:?}", smaller.options);
            assert!(smaller.options.faults.contains(Fault::Lose), "nothing else is wrong");
            let replayed = run(&smaller.options).expect_err("it has failed before");
            assert_eq!(replayed.hash, smaller.failure.hash);
        }
    }
    assert!(seen >= 10, "only {seen} of 20 episodes with lost wakes have failed");
}

/// An episode that fails, of a platform that loses wakes.
fn failing() -> (Options, Failure) {
    let faults = Faults::none().with(Fault::Lose).with(Fault::Short);
    let options = |seed| Options { steps: 20_000, faults, ..Options::new(seed) };
    let failing = (0..20).map(options).find_map(|options| Some((run(&options).err()?, options)));
    let (failure, options) = failing.expect("lost wakes are seen");
    (options, failure)
}

/// The file of a seed that fails is one of the flight recorder: its reader, its summary and its exports take it whole.
#[test]
fn the_file_of_a_failing_seed_opens() {
    let (options, failure) = failing();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failing.trace");
    let file = Some(path.to_str().expect("the path is text").to_owned());
    let again = run(&Options { file, ..options.clone() }).expect_err("it has failed before");
    assert_eq!(again.hash, failure.hash, "the file has changed the episode");

    let trace = Trace::read(&fs::read(&path).unwrap()).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(trace.complete && trace.damaged == 0, "simulate {options}");
    assert_eq!(trace.notes, [failure.what.as_str()]);
    assert!(
        trace.lanes.iter().all(|lane| lane.lost == 0 && lane.entries.len() as u64 == lane.records)
    );
    let story = trace.story();
    let polls = story.polls.len();
    assert!(polls > 10 && !story.sleeps.is_empty(), "{polls} polls, simulate {options}");
    // It ends with tasks that nobody woke.
    assert!(!trace.tasks.is_empty() && story.tasks.iter().any(|task| task.alive));

    let summary = trace.summary().to_string();
    assert!(summary.contains(&failure.what), "{summary}");
    let mut json = Vec::new();
    trace.chrome(&mut json).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    assert_eq!(events.iter().filter(|event| event["cat"] == "poll").count(), polls);
    // Two for each poll, and the tracks.
    let packets = packets(&trace.perfetto());
    assert!(packets > 2 * polls, "{packets} packets for {polls} polls");
}

/// How many messages there are in a file of Perfetto's: each is a field 1 of bytes.
fn packets(mut file: &[u8]) -> usize {
    let mut packets = 0;
    while let Some((tag, rest)) = file.split_first() {
        assert_eq!(*tag, 1 << 3 | 2);
        let digits = 1 + rest.iter().take_while(|byte| **byte >= 0x80).count();
        let digit = |length, byte: &u8| length << 7 | usize::from(byte & 0x7f);
        let length = rest[..digits].iter().rev().fold(0, digit);
        file = &rest[digits + length..];
        packets += 1;
    }
    packets
}

/// Fibers repeat what threads did, call by call.
#[test]
fn a_record_of_threads_is_followed_to_its_end() {
    for (i, program) in Program::ALL.into_iter().enumerate() {
        let seed = 7 + i as u64;
        let recorded = record(program, 3, seed, 12, 30);
        let text = recorded.to_string();
        assert_eq!(text.parse().as_ref(), Ok(&recorded));
        let report = replay(&recorded).unwrap_or_else(|failure| panic!("{program}: {failure}"));
        let fidelity = report.fidelity;
        assert!(fidelity.entries > 100, "{program}: {fidelity:?}");
        assert_eq!(fidelity.followed, fidelity.entries, "{program}, seed {seed}: {fidelity:?}");
    }
}

/// A replay of another program leaves the record, and ends all the same.
#[test]
fn a_record_of_another_program_is_left() {
    let fan = record(Program::Fan, 2, 3, 12, 30).to_string();
    let (head, calls) = fan.split_once('\n').expect("a first line");
    let other = format!("{}\n{calls}", head.replace("fan", "timers"));
    let other = other.parse().expect("it is a record");
    let report = replay(&other).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.fidelity.prefix < report.fidelity.entries, "{:?}", report.fidelity);
}

#[test]
fn faults_are_read_as_they_are_written() {
    let some = Faults::none().with(Fault::Stall).with(Fault::ClockJump);
    for set in [Faults::none(), Faults::all(), some, Faults::all().with(Fault::Lose)] {
        assert_eq!(set.to_string().parse(), Ok(set));
    }
    assert_eq!("all,lose".parse(), Ok(Faults::all().with(Fault::Lose)));
    assert!("sleepy".parse::<Faults>().is_err());
}
