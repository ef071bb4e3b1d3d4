//! Workers that are added and retired while a runtime runs.

use core::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use std::{sync::Arc, thread};

use filch_std::{
    Handle, Runtime, TaskOptions,
    runtime::{BuildError, ConfigError, ResizeError, WorkerId},
    task::SpawnErrorKind,
    time::sleep,
};
use filch_test_support::{Flag, until, watchdog};

fn online(handle: &Handle) -> usize {
    handle.metrics().workers().filter(|(_, worker)| worker.online).count()
}

#[test]
fn threads_come_and_go_with_the_workers() {
    let _watchdog = watchdog();
    let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (begins, ends) = (Arc::clone(&begun), Arc::clone(&ended));
    let runtime = Runtime::builder()
        .workers(2)
        .max_workers(6)
        .on_thread_start(move || _ = begins.fetch_add(1, SeqCst))
        .on_thread_stop(move || _ = ends.fetch_add(1, SeqCst))
        .build()
        .unwrap();
    let handle = *runtime.handle();
    assert_eq!(handle.active_workers(), 2);
    until(|| online(&handle) == 2);
    for workers in [6, 1, 4, 2] {
        handle.resize(workers).unwrap();
        assert_eq!(handle.active_workers(), workers);
        until(|| online(&handle) == workers);
        let names = handle.broadcast(|_| thread::current().name().map(str::to_owned));
        let named: Vec<_> = (0..workers).map(|i| Some(format!("filch-{i}"))).collect();
        assert_eq!(names, named);
    }
    assert_eq!(begun.load(SeqCst), 2 + 4 + 3);
    drop(runtime);
    assert_eq!(ended.load(SeqCst), begun.load(SeqCst));
}

#[test]
fn what_cannot_be_is_an_error() {
    // Other tests have no runtime of this size: its memory is not used again.
    let runtime = Runtime::builder().workers(2).max_workers(7).build().unwrap();
    let handle = *runtime.handle();
    assert!(matches!(handle.resize(0), Err(ResizeError::Config(ConfigError::ZeroWorkers))));
    assert!(matches!(handle.resize(8), Err(ResizeError::Config(ConfigError::TooManyWorkers(7)))));
    assert_eq!(handle.active_workers(), 2);
    drop(runtime);
    assert!(matches!(handle.resize(1), Err(ResizeError::Shutdown)));

    let local = Runtime::builder().build_local().unwrap();
    assert!(matches!(
        local.handle().resize(2),
        Err(ResizeError::Config(ConfigError::TooManyWorkers(1)))
    ));
    assert!(matches!(local.handle().resize(0), Err(ResizeError::Config(ConfigError::ZeroWorkers))));
    local.handle().resize(1).unwrap();
    assert_eq!(local.block_on(local.handle().spawn(async { 7 })).unwrap(), 7);

    let refused = Runtime::builder().workers(1).max_workers(usize::MAX).build().unwrap_err();
    assert!(matches!(refused, BuildError::Config(ConfigError::TooManyWorkers(_))), "{refused}");
    // A smaller number than that of the workers is none.
    let runtime = Runtime::builder().workers(2).max_workers(1).build().unwrap();
    assert_eq!(runtime.handle().active_workers(), 2);
}

#[test]
fn a_runtime_of_one_slot_has_its_thread() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(1).spare_slots(0).build().unwrap();
    until(|| online(runtime.handle()) == 1);
    runtime.handle().resize(1).unwrap();
    assert_eq!(runtime.spawn(async { 7 }).join().unwrap(), 7);
    let handle = *runtime.handle();
    drop(runtime);
    assert!(matches!(handle.resize(1), Err(ResizeError::Shutdown)));
}

#[test]
fn the_memory_of_a_runtime_that_was_resized_is_used_again() {
    for workers in [1, 3, 2, 1] {
        let runtime = Runtime::builder().workers(workers).max_workers(3).build().unwrap();
        let handle = *runtime.handle();
        assert_eq!(handle.active_workers(), workers);
        until(|| online(&handle) == workers);
        handle.resize(4 - workers).unwrap();
        assert_eq!(runtime.block_on(handle.spawn(async { 7 })).unwrap(), 7);
    }
}

#[test]
fn a_pinned_task_keeps_its_thread_and_a_new_one_is_refused() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let handle = *runtime.handle();
    let flag = Flag::new();
    let waits = flag.wait();
    until(|| online(&handle) == 2);
    let pinned = handle
        .spawn_with(TaskOptions::new().pinned(WorkerId::new(1)), async move {
            let local = filch_std::spawn_local(async {
                waits.await;
                7
            });
            (local.unwrap().await.unwrap(), handle.current_worker())
        })
        .unwrap();
    runtime.block_on(async { sleep(Duration::from_millis(5)).await });
    handle.resize(1).unwrap();
    let late =
        handle.spawn_with(TaskOptions::new().pinned(WorkerId::new(1)), async {}).unwrap_err();
    assert_eq!(late.kind, SpawnErrorKind::NoSuchWorker);
    // It runs tasks for all meanwhile.
    runtime.block_on(handle.spawn(async {})).unwrap();
    assert_eq!(online(&handle), 2);
    flag.set();
    assert_eq!(runtime.block_on(pinned).unwrap(), (7, Some(WorkerId::new(1))));
    until(|| online(&handle) == 1);
}

#[test]
fn tasks_resize_their_own_runtime_and_sleeps_go_on() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(1).max_workers(4).build().unwrap();
    let handle = *runtime.handle();
    let tasks: Vec<_> = (0..64_u64)
        .map(|i| {
            handle.spawn(async move {
                for round in 0..20 {
                    let here = Handle::current().unwrap();
                    here.resize(1 + (i as usize + round) % 4).unwrap();
                    sleep(Duration::from_micros(i * 10)).await;
                    assert_eq!(here.fork(|fork| fork.join(|_| i, |_| 1)), (i, 1));
                }
                i
            })
        })
        .collect();
    let sum = runtime.block_on(async move {
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, 63 * 64 / 2);
    handle.resize(3).unwrap();
    until(|| online(&handle) == 3);
}

#[test]
fn a_resize_races_with_the_end() {
    let _watchdog = watchdog();
    for round in 0..50 {
        // As above.
        let runtime = Runtime::builder().workers(1).max_workers(5).build().unwrap();
        let handle = *runtime.handle();
        let other = thread::spawn(move || {
            let mut refused = false;
            for workers in (1..=3).cycle().take(10 + round) {
                match handle.resize(workers) {
                    Ok(()) => assert!(!refused, "the runtime has ended"),
                    Err(ResizeError::Shutdown) => refused = true,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        drop(runtime);
        other.join().unwrap();
    }
}

#[test]
fn a_stopped_clock_waits_for_workers_that_come() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(1).max_workers(3).build_pausable().unwrap();
    let handle = *runtime.handle();
    runtime.block_on(async move {
        filch_std::time::pause();
        for workers in [3, 1, 2, 3, 1] {
            handle.resize(workers).unwrap();
            let begin = filch_std::time::now();
            sleep(Duration::from_secs(60)).await;
            assert_eq!(filch_std::time::now() - begin, Duration::from_secs(60));
        }
    });
}

#[test]
fn threads_of_other_code_are_left_alone() {
    let runtime: Runtime = Runtime::builder().workers(2).build_bare().unwrap();
    let refused = runtime.handle().resize(1).unwrap_err();
    assert!(matches!(refused, ResizeError::NotOurs), "{refused}");
    assert_eq!(runtime.handle().active_workers(), 2);
}
