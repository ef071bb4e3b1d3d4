//! The flight recorder: what a snapshot says is what was done.

use core::time::Duration;
use std::{sync::mpsc, thread, time::Instant};

use filch_std::{
    Handle, Runtime, TaskOptions,
    runtime::WorkerId,
    spawn, spawn_with,
    task::{Class, yield_now},
};
use filch_test_support::{Flag, until, watchdog};
use filch_trace::read::{Cause, Story, Task, Trace, What};

fn runtime(workers: usize, records: usize) -> Runtime {
    Runtime::builder().workers(workers).recorder(records).build().unwrap()
}

fn trace(runtime: &Runtime) -> Trace {
    trace_of(*runtime.handle())
}

/// When the workers have done all that they do, and recorded it.
fn last_trace(runtime: Runtime) -> Trace {
    let handle = *runtime.handle();
    drop(runtime);
    trace_of(handle)
}

fn trace_of(handle: Handle) -> Trace {
    let snapshot = handle.snapshot().expect("there is a recorder");
    let trace = Trace::read(snapshot.as_bytes()).unwrap();
    assert!(trace.complete && trace.damaged == 0);
    trace
}

/// The tasks with this name.
fn named<'a>(trace: &'a Trace, story: &'a Story, name: &'a str) -> impl Iterator<Item = &'a Task> {
    let has_name = move |task: &&Task| trace.name(task.name).is_some_and(|n| n.name == name);
    story.tasks.iter().filter(has_name)
}

fn block(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        core::hint::spin_loop();
    }
}

#[test]
fn what_tasks_did_adds_up() {
    let _watchdog = watchdog();
    let runtime = runtime(2, 1 << 14);
    runtime
        .block_on(runtime.spawn(async {
            let yields = |n| async move {
                for _ in 0..n {
                    yield_now().await;
                }
            };
            let name = TaskOptions::new().name("yields");
            let tasks: Vec<_> = (0..50).map(|i| spawn_with(name, yields(i)).unwrap()).collect();
            for task in tasks {
                task.await.unwrap();
            }
        }))
        .unwrap();
    let trace = last_trace(runtime);
    let story = trace.story();
    let mut polls: Vec<_> = named(&trace, &story, "yields")
        .map(|task| {
            assert!(task.spawned.is_some_and(|(_, by)| matches!(by, Cause::Task(_))));
            assert!(task.ended.is_some() && !task.alive);
            task.polls
        })
        .collect();
    polls.sort_unstable();
    assert_eq!(polls, (1..=50).collect::<Vec<_>>());
    for (i, task) in story.tasks.iter().enumerate() {
        let ended = story.waits.iter().filter(|wait| wait.task == i && wait.end.is_some()).count();
        assert_eq!(ended, task.polls, "each poll ends a wait: {task:?}");
    }
    assert!(story.polls.iter().all(|poll| poll.end.is_some()));
}

#[test]
fn tasks_have_names_and_places() {
    let _watchdog = watchdog();
    let runtime = runtime(1, 1024);
    let waits = Flag::new();
    let line = line!() + 1;
    let unnamed = runtime.spawn(waits.wait());
    let options = TaskOptions::new().name("urgent").class(Class::Urgent);
    runtime.block_on(runtime.handle().spawn_with(options, async {}).unwrap()).unwrap();
    until(|| waits.is_awaited());
    let trace = trace(&runtime);
    let story = trace.story();
    let urgent = named(&trace, &story, "urgent").next().unwrap();
    assert_eq!(urgent.class, filch_trace::read::Class::Urgent);
    let [live] = trace.tasks[..] else { panic!("one task lives: {:?}", trace.tasks) };
    assert!(!live.scheduled);
    let name = trace.name(live.name).unwrap();
    assert!(name.name.contains("Flag::wait"), "{name}");
    assert!(name.place.0.ends_with("recorder.rs") && name.place.1 == line, "{name}");
    waits.set();
    runtime.block_on(unnamed).unwrap();
}

#[test]
fn a_blocking_call_is_the_longest_poll() {
    let _watchdog = watchdog();
    let runtime = runtime(1, 1 << 12);
    runtime
        .block_on(runtime.spawn(async {
            let busy = spawn_with(TaskOptions::new().name("busy"), async {
                for _ in 0..200 {
                    yield_now().await;
                }
            });
            for _ in 0..50 {
                yield_now().await;
            }
            let blocks = TaskOptions::new().name("blocks");
            spawn_with(blocks, async { block(Duration::from_millis(20)) }).unwrap().await.unwrap();
            busy.unwrap().await.unwrap();
        }))
        .unwrap();
    let trace = last_trace(runtime);
    let story = trace.story();
    let length = |poll: &&filch_trace::read::Poll| poll.end.unwrap() - poll.start;
    let longest = story.polls.iter().max_by_key(length).unwrap();
    assert_eq!(trace.name(story.tasks[longest.task].name).unwrap().name, "blocks");
    assert!((18_000_000..).contains(&length(&longest)), "{longest:?}");
    let others: u64 =
        story.polls.iter().filter(|poll| *poll != longest).map(|poll| length(&poll)).sum();
    // A busy machine may take the thread off its core in any poll.
    println!("all other polls: {others} ns");
}

/// A running poll has begun, and has no end.
#[test]
fn a_snapshot_of_a_stuck_worker_shows_its_poll() {
    let _watchdog = watchdog();
    let runtime = runtime(2, 256);
    let (free, stuck) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let options = TaskOptions::new().name("stuck").pinned(WorkerId::new(1));
    let task = runtime.handle().spawn_with(options, async move {
        tell.send(()).unwrap();
        let _ = stuck.recv();
    });
    told.recv().unwrap();
    let trace = trace(&runtime);
    let story = trace.story();
    let [poll] = story.polls.iter().filter(|poll| poll.end.is_none()).collect::<Vec<_>>()[..]
    else {
        panic!("one poll has not ended: {story:?}")
    };
    assert_eq!(poll.worker, Some(1));
    assert_eq!(trace.name(story.tasks[poll.task].name).unwrap().name, "stuck");
    drop(free);
    runtime.block_on(task.unwrap()).unwrap();
}

#[test]
fn a_snapshot_may_be_taken_at_any_time() {
    let _watchdog = watchdog();
    let runtime = runtime(2, 64);
    let over = Flag::new();
    let works: Vec<_> = (0..8)
        .map(|_| {
            let over = over.clone();
            runtime.spawn(async move {
                while !over.is_set() {
                    spawn(yield_now()).await.unwrap();
                }
            })
        })
        .collect();
    let mut records = 0;
    for _ in 0..200 {
        let trace = trace(&runtime);
        assert_eq!(trace.lanes.len(), trace.workers as usize + 1);
        for lane in &trace.lanes {
            assert!(lane.entries.windows(2).all(|two| two[0].time <= two[1].time));
            let records_here = lane.entries.iter().filter(|entry| {
                // Marks of a poll's record are entries too.
                !matches!(entry.what, What::PollEnd { .. } | What::Wake { .. })
            });
            assert!(records_here.count() <= 64);
            records += lane.entries.len();
        }
        drop(trace.story());
    }
    assert!(records > 0);
    over.set();
    works.into_iter().for_each(|task| runtime.block_on(task).unwrap());
}

#[test]
fn an_idle_runtime_rests_and_a_tick_comes_after_it() {
    let _watchdog = watchdog();
    let runtime = runtime(1, 256);
    for _ in 0..3 {
        // Longer than the ticks go on.
        thread::sleep(Duration::from_millis(150));
        runtime.block_on(runtime.spawn(async { block(Duration::from_millis(5)) })).unwrap();
    }
    let story = last_trace(runtime).story();
    let long = story.polls.iter().filter(|poll| poll.end.unwrap() - poll.start > 4_000_000);
    assert_eq!(long.count(), 3);
}

#[test]
fn runtimes_with_and_without_come_and_go() {
    let _watchdog = watchdog();
    for records in [0, 100, 0, 100, 1000] {
        let runtime = runtime(1, records);
        runtime.block_on(runtime.spawn(async {})).unwrap();
        assert_eq!(runtime.handle().snapshot().is_some(), records > 0);
        let handle = *runtime.handle();
        drop(runtime);
        // What it did last can be asked for afterwards.
        assert_eq!(handle.snapshot().is_some(), records > 0);
    }
}

#[test]
fn a_long_poll_is_reported_with_its_task() {
    let _watchdog = watchdog();
    let (report, reports) = mpsc::channel();
    let (free, stuck) = mpsc::channel::<()>();
    let runtime = Runtime::builder()
        .workers(2)
        .recorder(256)
        .poll_limit(Some(Duration::from_millis(5)))
        .on_long_poll(move |poll| {
            #[cfg(target_os = "linux")]
            let stack = poll.stack();
            #[cfg(not(target_os = "linux"))]
            let stack = None;
            report.send((poll.clone(), stack)).unwrap();
        })
        .build()
        .unwrap();
    let options = TaskOptions::new().name("stuck");
    let task = runtime.handle().spawn_with(options, async move { wait_for_end(&stuck) }).unwrap();
    let (poll, stack): (filch_std::runtime::LongPoll, Option<String>) = reports.recv().unwrap();
    drop(free);
    runtime.block_on(task).unwrap();
    let task = poll.task.unwrap();
    assert_eq!(task.name, Some("stuck"));
    assert!(task.location.unwrap().file().ends_with("recorder.rs"));
    assert_eq!(stack.is_some(), cfg!(target_os = "linux"));
    if let Some(stack) = stack {
        println!("{stack}");
        let lines: Vec<_> = stack.lines().collect();
        let place = lines.iter().position(|line| line.contains("wait_for_end")).expect(&stack);
        assert!(lines[place].contains("recorder.rs:"), "{stack}");
        // What it waits in is above it, and nothing of the handler.
        assert!(place > 0 && !stack.contains("on_signal"), "{stack}");
    }
}

/// Memory is used again, with the rings in it.
#[test]
fn a_new_runtime_knows_nothing_of_the_last_one() {
    let _watchdog = watchdog();
    for name in ["first", "second"] {
        let runtime = runtime(3, 512);
        let options = TaskOptions::new().name(name);
        runtime.block_on(runtime.handle().spawn_with(options, async {}).unwrap()).unwrap();
        let trace = last_trace(runtime);
        let story = trace.story();
        assert_eq!(story.tasks.len(), 1, "{story:?}");
        assert_eq!(named(&trace, &story, name).count(), 1);
    }
}

#[inline(never)]
fn wait_for_end(end: &mpsc::Receiver<()>) {
    let _ = end.recv();
}

/// Nothing can wake it any more: it ends when its last reference goes.
#[test]
fn a_task_that_nothing_can_wake_has_an_end() {
    let _watchdog = watchdog();
    let runtime = runtime(1, 256);
    let options = TaskOptions::new().name("forgotten").end_unreachable();
    runtime.handle().spawn_with(options, core::future::pending::<()>()).unwrap().detach();
    until(|| runtime.metrics().totals().live == 0);
    let trace = last_trace(runtime);
    let story = trace.story();
    let task = named(&trace, &story, "forgotten").next().unwrap();
    assert!(task.ended.is_some() && task.polls == 1, "{task:?}");
}

/// Two ways to measure one thing: by the histogram of the runtime, and from the trace alone.
#[test]
fn delays_are_those_of_the_histogram() {
    let _watchdog = watchdog();
    let builder = Runtime::builder().workers(1).recorder(1 << 14).class_metrics(true);
    let runtime = builder.build().unwrap();
    runtime
        .block_on(runtime.spawn(async {
            let work = |i: u32| async move {
                for _ in 0..20 {
                    block(Duration::from_micros(u64::from(i % 7) * 20));
                    yield_now().await;
                }
            };
            let tasks: Vec<_> = (0..20).map(|i| spawn(work(i))).collect();
            for task in tasks {
                task.await.unwrap();
            }
        }))
        .unwrap();
    let metrics = runtime.handle().class_metrics(Class::Normal);
    let delays = last_trace(runtime).story().delays();
    assert!(delays.len() >= 400 && metrics.waits.count() >= 400);
    for part in [0.5, 0.99] {
        let ours = delays[((delays.len() - 1) as f64 * part) as usize] as f64;
        let theirs = metrics.waits.quantile(part).as_nanos() as f64;
        // A bucket of the histogram is an eighth wide, and a time of the trace is right to some microseconds.
        assert!((ours - theirs).abs() <= theirs / 4.0 + 20_000.0, "{part}: {ours} and {theirs}");
    }
}
