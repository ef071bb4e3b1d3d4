//! What tasks show of their waits in a dump, and that they wait on as before.
#![cfg(all(feature = "task-dump", not(any(filch_loom, filch_shuttle, filch_weakmem))))]

mod common;

use core::{future::poll_fn, task::Poll, time::Duration};
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{Flag, Sim, output, pool};
use filch::{
    TaskId,
    dump::{Sink, Step, Wait, watch},
    yield_now,
};

static STEPS: Mutex<Vec<(TaskId, Step)>> = Mutex::new(Vec::new());
static SINK: Sink = Sink::new(|task, step| steps().push((task, step)));

fn steps() -> MutexGuard<'static, Vec<(TaskId, Step)>> {
    STEPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One test at a time: the sink is the program's.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn dump(sim: &Sim) -> Vec<(TaskId, Step)> {
    watch(Some(&SINK));
    sim.executor.wake_tasks();
    sim.run(0);
    watch(None);
    core::mem::take(&mut *steps())
}

fn steps_of(seen: &[(TaskId, Step)], task: TaskId) -> Vec<Step> {
    seen.iter().filter(|(id, _)| *id == task).map(|(_, step)| *step).collect()
}

#[test]
fn each_task_shows_what_it_waits_for_and_waits_on() {
    let _alone = alone();
    let sim = Sim::new(1);
    let flag = Flag::new();
    let mut waits = sim.executor.spawn(pool(), flag.wait()).unwrap();
    let mut sleeps =
        sim.executor.spawn(pool(), sim.executor.sleep(Duration::from_secs(1))).unwrap();
    let until = sim.executor.timers().now() + Duration::from_secs(1);
    let [waits_id, sleeps_id] = [waits.id(), sleeps.id()].map(Option::unwrap);
    let mut joins = sim.executor.spawn(pool(), async move { (&mut waits).await.is_ok() }).unwrap();
    let joins_id = joins.id().unwrap();
    sim.run(0);

    let seen = dump(&sim);
    let of = |task| steps_of(&seen, task);
    assert_eq!(of(waits_id), [Step::Begin, Step::Clone]);
    assert_eq!(of(sleeps_id), [Step::Begin, Step::Clone, Step::On(Wait::Sleep(until))]);
    assert_eq!(of(joins_id), [Step::Begin, Step::Clone, Step::On(Wait::Join(waits_id))]);
    // The next polls are as ever, and tell nothing.
    sim.executor.wake_tasks();
    sim.run(0);
    assert!(steps().is_empty());
    flag.set();
    sim.run(0);
    assert_eq!(output(&mut joins).ok(), Some(true));
    sim.executor.platform().advance(Duration::from_secs(2));
    sim.run(0);
    assert_eq!(output(&mut sleeps).ok(), Some(()));
}

#[test]
fn a_sink_that_panics_harms_no_task() {
    static PANICS: Sink = Sink::new(|_, step| panic!("on purpose, at {step:?}"));
    let _alone = alone();
    let sim = Sim::new(1);
    let flag = Flag::new();
    let mut task = sim.executor.spawn(pool(), flag.wait()).unwrap();
    sim.run(0);
    watch(Some(&PANICS));
    sim.executor.wake_tasks();
    sim.run(0);
    watch(None);
    // Nothing is left of its polls: what is spawned now runs by itself, and the task goes on.
    let mut other = sim.executor.spawn(pool(), yield_now()).unwrap();
    sim.run(0);
    assert_eq!(output(&mut other).ok(), Some(()));
    flag.set();
    sim.run(0);
    assert_eq!(output(&mut task).ok(), Some(()));
}

#[test]
fn a_task_that_goes_on_shows_its_last_poll() {
    let _alone = alone();
    let sim = Sim::new(1);
    let flag = Flag::new();
    let wait = flag.wait();
    let mut task = sim
        .executor
        .spawn(pool(), async move {
            let mut first = true;
            poll_fn(|cx| {
                if core::mem::take(&mut first) {
                    let _kept = cx.waker().clone();
                    return Poll::Pending;
                }
                Poll::Ready(())
            })
            .await;
            yield_now().await;
            wait.await;
        })
        .unwrap();
    let id = task.id().unwrap();
    sim.run(0);
    assert_eq!(steps_of(&dump(&sim), id), [Step::Begin, Step::Begin, Step::Clone]);
    flag.set();
    sim.run(0);
    assert_eq!(output(&mut task).ok(), Some(()));
}
