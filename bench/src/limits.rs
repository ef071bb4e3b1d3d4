//! What the machine itself takes for the operations that no executor can avoid.

use core::{
    fmt,
    hint::{black_box, spin_loop},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Instant,
};

use crate::{
    args::{Allocator, Args, Order},
    catalogue::Row,
    child,
    meter::{Effort, Figure, percentile},
    report::Line,
};

/// The name by which a process is asked to measure them.
pub(crate) const NAME: &str = "limits";
const ROUNDS: usize = 3;

const RMW: &str = "read_modify_write";
const LINE: &str = "line_transfer";
const WAKE: &str = "thread_wake";
const LOOPBACK: &str = "loopback_pair";

/// All of them, in nanoseconds.
#[derive(Debug)]
pub(crate) struct Limits(Vec<Limit>);

#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) name: String,
    pub(crate) median: f64,
    min: f64,
    max: f64,
}

impl Limits {
    /// Has other processes measure them.
    pub(crate) fn ask(quick: bool) -> Result<Self, Box<dyn core::error::Error>> {
        let order = Order { workload: NAME.into(), peer: "machine".into(), workers: 1, quick };
        let rounds: Vec<Vec<Figure>> = (0..ROUNDS)
            .map(|_| {
                Ok(child::ask(&Args::default(), &order, Allocator::Malloc)?.unwrap_or_default())
            })
            .collect::<Result<_, Box<dyn core::error::Error>>>()?;
        let limit = |at: usize| {
            let mut values: Vec<f64> = rounds.iter().map(|round| round[at].value).collect();
            let of = |values: &mut Vec<f64>, percent| percentile(values, percent);
            Limit {
                name: rounds[0][at].metric.clone(),
                median: of(&mut values, 50.0),
                min: of(&mut values, 0.0),
                max: of(&mut values, 100.0),
            }
        };
        Ok(Self((0..rounds[0].len()).map(limit).collect()))
    }

    /// The most expensive operation that a row cannot avoid.
    pub(crate) fn of(&self, row: &Row) -> Option<&Limit> {
        let name = match row.workload {
            "spawn_join_outside" | "spawn_many_remote" | "injector_fairness" => LINE,
            "wake_latency" => WAKE,
            name if crate::net::NAMES.contains(&name) => LOOPBACK,
            "uneven" | "lifo_stall" | "neighbour" | "mem_per_task" | "timer_lateness"
            | "idle_cost" | "fork_uneven" => {
                return None;
            }
            name if crate::files::NAMES.contains(&name) => return None,
            _ => RMW,
        };
        self.0.iter().find(|limit| limit.name == name)
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        let line = |limit: &Limit| Line {
            workload: NAME.into(),
            peer: "machine".into(),
            workers: 1,
            metric: limit.name.clone(),
            unit: "ns".into(),
            median: limit.median,
            min: limit.min,
            max: limit.max,
            allocs_per_op: None,
            bytes_per_op: None,
            limit: None,
        };
        self.0.iter().map(line).collect()
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("The machine:")?;
        for limit in &self.0 {
            write!(f, " {} {:.1} ns;", limit.name.replace('_', " "), limit.median)?;
        }
        Ok(())
    }
}

/// Measures them in this process.
pub(crate) fn measure(effort: Effort) -> Vec<Figure> {
    let figure = |name, value| Figure::new(name, "ns", value);
    vec![
        figure(RMW, read_modify_write(effort)),
        figure(LINE, line_transfer(effort)),
        figure(WAKE, thread_wake(effort)),
        figure(LOOPBACK, loopback_pair(effort)),
    ]
}

fn per_op(begin: Instant, operations: usize) -> f64 {
    begin.elapsed().as_nanos() as f64 / operations as f64
}

/// On a word that no other thread uses.
fn read_modify_write(effort: Effort) -> f64 {
    let n = effort.scale(10_000_000);
    let word = AtomicU64::new(0);
    let begin = Instant::now();
    for _ in 0..n {
        // Ordering: AcqRel pairs with nothing; on most processors all orderings cost the same.
        black_box(&word).fetch_add(1, Ordering::AcqRel);
    }
    per_op(begin, n)
}

/// One way, between two threads that each wait for the other's store.
fn line_transfer(effort: Effort) -> f64 {
    let n = effort.scale(1_000_000);
    let word = Arc::new(AtomicU64::new(0));
    let theirs = Arc::clone(&word);
    // Ordering: Release and Acquire pair with each other: the word is all that is passed. A pause
    // in between lets threads that share a core go on.
    let turns = move |word: &AtomicU64, parity: u64| {
        for i in 0..n as u64 {
            let mut spins = 0_u32;
            while word.load(Ordering::Acquire) != 2 * i + parity {
                spin_loop();
                spins += 1;
                if spins == 10_000 {
                    thread::yield_now();
                    spins = 0;
                }
            }
            word.store(2 * i + parity + 1, Ordering::Release);
        }
    };
    let other = thread::spawn(move || turns(&theirs, 1));
    let begin = Instant::now();
    turns(&word, 0);
    let time = per_op(begin, 2 * n);
    drop(other.join());
    time
}

/// From an unpark to the woken thread's first instruction.
fn thread_wake(effort: Effort) -> f64 {
    let n = effort.scale(500);
    let word = Arc::new(AtomicU64::new(0));
    let theirs = Arc::clone(&word);
    let origin = Instant::now();
    // Ordering: Release and Acquire pair with each other, and pass the time.
    let sleeper = thread::spawn(move || {
        let mut times = Vec::with_capacity(n);
        for _ in 0..n {
            while theirs.load(Ordering::Acquire) == 0 {
                thread::park();
            }
            let woken = origin.elapsed().as_nanos() as u64;
            times.push((woken - theirs.swap(0, Ordering::AcqRel)) as f64);
        }
        percentile(&mut times, 50.0)
    });
    for _ in 0..n {
        thread::sleep(Duration::from_micros(500));
        word.store(origin.elapsed().as_nanos() as u64, Ordering::Release);
        sleeper.thread().unpark();
        while word.load(Ordering::Acquire) != 0 {
            thread::yield_now();
        }
    }
    sleeper.join().unwrap_or(f64::NAN)
}

/// A write of 64 bytes to a connection, and the read of them at its other end, by the same thread.
fn loopback_pair(effort: Effort) -> f64 {
    let pair = || {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut a = TcpStream::connect(listener.local_addr()?)?;
        let (mut b, _) = listener.accept()?;
        a.set_nodelay(true)?;
        let n = effort.scale(50_000);
        let mut bytes = [0; 64];
        let begin = Instant::now();
        for _ in 0..n {
            a.write_all(&bytes)?;
            b.read_exact(&mut bytes)?;
        }
        Ok::<_, std::io::Error>(per_op(begin, n))
    };
    pair().unwrap_or(f64::NAN)
}
