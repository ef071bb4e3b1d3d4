//! The flight recorder finds the faults of the example `faults`, by their files alone.
#![cfg(target_os = "linux")]

use std::{env, fs, path::PathBuf, process::Command};

use filch_trace::read::{Story, Task, Trace};

/// The trace of the program, whose fault is the one of this name.
fn trace(fault: &str) -> Trace {
    let _watchdog = filch_test_support::watchdog();
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{fault}.trace"));
    let test = env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let program = profile.join("examples/faults");
    assert!(program.exists(), "{program:?} is missing: run `cargo build --examples` first");
    let status = Command::new(program).arg(fault).arg(&file).status().unwrap();
    assert!(status.success(), "{status}");
    Trace::read(&fs::read(&file).unwrap()).unwrap()
}

fn name<'a>(trace: &'a Trace, task: &Task) -> &'a str {
    trace.name(task.name).map_or("", |name| &name.name)
}

#[test]
fn a_call_that_blocks() {
    let trace = trace("blocking");
    let story = trace.story();
    let length = |poll: &&filch_trace::read::Poll| poll.end.unwrap_or(poll.start) - poll.start;
    let mut polls: Vec<_> = story.polls.iter().collect();
    polls.sort_by_key(|poll| core::cmp::Reverse(length(poll)));
    for poll in &polls[..3] {
        let task = &story.tasks[poll.task];
        assert_eq!(name(&trace, task), "reload");
        assert!(length(poll) >= 19_000_000, "{poll:?}");
    }
    // The line where it is spawned is in the summary, at the longest poll.
    let summary = trace.summary().to_string();
    let line =
        summary.lines().skip_while(|line| !line.starts_with("Longest polls")).nth(1).unwrap();
    assert!(line.contains("reload (examples/faults/main.rs:"), "{line}");
}

#[test]
fn a_waker_that_is_lost() {
    let trace = trace("lost");
    let story: Story = trace.story();
    // Of the tasks that live and wait for a wake, the one that has waited longest.
    let last = |task: &&Task| task.woken.or(task.spawned).map_or(0, |(time, _)| time);
    let rests = story.tasks.iter().filter(|task| task.alive && !task.scheduled).min_by_key(last);
    let task = rests.unwrap();
    assert_eq!(name(&trace, task), "first listener");
    assert_eq!((task.polls, task.woken), (1, None));
    assert!(trace.now - last(&task) > 100_000_000);
    let summary = trace.summary().to_string();
    let title = "Tasks that live and rest";
    let line = summary.lines().skip_while(|line| !line.starts_with(title)).nth(1).unwrap();
    assert!(line.contains("first listener"), "{line}");
}

#[test]
fn a_task_behind_a_crowd() {
    let trace = trace("starved");
    let story = trace.story();
    let answers = |task: usize| name(&trace, &story.tasks[task]) == "answer";
    let waits = story.waits.iter().filter(|wait| answers(wait.task));
    let longest = waits.filter_map(|wait| Some(wait.end? - wait.start)).max().unwrap();
    assert!(longest > 10_000_000, "it waits behind polls of 200 us each: {longest}");
    // What the worker did meanwhile.
    let bulk = story.polls.iter().filter(|poll| name(&trace, &story.tasks[poll.task]) == "bulk");
    assert!(bulk.count() >= 1_000);
}
