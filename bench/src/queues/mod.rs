//! The queues alone: the operations of a worker and of a thief.

mod crossbeam;
mod filch;
mod st3_fifo;
mod st3_lifo;

use core::{
    hint::black_box,
    ptr::NonNull,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use std::{sync::Arc, thread, time::Instant};

use crate::{
    meter::{Figure, passes, percentile},
    workloads::Run,
};

pub(crate) const NAMES: &[&str] = &["queue_push_pop", "queue_steal", "queue_steal_contended"];

/// A bounded queue with one owner, of which others steal about half.
pub(crate) trait Queue: Send + Sized + 'static {
    /// The thieves' side.
    type Victim: Send + Sync + 'static;
    /// A pointer.
    type Item: Send + 'static;

    /// A queue with room for 256 items.
    fn new() -> (Self, Self::Victim);
    fn item() -> Self::Item;
    fn has_room(&mut self) -> bool;
    /// # Safety
    /// There is room.
    unsafe fn push(&mut self, item: Self::Item);
    fn pop(&mut self) -> Option<Self::Item>;
    /// Steals half of `from` into this queue, which is empty. Returns the first item, and how many
    /// there were in all.
    fn steal(&mut self, from: &Self::Victim) -> Option<(Self::Item, usize)>;
}

/// The peers' items: as large as filch's.
#[derive(Debug)]
pub(crate) struct Pointer(#[expect(dead_code, reason = "it is only passed on")] NonNull<u64>);

// SAFETY: the pointer is never followed.
unsafe impl Send for Pointer {}

/// The peers of a workload; none depends on the number of workers.
pub(crate) fn peers(_: &str, workers: usize) -> Vec<&'static str> {
    if workers == 1 {
        vec![crate::peers::FILCH, "st3-fifo", "st3-lifo", "crossbeam-fifo"]
    } else {
        Vec::new()
    }
}

pub(crate) fn run(workload: &str, peer: &str, run: Run) -> Option<Vec<Figure>> {
    Some(match peer {
        crate::peers::FILCH => measure::<filch::Ring>(workload, run),
        "st3-fifo" => measure::<st3_fifo::Fifo>(workload, run),
        "st3-lifo" => measure::<st3_lifo::Lifo>(workload, run),
        "crossbeam-fifo" => measure::<crossbeam::Fifo>(workload, run),
        _ => return None,
    })
}

fn measure<Q: Queue>(workload: &str, run: Run) -> Vec<Figure> {
    match workload {
        "queue_push_pop" => push_pop::<Q>(run),
        "queue_steal" => steal::<Q>(run),
        _ => steal_contended::<Q>(run),
    }
}

/// The owner alone: half a queue in, then out.
fn push_pop<Q: Queue>(run: Run) -> Vec<Figure> {
    const ITEMS: usize = 128;
    const TIMES: usize = 100;
    let (mut queue, _victim) = Q::new();
    let mut items: Vec<Q::Item> = (0..ITEMS).map(|_| Q::item()).collect();
    passes(run.effort, ITEMS * TIMES, || {
        for _ in 0..TIMES {
            // SAFETY: the queue is empty.
            items.drain(..).for_each(|item| unsafe { queue.push(item) });
            items.extend(core::iter::from_fn(|| queue.pop()));
        }
    })
}

/// A thief alone. An operation is an item.
fn steal<Q: Queue>(run: Run) -> Vec<Figure> {
    const PAIRS: usize = 16;
    const ITEMS: usize = 128;
    let mut pairs: Vec<_> = (0..PAIRS).map(|_| (Q::new(), Q::new().0)).collect();
    let mut items: Vec<Q::Item> = (0..PAIRS * ITEMS).map(|_| Q::item()).collect();
    let mut times = Vec::new();
    for _ in 0..run.effort.scale(20_000) {
        for ((from, _), _) in &mut pairs {
            // SAFETY: the queue is empty.
            items.drain(items.len() - ITEMS..).for_each(|item| unsafe { from.push(item) });
        }
        let mut stolen = 0;
        let begin = Instant::now();
        for ((_, victim), to) in &mut pairs {
            if let Some((first, n)) = to.steal(victim) {
                items.push(first);
                stolen += n;
            }
        }
        times.push(begin.elapsed().as_nanos() as f64 / stolen as f64);
        for ((from, _), to) in &mut pairs {
            items.extend(core::iter::from_fn(|| from.pop()));
            items.extend(core::iter::from_fn(|| to.pop()));
        }
    }
    vec![Figure::new("time", "ns", percentile(&mut times, 50.0))]
}

/// A thief steals from a queue while its owner pushes and pops all the time. The thief spends some
/// time on each item, as a worker does: otherwise the queue has few items so soon after the last
/// steal, and the figures show only that. An operation is an item. Only the time of successful
/// steals counts, as the others may happen while the owner's thread is off its core. The figure is
/// the median of many runs of steals, as either thread may be off its core during one.
fn steal_contended<Q: Queue>(run: Run) -> Vec<Figure> {
    const STEALS: usize = 10;
    /// The time that the thief spends on each item.
    const POLL: Duration = Duration::from_nanos(100);
    let time = Duration::from_millis(if run.effort.quick { 50 } else { 300 });
    let (owner, victim) = Q::new();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let owner = thread::spawn(move || own(owner, &stopped));
    let mut thief = Q::new().0;
    let mut times = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < time {
        let (mut stolen, mut spent) = (0, Duration::ZERO);
        for _ in 0..STEALS {
            let at = Instant::now();
            if let Some((_, n)) = black_box(thief.steal(&victim)) {
                spent += at.elapsed();
                stolen += n;
            }
            // Meanwhile the owner goes on.
            let mut n = 1;
            while thief.pop().map(black_box).is_some() {
                n += 1;
            }
            let at = Instant::now();
            while at.elapsed() < n * POLL {}
        }
        if stolen > 0 {
            times.push(spent.as_nanos() as f64 / stolen as f64);
        }
    }
    // Ordering: Relaxed; nothing else is passed.
    stop.store(true, Ordering::Relaxed);
    drop(owner.join());
    vec![Figure::new("time", "ns", percentile(&mut times, 50.0))]
}

fn own<Q: Queue>(mut queue: Q, stop: &AtomicBool) {
    // Ordering: see `steal_contended`.
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..4 {
            if queue.has_room() {
                // SAFETY: only this thread pushes.
                unsafe { queue.push(Q::item()) };
            }
        }
        drop(black_box(queue.pop()));
    }
}
