//! Aborts and shields: when a task that was asked to end does so.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    future::{Future, pending, poll_fn, ready},
    sync::atomic::Ordering::SeqCst,
    task::Poll,
};
use std::sync::{Arc, Mutex};

use common::{Drops, Flag, Log, Sim, output, pool, watched::watched};
use filch::{JoinHandle, shield, yield_now};

#[test]
fn an_abort_before_the_first_poll_means_no_poll() {
    let mut t = watched();
    t.handle.abort();
    assert_eq!(t.log.take(), [], "the future is not dropped by `abort`");
    assert!(!t.handle.is_finished());
    assert_eq!(t.sim.run(0), 1);
    assert_eq!(t.log.take(), [Some(0)], "once, on the worker");
    assert_eq!(t.polls.load(SeqCst), 0);
    assert!(output(&mut t.handle).unwrap_err().is_cancelled());
}

#[test]
fn an_abort_of_an_idle_task_wakes_it_to_its_end() {
    let mut t = watched();
    assert_eq!(t.sim.run(0), 1);
    t.handle.abort();
    t.handle.abort();
    assert_eq!(t.log.take(), []);
    assert_eq!(t.sim.run(0), 1);
    assert_eq!(t.log.take(), [Some(0)]);
    assert_eq!(t.polls.load(SeqCst), 1);
    assert!(output(&mut t.handle).unwrap_err().is_cancelled());
    t.flag.set();
    assert_eq!(t.sim.run(0), 0, "a wake after the end is nothing");
    assert_eq!(t.log.take(), []);
}

#[test]
fn an_abort_after_completion_changes_nothing() {
    let mut t = watched();
    let abort = t.handle.abort_handle().unwrap();
    t.sim.run(0);
    assert!(!abort.is_finished());
    t.flag.set();
    assert_eq!(t.sim.run(0), 1);
    assert!(abort.is_finished() && t.handle.is_finished());
    t.handle.abort();
    abort.abort();
    assert_eq!(t.sim.run(0), 0);
    assert!(output(&mut t.handle).is_ok());
    assert_eq!(t.log.take(), [Some(0)]);
}

#[test]
fn an_abort_handle_works_without_the_handle() {
    let t = watched();
    let abort = t.handle.abort_handle().unwrap();
    t.handle.detach();
    t.sim.run(0);
    assert_eq!(t.log.take(), []);
    abort.try_clone().unwrap().abort();
    assert!(!abort.is_finished());
    t.sim.run(0);
    assert_eq!(t.log.take(), [Some(0)]);
    assert!(abort.is_finished());
}

/// A place for the handle of a task that needs its own handle.
type Own<T> = Arc<Mutex<Option<JoinHandle<T>>>>;

#[test]
fn an_abort_of_the_running_task_takes_effect_at_the_end_of_its_poll() {
    let sim = Sim::new(1);
    let own: Own<()> = Arc::default();
    let (inside, drops, log) = (Arc::clone(&own), Drops::new(), Log::new());
    let (tally, seen, count) = (drops.tally(), log.clone(), drops.clone());
    let future = async move {
        let _tally = tally;
        inside.lock().unwrap().as_ref().unwrap().abort();
        seen.push(count.count());
        ready(()).await;
        seen.push(count.count());
        yield_now().await;
        unreachable!("the poll before was the last");
    };
    *own.lock().unwrap() = Some(sim.executor.spawn(pool(), future).unwrap());
    sim.run(0);
    assert_eq!(log.take(), [0, 0], "the poll goes on to its end");
    assert_eq!(drops.count(), 1);
    let mut handle = own.lock().unwrap().take().unwrap();
    assert!(output(&mut handle).unwrap_err().is_cancelled());
}

#[test]
fn a_task_that_completes_in_the_poll_that_aborts_it_has_an_output() {
    let sim = Sim::new(1);
    let own: Own<u8> = Arc::default();
    let inside = Arc::clone(&own);
    let future = async move {
        inside.lock().unwrap().as_ref().unwrap().abort();
        8
    };
    *own.lock().unwrap() = Some(sim.executor.spawn(pool(), future).unwrap());
    sim.run(0);
    let mut handle = own.lock().unwrap().take().unwrap();
    assert_eq!(output(&mut handle).unwrap(), 8);
}

#[test]
fn a_shield_defers_an_abort() {
    let sim = Sim::new(1);
    let (inner, outer, log) = (Flag::new(), Flag::new(), Log::new());
    let (shielded, after, seen) = (inner.wait(), outer.wait(), log.clone());
    let mut handle = sim
        .executor
        .spawn(pool(), async move {
            shield(shielded).await;
            seen.push("through the shield");
            after.await;
            seen.push("never");
        })
        .unwrap();
    sim.run(0);
    handle.abort();
    sim.run(0);
    assert!(!handle.is_finished(), "the shield holds");
    inner.set();
    sim.run(0);
    assert_eq!(log.take(), ["through the shield"]);
    assert!(output(&mut handle).unwrap_err().is_cancelled());
}

#[test]
fn nested_shields_hold_until_the_last_is_down() {
    let sim = Sim::new(1);
    let flags = [Flag::new(), Flag::new(), Flag::new()];
    let [a, b, c] = [flags[0].wait(), flags[1].wait(), flags[2].wait()];
    let log = Log::new();
    let seen = log.clone();
    let mut handle = sim
        .executor
        .spawn(pool(), async move {
            shield(async {
                shield(async {
                    a.await;
                    seen.push('a');
                })
                .await;
                b.await;
                seen.push('b');
            })
            .await;
            c.await;
            seen.push('c');
        })
        .unwrap();
    sim.run(0);
    let mut shields = Vec::new();
    sim.executor.tasks(|task| shields.push((task.shields, task.cancelled)));
    assert_eq!(shields, [(2, false)]);
    handle.abort();
    sim.run(0);
    assert!(!handle.is_finished());
    flags[0].set();
    sim.run(0);
    assert!(!handle.is_finished());
    assert_eq!(log.take(), ['a']);
    flags[1].set();
    sim.run(0);
    assert_eq!(log.take(), ['b']);
    assert!(output(&mut handle).unwrap_err().is_cancelled());
}

#[test]
fn a_dropped_shield_is_down() {
    let sim = Sim::new(1);
    let (drop_it, log) = (Flag::new(), Log::new());
    let (wait, seen) = (drop_it.wait(), log.clone());
    let mut handle = sim
        .executor
        .spawn(pool(), async move {
            let mut shielded = Box::pin(shield(pending::<()>()));
            // Polled once, so that it is up.
            poll_fn(|cx| {
                assert!(shielded.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            wait.await;
            drop(shielded);
            seen.push("lowered");
            pending::<()>().await;
        })
        .unwrap();
    sim.run(0);
    handle.abort();
    sim.run(0);
    assert!(!handle.is_finished());
    drop_it.set();
    sim.run(0);
    assert_eq!(log.take(), ["lowered"]);
    assert!(output(&mut handle).unwrap_err().is_cancelled());
}

#[test]
fn more_shields_than_can_be_counted_stay_up() {
    let sim = Sim::new(1);
    let flag = Flag::new();
    let wait = flag.wait();
    let mut handle = sim
        .executor
        .spawn(pool(), async move {
            let mut shields: Vec<_> = (0..300).map(|_| Box::pin(shield(pending::<()>()))).collect();
            poll_fn(|cx| {
                shields.iter_mut().for_each(|s| assert!(s.as_mut().poll(cx).is_pending()));
                Poll::Ready(())
            })
            .await;
            shields.clear();
            wait.await;
            "to the end"
        })
        .unwrap();
    sim.run(0);
    handle.abort();
    sim.run(0);
    assert!(!handle.is_finished(), "such a task can no longer be cancelled");
    flag.set();
    sim.run(0);
    assert_eq!(output(&mut handle).unwrap(), "to the end");
}
