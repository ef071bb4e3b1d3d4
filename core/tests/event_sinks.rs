//! Event sinks do what safe code can: they ask for the current task, wait, run the worker, and drop its handle.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{cell::RefCell, fmt::Debug, future::pending, time::Duration};
use std::{collections::BTreeMap, rc::Rc};

use common::{ThreadExecutor, at_event, id, parked, pool, quiet, stop, watchdog};
#[cfg(feature = "classes")]
use filch::{Class, Instant, TaskOptions};
use filch::{Event, JoinError, JoinHandle, Step, Worker, yield_now};

type Handle = Worker<common::Threads, common::Room<256>>;

/// What a sink gets for an answer, by the name of the event. If it gets several in events of one name, all of them.
type Answers<T> = BTreeMap<String, Vec<T>>;

/// Calls `ask` in each event of a worker that polls tasks of all kinds and sleeps. The handle is that of a task that does not end by itself.
fn ask_in_events<T: PartialEq + 'static>(
    ask: impl Fn(&'static ThreadExecutor, &Handle, &mut JoinHandle<()>) -> T + 'static,
) -> Answers<T> {
    let executor = parked(2, quiet());
    let worker = Rc::new(executor.worker(id(0)).unwrap());
    let answers = Rc::new(RefCell::new(Answers::new()));
    let (mine, kept) = (Rc::clone(&worker), Rc::clone(&answers));
    let waits = RefCell::new(executor.spawn(pool(), pending()).unwrap());
    at_event(move |event| {
        if matches!(event, Event::Panic(_)) {
            // That comes in user code, and may do what that may.
            return;
        }
        let answer = ask(executor, &mine, &mut waits.borrow_mut());
        let name = format!("{event:?}");
        let name = name.split(['(', ' ']).next().unwrap_or_default().to_owned();
        let mut kept = kept.borrow_mut();
        let of_event = kept.entry(name).or_insert_with(Vec::new);
        if !of_event.contains(&answer) {
            of_event.push(answer);
        }
    });
    worker.run_for(8);
    assert!(worker.begin_park().is_some());
    worker.end_park();
    spawn_all(executor);
    let totals = || executor.metrics().totals();
    while totals().completed + 1 < totals().spawned {
        if worker.step() == Step::Idle {
            worker.park();
        }
    }
    at_event(|_| {});
    drop(Rc::into_inner(worker).expect("the sink is gone"));
    stop(executor);
    Rc::into_inner(answers).map(RefCell::into_inner).unwrap_or_default()
}

fn spawn_all(executor: &'static ThreadExecutor) {
    let (memory, spawner) = (pool(), executor.spawner());
    let busy = move || async move {
        drop(spawner.spawn(memory, async {}));
        yield_now().await;
    };
    #[cfg(feature = "classes")]
    for class in [Class::Urgent, Class::Background] {
        let options = TaskOptions::new().class(class).deadline(Instant::ZERO);
        spawner.spawn_with(options, memory, busy()).unwrap().detach();
    }
    spawner.spawn(memory, busy()).unwrap().detach();
    spawner.spawn(memory, executor.sleep(Duration::from_millis(1))).unwrap().detach();
    spawner
        .spawn(memory, async { std::panic::resume_unwind(Box::new("on purpose")) })
        .unwrap()
        .detach();
}

#[track_caller]
fn always<T: PartialEq + Debug>(answers: &Answers<T>, wanted: T) {
    for event in ["Spawn", "Wake", "PollStart", "PollEnd", "End", "Park", "Unpark"] {
        let of_event = answers.get(event).map(Vec::as_slice);
        assert_eq!(of_event, Some(core::slice::from_ref(&wanted)), "{event}");
    }
}

#[cfg(feature = "classes")]
#[test]
fn a_sink_is_in_no_task() {
    let _watchdog = watchdog();
    let answers = ask_in_events(|executor, _, _| {
        let task = executor.spawner();
        (task.class(), task.set_class(Class::Urgent), task.set_deadline(Some(Instant::ZERO)))
    });
    always(&answers, (None, false, false));
    assert_eq!(answers["Class"], [(None, false, false)]);
    assert_eq!(answers["LateDeadline"], [(None, false, false)]);
}

#[test]
fn a_sink_waits_for_nothing() {
    let _watchdog = watchdog();
    let answers = ask_in_events(|executor, _, task| {
        let joins = matches!(task.join(), Err(JoinError::MustNotWait));
        let helps = executor.help_until(|| false);
        let broadcasts = executor.broadcast(|_| ()).is_ok();
        let forks = executor.fork(|_| ()).is_ok();
        (joins, helps, broadcasts, forks)
    });
    always(&answers, (true, false, false, false));
}

#[test]
fn a_sink_runs_no_worker() {
    let _watchdog = watchdog();
    let answers = ask_in_events(|executor, worker, _| {
        worker.park();
        worker.end_park();
        (worker.step(), worker.begin_park(), executor.as_poll(|| worker.run_for(1)))
    });
    always(&answers, (Step::Idle, None, 0));
}
