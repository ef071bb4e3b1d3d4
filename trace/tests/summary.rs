//! What a summary says of a recorded program.
#![cfg(feature = "read")]

mod scene;

use filch_trace::read::{Cause, Trace};

/// The lines below a title, up to the next empty one.
fn section<'a>(text: &'a str, title: &str) -> Vec<&'a str> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with(title)).skip(1).peekable();
    assert!(lines.peek().is_some(), "no {title} in\n{text}");
    lines.take_while(|line| !line.is_empty()).collect()
}

#[test]
fn the_planted_poll_is_the_longest() {
    let _watchdog = filch_test_support::watchdog();
    let trace = Trace::read(&scene::record()).unwrap();
    let text = trace.summary().to_string();
    println!("{text}");

    let longest = section(&text, "Longest polls")[0];
    assert!(longest.contains("20.0 ms") && longest.contains("worker 0"), "{longest}");
    assert!(longest.contains(" planted (") && longest.contains("scene/mod.rs:"), "{longest}");

    let running = section(&text, "Still under way at the end");
    assert_eq!(running.len(), 1);
    assert!(running[0].contains("7.0") && running[0].contains(" stuck ("), "{}", running[0]);

    let wait = section(&text, "Longest waits for a worker")[0];
    assert!(wait.contains("3.00 ms") && wait.contains(" planted ("), "{wait}");
    assert!(wait.ends_with("woken by messenger"), "{wait}");
    let pair = section(&text, "Wakes, by waker and woken")[0];
    assert!(pair.contains("1  messenger (") && pair.contains("-> planted ("), "{pair}");

    let resting = section(&text, "Tasks that live and rest");
    assert_eq!(resting.len(), 1, "{resting:?}");
    assert!(resting[0].contains("for 30.0 ms") && resting[0].contains(" lonely ("), "{resting:?}");

    let kinds = section(&text, "Tasks by name");
    assert!(kinds[0].contains("20.0 ms") && kinds[0].contains("2 polls"), "{kinds:?}");
    assert!(text.contains("  note: a scene\n  note: of two lines\n"));
    assert!(section(&text, "Workers")[0].starts_with("  worker 0     busy  9"));

    the_story_agrees(&trace);
}

fn the_story_agrees(trace: &Trace) {
    let story = trace.story();
    let find = |name| story.tasks.iter().position(|task| trace.label(task).starts_with(name));
    let [planted, messenger] = ["planted", "messenger"].map(|name| find(name).unwrap());
    assert_eq!(story.tasks[planted].woken.map(|(_, by)| by), Some(Cause::Task(messenger)));
    assert!(story.tasks[planted].ended.is_some() && story.tasks[messenger].ended.is_some());
    assert_eq!(story.polls.len(), 5);
    assert!(story.polls.iter().all(|poll| poll.wait.is_some() && !poll.cut));
}
