//! What is told of the wakers of marked tasks.
#![cfg(all(feature = "waker-events", not(any(filch_loom, filch_shuttle, filch_weakmem))))]

mod common;

use core::{future::poll_fn, num::NonZeroUsize, task::Poll};
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{Flag, Sim, output, pool};
use filch::{
    shield,
    waker_events::{Sink, WakerEvent, mark, watch},
    yield_now,
};

static SEEN: Mutex<Vec<(NonZeroUsize, WakerEvent)>> = Mutex::new(Vec::new());
static SINK: Sink = Sink::new(|mark, event| seen().push((mark, event)));

fn seen() -> MutexGuard<'static, Vec<(NonZeroUsize, WakerEvent)>> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn events_of(number: usize) -> Vec<WakerEvent> {
    let seen = seen();
    seen.iter().filter(|(mark, _)| mark.get() == number).map(|(_, event)| *event).collect()
}

async fn be(number: usize) {
    let marked = poll_fn(|cx| Poll::Ready(mark(cx.waker(), NonZeroUsize::new(number)))).await;
    assert!(marked);
}

/// One test at a time: the sink is the program's.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_sink_that_panics_harms_no_task() {
    static PANICS: Sink = Sink::new(|_, event| panic!("on purpose, at {event:?}"));
    let _alone = alone();
    watch(Some(&PANICS));
    let sim = Sim::new(1);
    let flag = Flag::new();
    let waits = flag.wait();
    let task = async move {
        be(5).await;
        yield_now().await;
        waits.await;
    };
    let mut task = sim.executor.spawn(pool(), task).unwrap();
    sim.run(0);
    flag.set();
    sim.run(0);
    watch(None);
    assert_eq!(output(&mut task).ok(), Some(()));
}

#[test]
fn each_clone_wake_and_drop_is_told_with_the_mark() {
    use WakerEvent::{Clone, Drop, Wake, WakeByRef};
    let _alone = alone();
    watch(Some(&SINK));
    let sim = Sim::new(1);
    let flag = Flag::new();

    let mut yields = sim
        .executor
        .spawn(pool(), async {
            be(1).await;
            yield_now().await;
        })
        .unwrap();
    let clones = || async { drop(poll_fn(|cx| Poll::Ready(cx.waker().clone())).await) };
    let mut drops = sim
        .executor
        .spawn(pool(), async move {
            be(3).await;
            clones().await;
        })
        .unwrap();
    // A shield knows the task by its waker.
    let mut waits = {
        let waits = flag.wait();
        let task = async move {
            be(2).await;
            shield(waits).await;
        };
        sim.executor.spawn(pool(), task).unwrap()
    };
    sim.run(0);
    assert!(output(&mut yields).is_ok());
    assert!(output(&mut drops).is_ok());
    assert_eq!(events_of(1), [WakeByRef]);
    assert_eq!(events_of(3), [Clone, Drop]);
    assert_eq!(events_of(2), [Clone]);
    waits.abort();
    sim.run(0);
    assert!(!waits.is_finished(), "it is shielded");
    flag.set();
    sim.run(0);
    assert!(output(&mut waits).is_ok());
    // The abort had it polled once more.
    assert_eq!(events_of(2), [Clone, Clone, Wake, Wake]);

    // The wakers of a task without a mark, be it in a slot of one that had one, tell nothing; nor does anything without a sink.
    let before = seen().len();
    for _ in 0..4 {
        sim.executor.spawn(pool(), clones()).unwrap().detach();
    }
    sim.run(0);
    assert_eq!(seen().len(), before);
    watch(None);
    let task = async move {
        be(4).await;
        clones().await;
    };
    sim.executor.spawn(pool(), task).unwrap().detach();
    sim.run(0);
    assert_eq!(events_of(4), []);
}
