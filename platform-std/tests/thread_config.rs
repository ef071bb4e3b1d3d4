//! How a runtime's threads are named, bound and kept.

mod common;

use core::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use std::{io, sync::Arc, thread};

use common::{until, watchdog};
use filch_std::{
    Runtime, TaskOptions,
    runtime::{BuildError, ThreadRole, WorkerId},
};

fn name() -> String {
    thread::current().name().unwrap_or_default().into()
}

#[test]
fn threads_are_named_by_the_function() {
    let _watchdog = watchdog();
    let calls = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&calls);
    let builder = Runtime::builder().name("default").workers(2).name_fn(move |role| {
        counts.fetch_add(1, SeqCst);
        match role {
            ThreadRole::Worker(worker) if worker.index() == 1 => panic!("on purpose"),
            ThreadRole::Worker(worker) => format!("w{}", worker.index()),
            ThreadRole::Blocking(before) => format!("b{before}"),
            _ => "?".into(),
        }
    });
    let rt = builder.build().unwrap();
    let on = |worker| {
        let task = rt
            .handle()
            .spawn_with(TaskOptions::new().pinned(WorkerId::new(worker)), async { name() });
        rt.block_on(task.unwrap()).unwrap()
    };
    assert_eq!((on(0), on(1)), ("w0".into(), "default-1".into()));
    let blocks = || rt.handle().spawn_blocking(name);
    assert_eq!(rt.block_on(blocks()).unwrap(), "b0");
    assert_eq!(calls.load(SeqCst), 3);
    drop(rt);
    // The function goes with the last thread, which is one of the pool's.
    until(|| Arc::strong_count(&calls) == 1);
}

#[test]
fn a_name_with_a_zero_is_refused() {
    let _watchdog = watchdog();
    for builder in
        [Runtime::builder().name("a\0b"), Runtime::builder().name_fn(|_| "a\0b".into()).workers(2)]
    {
        match builder.build() {
            Err(BuildError::Thread(error)) => assert_eq!(error.kind(), io::ErrorKind::InvalidInput),
            other => panic!("{other:?}"),
        }
    }
    // The pool has no thread, and a worker runs the closure.
    let named =
        |role| if matches!(role, ThreadRole::Blocking(_)) { "\0".into() } else { "w".into() };
    let rt = Runtime::builder().workers(1).name_fn(named).build().unwrap();
    let blocks = rt.handle().spawn_blocking(name);
    assert_eq!(rt.spawn(async { blocks.await.unwrap() }).join().unwrap(), "w");
}

#[test]
fn threads_of_the_pool_are_kept_as_long_as_told() {
    let _watchdog = watchdog();
    let run = |time| {
        let rt = Runtime::builder().workers(1).blocking_keep_alive(time).build().unwrap();
        rt.block_on(rt.handle().spawn_blocking(|| ())).unwrap();
        rt
    };
    let rt = run(Duration::ZERO);
    until(|| rt.handle().blocking_metrics().threads == 0);
    for long in [Duration::from_secs(3_600), Duration::MAX] {
        let rt = run(long);
        until(|| rt.handle().blocking_metrics().idle == 1);
        let first = rt.block_on(rt.handle().spawn_blocking(name)).unwrap();
        assert_eq!(first, "filch-blocking-1", "the one thread is used again");
    }
}

#[cfg(target_os = "linux")]
mod bound {
    use filch_std::{LocalRuntime, runtime::Affinity};

    use super::*;

    /// The processors that the calling thread may use.
    fn usable() -> Vec<usize> {
        // SAFETY: zero is a set without processors; the call fills it.
        unsafe {
            let mut set: libc::cpu_set_t = core::mem::zeroed();
            assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set), 0);
            (0..libc::CPU_SETSIZE as usize).filter(|core| libc::CPU_ISSET(*core, &set)).collect()
        }
    }

    #[test]
    fn workers_are_bound_and_other_threads_are_not() {
        let _watchdog = watchdog();
        let all = usable();
        let last = *all.last().unwrap();
        let cases = [
            (Affinity::Free, vec![all.clone(); 3]),
            (Affinity::Each, (0..3).map(|i| vec![all[i % all.len()]]).collect()),
            (Affinity::Cores(vec![last]), vec![vec![last]; 3]),
        ];
        for (affinity, expected) in cases {
            let rt = Runtime::builder().workers(3).affinity(affinity).build().unwrap();
            for (worker, expected) in expected.into_iter().enumerate() {
                // A thread of the pool is started by a worker, whose processors it inherits at first.
                let task = rt
                    .handle()
                    .spawn_with(TaskOptions::new().pinned(WorkerId::new(worker as u16)), async {
                        (usable(), filch_std::spawn_blocking(usable).await.unwrap())
                    });
                assert_eq!(rt.block_on(task.unwrap()).unwrap(), (expected, all.clone()));
            }
            assert_eq!(usable(), all);
        }
        let local = Runtime::builder().affinity(Affinity::Each).build_local().unwrap();
        assert_eq!(local.block_on(async { usable() }), all);
        drop(local);
        assert!(LocalRuntime::new().is_ok());
    }

    #[test]
    fn a_processor_that_may_not_be_used_is_refused() {
        let build = |cores| Runtime::builder().affinity(Affinity::Cores(cores)).build().map(drop);
        let error = build(vec![usable()[0], 1_023]).unwrap_err();
        assert!(matches!(error, BuildError::Core(1_023)), "{error}");
        assert!(matches!(build(vec![1 << 20]), Err(BuildError::Core(_))));
        match build(Vec::new()) {
            Err(BuildError::Thread(error)) => assert_eq!(error.kind(), io::ErrorKind::InvalidInput),
            other => panic!("{other:?}"),
        }
    }
}
