//! All workloads, and the peers of each.

use crate::{
    args::Args,
    files, fork,
    meter::Figure,
    net, peers, queues,
    workloads::{self, Run},
};

/// A workload with a number of workers.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) workload: &'static str,
    pub(crate) workers: usize,
    pub(crate) peers: Vec<&'static str>,
    /// Whether the allocator matters.
    pub(crate) allocates: bool,
}

/// A family of workloads that have the same peers.
struct Family {
    workloads: &'static [&'static str],
    peers: fn(workload: &str, workers: usize) -> Vec<&'static str>,
    run: fn(workload: &str, peer: &str, run: Run) -> Option<Vec<Figure>>,
}

const FAMILIES: &[Family] = &[
    Family { workloads: workloads::NAMES, peers: executors, run: workloads::run },
    Family { workloads: queues::NAMES, peers: queues::peers, run: queues::run },
    Family { workloads: fork::NAMES, peers: fork::peers, run: fork::run },
    Family { workloads: net::NAMES, peers: net::peers, run: net::run },
    Family { workloads: files::NAMES, peers: files::peers, run: files::run },
];

/// Workloads that are not measured with a second allocator: memory has no part in them, or a small
/// one.
const NO_MEMORY: &[&str] = &[
    "yield_many",
    "wake_latency",
    "uneven",
    "injector_fairness",
    "lifo_stall",
    "neighbour",
    "mem_per_task",
    "timer_lateness",
    "idle_cost",
    "queue_push_pop",
    "queue_steal",
    "queue_steal_contended",
    "fork_fib",
    "fork_tree_small",
    "fork_tree_large",
    "fork_uneven",
    "tcp_echo_1",
    "tcp_echo_64",
    "tcp_echo_512",
    "http_hello",
    "mixed_100us",
    "mixed_1ms",
    "file_read_1",
    "file_read_64",
    "file_write_1",
    "file_whole",
    "file_small",
];

/// Whether a figure is a peer's: neither filch's nor that of a bare thread, the plain
/// computation, or another build of this program.
pub(crate) fn is_rival(peer: &str) -> bool {
    let others =
        [peers::FILCH, peers::FILCH_STD, files::POOL, workloads::BARE_THREAD, fork::SEQUENTIAL];
    !others.contains(&peer) && !peers::ELSEWHERE.contains(&peer)
}

fn executors(workload: &str, workers: usize) -> Vec<&'static str> {
    if workers == 1 && workloads::NEED_TWO.contains(&workload) {
        return Vec::new();
    }
    let mut names = peers::names(workers);
    if workload == "wake_latency" {
        names.push(workloads::BARE_THREAD);
    }
    names
}

/// The rows that are asked for.
pub(crate) fn rows(args: &Args) -> Vec<Row> {
    let mut rows = Vec::new();
    for (family, workload) in all() {
        if !args.only.is_empty() && !args.only.iter().any(|only| only == workload) {
            continue;
        }
        for &workers in &args.workers {
            let mut peers = (family.peers)(workload, workers);
            let wanted = |peer: &&str| {
                args.peers.is_empty()
                    || *peer == peers::FILCH
                    || args.peers.iter().any(|name| name == peer)
            };
            peers.retain(wanted);
            // Those that cannot run it are left out later.
            peers.extend(args.programs.iter().map(|(peer, _)| peer));
            if !peers.is_empty() {
                let allocates = !NO_MEMORY.contains(&workload);
                rows.push(Row { workload, workers, peers, allocates });
            }
        }
    }
    rows
}

fn all() -> impl Iterator<Item = (&'static Family, &'static str)> {
    FAMILIES.iter().flat_map(|family| family.workloads.iter().map(move |name| (family, *name)))
}

pub(crate) fn is_workload(name: &str) -> bool {
    all().any(|(_, workload)| workload == name)
}

pub(crate) fn is_peer(name: &str) -> bool {
    all().any(|(family, workload)| {
        [1, 2].iter().any(|&workers| (family.peers)(workload, workers).contains(&name))
    })
}

/// Measures in this process. `None` if there is no such workload or peer, or the peer cannot run
/// it.
pub(crate) fn run(workload: &str, peer: &str, run: Run) -> Option<Vec<Figure>> {
    let (family, _) = all().find(|(_, name)| *name == workload)?;
    (family.run)(workload, peer, run)
}

pub(crate) fn print() {
    for (family, workload) in all() {
        let mut names = (family.peers)(workload, 1);
        for name in (family.peers)(workload, 2) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        println!("{workload}: {}", names.join(" "));
    }
}
