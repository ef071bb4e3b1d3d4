//! The page's data, in JSON.

use std::collections::HashMap;

use filch_std::{
    Handle,
    task::{Class, Task, WokenBy},
};
use filch_trace::read::{Cause, Lane, Name, Poll, Story, Trace, What};
use serde_json::{Value, json};

/// The tasks that live.
pub(super) fn tasks(handle: &Handle, trace: &Trace) -> Option<Vec<u8>> {
    serde_json::to_vec(&live(handle, trace, &trace.story())).ok()
}

/// All that the page shows. Times are in nanoseconds, those of polls and others since `begin`. What there is much of stands in columns: for
/// a poll that is a tenth of what it takes as an event in Chrome's format.
pub(super) fn page(handle: &Handle, trace: &Trace) -> Option<Vec<u8>> {
    let story = trace.story();
    let names = Names::of(trace, &story);
    let lanes: Vec<_> = trace.lanes.iter().map(lane).collect();
    serde_json::to_vec(&json!({
        "begin": story.span.0,
        "span": story.span.1.saturating_sub(story.span.0),
        "lanes": lanes,
        "names": names.all,
        "tasks": {
            "id": story.tasks.iter().map(|task| hex(task.address)).collect::<Vec<_>>(),
            "name": names.of_tasks,
        },
        "polls": polls(trace, &story),
        "sleeps": sleeps(trace, &story),
        "steals": steals(trace, &story),
        "live": live(handle, trace, &story),
    }))
    .ok()
}

fn hex(address: u64) -> String {
    format!("{address:#x}")
}

fn lane(lane: &Lane) -> Value {
    let name = lane.worker.map_or("others".into(), |worker| format!("worker {worker}"));
    json!({ "name": name, "worker": lane.worker, "written": lane.written, "records": lane.records })
}

/// The ring of a worker, or that of all other contexts, by its place.
fn place(trace: &Trace, worker: Option<u16>) -> usize {
    trace.lanes.iter().position(|lane| lane.worker == worker).unwrap_or_default()
}

/// The names and places of tasks, each once.
struct Names {
    all: Vec<[String; 2]>,
    /// By the place of the task in the story.
    of_tasks: Vec<usize>,
}

impl Names {
    fn of(trace: &Trace, story: &Story) -> Self {
        let mut all = Vec::new();
        let mut known = HashMap::new();
        let of_tasks = story.tasks.iter().map(|task| {
            // Tasks without a name are called by their addresses.
            let key = (task.name, if trace.name(task.name).is_some() { 0 } else { task.address });
            *known.entry(key).or_insert_with(|| {
                all.push([trace.title(task), trace.place(task)]);
                all.len() - 1
            })
        });
        let of_tasks = of_tasks.collect();
        Self { all, of_tasks }
    }
}

fn length(story: &Story, start: u64, end: Option<u64>) -> u64 {
    end.unwrap_or(story.span.1).saturating_sub(start)
}

fn polls(trace: &Trace, story: &Story) -> Value {
    let since = |time: u64| time.saturating_sub(story.span.0);
    let column = |f: &dyn Fn(&Poll) -> Value| story.polls.iter().map(f).collect::<Value>();
    let wait = |poll: &Poll| poll.wait.and_then(|wait| story.waits.get(wait));
    json!({
        "lane": column(&|poll| place(trace, poll.worker).into()),
        "task": column(&|poll| poll.task.into()),
        "start": column(&|poll| since(poll.start).into()),
        "length": column(&|poll| length(story, poll.start, poll.end).into()),
        "depth": column(&|poll| poll.depth.into()),
        // The wait before it, if that is recorded.
        "wait": column(&|poll| wait(poll).map(|wait| poll.start.saturating_sub(wait.start)).into()),
        "by": column(&|poll| wait(poll).map(|wait| cause(wait.by)).into()),
        // 1: it was spawned, not woken; 2: the poll had not ended; 4: the record of its end is lost.
        "flags": column(&|poll| {
            let spawn = wait(poll).is_some_and(|wait| wait.spawn);
            (u8::from(spawn) + 2 * u8::from(poll.end.is_none()) + 4 * u8::from(poll.cut)).into()
        }),
    })
}

/// A task by its place, or what else, below zero.
fn cause(cause: Cause) -> i64 {
    match cause {
        Cause::Task(task) => i64::try_from(task).unwrap_or(-2),
        Cause::Again => -1,
        Cause::Outside => -2,
        Cause::Worker(worker) => -3 - i64::from(worker),
    }
}

fn sleeps(trace: &Trace, story: &Story) -> Value {
    let sleeps = &story.sleeps;
    json!({
        "lane": sleeps.iter().map(|sleep| place(trace, Some(sleep.worker))).collect::<Vec<_>>(),
        "start": sleeps.iter().map(|sleep| sleep.start.saturating_sub(story.span.0)).collect::<Vec<_>>(),
        "length": sleeps.iter().map(|sleep| length(story, sleep.start, sleep.end)).collect::<Vec<_>>(),
    })
}

fn steals(trace: &Trace, story: &Story) -> Value {
    let (mut lanes, mut times, mut victims, mut counts) = (vec![], vec![], vec![], vec![]);
    for (number, lane) in trace.lanes.iter().enumerate() {
        for entry in &lane.entries {
            if let What::Steal { victim, tasks } = entry.what {
                lanes.push(number);
                times.push(entry.time.saturating_sub(story.span.0));
                victims.push(victim);
                counts.push(tasks);
            }
        }
    }
    json!({ "lane": lanes, "time": times, "victim": victims, "tasks": counts })
}

/// The tasks that live, each with what the story tells of it.
fn live(handle: &Handle, trace: &Trace, story: &Story) -> Value {
    let told = story.tasks.iter().enumerate().filter(|(_, task)| task.alive);
    let told: HashMap<u64, usize> = told.map(|(place, task)| (task.address, place)).collect();
    let mut last = vec![None; story.tasks.len()];
    for poll in &story.polls {
        if let Some(last) = last.get_mut(poll.task) {
            *last = Some(poll);
        }
    }
    let row = |live: Task| {
        let told = told.get(&(live.id.get() as u64)).copied();
        let poll = told.and_then(|task| last.get(task).copied().flatten());
        describe(&live, told.map(|task| (trace, story, task)), poll)
    };
    handle.tasks().into_iter().map(row).collect()
}

fn describe(info: &Task, told: Option<(&Trace, &Story, usize)>, last: Option<&Poll>) -> Value {
    let file = info.location.map(|at| (at.file().to_owned(), at.line(), at.column()));
    let name = info.name.or(info.type_name).unwrap_or_default().to_owned();
    let name = Name { name, place: file.unwrap_or_default() };
    let place = match &name.place {
        (file, ..) if file.is_empty() => String::new(),
        (file, line, column) => format!("{file}:{line}:{column}"),
    };
    let title = match (name.name.is_empty(), place.is_empty()) {
        (false, _) => name.short(),
        (true, false) => place.clone(),
        (true, true) => format!("task {:#x}", info.id.get()),
    };
    let polled = match info.activity {
        Some(activity) => activity.polled.is_some(),
        None => last.is_some_and(|poll| poll.end.is_none()),
    };
    let state = match (info.cancelled, polled, info.scheduled) {
        (true, ..) => "cancelled",
        (_, true, _) => "polled",
        (.., true) => "ready",
        _ => "waits",
    };
    let mut row = json!({
        "id": hex(info.id.get() as u64),
        "name": title,
        "place": place,
        "class": match info.class {
            Class::Urgent => "urgent",
            Class::Normal => "normal",
            Class::Background => "background",
        },
        "state": state,
        "pinned": info.worker.map(|worker| worker.index()),
        "worker": last.and_then(|poll| poll.worker),
    });
    let known =
        told.and_then(|(trace, story, place)| Some((trace, story, place, story.tasks.get(place)?)));
    if let Some((trace, story, place, task)) = known {
        row["task"] = place.into();
        row["polls"] = task.polls.into();
        row["busy_ns"] = task.busy.into();
        // The last wake that is recorded, or the spawn: how long ago, and by what.
        if let Some((time, by)) = task.woken.or(task.spawned) {
            row["woken_ns_ago"] = trace.now.saturating_sub(time).into();
            row["woken_by"] = trace.by(story, by).into();
        }
    }
    // Counted since the spawn, where the records may begin later.
    if let Some(activity) = info.activity {
        row["polls"] = activity.polls.into();
        row["busy_ns"] = (activity.busy.as_nanos() as u64).into();
        if let Some(wake) = activity.last_wake {
            let ago = wake.ago.as_nanos() as u64;
            // The record of it may be overwritten, where that of an earlier one, or of the spawn, is not.
            if row["woken_ns_ago"].as_u64().is_none_or(|told| ago < told) {
                row["woken_ns_ago"] = ago.into();
                row["woken_by"] = by(wake.by).into();
            }
        }
    }
    row
}

/// As [`Trace::by`], of a wake that is not recorded.
fn by(by: WokenBy) -> String {
    match by {
        WokenBy::Task(task) => format!("task {}", hex(task.get() as u64)),
        WokenBy::Itself => "its own poll".into(),
        WokenBy::Worker(worker) => format!("worker {}, outside of polls", worker.index()),
        // Outside.
        _ => "a context that is no worker".into(),
    }
}
