//! How long tasks wait and are polled, by class: the events of the scheduler, timed and counted.
//!
//! Idea: tokio-metrics' instrumented tasks, and HdrHistogram's buckets. The events come here from the platform, so that no task is wrapped; a
//! worker writes its own counters alone, so that none is shared; and the time of a wake lies in a table by the task's address.

use core::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use filch::{Class, Event, Instant, WorkerId};

use crate::context::Handle;

/// Wakes whose times are kept at once. Of two tasks with one place, the later wake counts.
const PLACES: usize = 4096;
/// Buckets for each doubling of the time: a quantile is at most an eighth too large.
const PARTS: usize = 8;
const BUCKETS: usize = 61 * PARTS;
/// Polls on top of each other whose classes are kept.
const DEPTH: usize = 16;

/// What the tasks of one class have done on all workers, and how long they have waited. A snapshot: [`Handle::class_metrics`].
///
/// A task waits from its spawn, its wake or the end of a poll in which it was woken, to its next poll. Two wakes in 4096 or fewer may share a
/// place in the table of times; then the earlier one is not counted, and neither are wakes by handlers of signals.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassMetrics {
    /// Tasks that wait for a worker now.
    pub queued: usize,
    /// Polls that have begun.
    pub polls: u64,
    /// The time in polls. A poll on top of another one, in sync code, counts for its own class alone.
    pub busy: Duration,
    /// Polls that began after the deadlines of their tasks; of urgent tasks.
    pub late: u64,
    delays: Box<[u64]>,
    longest: u64,
}

impl ClassMetrics {
    /// How many waits were timed.
    pub fn waits(&self) -> u64 {
        self.delays.iter().sum()
    }

    /// The time that this part of the waits were shorter than, or a little more: 0.5 is the median. 0 if there was no wait; a part
    /// below 0 counts as 0, one above 1 as 1.
    ///
    /// ```
    /// # use filch_std::Class;
    /// let runtime = filch_std::Runtime::builder().workers(1).class_metrics(true).build()?;
    /// runtime.block_on(async { filch_std::spawn(async {}).await }).unwrap();
    /// let normal = runtime.handle().class_metrics(Class::Normal);
    /// assert!(normal.polls >= 1 && normal.delay(0.5) <= normal.delay(0.99));
    /// # Ok::<(), filch_std::BuildError>(())
    /// ```
    pub fn delay(&self, part: f64) -> Duration {
        let waits = self.waits();
        let rank = ((waits as f64 * part.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        let reaches = |n: &u64| {
            seen += n;
            seen >= rank
        };
        match self.delays.iter().position(reaches) {
            Some(bucket) => Duration::from_nanos(upper(bucket).min(self.longest)),
            None => Duration::ZERO,
        }
    }

    /// The longest wait since the runtime began.
    pub fn longest_delay(&self) -> Duration {
        Duration::from_nanos(self.longest)
    }

    /// What has happened since an earlier snapshot. The longest delay is still that since the runtime began.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let delays = self.delays.iter().zip(&earlier.delays);
        Self {
            queued: self.queued,
            polls: self.polls.saturating_sub(earlier.polls),
            busy: self.busy.saturating_sub(earlier.busy),
            late: self.late.saturating_sub(earlier.late),
            delays: delays.map(|(now, then)| now.saturating_sub(*then)).collect(),
            longest: self.longest,
        }
    }
}

impl fmt::Debug for ClassMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queued, polls, busy, late, .. } = self;
        f.debug_struct("ClassMetrics")
            .field("queued", queued)
            .field("polls", polls)
            .field("busy", busy)
            .field("late", late)
            .field("median_delay", &self.delay(0.5))
            .field("p99_delay", &self.delay(0.99))
            .field("longest_delay", &self.longest_delay())
            .finish_non_exhaustive()
    }
}

fn bucket(nanos: u64) -> usize {
    let nanos = nanos.max(PARTS as u64);
    let log = nanos.ilog2() as usize;
    let part = (nanos >> (log - PARTS.ilog2() as usize)) as usize % PARTS;
    ((log - PARTS.ilog2() as usize) * PARTS + part).min(BUCKETS - 1)
}

/// The end of a bucket.
fn upper(bucket: usize) -> u64 {
    let (log, part) = (bucket / PARTS, bucket % PARTS);
    let next = (PARTS + part + 1) as u128;
    u64::try_from((next << log) - 1).unwrap_or(u64::MAX)
}

/// What a runtime keeps for all this.
pub(crate) struct Times {
    on: AtomicBool,
    wakes: Box<[Wake]>,
    workers: Box<[Worker]>,
}

/// When a task was woken.
#[derive(Default)]
struct Wake {
    task: AtomicUsize,
    at: AtomicU64,
}

/// The counters of one worker, which alone writes them.
#[derive(Default)]
#[repr(align(128))]
struct Worker {
    /// The class of the poll that begins next, plus one; 0 for a normal one.
    next: AtomicU8,
    depth: AtomicUsize,
    /// The classes of its polls, the lowest on the stack first.
    stack: [AtomicU8; DEPTH],
    /// When the poll on top began, or went on.
    since: AtomicU64,
    classes: [Counts; 3],
}

struct Counts {
    polls: AtomicU64,
    busy: AtomicU64,
    late: AtomicU64,
    longest: AtomicU64,
    delays: Box<[AtomicU64]>,
}

impl Default for Counts {
    fn default() -> Self {
        let delays = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self {
            polls: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            late: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            delays,
        }
    }
}

/// Ordering: one writer, or counts that are read as a snapshot: none is in an order with others.
const LOOSE: Ordering = Ordering::Relaxed;

fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(LOOSE).wrapping_add(n), LOOSE);
}

impl Times {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            on: AtomicBool::new(false),
            wakes: (0..PLACES).map(|_| Wake::default()).collect(),
            workers: (0..workers).map(|_| Worker::default()).collect(),
        }
    }

    /// A runtime begins here, with these times or without. Its workers do not run yet.
    pub(crate) fn turn(&self, on: bool) {
        for counts in self.workers.iter().flat_map(|worker| &worker.classes) {
            let all = [&counts.polls, &counts.busy, &counts.late, &counts.longest];
            all.into_iter().chain(&counts.delays).for_each(|count| count.store(0, LOOSE));
        }
        self.on.store(on, LOOSE);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(LOOSE)
    }

    fn place(&self, task: usize) -> Option<&Wake> {
        // Headers are 64 bytes apart or more.
        let hash = (task >> 5).wrapping_mul(0x9E37_79B1) >> 7;
        self.wakes.get(hash % PLACES)
    }

    /// An event of the scheduler's, at this time.
    pub(crate) fn event(
        &self,
        worker: Option<WorkerId>,
        event: Event,
        now: impl FnOnce() -> Instant,
    ) {
        let mine = worker.and_then(|worker| self.workers.get(worker.index()));
        match (event, mine) {
            (Event::Spawn(task), _) => self.wait(task.task(), now()),
            (Event::Wake(task), _) => self.wait(task, now()),
            (Event::Class { class, .. }, Some(mine)) => mine.next.store(class as u8 + 1, LOOSE),
            (Event::LateDeadline { .. }, Some(mine)) => {
                add(&mine.classes[Class::Urgent as usize].late, 1);
            }
            (Event::PollStart(task), Some(mine)) => self.begin(mine, task, now().as_nanos()),
            (Event::PollEnd(_), Some(mine)) => mine.end(now().as_nanos()),
            _ => {}
        }
    }

    /// The task waits for a worker from now on.
    fn wait(&self, task: usize, now: Instant) {
        if let Some(place) = self.place(task) {
            place.at.store(now.as_nanos(), LOOSE);
            // Ordering: Release pairs with the Acquire in `begin`: the time is that of this task.
            place.task.store(task, Ordering::Release);
        }
    }

    fn begin(&self, mine: &Worker, task: usize, now: u64) {
        let class = match mine.next.load(LOOSE) {
            0 => Class::Normal as u8,
            class => class - 1,
        };
        mine.next.store(0, LOOSE);
        mine.charge(now);
        let depth = mine.depth.load(LOOSE);
        mine.depth.store(depth + 1, LOOSE);
        if let Some(level) = mine.stack.get(depth) {
            level.store(class, LOOSE);
        }
        let Some(counts) = mine.classes.get(usize::from(class)) else { return };
        add(&counts.polls, 1);
        // Ordering: Acquire pairs with the Release in `event`.
        let is_its = |place: &&Wake| place.task.load(Ordering::Acquire) == task;
        let Some(place) = self.place(task).filter(is_its) else { return };
        let waited = now.saturating_sub(place.at.load(LOOSE));
        place.task.store(0, LOOSE);
        if let Some(count) = counts.delays.get(bucket(waited)) {
            add(count, 1);
        }
        counts.longest.store(counts.longest.load(LOOSE).max(waited), LOOSE);
    }

    pub(crate) fn snapshot(&self, class: Class, queued: usize) -> ClassMetrics {
        let of = |worker: &Worker| -> Option<ClassMetrics> {
            let counts = worker.classes.get(class as usize)?;
            Some(ClassMetrics {
                queued: 0,
                polls: counts.polls.load(LOOSE),
                busy: Duration::from_nanos(counts.busy.load(LOOSE)),
                late: counts.late.load(LOOSE),
                delays: counts.delays.iter().map(|count| count.load(LOOSE)).collect(),
                longest: counts.longest.load(LOOSE),
            })
        };
        let none = ClassMetrics {
            queued,
            polls: 0,
            busy: Duration::ZERO,
            late: 0,
            delays: vec![0; BUCKETS].into(),
            longest: 0,
        };
        self.workers.iter().filter_map(of).fold(none, |mut all, one| {
            all.polls += one.polls;
            all.busy += one.busy;
            all.late += one.late;
            all.longest = all.longest.max(one.longest);
            all.delays.iter_mut().zip(&one.delays).for_each(|(all, one)| *all += one);
            all
        })
    }
}

impl Worker {
    /// The poll on top has lasted until now.
    fn charge(&self, now: u64) {
        let since = self.since.swap(now, LOOSE);
        let Some(top) = self.depth.load(LOOSE).checked_sub(1) else { return };
        let class = self.stack.get(top).map(|class| class.load(LOOSE));
        if let Some(counts) = class.and_then(|class| self.classes.get(usize::from(class))) {
            add(&counts.busy, now.saturating_sub(since));
        }
    }

    fn end(&self, now: u64) {
        self.charge(now);
        self.depth.store(self.depth.load(LOOSE).saturating_sub(1), LOOSE);
    }
}

impl Handle {
    /// What tasks of this class have done since the runtime began, and how long they have waited. All zero but for `queued`, unless
    /// [`Builder::class_metrics`](crate::Builder::class_metrics) has turned the times on; in a forked child, without exception.
    ///
    /// Cost: a look at each task that lives, and at 500 counters of each worker; meant for once a second. Not for signal handlers.
    ///
    /// ```
    /// use filch_std::{Class, TaskOptions};
    /// let runtime = filch_std::Runtime::builder().workers(2).class_metrics(true).build()?;
    /// let urgent = TaskOptions::new().class(Class::Urgent);
    /// let handle = *runtime.handle();
    /// runtime.block_on(handle.spawn_with(urgent, async {})?)?;
    /// let urgent = handle.class_metrics(Class::Urgent);
    /// assert_eq!((urgent.polls, urgent.queued, urgent.late), (1, 0, 0));
    /// println!("{:?} {:?} {:?}", urgent.delay(0.5), urgent.delay(0.99), urgent.longest_delay());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn class_metrics(&self, class: Class) -> ClassMetrics {
        if self.check().is_err() {
            return Times::new(0).snapshot(class, 0);
        }
        self.0.core.class_metrics(class)
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, PARTS, bucket, upper};

    #[test]
    fn a_time_is_in_the_bucket_that_ends_at_or_after_it() {
        let times = (0..63).flat_map(|log| [0, 1, 7].map(|more| (1_u64 << log) + more));
        for nanos in times {
            let at = bucket(nanos);
            assert!(at < BUCKETS && upper(at) >= nanos, "{nanos} {at}");
            let begins = if at == 0 { 0 } else { upper(at - 1) + 1 };
            assert!(begins <= nanos.max(PARTS as u64), "{nanos} {at}");
            assert!(nanos < 16 || upper(at) - nanos <= nanos / PARTS as u64, "{nanos} {at}");
        }
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
