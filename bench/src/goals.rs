//! The goals of filch, row by row.

use Bound::{AtLeast, AtLeastOfPeer, AtMost, OfPeer};

/// The bound of a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
    /// At most so many times the figure of that peer.
    OfPeer(f64, &'static str),
    /// At least so many times the figure of that peer.
    AtLeastOfPeer(f64, &'static str),
}

/// A goal for a metric, for one number of workers or for any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) workload: &'static str,
    pub(crate) metric: &'static str,
    pub(crate) workers: Option<usize>,
    pub(crate) bound: Bound,
}

const fn goal(
    workload: &'static str,
    metric: &'static str,
    workers: Option<usize>,
    bound: Bound,
) -> Goal {
    Goal { workload, metric, workers, bound }
}

const GOALS: &[Goal] = &[
    goal("spawn_join_inside", "time", None, AtMost(130.0)),
    goal("spawn_join_outside", "time", None, OfPeer(0.4, "tokio")),
    goal("spawn_many_local", "time", Some(1), AtMost(100.0)),
    goal("spawn_many_local", "time", Some(2), AtMost(80.0)),
    goal("spawn_many_remote", "time", None, AtMost(120.0)),
    goal("yield_many", "time", Some(1), AtMost(25.0)),
    goal("yield_many", "time", Some(2), AtMost(15.0)),
    goal("ping_pong", "time", Some(1), AtMost(600.0)),
    goal("ping_pong", "time", Some(2), AtMost(500.0)),
    goal("chained_spawn", "time", None, AtMost(100.0)),
    goal("wake_latency", "p50", None, OfPeer(1.2, "thread")),
    goal("wake_latency", "p99", None, OfPeer(1.5, "thread")),
    goal("uneven", "efficiency", None, AtLeast(98.0)),
    goal("injector_fairness", "p50", None, AtMost(6.0)),
    goal("injector_fairness", "p99", None, AtMost(12.0)),
    goal("lifo_stall", "delay", None, AtMost(1_000.0)),
    goal("neighbour", "first", None, AtMost(20_000.0)),
    goal("neighbour", "again", None, AtMost(1_000.0)),
    goal("mem_per_task", "heap", None, AtMost(96.0)),
    goal("timers", "create", None, AtMost(60.0)),
    goal("timers", "reset", None, AtMost(60.0)),
    goal("timers", "cancel", None, AtMost(60.0)),
    goal("timer_lateness", "p50", None, AtMost(10.0)),
    goal("timer_lateness", "p99", None, AtMost(500.0)),
    goal("idle_cost", "switches", None, AtMost(0.0)),
    goal("queue_push_pop", "time", None, AtMost(10.0)),
    goal("queue_steal", "time", None, AtMost(2.5)),
    goal("queue_steal_contended", "time", None, AtMost(20.0)),
    goal("fork_fib", "added", Some(1), AtMost(2.0)),
    goal("fork_fib", "added", Some(2), AtMost(2.5)),
    goal("fork_tree_small", "added", Some(1), AtMost(3.0)),
    goal("fork_tree_small", "added", Some(2), AtMost(10.0)),
    goal("fork_tree_large", "speedup", Some(1), AtLeast(1.0)),
    goal("fork_tree_large", "speedup", Some(2), AtLeast(2.0)),
    goal("fork_uneven", "efficiency", None, AtLeast(95.0)),
    goal("tcp_echo_1", "cpu", Some(1), OfPeer(0.95, "tokio")),
    goal("tcp_echo_1", "cpu", Some(2), OfPeer(0.8, "tokio")),
    goal("tcp_echo_1", "rate", Some(1), AtLeastOfPeer(1.0, "tokio")),
    goal("tcp_echo_1", "rate", Some(2), AtLeastOfPeer(1.2, "tokio")),
    goal("tcp_echo_1", "p99", None, OfPeer(1.0, "tokio")),
    goal("tcp_echo_64", "cpu", Some(1), OfPeer(0.95, "tokio")),
    goal("tcp_echo_64", "cpu", Some(2), OfPeer(0.8, "tokio")),
    goal("tcp_echo_64", "rate", Some(1), AtLeastOfPeer(1.0, "tokio")),
    goal("tcp_echo_64", "rate", Some(2), AtLeastOfPeer(1.2, "tokio")),
    goal("tcp_echo_64", "p99", None, OfPeer(1.0, "tokio")),
    goal("tcp_echo_512", "cpu", Some(1), OfPeer(0.95, "tokio")),
    goal("tcp_echo_512", "cpu", Some(2), OfPeer(0.8, "tokio")),
    goal("tcp_echo_512", "rate", Some(1), AtLeastOfPeer(1.0, "tokio")),
    goal("tcp_echo_512", "rate", Some(2), AtLeastOfPeer(1.2, "tokio")),
    goal("tcp_echo_512", "p99", None, OfPeer(1.0, "tokio")),
    goal("http_hello", "cpu", Some(1), OfPeer(0.95, "tokio")),
    goal("http_hello", "cpu", Some(2), OfPeer(0.8, "tokio")),
    goal("http_hello", "rate", Some(1), AtLeastOfPeer(1.0, "tokio")),
    goal("http_hello", "rate", Some(2), AtLeastOfPeer(1.25, "tokio")),
    goal("http_hello", "p99", None, OfPeer(1.0, "tokio")),
];

/// The goals of a row.
pub(crate) fn of(workload: &str, workers: usize) -> impl Iterator<Item = &'static Goal> {
    GOALS.iter().filter(move |goal| {
        goal.workload == workload && goal.workers.is_none_or(|only| only == workers)
    })
}
