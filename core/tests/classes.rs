//! Scheduling classes: which task is polled next.
#![cfg(all(feature = "classes", not(any(filch_loom, filch_shuttle, filch_weakmem))))]

mod common;

use core::{future::poll_fn, task::Poll, time::Duration};
use std::{
    rc::Rc,
    sync::{Arc, Mutex},
};

use common::{Flag, Manual, ManualExecutor, Sim, id, pool, quiet, shared};
use filch::{
    BUDGET, Class, Config, Executor, JoinHandle, Platform as _, SpawnErrorKind, Step, TaskOptions,
    WorkerMetrics, parts::Cores, yield_now,
};

/// What tasks were polled, in this order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    fn add(&self, name: &'static str) {
        self.0.lock().unwrap().push(name);
    }

    fn take(&self) -> Vec<&'static str> {
        core::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn of(class: Class) -> TaskOptions {
    TaskOptions::new().class(class)
}

/// A task that writes its name at each of its polls, of which there are so many.
fn spawn<const RING: usize>(
    sim: &Sim<RING>,
    log: &Log,
    options: TaskOptions,
    name: &'static str,
    polls: u32,
) -> JoinHandle<()> {
    let log = log.clone();
    let task = async move {
        for _ in 1..polls {
            log.add(name);
            yield_now().await;
        }
        log.add(name);
    };
    sim.executor.spawner().spawn_with(options, pool(), task).unwrap()
}

fn of_worker<const RING: usize>(executor: &ManualExecutor<RING>, worker: usize) -> WorkerMetrics {
    executor.metrics().workers().nth(worker).unwrap().1
}

fn done(handle: JoinHandle<()>) {
    handle.detach();
}

/// Runs `f` in a poll of worker 0.
fn in_a_poll(sim: &Sim, options: TaskOptions, f: impl FnOnce() + Send + 'static) {
    done(sim.executor.spawner().spawn_with(options, pool(), async move { f() }).unwrap());
    assert_eq!(sim.step(0), Step::Polled);
}

#[test]
fn classes_are_in_order() {
    assert!(Class::Urgent.is_before(Class::Normal) && Class::Normal.is_before(Class::Background));
    assert!(!Class::Normal.is_before(Class::Normal) && !Class::Background.is_before(Class::Urgent));
    assert_eq!(Class::default(), Class::Normal);
}

#[test]
fn urgent_tasks_come_first_and_background_tasks_last() {
    let (sim, log) = (Sim::new(1), Log::default());
    for (class, name) in
        [(Class::Background, "last"), (Class::Normal, "second"), (Class::Urgent, "first")]
    {
        done(spawn(&sim, &log, of(class), name, 2));
    }
    sim.run(0);
    assert_eq!(log.take(), ["first", "first", "second", "second", "last", "last"]);
    let metrics = of_worker(sim.executor, 0);
    assert_eq!((metrics.polls, metrics.urgent_polls, metrics.background_polls), (6, 2, 2));
}

/// Also one that is woken while the worker has others in its ring and its LIFO slot.
#[test]
fn an_urgent_task_that_is_woken_comes_before_what_is_queued() {
    let (sim, log) = (Sim::new(1), Log::default());
    let flag = Flag::new();
    let waits = {
        let (log, flag) = (log.clone(), flag.clone());
        async move {
            flag.wait().await;
            log.add("urgent");
        }
    };
    done(sim.executor.spawner().spawn_with(of(Class::Urgent), pool(), waits).unwrap());
    sim.run(0);
    let (ours, log_in, executor) = (flag.clone(), log.clone(), sim.executor);
    in_a_poll(&sim, TaskOptions::new(), move || {
        for name in ["one", "two"] {
            let log = log_in.clone();
            executor.spawn(pool(), async move { log.add(name) }).unwrap().detach();
        }
        ours.set();
    });
    sim.run(0);
    assert_eq!(log.take(), ["urgent", "two", "one"]);
}

#[test]
fn the_earliest_deadline_is_first_and_equal_ones_are_served_in_turn() {
    let (sim, log) = (Sim::new(1), Log::default());
    let now = sim.executor.platform().now();
    let at = |ms| of(Class::Urgent).deadline(now + Duration::from_millis(ms));
    done(spawn(&sim, &log, of(Class::Urgent), "without 1", 1));
    for (ms, name) in [(9, "9"), (3, "3a"), (7, "7"), (1, "1"), (3, "3b"), (8, "8"), (3, "3c")] {
        done(spawn(&sim, &log, at(ms), name, 1));
    }
    done(spawn(&sim, &log, of(Class::Urgent), "without 2", 1));
    assert_eq!(sim.step(0), Step::Polled);
    // One comes later, and is due earlier than those that are in order by now.
    done(spawn(&sim, &log, at(2), "2", 1));
    sim.run(0);
    let expected = ["1", "2", "3a", "3b", "3c", "7", "8", "9", "without 1", "without 2"];
    assert_eq!(log.take(), expected);
}

/// Whatever the order in which they come and go.
#[test]
fn deadlines_are_in_order_among_many() {
    let sim = Sim::new(1);
    let mut rng = fastrand_like(7);
    let polled = Arc::new(Mutex::new(Vec::new()));
    let mut waiting: Vec<u64> = Vec::new();
    for round in 0..400 {
        let due = rng() % 50 + 1;
        let at = sim.executor.platform().now() + Duration::from_millis(1_000 + due);
        let polled_in = Arc::clone(&polled);
        let task = async move { polled_in.lock().unwrap().push(due) };
        let options = of(Class::Urgent).deadline(at);
        done(sim.executor.spawner().spawn_with(options, pool(), task).unwrap());
        waiting.push(due);
        if round % 3 == 2 || round > 390 {
            assert_eq!(sim.step(0), Step::Polled);
            let first = *waiting.iter().min().unwrap();
            let at = waiting.iter().position(|due| *due == first).unwrap();
            waiting.remove(at);
            assert_eq!(polled.lock().unwrap().pop(), Some(first), "round {round}");
        }
    }
    sim.run(0);
    waiting.sort_unstable();
    assert_eq!(*polled.lock().unwrap(), waiting);
}

/// A few random numbers.
fn fastrand_like(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}

#[test]
fn a_deadline_holds_for_one_poll_and_a_late_one_is_counted() {
    let (sim, log) = (Sim::new(1), Log::default());
    let executor = sim.executor;
    let start = executor.platform().now();
    let late = move || of_worker(executor, 0).late;
    let log_in = log.clone();
    let task = async move {
        log_in.add("first");
        yield_now().await;
        log_in.add("without");
        assert!(executor.spawner().set_deadline(Some(start + Duration::from_millis(2))));
        yield_now().await;
        log_in.add("third");
    };
    let options = of(Class::Urgent).deadline(start + Duration::from_millis(1));
    done(executor.spawner().spawn_with(options, pool(), task).unwrap());
    executor.platform().advance(Duration::from_micros(1_500));
    assert_eq!(sim.step(0), Step::Polled);
    assert_eq!((log.take(), late()), (vec!["first"], 1));
    assert_eq!(sim.step(0), Step::Polled);
    assert_eq!((log.take(), late()), (vec!["without"], 1));
    executor.platform().advance(Duration::from_micros(400));
    assert_eq!(sim.step(0), Step::Polled);
    assert_eq!((log.take(), late()), (vec!["third"], 1), "in time");
}

#[test]
fn only_tasks_with_options_have_room_for_a_deadline() {
    let sim = Sim::new(1);
    let spawner = sim.executor.spawner();
    assert!(!spawner.set_deadline(None), "outside of polls");
    assert_eq!(spawner.class(), None);
    assert!(!spawner.set_class(Class::Urgent) && !spawner.should_yield());
    sim.executor
        .spawn(pool(), async move {
            assert!(!spawner.set_deadline(None), "it was spawned without options");
            assert_eq!(spawner.class(), Some(Class::Normal));
        })
        .unwrap()
        .detach();
    assert_eq!(sim.run(0), 1);
}

#[test]
fn children_have_the_class_of_their_parent_unless_it_is_said() {
    for parent in [Class::Urgent, Class::Normal, Class::Background] {
        let (sim, seen) = (Sim::new(1), Arc::new(Mutex::new(Vec::new())));
        let spawner = sim.executor.spawner();
        let seen_in = Arc::clone(&seen);
        in_a_poll(&sim, of(parent), move || {
            let see = |seen: &Arc<Mutex<Vec<_>>>| {
                let seen = Arc::clone(seen);
                async move { seen.lock().unwrap().push(spawner.class().unwrap()) }
            };
            spawner.spawn(pool(), see(&seen_in)).unwrap().detach();
            for said in [Class::Urgent, Class::Normal, Class::Background] {
                spawner.spawn_with(of(said), pool(), see(&seen_in)).unwrap().detach();
            }
            // The spawner's own class counts from now on.
            assert!(spawner.set_class(Class::Background));
            spawner.spawn(pool(), see(&seen_in)).unwrap().detach();
        });
        sim.run(0);
        let mut seen = seen.lock().unwrap().clone();
        let mut expected =
            vec![parent, Class::Urgent, Class::Normal, Class::Background, Class::Background];
        let key = |class: &Class| *class as u8;
        seen.sort_by_key(key);
        expected.sort_by_key(key);
        assert_eq!(seen, expected);
    }
}

#[test]
fn a_task_changes_its_class() {
    let (sim, log) = (Sim::new(1), Log::default());
    let (spawner, log_in) = (sim.executor.spawner(), log.clone());
    let task = async move {
        for class in [Class::Background, Class::Urgent, Class::Normal] {
            assert!(spawner.set_class(class));
            assert_eq!(spawner.class(), Some(class));
            yield_now().await;
            log_in.add(match class {
                Class::Urgent => "urgent",
                Class::Normal => "normal",
                Class::Background => "background",
            });
        }
    };
    done(sim.executor.spawn(pool(), task).unwrap());
    done(spawn(&sim, &log, TaskOptions::new(), "other", 3));
    sim.run(0);
    let expected = ["other", "other", "other", "background", "urgent", "normal"];
    assert_eq!(log.take(), expected);
}

/// By time, not by polls: background polls are long here, and still have a sixteenth.
#[test]
fn background_tasks_have_their_share() {
    for (share, own, most) in [(16, 1_000, 8), (16, 20, 8), (4, 100, 60), (0, 100, 0)] {
        let (sim, mine) = shared(Sim::with(1, Config::background_share(quiet(), share)));
        let times = Arc::new(Mutex::new([0_u64; 2]));
        let busy = |at: usize, micros: u64| {
            let (times, sim) = (Arc::clone(&times), Arc::clone(&mine));
            async move {
                loop {
                    sim.executor.platform().advance(Duration::from_micros(micros));
                    times.lock().unwrap()[at] += micros;
                    yield_now().await;
                }
            }
        };
        let spawner = sim.executor.spawner();
        for _ in 0..3 {
            done(spawner.spawn(pool(), busy(0, 50)).unwrap());
            done(spawner.spawn_with(of(Class::Background), pool(), busy(1, own)).unwrap());
        }
        while sim.executor.platform().now().as_nanos() < 2_000_000_000 {
            assert_eq!(sim.step(0), Step::Polled);
        }
        let [normal, background] = *times.lock().unwrap();
        let all = normal + background;
        let wanted = all.checked_div(u64::from(share)).unwrap_or(0);
        assert!(background.abs_diff(wanted) <= all / 100, "{background} of {all}, 1 in {share}");
        assert!(background * 100 / all <= most);
        drop((mine, times));
        sim.close();
        Rc::into_inner(sim).expect("its tasks have ended");
    }
}

/// A task waits for one of a later class: that one goes before others from when it is queued next.
#[test]
fn a_task_that_waits_boosts() {
    let (sim, log) = (Sim::new(1), Log::default());
    let (flag, log_in) = (Flag::new(), log.clone());
    let wait = flag.clone();
    let awaited = async move {
        wait.wait().await;
        for _ in 0..3 {
            log_in.add("awaited");
            yield_now().await;
        }
    };
    let awaited =
        sim.executor.spawner().spawn_with(of(Class::Background), pool(), awaited).unwrap();
    let log_in = log.clone();
    let waits = async move {
        awaited.await.unwrap();
        log_in.add("waiter");
    };
    done(sim.executor.spawner().spawn_with(of(Class::Urgent), pool(), waits).unwrap());
    sim.run(0);
    for _ in 0..3 {
        done(spawn(&sim, &log, TaskOptions::new(), "other", 2));
    }
    flag.set();
    sim.run(0);
    let expected = ["awaited"; 3].into_iter().chain(["waiter"]).chain(["other"; 6]);
    assert_eq!(log.take(), expected.collect::<Vec<_>>());
}

/// Down a chain, whatever the tasks are in when the last one comes.
#[test]
fn a_boost_goes_down_a_chain() {
    let (sim, log) = (Sim::new(1), Log::default());
    let spawner = sim.executor.spawner();
    let flag = Flag::new();
    let mut handle = {
        let (log, flag) = (log.clone(), flag.clone());
        let last = async move {
            flag.wait().await;
            log.add("last");
        };
        spawner.spawn_with(of(Class::Background), pool(), last).unwrap()
    };
    for class in [Class::Background, Class::Normal, Class::Background, Class::Normal] {
        let log = log.clone();
        let waits = async move {
            handle.await.unwrap();
            log.add("link");
        };
        handle = spawner.spawn_with(of(class), pool(), waits).unwrap();
    }
    sim.run(0);
    let waits = {
        let log = log.clone();
        async move {
            handle.await.unwrap();
            log.add("urgent");
        }
    };
    done(spawner.spawn_with(of(Class::Urgent), pool(), waits).unwrap());
    sim.run(0);
    for _ in 0..3 {
        done(spawn(&sim, &log, TaskOptions::new(), "other", 1));
    }
    flag.set();
    sim.run(0);
    let expected = ["last", "link", "link", "link", "link", "urgent", "other", "other", "other"];
    assert_eq!(log.take(), expected);
}

/// The handle is dropped: the task goes by its own class again.
#[test]
fn a_boost_ends_with_the_handle() {
    let (sim, log) = (Sim::new(1), Log::default());
    let spawner = sim.executor.spawner();
    let flag = Flag::new();
    let (log_in, wait) = (log.clone(), flag.clone());
    let awaited = async move {
        assert_eq!(spawner.class(), Some(Class::Background));
        wait.wait().await;
        log_in.add(if spawner.class() == Some(Class::Background) {
            "background"
        } else {
            "boosted"
        });
    };
    let mut awaited = Some(spawner.spawn_with(of(Class::Background), pool(), awaited).unwrap());
    sim.run(0);
    let give_up = Flag::new();
    let given_up = give_up.clone();
    let waits = async move {
        poll_fn(|cx| {
            use core::{future::Future as _, pin::pin};
            if pin!(given_up.wait()).poll(cx).is_ready() {
                awaited = None;
                return Poll::Ready(());
            }
            let awaited = awaited.as_mut().unwrap();
            assert!(pin!(awaited).poll(cx).is_pending());
            Poll::Pending
        })
        .await;
    };
    done(spawner.spawn_with(of(Class::Urgent), pool(), waits).unwrap());
    sim.run(0);
    give_up.set();
    sim.run(0);
    done(spawn(&sim, &log, TaskOptions::new(), "other", 1));
    flag.set();
    sim.run(0);
    assert_eq!(log.take(), ["other", "background"]);
}

#[test]
fn a_wait_in_sync_code_boosts_too() {
    let (sim, log) = (Sim::new(1), Log::default());
    let (flag, log_in) = (Flag::new(), log.clone());
    let wait = flag.clone();
    let awaited = async move {
        wait.wait().await;
        log_in.add("awaited");
    };
    let mut awaited =
        sim.executor.spawner().spawn_with(of(Class::Background), pool(), awaited).unwrap();
    sim.run(0);
    done(sim.executor.spawner().spawn(pool(), async move { flag.set() }).unwrap());
    done(spawn(&sim, &log, TaskOptions::new(), "other", 2));
    let log_in = log.clone();
    in_a_poll(&sim, of(Class::Urgent), move || {
        awaited.join().unwrap();
        log_in.add("waiter");
    });
    sim.run(0);
    assert_eq!(log.take(), ["awaited", "waiter", "other", "other"]);
}

#[test]
fn pinned_tasks_have_classes_too() {
    let (sim, log) = (Sim::new(2), Log::default());
    for (class, name) in
        [(Class::Background, "last"), (Class::Normal, "second"), (Class::Urgent, "first")]
    {
        done(spawn(&sim, &log, of(class).pinned(id(1)), name, 2));
    }
    sim.run(0);
    assert_eq!(log.take(), [] as [&str; 0], "they are another worker's");
    sim.run(1);
    assert_eq!(log.take(), ["first", "first", "second", "second", "last", "last"]);
}

/// Their worker is offline: they wait, or are cancelled by a shutdown.
#[test]
fn pinned_tasks_of_each_class_wait_for_their_worker() {
    let (sim, log) = (Sim::new(2), Log::default());
    for (class, name) in [(Class::Background, "last"), (Class::Urgent, "first")] {
        done(spawn(&sim, &log, of(class).pinned(id(1)), name, 1));
    }
    sim.detach(1);
    sim.run(0);
    assert_eq!(log.take(), [] as [&str; 0]);
    sim.attach(1);
    sim.run(1);
    assert_eq!(log.take(), ["first", "last"]);
    sim.detach(1);
    done(spawn(&sim, &log, of(Class::Urgent).pinned(id(1)), "never", 1));
    done(spawn(&sim, &log, of(Class::Background).pinned(id(1)), "never", 1));
    sim.close();
}

#[test]
fn a_sleeper_is_woken_for_a_task_of_any_class() {
    for class in [Class::Urgent, Class::Background] {
        let (sim, mine) = shared(Sim::new(2));
        let log = Log::default();
        let parked = |sim: &Sim| sim.executor.metrics().totals().parked;
        sim.run(0);
        assert!(sim.on(1, |worker| worker.begin_park().is_some()));
        assert_eq!(parked(&sim), 1);
        let log_in = log.clone();
        in_a_poll(&sim, TaskOptions::new(), move || {
            done(spawn(&mine, &log_in, of(class), "woken", 1));
            assert_eq!(mine.executor.platform().woken(), [1], "{class:?}");
            mine.on(1, |worker| worker.end_park());
            mine.run(1);
        });
        assert_eq!(log.take(), ["woken"], "it ran behind the poll that spawned it");
    }
}

#[test]
fn idle_workers_steal_background_tasks_and_take_those_that_do_not_fit() {
    let (sim, mine) = shared(Sim::<4>::build(2, quiet()));
    let log = Log::default();
    let log_in = log.clone();
    let spawns = async move {
        for _ in 0..11 {
            done(spawn(&mine, &log_in, of(Class::Background), "background", 1));
        }
        mine.run(1);
        assert_eq!(log_in.take().len(), 11, "a thief takes them all, by and by");
    };
    done(sim.executor.spawn(pool(), spawns).unwrap());
    assert_eq!(sim.step(0), Step::Polled);
    assert_eq!(sim.run(0), 0);
    assert!(of_worker(sim.executor, 1).stolen > 0);
}

#[test]
fn a_worker_that_leaves_gives_its_background_tasks_away() {
    let (sim, mine) = shared(Sim::with(2, quiet().stealing(false)));
    let log = Log::default();
    let log_in = log.clone();
    in_a_poll(&sim, TaskOptions::new(), move || {
        for _ in 0..5 {
            done(spawn(&mine, &log_in, of(Class::Background), "background", 1));
        }
    });
    assert_eq!(sim.run(1), 0);
    sim.detach(0);
    assert_eq!(sim.run(1), 5);
    assert_eq!(log.take().len(), 5);
    sim.attach(0);
}

/// A task that spends its budget gives way at its next point, but comes further in each of its polls.
#[test]
fn budgets_are_empty_while_an_urgent_task_waits() {
    let (sim, log) = (Sim::new(1), Log::default());
    let (spawner, log_in) = (sim.executor.spawner(), log.clone());
    let computes = async move {
        let urgent = || {
            let log = log_in.clone();
            let task = async move { log.add("urgent") };
            spawner.spawn_with(of(Class::Urgent), pool(), task).unwrap().detach();
        };
        spawner.consume_budget().await;
        assert!(!spawner.should_yield());
        urgent();
        assert!(spawner.should_yield());
        log_in.add("before");
        spawner.consume_budget().await;
        log_in.add("after");
        yield_now().await;
        urgent();
        log_in.add("pressed");
        spawner.consume_budget().await;
        log_in.add("one step");
        spawner.consume_budget().await;
        log_in.add("gave way");
    };
    done(sim.executor.spawn(pool(), computes).unwrap());
    sim.run(0);
    let expected = ["before", "urgent", "after", "pressed", "one step", "urgent", "gave way"];
    assert_eq!(log.take(), expected);
}

#[test]
fn an_urgent_task_keeps_its_budget() {
    let sim = Sim::new(1);
    let spawner = sim.executor.spawner();
    let task = async move {
        let other = spawner.spawn_with(of(Class::Urgent), pool(), async {}).unwrap();
        assert!(!spawner.should_yield());
        for _ in 0..BUDGET {
            spawner.consume_budget().await;
        }
        assert!(!other.is_finished(), "it has not given way");
        other.await.unwrap();
    };
    done(spawner.spawn_with(of(Class::Urgent), pool(), task).unwrap());
    sim.run(0);
}

#[test]
fn without_classes_all_tasks_are_alike() {
    let (sim, log) = (Sim::with(1, quiet().classes(false)), Log::default());
    let spawner = sim.executor.spawner();
    for (class, name) in [(Class::Background, "1"), (Class::Normal, "2"), (Class::Urgent, "3")] {
        done(spawn(&sim, &log, of(class), name, 1));
    }
    let task = async move {
        assert_eq!(spawner.class(), Some(Class::Normal));
        assert!(spawner.set_class(Class::Urgent));
        assert_eq!(spawner.class(), Some(Class::Normal));
    };
    done(spawner.spawn_with(of(Class::Urgent), pool(), task).unwrap());
    sim.run(0);
    assert_eq!(log.take(), ["1", "2", "3"]);
    let metrics = of_worker(sim.executor, 0);
    assert_eq!((metrics.urgent_polls, metrics.background_polls), (0, 0));
}

#[test]
fn an_executor_without_the_part_refuses_classes() {
    static EXECUTOR: Executor<Manual, 1, 16, Cores> = Executor::new(Manual::new());
    let spawner = EXECUTOR.spawner();
    let options = [of(Class::Normal), TaskOptions::new().deadline(filch::Instant::ZERO)];
    for options in options {
        let refused = spawner.spawn_with(options, pool(), async {}).unwrap_err();
        assert_eq!(refused.kind, SpawnErrorKind::NoClasses);
    }
    let plain = spawner.spawn_with(TaskOptions::new().name("plain"), pool(), async {}).unwrap();
    assert_eq!(plain.info().unwrap().name, Some("plain"));
    plain.detach();
}

/// Sync code of a task lets urgent tasks run on top of it, and no others.
#[test]
fn code_that_gives_way_lets_urgent_tasks_run() {
    let (sim, mine) = shared(Sim::new(1));
    let log = Log::default();
    let (executor, log_in) = (sim.executor, log.clone());
    let computes = move || {
        assert!(!executor.give_way(), "there is none");
        done(spawn(&mine, &log_in, of(Class::Urgent), "urgent", 2));
        done(spawn(&mine, &log_in, of(Class::Normal), "normal", 1));
        log_in.add("before");
        assert!(executor.give_way());
        log_in.add("after");
    };
    in_a_poll(&sim, of(Class::Background), computes);
    assert_eq!(log.take(), ["before", "urgent", "urgent", "after"]);
    assert_eq!(sim.settle(), 1);
    log.take();
    let (sim, mine) = shared(Sim::new(1));
    let (executor, log_in) = (sim.executor, log.clone());
    in_a_poll(&sim, of(Class::Urgent), move || {
        done(spawn(&mine, &log_in, of(Class::Urgent), "urgent", 1));
        assert!(!executor.give_way(), "the caller is urgent");
    });
    assert!(!executor.give_way(), "no worker");
    assert_eq!(sim.settle(), 1);
}

/// Code that gives way hears of timers, if it goes on for long.
#[test]
fn code_that_gives_way_hears_of_timers() {
    let (sim, log) = (Sim::new(1), Log::default());
    let (executor, log_in) = (sim.executor, log.clone());
    let control = async move {
        executor.timers().sleep(Duration::from_micros(200)).await;
        log_in.add("control");
    };
    done(executor.spawner().spawn_with(of(Class::Urgent), pool(), control).unwrap());
    assert_eq!(sim.run(0), 1);
    let log_in = log.clone();
    in_a_poll(&sim, of(Class::Background), move || {
        for _ in 0..200 {
            executor.give_way();
            executor.platform().advance(Duration::from_micros(10));
        }
        log_in.add("end");
    });
    assert_eq!(log.take(), ["control", "end"]);
}
