//! Whether the trace in the log of a kernel's serial line adds up. `examples/boot.sh KERNEL recorder` runs it.
//!
//!   recorded shell LOG TASKS    the shell has spawned so many tasks, and then printed the trace
//!   recorded panic LOG          the shell's command `panic` has ended the machine

use std::{env, fs, process::ExitCode};

use filch_trace::read::{Cause, Poll, Story, Task, Trace, Wait, What, serial};

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let found = match *words {
        ["shell", log, tasks] => match tasks.parse() {
            Ok(tasks) => read(log).map(|trace| shell(&trace, tasks)),
            Err(error) => Err(format!("{tasks}: {error}")),
        },
        ["panic", log] => read(log).map(|trace| panicked(&trace)),
        _ => Err("usage: recorded shell LOG TASKS | recorded panic LOG".into()),
    };
    match found {
        Ok((faults, holds)) if faults.0.is_empty() => {
            println!("recorded: {holds}");
            ExitCode::SUCCESS
        }
        Ok((faults, _)) => {
            faults.0.iter().for_each(|fault| eprintln!("recorded: {fault}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("recorded: {error}");
            ExitCode::from(2)
        }
    }
}

fn read(log: &str) -> Result<Trace, String> {
    let text = fs::read(log).map_err(|error| format!("{log}: {error}"))?;
    Trace::read(&serial(&text)).map_err(|error| format!("{log}: {error}"))
}

/// What does not hold.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn unless(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }
}

/// Of a whole trace, whatever it tells.
fn whole(trace: &Trace) -> Faults {
    let mut faults = Faults::default();
    faults.unless(trace.complete, || "the trace has no end".into());
    faults.unless(trace.damaged == 0, || format!("{} damaged frames", trace.damaged));
    let rings = usize::from(trace.workers) + 1;
    faults.unless(trace.lanes.len() == rings, || format!("{} rings of {rings}", trace.lanes.len()));
    let main = trace.tasks.iter().any(|live| name(trace, live.name).0.contains("::main"));
    faults.unless(main, || "the main task is not among the live ones".into());
    faults
}

/// The shell has spawned tasks that yield once, and then printed the trace.
fn shell(trace: &Trace, tasks: usize) -> (Faults, String) {
    let mut faults = whole(trace);
    faults.unless(trace.notes == ["asked for by the shell"], || {
        format!("the notes are {:?}", trace.notes)
    });
    let story = trace.story();
    let since = complete_since(trace);
    let recorded = |task: &Task| task.spawned.is_some_and(|(time, _)| time > since);
    let (mut of_shell, mut others) = (0, 0);
    for (number, task) in story.tasks.iter().enumerate().filter(|(_, task)| recorded(task)) {
        let (name, file) = name(trace, task.name);
        adds_up(&mut faults, &story, number, task, name);
        if name.contains("shell::ran") {
            of_shell += 1;
            yields_once(&mut faults, &story, number, name);
            faults.unless(file.ends_with("shell.rs"), || format!("{name}: spawned in `{file}`"));
        } else {
            others += 1;
        }
        faults.unless(!name.is_empty(), || format!("task {:#x} has no name", task.address));
    }
    faults.unless(of_shell == tasks, || {
        format!("{of_shell} tasks of the shell are recorded, of {tasks}")
    });
    (faults, format!("{of_shell} tasks of the shell and {others} others add up"))
}

/// Since when no ring has lost a record.
fn complete_since(trace: &Trace) -> u64 {
    let cut = trace.lanes.iter().filter(|lane| lane.written > lane.records);
    cut.filter_map(|lane| lane.entries.iter().map(|entry| entry.time).min()).max().unwrap_or(0)
}

/// It has ended, and was polled as often as it waited.
fn adds_up(faults: &mut Faults, story: &Story, number: usize, task: &Task, name: &str) {
    let mut unless = |holds, what: String| {
        faults.unless(holds, || format!("{name}, task {:#x}: {what}", task.address));
    };
    let waits = waits(story, number);
    let ended = waits.iter().filter(|wait| wait.end.is_some()).count();
    unless(task.polls == ended, format!("{} polls after {ended} waits", task.polls));
    unless(waits.len() == ended, format!("{} waits without a poll", waits.len() - ended));
    let in_order = waits.iter().all(|wait| wait.end.is_some_and(|end| end >= wait.start));
    unless(in_order, "a poll that comes before its wake".into());
    let polls = polls(story, number);
    let whole = polls.iter().all(|poll| !poll.cut && poll.end.is_some() && poll.wait.is_some());
    unless(whole, "a poll without a wait, or without an end".into());
    unless(task.ended.is_some() && !task.alive, "it has not ended".into());
}

/// A spawn, a poll, a wake in that, a poll.
fn yields_once(faults: &mut Faults, story: &Story, number: usize, name: &str) {
    let waits = waits(story, number);
    let yields = matches!(
        waits[..],
        [Wait { spawn: true, by: Cause::Task(_), .. }, Wait { spawn: false, by: Cause::Again, .. }]
    );
    faults.unless(yields, || format!("{name}: not a spawn and a yield: {waits:?}"));
}

fn waits(story: &Story, task: usize) -> Vec<Wait> {
    story.waits.iter().filter(|wait| wait.task == task).copied().collect()
}

fn polls(story: &Story, task: usize) -> Vec<Poll> {
    story.polls.iter().filter(|poll| poll.task == task).copied().collect()
}

/// A task of the shell has panicked: its poll is the last that its worker has done.
fn panicked(trace: &Trace) -> (Faults, String) {
    let mut faults = whole(trace);
    let note = match &trace.notes[..] {
        [note] => note.as_str(),
        _ => "",
    };
    faults.unless(
        note.starts_with("panicked at ") && note.ends_with("\nthe shell was asked to"),
        || format!("the notes are {:?}", trace.notes),
    );
    let story = trace.story();
    let panics = |task: &&Task| name(trace, task.name).0.contains("shell::panics");
    let Some(task) = story.tasks.iter().find(panics) else {
        faults.unless(false, || "there is no task that panics".into());
        return (faults, String::new());
    };
    faults.unless(task.spawned.is_some(), || "its spawn is not recorded".into());
    faults.unless(task.alive && task.scheduled, || "it is not among the live tasks".into());
    faults.unless(task.polls == 1 && task.ended.is_none(), || "it went on".into());
    let (_, file) = name(trace, task.name);
    faults.unless(file.ends_with("shell.rs"), || format!("it was spawned in `{file}`"));
    let began = What::PollStart { task: task.address };
    let last = |lane: &&filch_trace::read::Lane| {
        lane.entries.last().is_some_and(|entry| entry.what == began)
    };
    let lane = trace.lanes.iter().find(last);
    faults.unless(lane.is_some_and(|lane| lane.worker.is_some()), || {
        "no worker's last record is the beginning of its poll".into()
    });
    (faults, "the last record is the poll that panics".into())
}

/// A name, and the file where such tasks are spawned; empty if they are not known.
fn name(trace: &Trace, number: u16) -> (&str, &str) {
    trace.name(number).map_or(("", ""), |name| (&name.name, &name.place.0))
}
