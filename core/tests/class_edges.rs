//! Classes at the edges: ends of polls, handlers, endless tasks, odd clocks, and boosts of tasks that are on the move.
#![cfg(all(feature = "classes", not(any(filch_loom, filch_shuttle, filch_weakmem))))]

mod common;

use core::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{
    sync::{Arc, Mutex},
    task::Wake,
};

use common::{Flag, Shared, Sim, id, pool, quiet, shared};
use filch::{Class, JoinHandle, Platform as _, Step, TaskOptions, TaskPool, yield_now};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn add(&self, name: &'static str) {
        self.0.lock().unwrap().push(name);
    }

    fn names(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

fn of(class: Class) -> TaskOptions {
    TaskOptions::new().class(class)
}

fn spawn<const RING: usize>(
    sim: &Sim<RING>,
    options: TaskOptions,
    task: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    sim.executor.spawner().spawn_with(options, pool(), task).unwrap()
}

/// A task that writes its name.
fn write(sim: &Sim, log: &Log, options: TaskOptions, name: &'static str) -> JoinHandle<()> {
    let log = log.clone();
    spawn(sim, options, async move { log.add(name) })
}

/// Steps a worker until the name is written; how many polls that took, of so many at most.
fn polls_until(sim: &Sim, worker: u16, log: &Log, name: &'static str, most: u32) -> u32 {
    (0..most)
        .take_while(|_| !log.names().contains(&name) && sim.step(worker) == Step::Polled)
        .count() as u32
}

async fn busy(polls: u32) {
    for _ in 0..polls {
        yield_now().await;
    }
}

/// The waker of a joiner, foreign to the executor, runs on top of the poll that has ended. It frees the slot of the task, and another
/// task takes it.
struct Reuses {
    sim: Shared<256>,
    pool: &'static TaskPool<1_024, 1>,
    log: Log,
    handle: Mutex<Option<JoinHandle<()>>>,
    answers: Mutex<Vec<bool>>,
}

impl Wake for Reuses {
    fn wake(self: Arc<Self>) {
        let spawner = self.sim.executor.spawner();
        let at = |ms| self.sim.executor.platform().now() + Duration::from_millis(ms);
        drop(self.handle.lock().unwrap().take());
        let log = self.log.clone();
        let task = async move { log.add("9 ms") };
        let options = of(Class::Urgent).deadline(at(9));
        spawner.spawn_with(options, self.pool, task).unwrap().detach();
        let mut answers = self.answers.lock().unwrap();
        answers.extend([spawner.set_deadline(Some(at(1))), spawner.set_class(Class::Background)]);
    }
}

#[test]
fn a_poll_that_is_over_has_no_task() {
    static ONE: TaskPool<1_024, 1> = TaskPool::new();
    let (sim, mine) = shared(Sim::new(1));
    let log = Log::default();
    let mut handle = sim.executor.spawner().spawn(&ONE, async {}).unwrap();
    let (answers, none) = (Mutex::default(), Mutex::default());
    let reuses =
        Arc::new(Reuses { sim: mine, pool: &ONE, log: log.clone(), handle: none, answers });
    let waker = Waker::from(Arc::clone(&reuses));
    assert!(Pin::new(&mut handle).poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    *reuses.handle.lock().unwrap() = Some(handle);
    assert_eq!(sim.step(0), Step::Polled);
    let at = sim.executor.platform().now() + Duration::from_millis(5);
    write(&sim, &log, of(Class::Urgent).deadline(at), "5 ms").detach();
    sim.run(0);
    assert_eq!(*reuses.answers.lock().unwrap(), [false, false]);
    assert_eq!(log.names(), ["5 ms", "9 ms"]);
}

#[test]
fn a_handler_has_no_class() {
    let (sim, mine) = shared(Sim::new(1));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let seen_in = Arc::clone(&seen);
    let task = async move {
        let spawner = mine.executor.spawner();
        mine.executor.platform().interrupt(|| {
            assert!(spawner.class().is_none());
            assert!(!spawner.set_deadline(None) && !spawner.set_class(Class::Urgent));
            let seen = Arc::clone(&seen_in);
            let child = async move { seen.lock().unwrap().push(spawner.class()) };
            spawner.spawn(pool(), child).unwrap().detach();
        });
    };
    spawn(&sim, of(Class::Background), task).detach();
    sim.run(0);
    assert_eq!(*seen.lock().unwrap(), [Some(Class::Normal)]);
}

#[test]
fn urgent_tasks_without_end_do_not_starve_timers() {
    let sim = Sim::new(1);
    let executor = sim.executor;
    let fired = Arc::new(AtomicBool::new(false));
    let (set, see) = (Arc::clone(&fired), Arc::clone(&fired));
    let sleeps = async move {
        executor.sleep(Duration::from_millis(1)).await;
        set.store(true, SeqCst);
    };
    spawn(&sim, of(Class::Urgent), sleeps).detach();
    assert_eq!(sim.step(0), Step::Polled);
    let endless = async move {
        for _ in 0..1_000 {
            executor.platform().advance(Duration::from_micros(10));
            if see.load(SeqCst) {
                return;
            }
            yield_now().await;
        }
    };
    spawn(&sim, of(Class::Urgent), endless).detach();
    assert!(sim.run(0) < 500, "10 ms, and a timer of 1 ms has not fired");
    assert!(fired.load(SeqCst));
}

#[test]
fn an_urgent_task_that_is_pinned_does_not_starve_the_others() {
    let (sim, log) = (Sim::new(1), Log::default());
    spawn(&sim, of(Class::Urgent).pinned(id(0)), busy(100)).detach();
    write(&sim, &log, of(Class::Urgent), "other").detach();
    assert!(polls_until(&sim, 0, &log, "other", 100) <= 2);
    sim.run(0);
}

/// One task of each class, which yield until the flag is set; how many microseconds they had.
fn rivals(sim: &Sim, micros: u64) -> (Arc<Mutex<[u64; 2]>>, Arc<AtomicBool>) {
    let (times, stop) = (Arc::new(Mutex::new([0; 2])), Arc::new(AtomicBool::new(false)));
    for (at, class) in [(0, Class::Normal), (1, Class::Background)] {
        let (times, stop, executor) = (Arc::clone(&times), Arc::clone(&stop), sim.executor);
        let task = async move {
            while !stop.load(SeqCst) {
                executor.platform().advance(Duration::from_micros(micros));
                times.lock().unwrap()[at] += micros;
                yield_now().await;
            }
        };
        spawn(sim, of(class).pinned(id(0)), task).detach();
    }
    (times, stop)
}

fn steps(sim: &Sim, n: u32) {
    (0..n).for_each(|_| assert_eq!(sim.step(0), Step::Polled));
}

#[test]
fn a_background_task_does_not_pay_for_the_time_that_its_worker_was_away() {
    let sim = Sim::new(1);
    let (times, stop) = rivals(&sim, 50);
    while times.lock().unwrap()[1] == 0 {
        steps(&sim, 1);
    }
    sim.detach(0);
    sim.executor.platform().advance(Duration::from_secs(60));
    sim.attach(0);
    *times.lock().unwrap() = [0; 2];
    steps(&sim, 10_000);
    let [normal, background] = *times.lock().unwrap();
    stop.store(true, SeqCst);
    sim.run(0);
    assert!(background * 18 > normal + background, "{background} beside {normal} us");
}

/// The loop that drives the worker takes 16 ms for itself between two turns.
#[test]
fn the_share_of_a_driven_worker_is_that_of_its_own_time() {
    for polls in [1, 8, 9, 32] {
        let sim = Sim::new(1);
        let (times, stop) = rivals(&sim, 50);
        for _ in 0..20_000 / polls {
            assert_eq!(sim.on(0, |worker| worker.run_for(polls)), polls);
            sim.executor.platform().advance(Duration::from_millis(16));
        }
        let [normal, background] = *times.lock().unwrap();
        stop.store(true, SeqCst);
        sim.run(0);
        let all = normal + background;
        assert!((15..=18).contains(&(all / background)), "{polls}: {background} of {all} us");
    }
}

#[test]
fn a_clock_that_stands_still_starves_no_normal_task() {
    let sim = Sim::new(1);
    let (polls, stop) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    for (class, adds) in [(Class::Normal, 1), (Class::Background, 0)] {
        let (polls, stop) = (Arc::clone(&polls), Arc::clone(&stop));
        let task = async move {
            while !stop.load(SeqCst) {
                polls.fetch_add(adds, SeqCst);
                yield_now().await;
            }
        };
        spawn(&sim, of(class), task).detach();
    }
    steps(&sim, 20);
    sim.executor.platform().advance(Duration::from_millis(20));
    steps(&sim, 20);
    let before = polls.load(SeqCst);
    steps(&sim, 1_000);
    assert!(polls.load(SeqCst) > before + 50);
    stop.store(true, SeqCst);
    sim.run(0);
}

/// However often the task was stolen before: once it is queued again, it comes before all of later classes.
#[test]
fn a_boost_holds_from_when_the_task_is_queued_next() {
    for steals in 0..3 {
        let (sim, mine) = shared(Sim::with(3, quiet().background_share(0)));
        let log = Log::default();
        let log_in = log.clone();
        let begins = async move {
            let low = |n| {
                (0..n).for_each(|_| write(&mine, &log_in, of(Class::Background), "low").detach())
            };
            low(20);
            let log = log_in.clone();
            let awaited = async move {
                for _ in 0..3 {
                    log.add("awaited");
                    yield_now().await;
                }
            };
            let awaited = spawn(&mine, of(Class::Background), awaited);
            low(20);
            // Each takes half of what the one before has.
            (1..=steals).for_each(|thief| assert_eq!(mine.step(thief), Step::Polled));
            spawn(&mine, of(Class::Urgent).pinned(id(0)), async move { awaited.await.unwrap() })
                .detach();
        };
        spawn(&sim, TaskOptions::new().pinned(id(0)), begins).detach();
        assert_eq!(sim.step(0), Step::Polled);
        // The urgent task waits from now on.
        assert_eq!(sim.step(0), Step::Polled);
        sim.settle();
        let names = log.names();
        let first = names.iter().position(|name| *name == "awaited").unwrap();
        assert_eq!(names[first..first + 3], ["awaited"; 3], "{steals} steals: {names:?}");
    }
}

#[test]
fn a_boost_ends_down_the_chain() {
    let (sim, log) = (Sim::new(1), Log::default());
    let (flag, quit) = (Flag::new(), Flag::new());
    let (spawner, log_in, wait) = (sim.executor.spawner(), log.clone(), flag.clone());
    let last = async move {
        wait.wait().await;
        log_in.add(if spawner.class() == Some(Class::Background) { "its own" } else { "boosted" });
    };
    let last = spawn(&sim, of(Class::Background), last);
    let link = spawn(&sim, of(Class::Background), async move { last.await.unwrap() });
    sim.run(0);
    let (mut link, wait) = (Some(link), quit.clone());
    let waits = poll_fn(move |cx| {
        if pin!(wait.wait()).poll(cx).is_ready() {
            link = None;
            return Poll::Ready(());
        }
        Pin::new(link.as_mut().unwrap()).poll(cx).map(|_| ())
    });
    spawn(&sim, of(Class::Urgent), waits).detach();
    sim.run(0);
    quit.set();
    sim.run(0);
    flag.set();
    sim.run(0);
    assert_eq!(log.names(), ["its own"]);
}

#[test]
fn an_executor_without_classes_takes_no_boost() {
    let (sim, alike) = (Sim::new(1), Sim::with(1, quiet().classes(false)));
    let (spawner, seen) = (alike.executor.spawner(), Arc::new(Mutex::new(None)));
    let seen_in = Arc::clone(&seen);
    let awaited = async move {
        yield_now().await;
        *seen_in.lock().unwrap() = spawner.class();
    };
    let awaited = spawn(&alike, TaskOptions::new(), awaited);
    spawn(&sim, of(Class::Urgent), async move { awaited.await.unwrap() }).detach();
    sim.run(0);
    alike.run(0);
    sim.run(0);
    assert_eq!(*seen.lock().unwrap(), Some(Class::Normal));
}
