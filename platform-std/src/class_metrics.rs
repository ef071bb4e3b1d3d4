//! How long tasks wait and are polled, by class: the events of the scheduler, timed and counted.
//!
//! Idea: tokio-metrics' instrumented tasks. The events come here from the platform, so that no task is wrapped; a
//! worker writes its own counters alone, so that none is shared; and the time of a wake lies in a table by the task's address.

use core::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use filch::{Class, Event, Instant, WorkerId};

use crate::histogram::{Histogram, Recorded, add};

/// Wakes whose times are kept at once. Of two tasks with one place, the later wake counts.
const PLACES: usize = 4096;
/// Polls on top of each other whose classes are kept.
const DEPTH: usize = 16;

/// What the tasks of one class have done on all workers, and how long they have waited. A snapshot:
/// [`Handle::class_metrics`](crate::Handle::class_metrics).
///
/// A task waits from its spawn, its wake or the end of a poll in which it was woken, to its next poll. Two wakes in 4096 or fewer may share
/// a place in the table of times; then the earlier one is not counted, and neither are wakes by handlers of signals.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// How long tasks waited for a worker, before each poll.
    pub waits: Histogram,
    /// How long the polls that are over were; without those on top of them, which are polls of their own. `busy` has those under way too.
    pub poll_times: Histogram,
}

impl ClassMetrics {
    /// What has happened since an earlier snapshot. `queued` is as it is now, and the longest times are those since the runtime began.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            queued: self.queued,
            polls: self.polls.saturating_sub(earlier.polls),
            busy: self.busy.saturating_sub(earlier.busy),
            late: self.late.saturating_sub(earlier.late),
            waits: self.waits.since(&earlier.waits),
            poll_times: self.poll_times.since(&earlier.poll_times),
        }
    }
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
    /// How long each of them has lasted so far, up to `since`.
    spent: [AtomicU64; DEPTH],
    /// When the poll on top began, or went on.
    since: AtomicU64,
    classes: [Counts; 3],
}

#[derive(Default)]
struct Counts {
    polls: AtomicU64,
    busy: AtomicU64,
    late: AtomicU64,
    waits: Recorded,
    poll_times: Recorded,
}

/// Ordering: one writer, or counts that are read as a snapshot: none is in an order with others.
const LOOSE: Ordering = Ordering::Relaxed;

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
            for count in [&counts.polls, &counts.busy, &counts.late] {
                count.store(0, LOOSE);
            }
            counts.waits.clear();
            counts.poll_times.clear();
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
        if let (Some(level), Some(spent)) = (mine.stack.get(depth), mine.spent.get(depth)) {
            level.store(class, LOOSE);
            spent.store(0, LOOSE);
        }
        let Some(counts) = mine.classes.get(usize::from(class)) else { return };
        add(&counts.polls, 1);
        // Ordering: Acquire pairs with the Release in `event`.
        let is_its = |place: &&Wake| place.task.load(Ordering::Acquire) == task;
        let Some(place) = self.place(task).filter(is_its) else { return };
        let waited = now.saturating_sub(place.at.load(LOOSE));
        place.task.store(0, LOOSE);
        counts.waits.add(waited);
    }

    pub(crate) fn snapshot(&self, class: Class, queued: usize) -> ClassMetrics {
        let mut all = ClassMetrics {
            queued,
            polls: 0,
            busy: Duration::ZERO,
            late: 0,
            waits: Histogram::new(),
            poll_times: Histogram::new(),
        };
        for counts in self.workers.iter().filter_map(|worker| worker.classes.get(class as usize)) {
            all.polls += counts.polls.load(LOOSE);
            all.busy += Duration::from_nanos(counts.busy.load(LOOSE));
            all.late += counts.late.load(LOOSE);
            counts.waits.add_to(&mut all.waits);
            counts.poll_times.add_to(&mut all.poll_times);
        }
        all
    }
}

impl Worker {
    /// The class of the poll on top, and how long it has lasted.
    fn top(&self) -> Option<(&Counts, &AtomicU64)> {
        let top = self.depth.load(LOOSE).checked_sub(1)?;
        let class = self.stack.get(top)?.load(LOOSE);
        Some((self.classes.get(usize::from(class))?, self.spent.get(top)?))
    }

    /// The poll on top has lasted until now.
    fn charge(&self, now: u64) {
        let since = self.since.swap(now, LOOSE);
        if let Some((counts, spent)) = self.top() {
            let time = now.saturating_sub(since);
            add(&counts.busy, time);
            add(spent, time);
        }
    }

    fn end(&self, now: u64) {
        self.charge(now);
        if let Some((counts, spent)) = self.top() {
            counts.poll_times.add(spent.load(LOOSE));
        }
        self.depth.store(self.depth.load(LOOSE).saturating_sub(1), LOOSE);
    }
}
