//! How runtimes begin and end: built or refused, many at once, dropped anywhere, shut down, and
//! their memory reused.

mod common;

use core::{future::pending, time::Duration};
use std::{
    rc::Rc,
    sync::{Arc, Mutex, RwLock, mpsc},
    thread,
};

use common::{Drops, Flag, runtime, until, watchdog};
use filch_std::{
    JoinHandle, Runtime, TaskOptions,
    runtime::{BuildError, ConfigError, WorkerId},
    spawn_local,
    task::{JoinSet, SpawnErrorKind, TaskTracker, yield_now},
};

/// Tests that count the threads of the process run alone.
static THREADS: RwLock<()> = RwLock::new(());

macro_rules! shared {
    () => {
        let _watchdog = watchdog();
        let _shared = THREADS.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    };
}

/// To be polled: the kernel lists a thread for a moment after it has been joined.
#[cfg(target_os = "linux")]
fn threads_of_runtimes() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        // A thread that ends meanwhile has no name any more.
        std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
    };
    tasks.map(name).filter(|name| name.starts_with("counted")).count()
}

#[test]
fn a_fair_number_of_workers_is_needed() {
    shared!();
    let build = |n| Runtime::builder().workers(n).build().map(drop);
    assert!(matches!(build(0), Err(BuildError::Config(ConfigError::ZeroWorkers))));
    let Err(BuildError::Config(ConfigError::TooManyWorkers(most))) = build(usize::MAX) else {
        panic!("they cannot all be had")
    };
    assert!((1_000..=4_096).contains(&most), "{most}");
    assert!(matches!(build(most + 1), Err(BuildError::Config(ConfigError::TooManyWorkers(_)))));
    assert_eq!(build(0).unwrap_err().to_string(), "an executor needs at least one worker");
    build(70).unwrap();
}

#[test]
fn a_variable_says_the_number_of_workers() {
    const TEST: &str = "a_variable_says_the_number_of_workers";
    let _watchdog = watchdog();
    if let Some(expected) = filch_test_support::part() {
        match Runtime::new() {
            Ok(rt) => {
                let workers = expected.parse::<usize>().unwrap();
                until(|| rt.metrics().workers().filter(|(_, w)| w.online).count() == workers);
                // What the program says goes before.
                let rt = Runtime::builder().workers(1).build().unwrap();
                assert!(rt.metrics().workers().count() < 3 + 8);
            }
            Err(error) => assert!(error.to_string().contains(&expected), "{error}"),
        }
        return;
    }
    let cases =
        [("3", "3"), ("0", "at least one"), ("many", "FILCH_WORKERS"), ("", "FILCH_WORKERS")];
    for (value, expected) in cases {
        let child = filch_test_support::play(TEST, expected).env("FILCH_WORKERS", value).output();
        let child = child.unwrap();
        assert!(child.status.success(), "{value}: {child:?}");
    }
}

#[test]
fn the_default_number_of_workers_is_what_there_is() {
    shared!();
    let rt = Runtime::new().unwrap();
    let most = filch_std::runtime::available_workers();
    until(|| rt.metrics().workers().filter(|(_, w)| w.online).count() == most);
}

#[test]
#[cfg(target_os = "linux")]
fn a_refused_thread_is_an_error_and_leaves_none_behind() {
    let _watchdog = watchdog();
    let _alone = THREADS.write().unwrap_or_else(std::sync::PoisonError::into_inner);
    for _ in 0..10 {
        let builder = Runtime::builder().workers(3).name("counted");
        let error = builder.clone().stack_size(1 << 60).build().unwrap_err();
        let BuildError::Thread(error) = error else { panic!("{error}") };
        assert!(error.raw_os_error().is_some(), "{error}");
        until(|| threads_of_runtimes() == 0);
        // The builder works after a refusal.
        assert_eq!(builder.build().unwrap().spawn(async { 1 }).join().unwrap(), 1);
        until(|| threads_of_runtimes() == 0);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn runtimes_come_and_go_and_leave_nothing() {
    let _watchdog = watchdog();
    let _alone = THREADS.write().unwrap_or_else(std::sync::PoisonError::into_inner);
    // The program's resident pages.
    let resident = || {
        let stat = std::fs::read_to_string("/proc/self/statm").unwrap();
        stat.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
    };
    let mut after_warm_up = 0;
    let mut handles = Vec::new();
    for round in 0..300 {
        let rt = Runtime::builder().workers(1 + round % 3).name("counted").build().unwrap();
        let left: Vec<_> = (0..20).map(|_| rt.spawn(pending::<()>())).collect();
        let mut done = rt.spawn(async move { round });
        assert_eq!(done.join().unwrap(), round);
        drop(rt);
        assert!(left.iter().all(JoinHandle::is_finished));
        // Some handles are kept beyond their runtime.
        if round % 50 == 0 {
            handles.extend(left);
        }
        if round == 100 {
            after_warm_up = resident();
        }
    }
    until(|| threads_of_runtimes() == 0);
    let grown = resident().saturating_sub(after_warm_up);
    assert!(grown < 256, "{grown} pages more after 200 runtimes");
    for mut handle in handles {
        assert!(handle.join().unwrap_err().is_cancelled());
    }
}

#[test]
fn many_runtimes_side_by_side_end_in_any_order() {
    shared!();
    let seed = 0x9E37_79B9_7F4A_7C15_u64;
    println!("seed {seed:#x}");
    let mut random = seed;
    let mut next = |n: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % n as u64) as usize
    };
    let drops = Drops::new();
    let mut made = 0;
    let mut all: Vec<Runtime> = Vec::new();
    for _ in 0..120 {
        if all.len() < 10 && next(3) > 0 {
            all.push(runtime(1 + next(3)));
        } else if !all.is_empty() {
            drop(all.swap_remove(next(all.len())));
        }
        // Tasks of one wait for tasks of another, or for ever.
        for i in 0..all.len() {
            let other = *all[next(all.len())].handle();
            let tally = drops.tally();
            made += 1;
            let future = async move {
                let _tally = tally;
                if let Ok(handle) =
                    other.spawn_with(TaskOptions::new(), async { yield_now().await })
                {
                    drop(handle.await);
                }
                pending::<()>().await;
            };
            core::mem::forget(all[i].spawn(future));
        }
    }
    drop(all);
    assert_eq!(drops.count(), made);
}

#[test]
fn a_runtime_dropped_in_a_task_of_another() {
    shared!();
    for workers in [1, 2] {
        let (outer, inner) = (runtime(workers), runtime(workers));
        let drops = Drops::new();
        for _ in 0..10 {
            let tally = drops.tally();
            let future = async move {
                let _tally = tally;
                pending::<()>().await;
            };
            core::mem::forget(inner.spawn(future));
        }
        let gauge = drops.clone();
        let mut ended = outer.spawn(async move {
            drop(inner);
            gauge.count()
        });
        assert_eq!(ended.join().unwrap(), 10, "the drop has waited");
    }
}

#[test]
fn a_runtime_dropped_in_its_own_task_ends_later() {
    shared!();
    for (workers, nested) in [(1, false), (2, false), (1, true)] {
        let rt = runtime(workers);
        let handle = *rt.handle();
        let drops = Drops::new();
        for _ in 0..10 {
            let tally = drops.tally();
            let future = async move {
                let _tally = tally;
                pending::<()>().await;
            };
            core::mem::forget(rt.spawn(future));
        }
        let mut ends = handle.spawn(async move {
            if nested {
                filch_std::block_on(async move { drop(rt) });
            } else {
                drop(rt);
            }
            // This poll goes on; it is the last.
            let refused = handle.spawn_with(TaskOptions::new(), async {}).unwrap_err();
            assert_eq!(refused.kind, SpawnErrorKind::Shutdown);
            7
        });
        assert_eq!(ends.join().unwrap(), 7);
        until(|| drops.count() == 10);
        until(|| handle.metrics().workers().all(|(_, w)| !w.online));
    }
}

#[test]
fn a_runtime_shut_down_by_its_own_task() {
    shared!();
    let rt = runtime(1);
    let handle = *rt.handle();
    let mut ends = handle.spawn(async move {
        let survivors = rt.shutdown(Duration::MAX);
        let more = yield_now();
        more.await;
        survivors.len()
    });
    assert!(ends.join().unwrap_err().is_cancelled(), "at its next poll");
    until(|| handle.metrics().workers().all(|(_, w)| !w.online));
}

#[test]
fn a_shutdown_names_those_that_outlive_its_patience() {
    shared!();
    let rt = runtime(2);
    let drops = Drops::new();
    for name in ["a slow one", "another"] {
        let tally = drops.tally();
        let future = async move {
            let _tally = tally;
            pending::<()>().await;
        };
        core::mem::forget(rt.handle().spawn_with(TaskOptions::new().name(name), future).unwrap());
    }
    let mut quick = rt.spawn(async { 1 });
    let survivors = rt.shutdown(Duration::from_millis(20));
    let mut names: Vec<_> = survivors.iter().filter_map(|task| task.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["a slow one", "another"]);
    assert_eq!(quick.join().unwrap(), 1);
    assert_eq!(drops.count(), 2);
}

#[test]
fn a_patient_shutdown_waits_for_all() {
    shared!();
    let rt = runtime(2);
    let flag = Flag::new();
    let mut tasks: Vec<_> = (0..10)
        .map(|i| {
            let wait = flag.wait();
            rt.spawn(async move {
                wait.await;
                // Tasks may still spawn.
                filch_std::spawn(async move { i }).await.unwrap()
            })
        })
        .collect();
    let end = thread::spawn(move || rt.shutdown(Duration::MAX).len());
    flag.set();
    assert_eq!(end.join().unwrap(), 0);
    let sum: usize = tasks.iter_mut().map(|task| task.join().unwrap()).sum();
    assert_eq!(sum, 45);
}

#[test]
fn after_the_shutdown_a_spawn_is_refused_or_cancelled() {
    shared!();
    // A shape that no other test uses, so that no other runtime takes its memory meanwhile.
    let rt = Runtime::builder().workers(5).nesting(29).build().unwrap();
    let handle = *rt.handle();
    drop(rt);
    let drops = Drops::new();
    let tally = drops.tally();
    let refused = handle.spawn_with(TaskOptions::new(), async move { drop(tally) }).unwrap_err();
    // The memory is open for the next runtime, or closed: in both cases nothing runs.
    assert_eq!(refused.kind, SpawnErrorKind::Shutdown);
    assert_eq!(drops.count(), 0, "the future came back");
    drop(refused);
    assert_eq!(drops.count(), 1);
    let mut cancelled = handle.spawn(async { unreachable!() });
    assert!(cancelled.is_finished());
    let result: Result<(), _> = cancelled.join();
    assert!(result.unwrap_err().is_cancelled());
    let refused =
        handle.spawn_with(TaskOptions::new().pinned(WorkerId::new(0)), async {}).unwrap_err();
    assert_eq!(refused.kind, SpawnErrorKind::Shutdown);
}

#[test]
fn a_late_wake_of_a_task_of_a_dropped_runtime_is_harmless() {
    shared!();
    for _ in 0..50 {
        let rt = runtime(2);
        let flag = Flag::new();
        let tasks: Vec<_> = (0..10).map(|_| rt.spawn(flag.wait())).collect();
        until(|| rt.metrics().totals().injector_depth == 0);
        tasks[0].abort();
        let wakers = Arc::new(Mutex::new(flag.take_wakers()));
        let late = Arc::clone(&wakers);
        // While the runtime ends, and after.
        let waking = thread::spawn(move || {
            for _ in 0..100 {
                late.lock().unwrap().iter().for_each(core::task::Waker::wake_by_ref);
            }
            late.lock().unwrap().drain(..).for_each(core::task::Waker::wake);
        });
        drop(rt);
        // Another runtime in the same memory.
        let next = runtime(2);
        assert_eq!(next.spawn(async { 1 }).join().unwrap(), 1);
        waking.join().unwrap();
        drop(tasks);
        assert_eq!(next.spawn(async { 2 }).join().unwrap(), 2);
    }
}

#[test]
fn detached_tasks_that_nothing_can_wake_keep_their_guards() {
    shared!();
    let (rt, drops) = (runtime(2), Drops::new());
    let handle = *rt.handle();
    // A common idiom: a task keeps a guard until the runtime ends.
    let keep = || {
        let guard = drops.tally();
        async move {
            let _guard = guard;
            pending::<()>().await;
        }
    };
    handle.spawn(keep()).detach();
    handle.spawn_with(TaskOptions::new(), keep()).unwrap().detach();
    handle.spawn_with(TaskOptions::new().name("keeps"), keep()).unwrap().detach();
    handle.spawn_with(TaskOptions::new().pinned(WorkerId::new(1)), keep()).unwrap().detach();
    let late = handle.spawn(keep());
    let tracker = TaskTracker::new();
    tracker.spawn_by(keep(), |task| handle.spawn_with(TaskOptions::new(), task)).unwrap().detach();
    let mut set = JoinSet::new();
    set.insert(handle.spawn(keep()));
    let local = (keep(), keep(), tracker.clone());
    let spawns = async move {
        // Not `Send`: each keeps a part of this.
        let shared = Rc::new(());
        let (first, second, tracker) = local;
        let with = |future, shared| async move { (future.await, shared).0 };
        spawn_local(with(first, Rc::clone(&shared))).unwrap().detach();
        tracker.spawn_by(with(second, shared), spawn_local).unwrap().detach();
    };
    rt.block_on(handle.spawn_with(TaskOptions::new().pinned(WorkerId::new(0)), spawns).unwrap())
        .unwrap();
    // All were polled, and that poll is over.
    let idle = |task: &filch_std::task::Task| !task.info.scheduled;
    until(|| rt.tasks().iter().all(idle));
    assert_eq!(rt.tasks().len(), 9);
    drop(late);
    set.detach_all();
    handle.broadcast(|_| ());
    assert_eq!((rt.tasks().len(), drops.count()), (9, 0));
    drop(rt);
    assert_eq!(drops.count(), 9);
}

#[test]
fn a_handle_outlives_its_runtime() {
    shared!();
    let rt = runtime(1);
    let mut done = rt.spawn(async { String::from("kept") });
    let mut lost = rt.spawn(pending::<()>());
    until(|| done.is_finished());
    drop(rt);
    assert_eq!(done.join().unwrap(), "kept");
    assert!(lost.join().unwrap_err().is_cancelled());
}

#[test]
fn a_block_on_outlives_its_runtime() {
    shared!();
    let rt = Runtime::builder().workers(1).nesting(28).build().unwrap();
    let (handle, flag) = (*rt.handle(), Flag::new());
    let wait = flag.wait();
    let waits = thread::spawn(move || {
        handle.block_on(async move {
            wait.await;
            3
        })
    });
    until(|| flag.is_awaited());
    drop(rt);
    flag.set();
    assert_eq!(waits.join().unwrap(), 3);
}

#[test]
fn threads_are_named_and_sized() {
    shared!();
    let rt = Runtime::builder().workers(2).name("compute").stack_size(256 << 10).build().unwrap();
    let name = name_of_a_worker(&rt);
    assert!(["compute-0", "compute-1"].contains(&name.as_str()), "{name}");
    // The next runtime in the same memory has its own name.
    drop(rt);
    let rt = Runtime::builder().workers(2).build().unwrap();
    let name = name_of_a_worker(&rt);
    assert!(["filch-0", "filch-1"].contains(&name.as_str()), "{name}");
}

/// Through a channel: a thread that joins the task may run it.
fn name_of_a_worker(rt: &Runtime) -> String {
    let (tell, told) = mpsc::channel();
    rt.spawn(async move { tell.send(thread::current().name().unwrap().to_owned()).unwrap() })
        .detach();
    told.recv().unwrap()
}

#[test]
fn a_runtime_in_the_thread_local_of_a_thread_that_ends() {
    shared!();
    thread_local! {
        static RUNTIME: core::cell::OnceCell<Runtime> = const { core::cell::OnceCell::new() };
    }
    let drops = Drops::new();
    let tally = drops.tally();
    thread::spawn(move || {
        RUNTIME.with(|rt| {
            let rt = rt.get_or_init(|| runtime(1));
            let future = async move {
                let _tally = tally;
                pending::<()>().await;
            };
            core::mem::forget(rt.spawn(future));
            assert_eq!(rt.block_on(rt.spawn(async { 1 })).unwrap(), 1);
        });
    })
    .join()
    .unwrap();
    assert_eq!(drops.count(), 1);
}
