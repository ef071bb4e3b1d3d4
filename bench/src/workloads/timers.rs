//! Timers: the cost to begin, to move and to cancel one that never ends; and how late a timer ends.

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{sync::mpsc, time::Instant};

use super::{Gate, Run};
use crate::{
    meter::{Figure, Usage, latencies},
    peers::Timers,
};

/// Far enough.
const FAR: Duration = Duration::from_secs(3_600);

pub(crate) fn costs<P: Timers>(run: Run) -> Vec<Figure> {
    let peer = P::start(run.workers);
    let timers = run.effort.scale(1_000_000);
    let (tell, told) = mpsc::channel();
    peer.submit(async move {
        let mut sleeps = Vec::with_capacity(timers);
        // The second time with warm memory.
        drop(three_costs::<P>(&mut sleeps, timers));
        tell.send(three_costs::<P>(&mut sleeps, timers)).expect("it is waited for");
    });
    told.recv().expect("the task sends")
}

/// In one poll of a task, in an empty vector with room for all.
fn three_costs<P: Timers>(sleeps: &mut Vec<P::Sleep>, timers: usize) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut measure = |name: &str, usage: Usage| {
        let mut since = usage.since(timers as f64);
        since.truncate(1);
        since[0].metric = name.into();
        figures.append(&mut since);
    };
    // One waker for all, as in a task with a thousand connections; and different deadlines, as in
    // practice.
    let mut cx = Context::from_waker(Waker::noop());
    let at = |i: usize| FAR + Duration::from_micros((i * 7_919 % 1_000_003) as u64 * 100);
    let begin = Usage::now();
    for i in 0..timers {
        sleeps.push(P::sleep(at(i)));
        // SAFETY: the vector has room, so no sleep moves until all are dropped in it.
        let sleep = unsafe { Pin::new_unchecked(&mut sleeps[i]) };
        assert!(sleep.poll(&mut cx).is_pending());
    }
    measure("create", begin);
    let begin = Usage::now();
    for (i, sleep) in sleeps.iter_mut().enumerate() {
        // SAFETY: as above.
        let mut sleep = unsafe { Pin::new_unchecked(sleep) };
        P::reset(sleep.as_mut(), FAR + at(i));
        assert!(sleep.poll(&mut cx).is_pending());
    }
    measure("reset", begin);
    let begin = Usage::now();
    sleeps.clear();
    measure("cancel", begin);
    figures
}

pub(crate) fn lateness<P: Timers>(run: Run) -> Vec<Figure> {
    const SLEEPS: usize = 10_000;
    let peer = P::start(run.workers);
    let (tell, told) = mpsc::channel();
    let gate = Gate::new(SLEEPS);
    for i in 0..SLEEPS {
        let (tell, end) = (tell.clone(), gate.clone());
        let duration = Duration::from_micros(1_000 + (i * 7_919 % 99_001) as u64);
        peer.submit(async move {
            let due = Instant::now() + duration;
            Ignore(P::sleep(duration)).await;
            let late = due.elapsed().as_nanos() as f64;
            tell.send(late).expect("it is waited for");
            end.done();
        });
    }
    gate.wait();
    drop(tell);
    let mut late: Vec<f64> = told.iter().collect();
    latencies(&mut late)
}

/// A sleep whose output does not matter.
struct Ignore<S>(S);

impl<S: Future> Future for Ignore<S> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the field is pinned as the whole is; nothing moves it.
        let sleep = unsafe { self.map_unchecked_mut(|this| &mut this.0) };
        sleep.poll(cx).map(drop)
    }
}
