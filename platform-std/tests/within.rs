//! A worker of one runtime that is in another: its own tasks are in its own.

mod common;

use common::watchdog;
use filch_std::{Handle, LocalRuntime, Runtime};

fn current() -> (usize, u32) {
    Handle::current().unwrap().identity()
}

#[test]
fn tasks_that_run_on_top_are_in_their_own_runtime() {
    let _watchdog = watchdog();
    let build = || Runtime::builder().workers(1).build().unwrap();
    let (outer, inner) = (build(), build());
    let handle = *outer.handle();
    let mut seen = outer.spawn(async move {
        let id = inner.handle().identity();
        inner.block_on(async {
            let mut task = handle.spawn(async { current() });
            let joined = task.join().unwrap();
            assert_eq!(current(), id);
            let scoped = handle.scope(|scope| scope.spawn(async { current() }).join().unwrap());
            assert_eq!(current(), id);
            let helped = handle.block_on(handle.spawn(async { current() })).unwrap();
            assert_eq!(current(), id);
            [joined, scoped, helped]
        })
    });
    assert_eq!(seen.join().unwrap(), [handle.identity(); 3]);
}

#[test]
fn local_tasks_that_run_on_top_are_in_their_own_runtime() {
    let _watchdog = watchdog();
    let (outer, inner) = (LocalRuntime::new().unwrap(), LocalRuntime::new().unwrap());
    let handle = *outer.handle();
    let seen = inner.block_on(async {
        let mut task = handle.spawn(async { current() });
        let joined = task.join().unwrap();
        assert_eq!(current(), inner.handle().identity());
        joined
    });
    assert_eq!(seen, handle.identity());
}
