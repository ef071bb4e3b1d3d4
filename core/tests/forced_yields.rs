//! Polls that give way because their budget refuses an operation.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    future::poll_fn,
    pin::pin,
    task::{Context, Poll, Waker},
};

use common::{Sim, pool};
use filch::{BUDGET, consume_budget, unconstrained, yield_now};

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
