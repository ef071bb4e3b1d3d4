//! The scheduler on this platform.

use core::{future::Future, hint::black_box, time::Duration};

use filch::{
    JoinHandle, Memory, Platform, StartError, WorkerId,
    atomic::{AtomicBool, AtomicU32, Ordering},
    io::{Readiness, Ready},
};

use crate::{Dice, Suite};

/// The state that the players of a match share, and the counts of bursts: statics, as tasks outlive
/// their callers.
static TURN: [Readiness; 2] = [const { Readiness::new() }; 2];
static DONE: AtomicU32 = AtomicU32::new(0);
static EARLY: AtomicU32 = AtomicU32::new(0);
static LATEST: AtomicU32 = AtomicU32::new(0);

impl<P: Platform, const N: usize, const RING: usize> Suite<P, N, RING> {
    /// Starts all workers by [`Platform::start`]: for platforms that have it, instead of `run` on
    /// each core. True if all were started.
    pub fn start(&'static self) -> bool {
        let start = |i: usize| self.executor.start(WorkerId::new(i as u16));
        let started = (0..N).all(|i| start(i) == Ok(()));
        self.check("all workers start", started);
        started
    }

    /// The scheduler's checks. To be spawned as a task, while all workers run; it spawns into
    /// `memory`, whose slots should have room for futures of 200 bytes. One run at a time, and no
    /// other task.
    pub async fn tasks(&'static self, memory: &'static impl Memory) {
        self.starts();
        self.all_workers_come().await;
        let sound = self.burst(memory, self.port.tasks - 2, 50).await;
        self.check("tasks of many yields all end", sound);
        let sound = self.pinned(memory).await;
        self.check("pinned tasks stay on their worker, and run in order", sound);
        self.matches(memory).await;
        self.shared(memory).await;
        self.timers(memory).await;
        self.interrupt_tasks(memory).await;
        self.foreign().await;
        let aborted = match self.spawn(memory, core::future::pending::<()>()) {
            Some(task) => {
                task.abort();
                matches!(task.await, Err(error) if error.is_cancelled())
            }
            None => false,
        };
        self.check("an aborted task says so", aborted);
        self.panics(memory).await;
        self.quiet().await;
        let live = self.executor.metrics().totals().live;
        self.check("no task is left behind", live == 1);
    }

    /// Spawns a task; `None` and a failed check if there is no memory.
    pub(crate) fn spawn<F>(
        &'static self,
        memory: &'static impl Memory,
        future: F,
    ) -> Option<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let task = self.executor.spawn(memory, future);
        if let Err(error) = &task {
            self.check("the memory holds the tasks", false);
            (self.port.print)(format_args!("     {error}"));
        }
        task.ok()
    }

    fn pin<F>(
        &'static self,
        memory: &'static impl Memory,
        worker: usize,
        future: F,
    ) -> Option<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.executor.spawner().spawn_pinned(memory, WorkerId::new(worker as u16), future).ok()
    }

    /// A worker that runs is not started again, or the platform starts none.
    fn starts(&'static self) {
        match self.executor.start(WorkerId::new(0)) {
            Err(StartError::Unsupported) => self.skip("workers start", "cores enter by themselves"),
            // It is refused; or the second context finds the worker running, and returns.
            other => {
                let harmless = matches!(other, Ok(()) | Err(StartError::Refused(_)));
                self.check("a worker is started once more to no harm", harmless);
            }
        }
    }

    async fn all_workers_come(&'static self) {
        while !self.executor.metrics().workers().all(|(_, worker)| worker.online) {
            filch::yield_now().await;
        }
        self.check("all workers are online", true);
    }

    /// So many tasks with so many yields each, spawned by one task; returns whether all have ended.
    pub(crate) async fn burst(
        &'static self,
        memory: &'static impl Memory,
        tasks: u32,
        yields: u32,
    ) -> bool {
        DONE.store(0, Ordering::Relaxed);
        let parent = async move {
            (0..tasks).all(|_| {
                let child = async move {
                    for _ in 0..yields {
                        filch::yield_now().await;
                    }
                    DONE.fetch_add(1, Ordering::AcqRel);
                };
                self.spawn(memory, child).is_some()
            })
        };
        let Some(parent) = self.spawn(memory, parent) else { return false };
        let spawned = matches!(parent.await, Ok(true));
        while spawned && DONE.load(Ordering::Acquire) < tasks {
            filch::yield_now().await;
        }
        // Their memory is returned a little after their results.
        while self.executor.metrics().totals().live > 2 {
            filch::yield_now().await;
        }
        spawned
    }

    async fn pinned(&'static self, memory: &'static impl Memory) -> bool {
        let per_worker = (self.port.tasks - 2) / N as u32;
        let mut sound = per_worker > 0;
        for worker in 0..N {
            DONE.store(0, Ordering::Relaxed);
            let mut last = None;
            for number in 0..per_worker {
                let task = async move {
                    let mut sound = DONE.fetch_add(1, Ordering::AcqRel) == number;
                    for _ in 0..20 {
                        let here = self.executor.platform().current_worker();
                        sound &= here.is_some_and(|id| id.index() == worker);
                        filch::yield_now().await;
                    }
                    sound
                };
                // The earlier ones end before it, as all have equally many turns.
                last = self.pin(memory, worker, task);
                sound &= last.is_some();
            }
            if let Some(last) = last {
                sound &= matches!(last.await, Ok(true));
            }
            while DONE.load(Ordering::Acquire) < per_worker {
                filch::yield_now().await;
            }
            while self.executor.metrics().totals().live > 1 {
                filch::yield_now().await;
            }
        }
        sound
    }

    /// Two tasks, each pinned to a core, take turns: each turn is a wake of a core that sleeps or
    /// is about to.
    async fn matches(&'static self, memory: &'static impl Memory) {
        let turns = self.port.wakes / 2;
        TURN.iter().for_each(Readiness::reset);
        let player = |me: usize| async move {
            for _ in 0..turns {
                let event = TURN[me].ready(Ready::READABLE).await;
                TURN[me].clear(event);
                TURN[1 - me].set(Ready::READABLE);
            }
        };
        let (a, b) = (self.pin(memory, N / 2, player(0)), self.pin(memory, N - 1, player(1)));
        TURN[0].set(Ready::READABLE);
        let (Some(a), Some(b)) = (a, b) else {
            return self.check("two tasks on two cores take turns", false);
        };
        let sound = a.await.is_ok() && b.await.is_ok();
        (self.port.print)(format_args!("     {} wakes from task to task", 2 * turns));
        self.check("two tasks on two cores take turns", sound);
    }

    /// Other cores steal the work that one task makes.
    async fn shared(&'static self, memory: &'static impl Memory) {
        let mut sound = true;
        let wanted = (N - 1).min(3);
        let before = self.polls_and_steals();
        for _ in 0..200 {
            sound &= self.heavy_burst(memory).await;
            let (polled, stole) = self.spread(&before);
            if polled == N && stole >= wanted {
                break;
            }
        }
        let (polled, stole) = self.spread(&before);
        self.check("every worker has polled", sound && polled == N);
        if N > 1 {
            self.check("cores steal from each other", stole >= wanted);
        }
    }

    /// How many workers have polled since, and how many have stolen.
    fn spread(&self, before: &[(usize, usize); N]) -> (usize, usize) {
        let now = self.polls_and_steals();
        before.iter().zip(now).fold((0, 0), |(polled, stole), (before, now)| {
            (polled + usize::from(now.0 != before.0), stole + usize::from(now.1 != before.1))
        })
    }

    fn polls_and_steals(&self) -> [(usize, usize); N] {
        let mut counts = [(0, 0); N];
        for (id, worker) in self.executor.metrics().workers() {
            counts[id.index()] = (worker.polls, worker.steals);
        }
        counts
    }

    async fn heavy_burst(&'static self, memory: &'static impl Memory) -> bool {
        DONE.store(0, Ordering::Relaxed);
        let tasks = self.port.tasks - 2;
        let parent = async move {
            (0..tasks).all(|_| {
                let child = async {
                    (0..20_000_u32).for_each(|i| {
                        black_box(i);
                    });
                    DONE.fetch_add(1, Ordering::AcqRel);
                };
                self.spawn(memory, child).is_some()
            })
        };
        let Some(parent) = self.spawn(memory, parent) else { return false };
        let spawned = matches!(parent.await, Ok(true));
        while self.executor.metrics().totals().live > 1 {
            filch::yield_now().await;
        }
        spawned && DONE.load(Ordering::Acquire) == tasks
    }

    async fn timers(&'static self, memory: &'static impl Memory) {
        EARLY.store(0, Ordering::Relaxed);
        LATEST.store(0, Ordering::Relaxed);
        let timers = self.executor.timers();
        for number in 0..self.port.tasks - 2 {
            let mut dice = Dice::new(number as usize + 1);
            let sleeper = async move {
                for _ in 0..3 {
                    let deadline = timers.now() + Duration::from_micros(dice.below(20_000).into());
                    timers.sleep_until(deadline).await;
                    let now = timers.now();
                    EARLY.fetch_add(u32::from(now < deadline), Ordering::Relaxed);
                    LATEST.fetch_max((now - deadline).as_micros() as u32, Ordering::Relaxed);
                }
            };
            if self.spawn(memory, sleeper).is_none() {
                return;
            }
        }
        while self.executor.metrics().totals().live > 1 {
            timers.sleep(Duration::from_millis(2)).await;
        }
        let latest = LATEST.load(Ordering::Relaxed);
        (self.port.print)(format_args!("     the latest timer came after {latest} us"));
        self.check("no timer comes early", EARLY.load(Ordering::Relaxed) == 0);
    }

    async fn foreign(&'static self) {
        let what = "contexts that are no workers wake tasks";
        let Some(wake) = self.port.foreign else {
            let one = "no hook; one core has no such context but its interrupts";
            return self.skip(what, if N == 1 { one } else { "no hook" });
        };
        static CALLED: AtomicBool = AtomicBool::new(false);
        for _ in 0..100 {
            CALLED.store(false, Ordering::Relaxed);
            core::future::poll_fn(|cx| {
                if CALLED.swap(true, Ordering::Relaxed) {
                    return core::task::Poll::Ready(());
                }
                wake(cx.waker().clone());
                core::task::Poll::Pending
            })
            .await;
        }
        self.check(what, true);
    }

    async fn panics(&'static self, memory: &'static impl Memory) {
        let what = "a panic ends its task, and no more";
        if !self.port.unwinds {
            return self.skip(what, "panics abort here");
        }
        let Some(task) = self.spawn(memory, async { panic!("on purpose") }) else { return };
        let contained = matches!(task.await, Err(error) if error.is_panic());
        let sound = self.burst(memory, 4, 4).await;
        self.check(what, contained && sound);
    }

    /// A second without work: no core wakes up.
    async fn quiet(&'static self) {
        let what = "idle cores sleep for a quiet second";
        let Some(stirs) = self.port.stirs else {
            return self.skip(what, "wake-ups for no reason are this platform's");
        };
        let parks = || self.executor.metrics().workers().map(|(_, w)| w.parks).sum::<usize>();
        let halts = || self.port.halts.map_or(0, |halts| halts());
        // Until all others sleep.
        while self.executor.metrics().totals().parked < N - 1 {
            self.executor.sleep(Duration::from_millis(5)).await;
        }
        self.executor.sleep(Duration::from_millis(50)).await;
        let (parks_before, halts_before) = (parks(), halts());
        self.executor.sleep(Duration::from_secs(1)).await;
        // This sleep counts as one, and its halt may end a little early and be repeated.
        let parks = parks().wrapping_sub(parks_before);
        let halts = halts().wrapping_sub(halts_before);
        (self.port.print)(format_args!("     {parks} parks, {halts} halts, for one timer"));
        // A core that has not come out of a halt in that time was not in one.
        let least = usize::from(self.port.halts.is_some());
        self.check(what, parks <= 1 + stirs && (least..=1 + stirs).contains(&halts));
    }
}
