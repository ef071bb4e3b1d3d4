//! Polls that give way because their budget refuses an operation.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    future::poll_fn,
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::{Context, Poll, Waker},
};

use common::{Sim, pool, quiet};
use filch::{BUDGET, BuildError, Spawner, consume_budget, unconstrained, yield_now};
use filch_test_support::on_wake;

fn forced(sim: &Sim) -> usize {
    sim.executor.metrics().workers().map(|(_, worker)| worker.forced_yields).sum()
}

/// Runs the future as a task, and tells how many of its polls had to give way.
fn forced_by(future: impl Future<Output = ()> + Send + 'static) -> usize {
    let sim = Sim::new(1);
    sim.executor.spawn(pool(), future).unwrap().detach();
    sim.run(0);
    forced(&sim)
}

async fn spend(units: u32) {
    for _ in 0..units {
        consume_budget().await;
    }
}

#[test]
fn a_poll_that_is_refused_counts_once_and_one_that_spends_all_does_not() {
    assert_eq!(forced_by(async {}), 0);
    assert_eq!(forced_by(spend(BUDGET)), 0, "nothing was refused");
    assert_eq!(forced_by(spend(BUDGET + 1)), 1);
    assert_eq!(forced_by(spend(10 * BUDGET)), 9);
    assert_eq!(forced_by(unconstrained(spend(10 * BUDGET))), 0);
    let yields = async {
        for _ in 0..10 {
            spend(BUDGET).await;
            yield_now().await;
        }
    };
    assert_eq!(forced_by(yields), 0, "it gives way by itself");
}

#[test]
fn forced_yields_follow_the_budget_of_the_configuration() {
    for budget in [1, 2, 7, 1_000, u16::MAX] {
        let sim = Sim::with(1, quiet().budget(budget));
        let units = 3 * u32::from(budget);
        sim.executor.spawn(pool(), spend(units)).unwrap().detach();
        sim.run(0);
        assert_eq!(forced(&sim), 2, "budget {budget}");
        assert_eq!(sim.executor.spawner().poll_budget(), budget.into());
    }
}

/// The next use of an executor's memory has its own budget.
#[test]
fn a_reopened_executor_has_its_new_budget() {
    let sim = Sim::with(1, quiet().budget(10));
    sim.close();
    assert_eq!(sim.executor.reopen_with(&quiet().budget(0)), Err(BuildError::ZeroBudget));
    assert_eq!(sim.executor.reopen_with(&quiet().budget(5)), Ok(true));
    sim.attach(0);
    sim.executor.spawn(pool(), spend(20)).unwrap().detach();
    sim.run(0);
    assert_eq!(forced(&sim), 3);
}

#[test]
fn a_budget_of_zero_is_refused() {
    let room = common::slots::<256, filch::parts::All>(1);
    let built = filch::Scheduler::over(common::Threads::new(), quiet().budget(0), room);
    assert_eq!(built.err(), Some(BuildError::ZeroBudget));
}

/// The runs of granted and of refused operations, of a poll of a foreign waker inside one of a task.
fn runs(spawner: Spawner, waker: &Waker, operations: usize) -> Vec<(bool, usize)> {
    let mut cx = Context::from_waker(waker);
    let granted: Vec<_> =
        (0..operations).map(|_| pin!(spawner.consume_budget()).poll(&mut cx).is_ready()).collect();
    granted.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect()
}

/// As in a foreign `block_on`: `units` are granted, as many refused, and so on; but no fewer than 16 refused.
#[test]
fn a_budget_of_a_foreign_waker_is_renewed_to_that_of_the_configuration() {
    for units in [1, 5, 16, 20] {
        let sim = Sim::with(1, quiet().budget(units));
        let spawner = sim.executor.spawner();
        let blocks = async move {
            let (units, refused) = (usize::from(units), usize::from(units).max(16));
            let runs = runs(spawner, Waker::noop(), 3 * units + 2 * refused + 1);
            let round = [(true, units), (false, refused)];
            assert_eq!(runs, [round[0], round[1], round[0], round[1], round[0], (false, 1)]);
        };
        let mut handle = sim.executor.spawn(pool(), blocks).unwrap();
        sim.run(0);
        handle.join().unwrap();
    }
}

/// As in a combinator, whose wakers wake its task: it gives way, however often it tries before.
#[test]
fn a_budget_is_not_renewed_while_its_refusals_wake_the_task() {
    for units in [1, 2, 5, 128] {
        let sim = Sim::with(1, quiet().budget(units));
        let spawner = sim.executor.spawner();
        let combines = async move {
            let own = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
            // As `FuturesUnordered` does, it wakes the task once for several refusals, or for each.
            for each in [1, 2, 100] {
                let woken = AtomicUsize::new(0);
                let own = own.clone();
                let waker = on_wake(move || {
                    if woken.fetch_add(1, SeqCst) % each == 0 {
                        own.wake_by_ref();
                    }
                });
                let units = usize::from(units);
                assert_eq!(runs(spawner, &waker, units + 1_000), [(true, units), (false, 1_000)]);
                yield_now().await;
            }
            // A foreign `block_on` after that goes on all the same.
            let waker = on_wake(move || own.wake_by_ref());
            assert_eq!(runs(spawner, &waker, usize::from(units) + 1).len(), 2);
            assert!(runs(spawner, Waker::noop(), 1 << 17).len() > 2);
        };
        let mut handle = sim.executor.spawn(pool(), combines).unwrap();
        sim.run(0);
        handle.join().unwrap();
    }
}

/// However many operations the poll tries, and of whichever waker.
#[test]
fn refusals_of_one_poll_count_once() {
    let tries = async {
        spend(BUDGET).await;
        let mut polls = 0;
        poll_fn(move |cx| {
            polls += 1;
            let mut refused = || pin!(consume_budget()).poll(cx).is_pending();
            if [(); 3].map(|()| refused()) == [polls == 1; 3] {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    };
    assert_eq!(forced_by(tries), 1);
    let sim = Sim::new(1);
    let spawner = sim.executor.spawner();
    let foreign = async move {
        spend(BUDGET).await;
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..4 {
            assert!(pin!(spawner.consume_budget()).poll(&mut cx).is_pending());
        }
    };
    sim.executor.spawn(pool(), foreign).unwrap().detach();
    sim.run(0);
    assert_eq!(forced(&sim), 1);
}

/// The worker that polls counts, and a poll below another has a budget of its own.
#[test]
fn each_budget_counts_for_its_worker() {
    let sim = Sim::new(2);
    let executor = sim.executor;
    let spends = move || assert_eq!((0..1_000).filter(|_| executor.spend_budget()).count(), 128);
    let outer = async move {
        spends();
        let inner = async move { spends() };
        executor.spawn(pool(), inner).unwrap().join().unwrap();
        spends();
    };
    executor.spawn(pool(), outer).unwrap().detach();
    sim.run(1);
    let of_each: Vec<_> = executor.metrics().workers().map(|(_, w)| w.forced_yields).collect();
    assert_eq!(of_each, [0, 3], "that of the outer poll is renewed by the wait");
    assert!(executor.spend_budget(), "outside of polls all is granted");
    assert_eq!(forced(&sim), 3);
}
