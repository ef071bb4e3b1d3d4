//! The invariants, and when they are checked.
//!
//! | invariant | checked |
//! |---|---|
//! | a task is polled by one worker at a time | at each poll |
//! | no poll of another class begins while an urgent task waits that the worker has seen | at each poll |
//! | urgent tasks begin by their deadlines | whenever one is taken |
//! | a worker has no duty | whenever the program's own code pauses |
//! | one worker listens at a time; no worker goes into a poll with events that it has heard of | at each poll |
//! | while an event waits and no worker listens, none polls on without asking for more than a tick | at each poll |
//! | while an event waits, a worker listens, or one that sleeps wakes by itself, or all are awake | then |
//! | not more polls in a row from the LIFO slot than the cap, while others wait in the ring | at each poll |
//! | no worker counts as searching, and as many count as asleep as are, when only the program's own code runs | then |
//! | no task is in the injector while a worker sleeps, nor in a ring unless a sleeper wakes within 1 ms | then |
//! | no task with an affinity waits while a worker of the set sleeps | then |
//! | no task is in the LIFO slot of a worker in a poll while workers sleep and none of them watches | then |
//! | but for the tasks of a batch that one of its wakers holds up, while a sleeper has a timeout | then |
//! | timers wait while a worker sleeps only if one that sleeps will look, where sleepers watch | then |
//! | no task is queued anywhere while all workers sleep; one of them wakes for the first timer | then |
//! | a task that is ready, and no background task, is polled within so many polls of others | every 512 steps |
//! | a worker with background tasks gives them their share: `share.rs` | at each poll |
//! | others take a task behind an endless poll, and a late timer, within two rounds of a busy worker | every 512 steps |
//! | events and metrics agree; tasks spawned = completed = those in the ledger; polls and ends without one = spawns and wakes | at the end |
//! | every slot of the memory is free | at the end |

use core::fmt::Write;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use filch::{Class, Event, Instant, TaskInfo, WorkerId};

use super::{
    delay::{self, Delays},
    ledger::Ledger,
    machine::{Machine, Pool},
    reactor,
    share::{self, Share},
    world::{Actor, State, World, world},
};

/// Polls between two looks at I/O: those of a tick, and the few until a worker comes to look for its end.
pub(super) const TICK: u32 = 160;
/// For so many polls of others, for each worker, a task may be ready and not polled. While its ring stays full a worker takes
/// one task from the injector each 255 polls, and there is memory for 256. While a worker stalls others do far fewer. Polls of blocked
/// workers do not count: those take only what is pinned to them, for seconds of their clock. Of background tasks, 16 count as one: they may
/// use up 10 milliseconds in a row, in which the clock may stand still for most of them.
const PATIENCE: u64 = 70_000;
/// How often that is checked, in steps.
const ROUND: u64 = 512;
/// How often it is checked at rest where tasks wait with an affinity to workers, in steps.
const AT_REST: u64 = 4;

/// The state of a task, by its address.
#[derive(Default)]
struct Row {
    /// Its number in the order of first sights: addresses differ from run to run.
    number: u64,
    /// The worker that polls it.
    on: Option<u16>,
    /// The number of [`Check::fair`] when it became ready, if known.
    ready: Option<u64>,
}

/// The state of a worker.
#[derive(Clone, Copy, Default)]
pub(super) struct Streak {
    hits: usize,
    /// Tasks stolen so far, by all workers.
    stolen: usize,
    in_a_row: u32,
    /// Polls in which an event waited, and no worker listened, since one last asked.
    unheard: u32,
    /// Polls that it has begun; how many of them it is in; polls since it slept; ends of ticks that it has come to meanwhile.
    begun: u64,
    pub(super) inside: u32,
    awake: u32,
    ticks: u64,
    /// The calls for urgent tasks, as its last poll ended and one waited for it.
    pressed: Option<u32>,
    /// Its urgent polls so far, and those of background tasks.
    urgent_polls: usize,
    background_polls: usize,
    pub(super) share: Share,
    /// The task that it polled last, if it did not wake it since.
    last: usize,
}

#[derive(Default)]
pub(super) struct Check {
    rows: HashMap<usize, Row>,
    /// Polls of tasks that are not urgent, by workers that are not blocked: by those that run what is queued. In sixteenths.
    fair: u64,
    /// One for each worker.
    pub(super) streaks: Vec<Streak>,
    pub(super) lifo_cap: u32,
    /// Background tasks have one of so many parts of the time; 0: none.
    pub(super) background: u32,
    /// Whether only polls and thieves empty rings: no worker blocks in a join too deep.
    pub(super) caps: bool,
    pub(super) stealing: bool,
    /// Whether sleepers watch those that are awake.
    pub(super) watchdog: bool,
    /// See `Chosen`.
    pub(super) close: Option<u64>,
    /// Whether other workers should take the tasks behind a long poll: workers steal, and run only
    /// tasks.
    pub(super) relieves: bool,
    pub(super) delays: Delays,
    /// Deadlines of timers that tasks wait for.
    pub(super) timers: BTreeSet<(u64, u64)>,
}

impl Check {
    /// The worker has given its ring away.
    pub(super) fn leaves(&mut self, worker: WorkerId) {
        if let Some(streak) = self.streaks.get_mut(worker.index()) {
            (streak.in_a_row, streak.unheard) = (0, 0);
            (streak.inside, streak.awake) = (0, 0);
            streak.share.loses_sight();
        }
    }

    /// A worker comes from a sleep.
    pub(super) fn sleeps(&mut self, worker: WorkerId) {
        if let Some(streak) = self.streaks.get_mut(worker.index()) {
            streak.awake = 0;
            streak.share.loses_sight();
        }
    }

    /// A worker asks the reactor: it hears for all.
    pub(super) fn has_asked(&mut self) {
        self.streaks.iter_mut().for_each(|streak| streak.unheard = 0);
    }

    /// It polls a task, and an event waits that no worker listens for; in how many polls in a row that was so.
    pub(super) fn polls_on(&mut self, worker: usize, unheard: bool) -> u32 {
        let Some(streak) = self.streaks.get_mut(worker) else { return 0 };
        streak.unheard = if unheard { streak.unheard + 1 } else { 0 };
        streak.unheard
    }

    pub(super) fn ticks(&self) -> Vec<u64> {
        self.streaks.iter().map(|streak| streak.ticks).collect()
    }

    /// The poll that a worker is in.
    pub(super) fn poll_of(&self, worker: usize) -> Option<u64> {
        self.streaks.get(worker).filter(|s| s.inside > 0).map(|s| s.begun)
    }

    fn row(&mut self, task: usize) -> &mut Row {
        let number = self.rows.len() as u64;
        self.rows.entry(task).or_insert_with(|| Row { number, ..Row::default() })
    }
}

/// An event of the scheduler.
pub(super) fn event(worker: Option<WorkerId>, event: Event) {
    world(|w| {
        let here = w.me().and_then(|me| me.worker);
        if worker.map(WorkerId::index) != here.map(usize::from) {
            w.fail(format!("an event of {worker:?} in the context of {here:?}"));
        }
        let mine = here.and_then(|id| w.check.streaks.get_mut(usize::from(id)));
        let before = mine.map_or(0, |streak| match event {
            Event::PollStart(_) => core::mem::take(&mut streak.last),
            Event::Wake(task) if task == streak.last => core::mem::take(&mut streak.last),
            _ => streak.last,
        });
        let what = match event {
            Event::Spawn(task) => w.spawned(task.task()),
            Event::Wake(_) => {
                w.counts.ready += 1;
                7 << 40
            }
            Event::End(task) => w.ends(task, before, here),
            Event::PollStart(task) => w.poll_begins(task, here),
            Event::PollEnd(task) => w.poll_ends(task, here),
            Event::Steal { victim, tasks } => {
                w.counts.steals += 1;
                w.counts.stolen += u64::from(tasks);
                if let Some(streak) = w.check.streaks.get_mut(usize::from(victim)) {
                    streak.share.loses_sight();
                }
                u64::from(victim) << 16 | u64::from(tasks)
            }
            Event::Class { task, class: Class::Urgent, deadline } => {
                w.check_order(task, deadline);
                3 << 40
            }
            Event::Park => {
                w.counts.parks += 1;
                w.set_parked(true);
                1 << 40
            }
            Event::Unpark => {
                w.set_parked(false);
                2 << 40
            }
            _ => 3 << 40,
        };
        if let Some(recording) = &w.recording {
            recording.event(worker, event, w.now);
        }
        w.mix(what);
        w.log(|| format!("{event:x?}"));
    });
}

/// The worker goes on after a poll.
pub(super) fn goes_on(worker: WorkerId) {
    world(|w| {
        let pressed = w.executor.and_then(|executor| executor.urgent_calls(worker));
        if let Some(streak) = w.check.streaks.get_mut(worker.index()) {
            streak.pressed = pressed;
        }
    });
}

impl World {
    fn check_io(&mut self, worker: usize) {
        let Some(streak) = self.check.streaks.get_mut(worker) else { return };
        (streak.begun, streak.inside) = (streak.begun + 1, streak.inside + 1);
        streak.awake += 1;
        if streak.awake % TICK == 0 {
            streak.ticks += 1;
        }
        reactor::check_poll(self, worker);
    }

    fn set_parked(&mut self, parked: bool) {
        if let Some(me) = self.me() {
            me.parked = parked;
        }
    }

    fn spawned(&mut self, task: usize) -> u64 {
        self.counts.tasks += 1;
        let row = self.check.row(task);
        // Its slot may be reused before the last poll in it has reported its end.
        (row.on, row.ready) = (None, None);
        row.number | 4 << 40
    }

    fn poll_begins(&mut self, task: usize, here: Option<u16>) -> u64 {
        self.counts.polls += 1;
        self.counts.checks += 1;
        let row = self.check.row(task);
        let (number, before) = (row.number, row.on);
        row.on = here;
        row.ready = None;
        if let Some(other) = before {
            self.fail(format!("task {number} is polled by {here:?}, and by worker {other}"));
        }
        if let Some(here) = here {
            self.check_streak(usize::from(here));
            let counts = self.check_class(WorkerId::new(here));
            let is_blocked = |all: &Machine| all.is_blocked(WorkerId::new(here));
            if !self.executor.is_some_and(is_blocked) {
                self.check.fair += counts;
            }
            share::check_poll(self, WorkerId::new(here));
            self.check_io(usize::from(here));
        }
        number | 5 << 40
    }

    fn poll_ends(&mut self, task: usize, here: Option<u16>) -> u64 {
        let row = self.check.row(task);
        if row.on == here {
            row.on = None;
        }
        let number = row.number;
        if let Some(me) = self.me() {
            me.polled = task;
        }
        if let Some(streak) = here.and_then(|id| self.check.streaks.get_mut(usize::from(id))) {
            streak.inside = streak.inside.saturating_sub(1);
            streak.last = task;
            streak.share.ends(self.now, self.check.background);
        }
        number | 6 << 40
    }

    fn ends(&mut self, task: usize, polled: usize, here: Option<u16>) -> u64 {
        self.counts.ends += 1;
        // One that ends outside of the workers has been polled: its thread has left the worker in the midst of that.
        self.counts.unpolled += u64::from(here.is_some() && polled != task);
        8 << 40
    }

    /// An urgent task was there when the worker began to look for its next one, as none has come since: it must have taken it.
    /// Returns how many sixteenths of a poll of others this one is: [`Check::fair`].
    fn check_class(&mut self, worker: WorkerId) -> u64 {
        let Some(executor) = self.executor else { return 16 };
        let Some((_, mine)) = executor.metrics().workers().nth(worker.index()) else {
            return 16;
        };
        let Some(streak) = self.check.streaks.get_mut(worker.index()) else { return 16 };
        // The task's class may have changed since it was taken.
        let was = core::mem::replace(&mut streak.urgent_polls, mine.urgent_polls);
        let is_urgent = mine.urgent_polls != was;
        let was = core::mem::replace(&mut streak.background_polls, mine.background_polls);
        let is_background = mine.background_polls != was;
        let pressed = streak.pressed.take();
        self.counts.checks += 1;
        let goes_first = pressed.is_some() && executor.urgent_calls(worker) == pressed;
        if goes_first && !is_urgent && !executor.is_blocked(worker) {
            self.fail(format!("{worker:?} polls another task while an urgent one waits"));
        }
        match (is_urgent, is_background) {
            (true, _) => 0,
            (_, true) => 1,
            _ => 16,
        }
    }

    /// A worker has taken this urgent task. Nothing else has run since: what waits now waited then.
    fn check_order(&mut self, task: usize, deadline: Option<Instant>) {
        let Some(executor) = self.executor else { return };
        self.counts.checks += 1;
        let Some(first) = executor.first_deadline() else { return };
        if deadline.is_some_and(|deadline| deadline <= first) {
            return;
        }
        // Tasks that are held or pinned have queues of their own.
        let mut shared = false;
        let is_shared = |info: &TaskInfo| info.worker.is_none() && info.workers.is_none();
        executor.tasks(|info| shared |= info.id.get() == task && is_shared(&info));
        if shared {
            self.fail(format!("an urgent task of {deadline:?} goes before one of {first:?}"));
        }
    }

    /// Checks how many polls in a row came from the LIFO slot while others waited in the ring
    /// without being stolen.
    fn check_streak(&mut self, worker: usize) {
        let Some(executor) = self.executor.filter(|_| self.check.caps) else { return };
        let metrics = executor.metrics();
        let stolen = metrics.workers().map(|(_, m)| m.stolen).sum();
        let Some((_, mine)) = metrics.workers().nth(worker) else { return };
        let cap = self.check.lifo_cap;
        let Some(streak) = self.check.streaks.get_mut(worker) else { return };
        let hit = mine.lifo_hits != streak.hits;
        let others = mine.queue_depth > mine.background_depth;
        let goes_on = hit && others && stolen == streak.stolen;
        let in_a_row = if goes_on { streak.in_a_row + 1 } else { 0 };
        (streak.hits, streak.stolen, streak.in_a_row) = (mine.lifo_hits, stolen, in_a_row);
        if in_a_row > cap {
            self.fail(format!("{in_a_row} polls in a row of worker {worker} from its LIFO slot"));
        }
    }

    /// Only the program's own code runs: no worker may sleep while a task waits.
    fn check_rest(&mut self, executor: &'static Machine) {
        self.counts.checks += 1;
        let metrics = executor.metrics();
        let totals = metrics.totals();
        let parked = self.actors.iter().filter(|a| a.parked).count();
        if totals.searching != 0 {
            self.fail(format!("{} workers count as searching, and none is", totals.searching));
        }
        if totals.parked != parked {
            self.fail(format!("{} workers count as asleep, and {parked} are", totals.parked));
        }
        if parked == 0 {
            return;
        }
        // A batch may be larger than a ring.
        let in_batch = self.is_watched() && self.actors.iter().any(|a| a.in_waker);
        if totals.injector_depth > 0 && !in_batch {
            self.fail("a task waits in the injector while a worker sleeps");
        }
        // A depth counts the LIFO slot, which waits for its worker, or for the watchdog.
        let slot = usize::from(self.check.lifo_cap > 0);
        if self.check.stealing
            && metrics.workers().any(|(id, m)| m.queue_depth > slot && !self.is_in_batch(id))
            && !self.will_look_soon()
        {
            self.fail("a task waits in a ring while a worker sleeps");
        }
        let is_batch = self.actors.iter().any(|a| a.in_waker);
        if !is_batch && executor.is_unwatched() && !self.will_look_soon() {
            self.fail("a task waits behind a poll, and no worker that sleeps watches");
        }
    }

    /// Whether the worker may be in a batch of wakers, whose tasks wait for a watcher at most.
    fn is_in_batch(&self, worker: WorkerId) -> bool {
        let seat = self.seats.get(worker.index()).copied().flatten();
        self.is_watched() && seat.is_some_and(|seat| self.actors[seat].in_waker)
    }

    fn is_watched(&self) -> bool {
        let watches = |a: &Actor| matches!(a.state, State::Asleep { deadline: Some(_), .. });
        // A worker in a wait that is too deep watches, too.
        self.check.watchdog && self.actors.iter().any(|a| a.worker.is_some() && watches(a))
    }

    /// Whether some worker sleeps for a millisecond at most, as in its first sleep beside one that
    /// took itself for the only worker.
    fn will_look_soon(&self) -> bool {
        let Some(close) = self.check.close else { return false };
        let is_close = |a: &Actor| match a.state {
            State::Asleep { deadline: Some(end), .. } => end <= self.now.saturating_add(close),
            _ => false,
        };
        self.actors.iter().any(|a| a.parked && is_close(a))
    }

    /// Whether every worker that is online is announced asleep.
    pub(super) fn all_asleep(&self) -> bool {
        let mut workers = self.actors.iter().filter(|a| a.worker.is_some()).peekable();
        workers.peek().is_some() && workers.all(|a| a.parked)
    }

    fn check_timers(&mut self) {
        let Some((first, _)) = self.check.timers.first() else { return };
        // It may have fired, for a task that is pinned to a worker whose thread has left it in a poll, and will be it again.
        if self.actors.iter().any(|a| a.polls_outside().is_some()) {
            return;
        }
        let ends = self.actors.iter().filter(|a| a.parked).filter_map(|a| match a.state {
            State::Asleep { deadline, .. } => deadline,
            _ => None,
        });
        if ends.min().is_none_or(|end| end > *first) {
            let first = *first;
            self.fail(format!(
                "all workers sleep, and nobody will wake for the timer of {first} ns"
            ));
        }
    }

    /// Timers wait, perhaps of a worker that is in the program's own code, and another worker sleeps: somebody will look at them.
    fn check_watch(&mut self) {
        self.counts.checks += 1;
        let looks = |a: &Actor| matches!(a.state, State::Asleep { deadline: Some(_), .. });
        // It may have fired, and its waker be under way.
        let fires = self.actors.iter().any(|a| a.in_waker);
        let waits = self.check.watchdog && !self.check.timers.is_empty() && !fires;
        if waits && !self.actors.iter().any(looks) {
            self.fail("a worker sleeps, a timer waits, and nobody will look at it");
        }
    }

    /// Whether the worker is held up, for as long as that takes.
    fn stalls(&self, worker: WorkerId) -> bool {
        let seat = self.seats.get(worker.index()).copied().flatten();
        seat.is_some_and(|seat| matches!(self.actors[seat].state, State::Held(_)))
    }

    fn has_sleepers(&self) -> bool {
        self.actors.iter().any(|a| a.parked)
    }

    /// A task with an affinity waits for no worker of its set that sleeps.
    fn check_held(&mut self, ready: &[TaskInfo]) {
        self.counts.checks += 1;
        let sleeps = |worker: WorkerId| {
            let seat = self.seats.get(worker.index()).copied().flatten();
            seat.is_some_and(|seat| self.actors[seat].parked)
        };
        let stays = |task: &&TaskInfo| task.workers.is_some_and(|set| set.iter().any(sleeps));
        if let Some(TaskInfo { workers, class, .. }) = ready.iter().find(stays) {
            let text = format!(
                "a {class:?} task waits that has an affinity to {workers:?}, of which one sleeps"
            );
            self.fail(text);
        }
    }

    fn is_away(&self, worker: Option<WorkerId>) -> bool {
        worker.is_some_and(|id| self.seats.get(id.index()).is_none_or(Option::is_none))
    }
}

/// Called between two turns.
pub(super) fn between(executor: &'static Machine, turned: bool) {
    let (at_rest, all_asleep) = world(|w| {
        let at_rest = turned && w.actors.iter().all(|actor| actor.rests());
        if at_rest {
            w.check_rest(executor);
            w.check_reactor();
        }
        (at_rest, at_rest && w.all_asleep())
    });
    if at_rest && !all_asleep && world(|w| w.has_sleepers() && w.counts.steps % AT_REST == 0) {
        let ready = scheduled(executor);
        world(|w| {
            w.check_held(&ready);
            w.check_watch();
        });
    }
    if at_rest && all_asleep {
        world(World::check_timers);
        let forgotten = scheduled(executor);
        if let Some(task) = forgotten.first() {
            world(|w| {
                let number = w.check.row(task.id.get()).number;
                let TaskInfo { worker, workers, cancelled, shields, references, .. } = *task;
                w.fail(format!(
                    "all workers sleep, and task {number} is queued (pinned to {worker:?}, held to {workers:?}, cancelled {cancelled}, \
                     {shields} shields, {references} references)"
                ));
            });
        }
    }
    // In a replay the operating system makes workers wait.
    if world(|w| turned && !w.replaying && w.counts.steps % ROUND == 0) {
        check_waits(executor);
        delay::look(executor);
    }
}

/// The tasks that are ready, not being polled, and not held to absent workers.
fn scheduled(executor: &'static Machine) -> Vec<TaskInfo> {
    let mut all = Vec::new();
    executor.tasks(|task| {
        if task.scheduled {
            all.push(task);
        }
    });
    world(|w| {
        let is_away = |w: &World, task: &TaskInfo| match task.workers {
            Some(set) => set.iter().all(|worker| w.is_away(Some(worker))),
            None => w.is_away(task.worker),
        };
        let outside: Vec<_> = w.actors.iter().filter_map(Actor::polls_outside).collect();
        all.retain(|task| {
            let address = task.id.get();
            let is_polled = w.check.row(address).on.is_some() || outside.contains(&address);
            !is_polled && !is_away(w, task)
        });
    });
    all
}

/// Checks how long tasks have been ready.
fn check_waits(executor: &'static Machine) {
    let ready = scheduled(executor);
    world(|w| {
        w.counts.checks += 1;
        let polls = w.check.fair;
        // Of background tasks, the share is one of time, which may stand still here.
        let in_turn = ready.iter().filter(|task| task.class != Class::Background);
        let waiting: BTreeMap<usize, &TaskInfo> =
            in_turn.map(|task| (task.id.get(), task)).collect();
        for (task, row) in &mut w.check.rows {
            if !waiting.contains_key(task) {
                row.ready = None;
            }
        }
        for (task, info) in waiting {
            if info.worker.is_some_and(|worker| w.stalls(worker)) {
                w.check.row(task).ready = None;
                continue;
            }
            let waits = (polls - *w.check.row(task).ready.get_or_insert(polls)) / 16;
            w.counts.longest_wait = w.counts.longest_wait.max(waits);
            if waits > PATIENCE * w.seats.len() as u64 {
                let TaskInfo { class, worker, workers, .. } = info;
                w.fail(format!(
                    "a {class:?} task has been ready for {waits} polls of others (pinned to {worker:?}, held to {workers:?})"
                ));
            }
        }
    });
}

/// When all fibers have ended.
pub(super) fn at_the_end(executor: &'static Machine, pool: &'static Pool, ledger: &Ledger) {
    let metrics = executor.metrics();
    let totals = metrics.totals();
    let sum = |f: fn(&filch::WorkerMetrics) -> usize| {
        metrics.workers().map(|(_, m)| f(&m)).sum::<usize>() as u64
    };
    let counts = world(|w| w.counts);
    // An end may look like one without a poll, if a handler has used the task's slot again before its worker reports it.
    let unpolled = (counts.ready + counts.tasks).saturating_sub(counts.polls).min(counts.unpolled);
    let pairs = [
        ("polls", counts.polls, sum(|m| m.polls)),
        ("steals", counts.steals, sum(|m| m.steals)),
        ("tasks stolen", counts.stolen, sum(|m| m.stolen)),
        ("parks", counts.parks, sum(|m| m.parks)),
        ("tasks spawned", ledger.spawned(), totals.spawned as u64),
        ("tasks completed", ledger.spawned(), totals.completed as u64),
        ("spawn events", ledger.spawned(), counts.tasks),
        ("polls of ready tasks", counts.polls + unpolled, counts.ready + counts.tasks),
        ("end events", ledger.spawned(), counts.ends),
        ("futures dropped", ledger.spawned(), ledger.dropped()),
        ("tasks alive", 0, totals.live as u64),
        ("tasks in the injector", 0, totals.injector_depth as u64),
        ("timers left", 0, world(|w| w.check.timers.len()) as u64),
        ("free slots", pool.capacity() as u64, free_slots(executor, pool)),
    ];
    for (what, ours, theirs) in pairs {
        if ours != theirs {
            world(|w| w.fail(format!("at the end: {what}: {theirs}, and should be {ours}")));
        }
    }
    world(|w| {
        w.counts.checks += pairs.len() as u64;
        w.counts.jobs = sum(|m| m.jobs);
        w.counts.timers = sum(|m| m.timers);
    });
}

fn free_slots(executor: &'static Machine, pool: &'static Pool) -> u64 {
    let reserve = || executor.spawner().reserve::<core::future::Ready<()>>(pool).ok();
    let taken: Vec<_> = core::iter::from_fn(reserve).collect();
    taken.len() as u64
}

/// The state of all actors, as text.
pub(super) fn state(executor: &'static Machine) -> String {
    let mut text = String::new();
    world(|w| {
        for (i, actor) in w.actors.iter().enumerate().filter(|(_, a)| a.state != State::Over) {
            let _ = match actor.state {
                State::Asleep { deadline, .. } => {
                    write!(text, "  fiber {i}: asleep until {deadline:?}")
                }
                state => write!(text, "  fiber {i}: {state:?}"),
            };
            let Actor { worker, outside, parked, .. } = *actor;
            let _ = writeln!(text, ", worker {worker:?}, outside {outside}, parked {parked}");
        }
        let _ = writeln!(text, "  moment {}, now {} ns", w.moment, w.now);
    });
    let metrics = executor.metrics();
    let _ = writeln!(text, "  {:?}", metrics.totals());
    for (id, worker) in metrics.workers() {
        let _ = writeln!(text, "  {id:?}: queue {}, polls {}", worker.queue_depth, worker.polls);
    }
    text
}
