//! Hooks of spawns and ends, and what a panic does to the runtime.

mod common;

use core::{cell::RefCell, panic::AssertUnwindSafe};
use std::{panic::catch_unwind, thread};

use common::{message, until, watchdog};
use filch_std::{
    Handle, LocalRuntime, Runtime, TaskOptions, runtime::UnhandledPanic, task::SpawnErrorKind,
};
#[cfg(feature = "observe")]
use {
    filch_std::{spawn, task::TaskId},
    std::sync::{Arc, Mutex},
};

fn shuts_down(workers: usize) -> Runtime {
    let builder = Runtime::builder().workers(workers);
    builder.unhandled_panic(UnhandledPanic::ShutDown).build().unwrap()
}

#[cfg(feature = "observe")]
#[test]
fn spawns_and_ends_are_told() {
    let _watchdog = watchdog();
    type Log = Arc<Mutex<Vec<(TaskId, Option<&'static str>)>>>;
    let (spawned, ended): (Log, Log) = Default::default();
    let (at_spawn, at_end) = (Arc::clone(&spawned), Arc::clone(&ended));
    let runtime = Runtime::builder()
        .workers(2)
        .on_task_spawn(move |task, info| at_spawn.lock().unwrap().push((task, info.name)))
        .on_task_end(move |task| at_end.lock().unwrap().push((task, None)))
        .build()
        .unwrap();
    let named = TaskOptions::new().name("a");
    let first = runtime.handle().spawn_with(named, core::future::pending::<()>()).unwrap();
    let second = runtime.spawn(async { spawn(core::future::pending::<()>()).id() });
    let (first_id, second_id) = (first.id().unwrap(), second.id().unwrap());
    let third_id = runtime.block_on(second).unwrap().unwrap();
    first.abort();
    assert!(runtime.block_on(first).unwrap_err().is_cancelled());
    until(|| ended.lock().unwrap().len() == 2);
    // Nothing can wake the third any more. It ends with the runtime.
    drop(runtime);
    let spawned = spawned.lock().unwrap().clone();
    assert_eq!(spawned[0], (first_id, Some("a")));
    assert_eq!(spawned[1..], [(second_id, None), (third_id, None)]);
    let mut ended: Vec<_> = ended.lock().unwrap().iter().map(|(task, _)| *task).collect();
    ended.sort_unstable();
    let mut all = [first_id, second_id, third_id];
    all.sort_unstable();
    assert_eq!(ended, all);
}

#[cfg(feature = "observe")]
#[test]
fn a_hook_may_panic_spawn_and_is_dropped_with_its_runtime() {
    let _watchdog = watchdog();
    let held = Arc::new(());
    for _ in 0..3 {
        let (inner, outer) = (Arc::clone(&held), Arc::clone(&held));
        let runtime = Runtime::builder()
            .workers(1)
            .on_task_spawn(move |_, info| {
                let _ = &inner;
                if info.name == Some("more") {
                    spawn(async {}).detach();
                }
                if info.name == Some("panics") {
                    panic!("on purpose");
                }
            })
            .on_task_end(move |_| _ = &outer)
            .build()
            .unwrap();
        let handle = *runtime.handle();
        runtime.block_on(async {
            for name in ["more", "panics"] {
                let options = TaskOptions::new().name(name);
                assert_eq!(handle.spawn_with(options, async { 7 }).unwrap().await.unwrap(), 7);
            }
        });
        drop(runtime);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}

thread_local! {
    /// A runtime that a hook of its own thread drops.
    static LOCAL: RefCell<Option<LocalRuntime>> = const { RefCell::new(None) };
}

/// Whether the runtime takes no more tasks.
fn is_over(handle: &Handle) -> bool {
    handle
        .spawn_with(TaskOptions::new(), async {})
        .is_err_and(|error| error.kind == SpawnErrorKind::Shutdown)
}

#[test]
fn a_local_runtime_is_dropped_by_its_own_wake_hook() {
    let _watchdog = watchdog();
    let hook = || drop(LOCAL.take());
    let runtime = Runtime::builder().on_wake(hook).build_local().unwrap();
    let handle = *runtime.handle();
    // It rests, so that the next spawn ends that.
    while runtime.turn(8) == filch_std::runtime::Turn::Again {}
    LOCAL.set(Some(runtime));
    handle.spawn(core::future::pending::<()>()).detach();
    assert!(LOCAL.take().is_none());
    assert!(is_over(&handle));
}

#[cfg(feature = "observe")]
#[test]
fn a_local_runtime_is_dropped_by_its_own_task_hook() {
    let _watchdog = watchdog();
    let hook = |_, _| drop(LOCAL.take());
    let runtime = Runtime::builder().on_task_spawn(hook).build_local().unwrap();
    let handle = *runtime.handle();
    LOCAL.set(Some(runtime));
    let task = handle.spawn(async {});
    assert!(LOCAL.take().is_none());
    assert!(is_over(&handle));
    until(|| task.is_finished());
}

#[cfg(feature = "observe")]
#[test]
fn a_runtime_is_dropped_by_the_hook_of_a_spawn() {
    static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);
    let _watchdog = watchdog();
    let hook = |_, _| drop(RUNTIME.lock().unwrap().take());
    let runtime = Runtime::builder().workers(2).on_task_spawn(hook).build().unwrap();
    let handle = *runtime.handle();
    RUNTIME.lock().unwrap().replace(runtime);
    let task = handle.spawn(async {});
    assert!(RUNTIME.lock().unwrap().is_none());
    assert!(is_over(&handle));
    until(|| task.is_finished());
}

#[cfg(feature = "observe")]
#[test]
fn what_waits_is_refused_in_a_hook() {
    use filch_std::JoinError;

    let _watchdog = watchdog();
    for workers in [1, 2] {
        let said = Arc::new(Mutex::new(Vec::new()));
        let says = Arc::clone(&said);
        let hook = move |_| {
            let handle = Handle::current().unwrap();
            let blocks = catch_unwind(|| handle.block_on(async {})).is_err();
            let scopes = catch_unwind(|| handle.scope(|_| ())).is_err();
            // Not one that may be over by then: that is joined without a wait.
            let mut never = handle.spawn(core::future::pending::<()>());
            let joins = matches!(never.join(), Err(JoinError::MustNotWait));
            says.lock().unwrap().push((blocks, scopes, joins));
        };
        let once = Mutex::new(Some(hook));
        let take = move |task| {
            let hook = once.lock().unwrap().take();
            hook.into_iter().for_each(|hook| hook(task));
        };
        let runtime = Runtime::builder().workers(workers).on_task_end(take).build().unwrap();
        runtime.block_on(runtime.spawn(async {})).unwrap();
        until(|| !said.lock().unwrap().is_empty());
        assert_eq!(*said.lock().unwrap(), [(true, true, true)]);
    }
}

#[test]
fn by_default_a_panic_ends_its_task_alone() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let panics = runtime.spawn(async { panic!("on purpose") });
    assert!(runtime.block_on(panics).unwrap_err().is_panic());
    assert_eq!(runtime.block_on(runtime.spawn(async { 7 })).unwrap(), 7);
}

#[test]
fn a_panic_ends_the_runtime_if_it_shall() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let runtime = shuts_down(workers);
        let waits = runtime.spawn(core::future::pending::<()>());
        let ends = || {
            runtime.spawn(async { panic!("on purpose") }).detach();
            runtime.block_on(core::future::pending::<()>());
        };
        let panic = catch_unwind(AssertUnwindSafe(ends)).unwrap_err();
        let told = message(&*panic);
        assert!(told.contains("unhandled_panic"), "{told}");
        // Later calls learn of it, too, and spawns.
        assert!(catch_unwind(AssertUnwindSafe(|| runtime.block_on(async {}))).is_err());
        let refused =
            || runtime.handle().spawn_with(TaskOptions::new(), core::future::pending::<()>()).err();
        until(|| refused().is_some_and(|error| error.kind == SpawnErrorKind::Shutdown));
        until(|| waits.is_finished());
        drop(runtime);
        // A later one, in the same memory, does not.
        assert_eq!(shuts_down(workers).block_on(async { 7 }), 7);
    }
}

#[test]
fn each_thread_in_block_on_learns_of_the_end() {
    let _watchdog = watchdog();
    let runtime = shuts_down(2);
    thread::scope(|scope| {
        let waiting =
            [(); 3].map(|()| scope.spawn(|| runtime.block_on(core::future::pending::<()>())));
        runtime.spawn(async { panic!("on purpose") }).detach();
        for thread in waiting {
            assert!(thread.join().is_err());
        }
    });
}

#[test]
fn a_panic_that_has_a_caller_does_not_end_the_runtime() {
    let _watchdog = watchdog();
    let runtime = shuts_down(1);
    let forks =
        || runtime.block_on(async { filch_std::parallel::join(|| panic!("on purpose"), || ()) });
    assert!(catch_unwind(AssertUnwindSafe(forks)).is_err());
    let root = || runtime.block_on(async { panic!("on purpose") });
    assert!(catch_unwind(AssertUnwindSafe(root)).is_err());
    assert_eq!(runtime.block_on(runtime.spawn(async { 7 })).unwrap(), 7);
}

#[test]
fn a_panic_in_the_drop_of_a_cancelled_future_counts() {
    let _watchdog = watchdog();
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let runtime = shuts_down(1);
    let bomb = runtime.spawn(async {
        let _bomb = Bomb;
        core::future::pending::<()>().await;
    });
    until(|| !runtime.tasks()[0].scheduled);
    bomb.abort();
    let waits = || runtime.block_on(core::future::pending::<()>());
    assert!(catch_unwind(AssertUnwindSafe(waits)).is_err());
}
