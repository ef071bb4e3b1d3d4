//! What each task has done, by the events of the scheduler.
//!
//! Idea: tokio-console's table of tasks. The events come here from the platform, so that no task is wrapped; each task has an entry of its
//! own, in a table by the task's address.

use core::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    time::Duration,
};

use filch::{Event, Instant, TaskId, WorkerId};

use crate::task_view::{Activity, LastWake, WokenBy};

/// As a number; 0: nothing woke it yet.
impl WokenBy {
    fn pack(self) -> usize {
        match self {
            // Headers are at least a word apart.
            Self::Task(task) => task.get(),
            Self::Itself => 1,
            Self::Outside => 3,
            Self::Worker(worker) => (worker.index() << 3) | 5,
        }
    }

    fn unpack(packed: usize) -> Option<Self> {
        Some(match (packed, packed & 7) {
            (0, _) => return None,
            (1, _) => Self::Itself,
            (3, _) => Self::Outside,
            (_, 5) => Self::Worker(WorkerId::new((packed >> 3) as u16)),
            _ => Self::Task(TaskId::of_event(packed)),
        })
    }
}

/// Looks at so many entries for a task, and then does without.
const PROBES: usize = 16;
/// Polls on top of each other that are told apart.
const DEPTH: usize = 16;

/// What a runtime keeps for all this.
pub(crate) struct Activities {
    on: AtomicBool,
    /// A power of two. INV-ENTRIES: an entry that has a task keeps it: the addresses of tasks are used again.
    entries: Box<[Entry]>,
    workers: Box<[Worker]>,
}

/// One task's. All is counted by the worker that polls it, and the contexts that wake it.
#[derive(Default)]
#[repr(align(128))]
struct Entry {
    task: AtomicUsize,
    /// Twice the number of the task at this address; odd while a new one begins.
    life: AtomicUsize,
    spawned: AtomicU64,
    /// Since when it is ready; 0: it is not.
    ready: AtomicU64,
    /// Since when it is polled; 0: it is not.
    polled: AtomicU64,
    polls: AtomicU64,
    busy: AtomicU64,
    longest: AtomicU64,
    waited: AtomicU64,
    wakes: AtomicU64,
    self_wakes: AtomicU64,
    woken: AtomicU64,
    woken_by: AtomicUsize,
}

/// The polls of a worker, which alone writes this.
#[derive(Default)]
#[repr(align(128))]
struct Worker {
    depth: AtomicUsize,
    /// The lowest on the stack first.
    polls: [Poll; DEPTH],
    /// The task whose poll was the last event.
    ended: AtomicUsize,
}

#[derive(Default)]
struct Poll {
    task: AtomicUsize,
    life: AtomicUsize,
    begun: AtomicU64,
    /// The time of polls on top of it.
    above: AtomicU64,
}

/// Ordering: counts that are read as a snapshot, or that one worker alone writes: none is in an order with others.
const LOOSE: Ordering = Ordering::Relaxed;

impl Activities {
    /// With room for so many tasks: twice as many entries, so that most are found at once.
    pub(crate) fn new(workers: usize, tasks: usize) -> Self {
        let entries = tasks.saturating_mul(2).next_power_of_two().max(PROBES);
        Self {
            on: AtomicBool::new(false),
            entries: (0..entries).map(|_| Entry::default()).collect(),
            workers: (0..workers).map(|_| Worker::default()).collect(),
        }
    }

    /// A runtime begins here, with these or without. Its workers do not run yet.
    pub(crate) fn turn(&self, on: bool) {
        self.entries.iter().for_each(|entry| entry.task.store(0, LOOSE));
        self.workers.iter().for_each(|worker| worker.depth.store(0, LOOSE));
        self.on.store(on, LOOSE);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(LOOSE)
    }

    /// The entry of a task; a free one, if that is what `takes` makes its own.
    fn entry(&self, task: usize, takes: fn(&Entry, usize) -> bool) -> Option<&Entry> {
        // Headers are 64 bytes apart or more.
        let hash = (task >> 5).wrapping_mul(0x9E37_79B1) >> 7;
        let places = (hash..hash + PROBES).map(|place| place & (self.entries.len() - 1));
        places.filter_map(|place| self.entries.get(place)).find(|entry| {
            let its = entry.task.load(LOOSE);
            its == task || its == 0 && takes(entry, task)
        })
    }

    fn find(&self, task: usize) -> Option<&Entry> {
        self.entry(task, |_, _| false)
    }

    fn claim(&self, task: usize) -> Option<&Entry> {
        // Ordering: Relaxed: the number alone counts; a task's events come one after the other.
        self.entry(task, |entry, task| match entry.task.compare_exchange(0, task, LOOSE, LOOSE) {
            Ok(_) => true,
            Err(its) => its == task,
        })
    }

    /// An event of the scheduler's.
    pub(crate) fn event(
        &self,
        worker: Option<WorkerId>,
        event: Event<'_>,
        now: impl FnOnce() -> Instant,
    ) {
        let mine = worker.and_then(|worker| self.workers.get(worker.index()));
        let now = || now().as_nanos().max(1);
        match (event, mine) {
            (Event::Spawn(task), _) => {
                if let Some(entry) = self.claim(task.task()) {
                    entry.begin(now());
                }
            }
            (Event::Wake(task), _) => {
                if let Some(entry) = self.find(task) {
                    entry.wake(now(), waker(worker, mine, task));
                }
            }
            (Event::PollStart(task), Some(mine)) => {
                let now = now();
                let life = self.find(task).map_or(0, |entry| entry.begin_poll(now));
                mine.begin_poll(task, life, now);
            }
            (Event::PollEnd(task), Some(mine)) => {
                let now = now();
                let (life, begun, took) = mine.end_poll(now);
                let entry = self.find(task).filter(|entry| entry.life.load(LOOSE) == life);
                if let Some(entry) = entry {
                    entry.end_poll(begun, took);
                }
                mine.ended.store(task, LOOSE);
                return;
            }
            _ => {}
        }
        if let Some(mine) = mine {
            mine.ended.store(0, LOOSE);
        }
    }

    /// What the task at this address has done, at this time.
    pub(crate) fn of(&self, task: TaskId, now: Instant) -> Option<Activity> {
        if !self.is_on() {
            return None;
        }
        let entry = self.find(task.get())?;
        // Ordering: Acquire pairs with the Release at the end of `begin`.
        let life = entry.life.load(Ordering::Acquire);
        let activity = entry.read(now.as_nanos());
        // Ordering: Acquire pairs with the fence in `begin`.
        fence(Ordering::Acquire);
        // Otherwise some of it may be another task's.
        (life % 2 == 0 && entry.life.load(LOOSE) == life).then_some(activity)
    }
}

/// What wakes a task at this event.
fn waker(worker: Option<WorkerId>, mine: Option<&Worker>, task: usize) -> WokenBy {
    match (worker, mine.and_then(Worker::polls)) {
        (None, _) => WokenBy::Outside,
        _ if mine.is_some_and(|mine| mine.ended.load(LOOSE) == task) => WokenBy::Itself,
        (_, Some(other)) => WokenBy::Task(TaskId::of_event(other)),
        (Some(worker), None) => WokenBy::Worker(worker),
    }
}

impl Entry {
    fn begin(&self, now: u64) {
        self.life.fetch_add(1, LOOSE);
        // Ordering: Release pairs with the fence in `of`: a look that sees any of the stores sees that the life changes.
        fence(Ordering::Release);
        let none = [&self.polled, &self.polls, &self.busy, &self.longest, &self.waited];
        let none = none.into_iter().chain([&self.wakes, &self.self_wakes, &self.woken]);
        none.for_each(|count| count.store(0, LOOSE));
        self.woken_by.store(0, LOOSE);
        self.spawned.store(now, LOOSE);
        self.ready.store(now, LOOSE);
        // Ordering: Release pairs with the Acquire in `of`: a look that sees the new life sees all its values.
        self.life.fetch_add(1, Ordering::Release);
    }

    fn wake(&self, now: u64, by: WokenBy) {
        self.wakes.fetch_add(1, LOOSE);
        if by == WokenBy::Itself {
            self.self_wakes.fetch_add(1, LOOSE);
        }
        self.woken.store(now, LOOSE);
        self.woken_by.store(by.pack(), LOOSE);
        self.ready.store(now, LOOSE);
    }

    /// Which task it is.
    fn begin_poll(&self, now: u64) -> usize {
        let since = self.ready.swap(0, LOOSE);
        if since > 0 {
            self.waited.fetch_add(now.saturating_sub(since), LOOSE);
        }
        self.polled.store(now, LOOSE);
        self.polls.fetch_add(1, LOOSE);
        self.life.load(LOOSE)
    }

    fn end_poll(&self, begun: u64, took: u64) {
        self.busy.fetch_add(took, LOOSE);
        self.longest.fetch_max(took, LOOSE);
        // Another worker may poll it already: `Event` says that their events cross.
        let _ = self.polled.compare_exchange(begun, 0, LOOSE, LOOSE);
    }

    fn read(&self, now: u64) -> Activity {
        let time = |of: &AtomicU64| Duration::from_nanos(of.load(LOOSE));
        let ago = |at: u64| Duration::from_nanos(now.saturating_sub(at));
        let since = |of: &AtomicU64| Some(of.load(LOOSE)).filter(|at| *at > 0).map(ago);
        let by = WokenBy::unpack(self.woken_by.load(LOOSE));
        Activity {
            age: ago(self.spawned.load(LOOSE)),
            polls: self.polls.load(LOOSE),
            busy: time(&self.busy),
            longest_poll: time(&self.longest),
            polled: since(&self.polled),
            waited: time(&self.waited),
            waits: since(&self.ready),
            wakes: self.wakes.load(LOOSE),
            self_wakes: self.self_wakes.load(LOOSE),
            last_wake: by.map(|by| LastWake { ago: ago(self.woken.load(LOOSE)), by }),
        }
    }
}

impl Worker {
    /// The task that it polls, the innermost one.
    fn polls(&self) -> Option<usize> {
        let top = self.depth.load(LOOSE).checked_sub(1)?;
        self.polls.get(top).map(|poll| poll.task.load(LOOSE))
    }

    fn begin_poll(&self, task: usize, life: usize, now: u64) {
        let depth = self.depth.load(LOOSE);
        if let Some(poll) = self.polls.get(depth) {
            poll.task.store(task, LOOSE);
            poll.life.store(life, LOOSE);
            poll.begun.store(now, LOOSE);
            poll.above.store(0, LOOSE);
        }
        self.depth.store(depth + 1, LOOSE);
    }

    /// Which task it polled, since when, and how long.
    fn end_poll(&self, now: u64) -> (usize, u64, u64) {
        let top = self.depth.load(LOOSE).saturating_sub(1);
        self.depth.store(top, LOOSE);
        let Some(poll) = self.polls.get(top) else { return (0, 0, 0) };
        let begun = poll.begun.load(LOOSE);
        let whole = now.saturating_sub(begun);
        if let Some(below) = top.checked_sub(1).and_then(|below| self.polls.get(below)) {
            below.above.fetch_add(whole, LOOSE);
        }
        (poll.life.load(LOOSE), begun, whole.saturating_sub(poll.above.load(LOOSE)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Activities, PROBES, WokenBy};
    use filch::{Event, Instant, TaskId, WorkerId};

    #[test]
    fn what_wakes_a_task_is_kept() {
        let all = [
            WokenBy::Task(TaskId::of_event(0x7f00_1000)),
            WokenBy::Itself,
            WokenBy::Outside,
            WokenBy::Worker(WorkerId::new(0)),
            WokenBy::Worker(WorkerId::new(700)),
        ];
        for by in all {
            assert_eq!(WokenBy::unpack(by.pack()), Some(by));
        }
        assert_eq!(WokenBy::unpack(0), None);
    }

    #[test]
    fn a_poll_may_begin_before_the_end_of_the_last_is_told() {
        let all = Activities::new(2, 1);
        all.turn(true);
        let task = 64;
        assert!(all.claim(task).is_some());
        let [first, second] = [0, 1].map(|worker| Some(WorkerId::new(worker)));
        let at = |nanos| move || Instant::from_nanos(nanos);
        all.event(first, Event::PollStart(task), at(10));
        all.event(second, Event::PollStart(task), at(20));
        all.event(first, Event::PollEnd(task), at(21));
        let its = || all.of(TaskId::of_event(task), Instant::from_nanos(50)).unwrap();
        assert_eq!(its().polled.map(|polled| polled.as_nanos()), Some(30));
        all.event(second, Event::PollEnd(task), at(40));
        assert_eq!((its().polled, its().busy.as_nanos()), (None, 11 + 20));
    }

    #[test]
    fn a_task_without_room_does_no_harm() {
        let all = Activities::new(1, 1);
        all.turn(true);
        let me = Some(WorkerId::new(0));
        let at = |nanos| move || Instant::from_nanos(nanos);
        let tasks: Vec<usize> = (1..=2 * PROBES).map(|n| n * 64).collect();
        let had: Vec<bool> = tasks.iter().map(|task| all.claim(*task).is_some()).collect();
        assert_eq!(had.iter().filter(|had| **had).count(), PROBES);
        let (with, without) = (tasks[0], tasks[2 * PROBES - 1]);
        assert!(had[0] && !had[2 * PROBES - 1]);
        // One on top of the other, in both orders.
        for (lower, upper) in [(with, without), (without, with)] {
            for event in [Event::Wake(upper), Event::PollStart(lower), Event::PollStart(upper)] {
                all.event(me, event, at(10));
            }
            all.event(me, Event::PollEnd(upper), at(30));
            all.event(me, Event::PollEnd(lower), at(31));
        }
        let its = all.of(TaskId::of_event(with), Instant::from_nanos(50)).unwrap();
        assert_eq!((its.polls, its.busy.as_nanos(), its.wakes), (2, 1 + 20, 1));
        assert!(all.of(TaskId::of_event(without), Instant::from_nanos(50)).is_none());
    }
}
