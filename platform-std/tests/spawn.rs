//! Spawning in all its forms, the free functions, and the macros.

mod common;

use core::{
    future::pending,
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};
use std::{panic::catch_unwind, rc::Rc, thread};

use common::{Drops, Flag, message, runtime, until, watchdog};
use filch_std::{
    Handle, TaskOptions,
    runtime::{NoRuntime, WorkerId},
    spawn_local,
    task::{JoinSet, SpawnErrorKind, Task, yield_now},
};

#[test]
fn tasks_are_spawned_and_joined() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    // Differences, since runtimes reuse the memory of earlier ones.
    let before = rt.metrics().totals();
    let sum = rt.block_on(async {
        let handles: Vec<_> = (0..1_000_u64)
            .map(|i| {
                filch_std::spawn(async move {
                    yield_now().await;
                    i
                })
            })
            .collect();
        let mut sum = 0;
        for handle in handles {
            sum += handle.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, 499_500);
    // A task is counted a little after its output is available.
    until(|| rt.metrics().totals().live == 0);
    let totals = rt.metrics().totals();
    assert_eq!(totals.spawned - before.spawned, 1_000);
    assert_eq!(totals.completed - before.completed, 1_000);
}

#[test]
fn a_join_set_gives_what_is_done_first() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    rt.block_on(async {
        let mut set = JoinSet::new();
        assert!(set.is_empty() && set.join_next().await.is_none());
        let flag = Flag::new();
        let wait = flag.wait();
        set.spawn(async move {
            wait.await;
            0
        });
        for i in 1..=200 {
            set.spawn(async move { i });
        }
        assert_eq!(set.len(), 201);
        let mut seen = Vec::new();
        for _ in 0..200 {
            seen.push(set.join_next().await.unwrap().unwrap());
        }
        assert!(!seen.contains(&0), "it still waits");
        flag.set();
        assert_eq!(set.join_next().await.unwrap().unwrap(), 0);
        seen.sort_unstable();
        assert_eq!(seen, (1..=200).collect::<Vec<_>>());
        assert!(set.join_next().await.is_none());
    });
}

#[test]
fn a_join_set_aborts_what_is_left() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let drops = Drops::new();
    let endless = || {
        let tally = drops.tally();
        async move {
            let _tally = tally;
            pending::<()>().await;
        }
    };
    rt.block_on(async {
        let mut set = JoinSet::new();
        (0..10).for_each(|_| _ = set.spawn(endless()));
        set.abort_all();
        while let Some(result) = set.join_next().await {
            assert!(result.unwrap_err().is_cancelled());
        }
        assert_eq!(drops.count(), 10);
        (0..10).for_each(|_| set.insert(Handle::current().unwrap().spawn(endless())));
        set.shutdown().await;
        assert!(set.is_empty());
        assert_eq!(drops.count(), 20);
        (0..10).for_each(|_| _ = set.spawn(endless()));
        set.insert(filch_std::spawn(endless()));
        drop(set);
        while drops.count() < 31 {
            yield_now().await;
        }
        // Detached tasks go on.
        let flag = Flag::new();
        let mut set = JoinSet::new();
        set.spawn(flag.wait());
        while !flag.is_awaited() {
            yield_now().await;
        }
        set.detach_all();
        assert!(set.is_empty());
        drop(set);
        while rt.metrics().totals().live > 1 {
            yield_now().await;
        }
        assert!(flag.is_awaited());
        flag.set();
        while rt.metrics().totals().live > 0 {
            yield_now().await;
        }
    });
}

#[test]
fn a_join_set_takes_what_has_ended_without_a_wait() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    rt.block_on(async {
        let mut set = JoinSet::new();
        assert!(set.try_join_next().is_none());
        let flag = Flag::new();
        let waits = flag.wait();
        // More than are polled in a row, and more than a budget has.
        let aborts: Vec<_> = (0..300).map(|_| set.spawn(pending())).collect();
        set.spawn(async move {
            waits.await;
            7
        });
        assert!(set.try_join_next().is_none());
        flag.set();
        until(|| rt.metrics().totals().live == 300);
        assert_eq!(set.try_join_next().unwrap().unwrap(), 7);
        assert!(set.try_join_next().is_none());
        // One is aborted by its own handle.
        aborts[150].abort();
        assert!(set.join_next().await.unwrap().unwrap_err().is_cancelled());
        assert_eq!(
            (set.len(), aborts.iter().filter(|abort| abort.is_finished()).count()),
            (299, 1)
        );
    });
}

#[test]
fn a_join_set_is_joined_whole() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    rt.block_on(async {
        let mut set: JoinSet<_> = (0..5).map(|i| filch_std::spawn(async move { i })).collect();
        set.insert(filch_std::spawn_blocking(|| 5));
        let mut outputs = set.join_all().await;
        outputs.sort_unstable();
        assert_eq!(outputs, [0, 1, 2, 3, 4, 5]);

        // As a stream, with what any stream has.
        let set: JoinSet<_> = (0..5).map(|i| filch_std::spawn(async move { i })).collect();
        let outputs: Vec<_> = futures_util::TryStreamExt::try_collect(set).await.unwrap();
        assert_eq!(outputs.iter().sum::<i32>(), 10);
    });
    let panics =
        || rt.block_on(JoinSet::from_iter([rt.spawn(async { panic!("on purpose") })]).join_all());
    let panic = catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
    assert_eq!(message(&*panic), "on purpose");
}

#[test]
fn a_join_set_has_local_tasks() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let pinned = rt.handle().spawn_with(TaskOptions::new().pinned(WorkerId::new(0)), async {
        let mut set = JoinSet::new();
        let local = async {
            let shared = Rc::new(7);
            yield_now().await;
            *shared
        };
        set.insert(spawn_local(local).unwrap());
        set.join_next().await.unwrap().unwrap()
    });
    assert_eq!(rt.block_on(pinned.unwrap()).unwrap(), 7);
    let refused = rt.block_on(async { spawn_local(async {}).err().map(|e| e.kind) });
    assert_eq!(refused, Some(SpawnErrorKind::NoWorker));
}

#[test]
fn errors_are_those_of_io_too() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let result: std::io::Result<()> = rt.block_on(async {
        let never = pending::<std::io::Result<()>>();
        filch_std::time::timeout(core::time::Duration::from_millis(1), never).await?
    });
    assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    let result: std::io::Result<()> = rt.block_on(async {
        filch_std::spawn(async { panic!("on purpose") }).await?;
        Ok(())
    });
    let error = result.unwrap_err();
    assert!(error.to_string().contains("on purpose"), "{error}");
}

#[test]
fn blocking_closures_run_elsewhere() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let rt = &rt;
    // The only worker goes on while all of these block.
    let go = Flag::new();
    let handles: Vec<_> = (0..10)
        .map(|i| {
            let go = go.clone();
            rt.handle().spawn_blocking(move || {
                go.block();
                (i, filch_std::Handle::current().unwrap().current_worker().is_none())
            })
        })
        .collect();
    let set = go.clone();
    assert_eq!(rt.spawn(async { 1 }).join().unwrap(), 1);
    rt.spawn(async move { set.set() }).join().unwrap();
    for (i, mut handle) in handles.into_iter().enumerate() {
        let (was, outside) = handle.join().unwrap();
        assert_eq!(was, i);
        assert!(outside, "no worker's thread");
    }
    let bad = rt.block_on(async { filch_std::spawn_blocking(|| panic!("on purpose")).await });
    let bad: Result<(), _> = bad;
    let payload = filch_std::task::payload(bad.unwrap_err().into_panic().unwrap()).unwrap();
    assert_eq!(message(&*payload), "on purpose");
}

#[test]
fn pinned_tasks_stay_on_their_worker() {
    let _watchdog = watchdog();
    let rt = runtime(3);
    rt.block_on(async {
        let here = || thread::current().name().unwrap().to_owned();
        for i in 0..30 {
            let worker = WorkerId::new(i % 3);
            let pinned = filch_std::spawn_with(TaskOptions::new().pinned(worker), async move {
                let mut seen = vec![here()];
                for _ in 0..10 {
                    yield_now().await;
                    seen.push(here());
                }
                seen
            });
            let seen = pinned.unwrap().await.unwrap();
            assert!(seen.iter().all(|name| *name == format!("filch-{}", i % 3)), "{seen:?}");
        }
        let refused = filch_std::spawn_with(TaskOptions::new().pinned(WorkerId::new(3)), async {})
            .unwrap_err();
        assert_eq!(refused.kind, SpawnErrorKind::NoSuchWorker);
        // Tasks cannot be pinned to spare slots.
        let refused = filch_std::spawn_with(TaskOptions::new().pinned(WorkerId::new(4)), async {})
            .unwrap_err();
        assert_eq!(refused.to_string(), "the executor has no such worker, or it is to leave");
    });
}

#[test]
fn local_tasks_need_not_be_send() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let refused = rt.block_on(async { filch_std::spawn_local(async {}).unwrap_err() });
    assert_eq!(refused.kind, SpawnErrorKind::NoWorker);
    let local = || async {
        let count = Rc::new(core::cell::Cell::new(0));
        let worker = thread::current().id();
        let locals: Vec<_> = (0..20)
            .map(|i| {
                let count = Rc::clone(&count);
                filch_std::spawn_local(async move {
                    for _ in 0..i {
                        yield_now().await;
                    }
                    assert_eq!(thread::current().id(), worker);
                    count.set(count.get() + i);
                    Rc::strong_count(&count)
                })
                .unwrap()
            })
            .collect();
        for local in locals {
            assert!(local.await.unwrap() >= 2);
        }
        assert_eq!(Rc::strong_count(&count), 1, "all of them are gone");
        count.get()
    };
    for worker in 0..2 {
        let pinned = async move {
            let task = filch_std::spawn_local(local()).unwrap();
            task.await.unwrap()
        };
        let handle = rt
            .handle()
            .spawn_with(TaskOptions::new().pinned(WorkerId::new(worker)), pinned)
            .unwrap()
            .join();
        assert_eq!(handle.unwrap(), 190);
    }
    // Tasks that are left at the end of the runtime are dropped by their worker.
    let drops = Drops::new();
    let tally = drops.tally();
    rt.handle()
        .spawn_with(TaskOptions::new().pinned(WorkerId::new(0)), async move {
            let not_send = Rc::new(tally);
            let local = filch_std::spawn_local(async move {
                let _not_send = not_send;
                pending::<()>().await;
            });
            local.unwrap().detach();
            yield_now().await;
        })
        .unwrap()
        .join()
        .unwrap();
    drop(rt);
    assert_eq!(drops.count(), 1);
}

#[test]
fn named_tasks_can_be_looked_for() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let flag = Flag::new();
    let mut handle =
        rt.handle().spawn_with(TaskOptions::new().name("the slow one"), flag.wait()).unwrap();
    let place = |task: &Task| (task.name, task.location.map(core::panic::Location::file));
    let seen: Vec<_> = rt.tasks().iter().map(place).collect();
    let [(Some("the slow one"), Some(file))] = seen[..] else { panic!("{seen:?}") };
    assert!(file.ends_with("spawn.rs"));
    flag.set();
    handle.join().unwrap();
}

#[test]
fn without_a_runtime_the_free_functions_say_so() {
    let _watchdog = watchdog();
    assert_eq!(Handle::current().unwrap_err(), NoRuntime);
    let refused = filch_std::spawn_with(TaskOptions::new(), async { 5 }).unwrap_err();
    assert_eq!(refused.kind, SpawnErrorKind::NoRuntime);
    assert!(refused.to_string().contains("no filch runtime"), "{refused}");
    // The future is returned unchanged.
    assert_eq!(runtime(1).block_on(refused.future), 5);
    let refused =
        filch_std::spawn_with(TaskOptions::new().pinned(WorkerId::new(0)), async {}).unwrap_err();
    assert_eq!(refused.kind, SpawnErrorKind::NoRuntime);
    let refused = filch_std::spawn_local(async {}).unwrap_err();
    assert_eq!(refused.kind, SpawnErrorKind::NoRuntime);
    let told = |f: &dyn Fn()| {
        let panic = catch_unwind(AssertUnwindSafe(f)).unwrap_err();
        assert!(message(&*panic).contains("no filch runtime"), "{}", message(&*panic));
    };
    told(&|| filch_std::spawn(async {}).detach());
    told(&|| filch_std::spawn_blocking(|| ()).detach());
    told(&|| filch_std::block_on(async {}));
    told(&|| _ = JoinSet::new().spawn(async {}));
}

#[test]
fn the_current_runtime_is_the_innermost() {
    let _watchdog = watchdog();
    let (outer, inner) = (runtime(1), runtime(1));
    let spawned = || (outer.metrics().totals().spawned, inner.metrics().totals().spawned);
    let before = spawned();
    outer.block_on(async {
        filch_std::spawn(async {}).await.unwrap();
        inner.block_on(async {
            filch_std::spawn(async {}).await.unwrap();
            filch_std::spawn(async {}).await.unwrap();
        });
        filch_std::spawn(async {}).await.unwrap();
        // Inside a task of the inner runtime it is the inner one.
        inner.spawn(async { filch_std::spawn(async {}).await }).await.unwrap().unwrap();
    });
    assert_eq!(spawned(), (before.0 + 2, before.1 + 4));
    assert!(Handle::current().is_err());
    // Also after a panic.
    let panic = catch_unwind(AssertUnwindSafe(|| outer.block_on(async { panic!("on purpose") })));
    panic.unwrap_err();
    assert!(Handle::current().is_err());
}

#[filch_std::test]
async fn the_test_attribute_gives_a_runtime() {
    assert_eq!(filch_std::spawn(async { 2 }).await.unwrap(), 2);
}

#[filch_std::test(workers = 3)]
async fn the_test_attribute_sets_the_number_of_workers() -> Result<(), filch_std::JoinError> {
    let handle = Handle::current().unwrap();
    // Spare slots come last, and none is online yet.
    let online = || handle.metrics().workers().filter(|(_, w)| w.online).count();
    while online() < 3 {
        filch_std::spawn(async {}).await?;
    }
    assert_eq!(online(), 3);
    Ok(())
}

#[filch_std::test(workers = 1)]
#[should_panic(expected = "this is expected")]
async fn the_test_attribute_lets_a_test_panic() {
    panic!("this is expected");
}

static RAN: AtomicUsize = AtomicUsize::new(0);

mod program {
    use filch_std as elsewhere;

    #[filch_std::main(workers = 1 + 1, crate = elsewhere)]
    #[allow(clippy::unused_async)]
    pub(crate) async fn main() -> Result<(), filch_std::JoinError> {
        super::RAN.fetch_add(filch_std::spawn(async { 7 }).await?, super::SeqCst);
        Ok(())
    }
}

#[test]
fn the_main_attribute_makes_a_main() {
    program::main().unwrap();
    assert_eq!(RAN.load(SeqCst), 7);
}
