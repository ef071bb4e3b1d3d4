//! The programs that are measured, each on any executor.

mod chained;
mod fairness;
mod idle;
mod lifo_stall;
mod memory;
mod neighbour;
mod ping_pong;
mod spawn_join;
mod spawn_many;
mod timers;
mod uneven;
mod wake_latency;
mod yield_many;

use core::sync::atomic::{AtomicUsize, Ordering};
use std::{
    sync::Arc,
    thread::{self, Thread},
};

use crate::{
    meter::{Effort, Figure},
    peers::{Join, Peer, Timers, Visit, visit},
};

/// The scheduler's workloads, in the order in which they are shown.
pub(crate) const NAMES: &[&str] = &[
    "spawn_join_inside",
    "spawn_join_outside",
    "spawn_many_local",
    "spawn_many_remote",
    "yield_many",
    "ping_pong",
    "chained_spawn",
    "wake_latency",
    "uneven",
    "injector_fairness",
    "lifo_stall",
    "neighbour",
    "mem_per_task",
    "timers",
    "timer_lateness",
    "idle_cost",
];

/// Workloads that are meaningless with one worker.
pub(crate) const NEED_TWO: &[&str] = &["lifo_stall", "neighbour"];

/// A thread that another one unparks: a lower bound for every executor.
pub(crate) const BARE_THREAD: &str = "thread";

/// Measures one workload on one peer in this process. `None` if the peer cannot run it.
pub(crate) fn run(workload: &str, peer: &str, run: Run) -> Option<Vec<Figure>> {
    if peer == BARE_THREAD {
        return (workload == "wake_latency").then(|| wake_latency::bare(run));
    }
    visit(peer, Choose { workload, run })?
}

/// The parameters of a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) workers: usize,
    pub(crate) effort: Effort,
}

struct Choose<'a> {
    workload: &'a str,
    run: Run,
}

impl Visit for Choose<'_> {
    type Output = Option<Vec<Figure>>;

    fn peer<P: Peer>(self) -> Self::Output {
        let run = self.run;
        Some(match self.workload {
            "spawn_many_local" => spawn_many::local::<P>(run),
            "spawn_many_remote" => spawn_many::remote::<P>(run),
            "yield_many" => yield_many::run::<P>(run),
            "ping_pong" => ping_pong::run::<P>(run),
            "mem_per_task" => memory::run::<P>(run),
            _ => return None,
        })
    }

    fn join<P: Join>(self) -> Self::Output {
        let run = self.run;
        Some(match self.workload {
            "spawn_join_inside" => spawn_join::inside::<P>(run),
            "spawn_join_outside" => spawn_join::outside::<P>(run),
            "chained_spawn" => chained::run::<P>(run),
            "wake_latency" => wake_latency::run::<P>(run),
            "uneven" => uneven::run::<P>(run),
            "injector_fairness" => fairness::run::<P>(run),
            "lifo_stall" => lifo_stall::run::<P>(run),
            "neighbour" => neighbour::run::<P>(run),
            "idle_cost" => idle::run::<P>(run),
            _ => return self.peer::<P>(),
        })
    }

    fn timers<P: Timers>(self) -> Self::Output {
        let run = self.run;
        Some(match self.workload {
            "timers" => timers::costs::<P>(run),
            "timer_lateness" => timers::lateness::<P>(run),
            _ => return self.join::<P>(),
        })
    }
}

/// A number of events that a thread waits for.
pub(crate) struct Gate {
    left: AtomicUsize,
    waiter: Thread,
}

impl Gate {
    /// For the calling thread.
    pub(crate) fn new(things: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(things), waiter: thread::current() })
    }

    /// One of the events has happened.
    pub(crate) fn done(&self) {
        // Ordering: AcqRel pairs with the Acquire in `wait`, and with itself: the waiter sees what
        // all threads have done.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.unpark();
        }
    }

    pub(crate) fn wait(&self) {
        // Ordering: pairs with the Release in `done`.
        while self.left.load(Ordering::Acquire) > 0 {
            thread::park();
        }
    }
}
