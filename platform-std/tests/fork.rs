//! A forked child has none of the parent's threads: the parent's runtime returns errors there
//! instead of hanging.
#![cfg(unix)]

mod common;

use core::{
    any::Any,
    future::Future,
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
};
use std::{
    panic::catch_unwind,
    sync::{Arc, Mutex},
};

use common::{Flag, message, runtime, until, watchdog};
use filch_std::{Handle, JoinError, LocalRuntime, Runtime, TaskOptions, task::SpawnErrorKind};

type Panicked = Box<dyn Any + Send>;

/// Runs `f` in a forked child; returns its exit status. The only test of its program, since the
/// child has only one thread.
fn in_child(f: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls `f` and leaves by `_exit`: no destructor and no handler of the parent
    // runs in it.
    match unsafe { libc::fork() } {
        -1 => panic!("{}", std::io::Error::last_os_error()),
        0 => {
            let status = f();
            // SAFETY: ends the child.
            unsafe { libc::_exit(status) }
        }
        child => status_of(child),
    }
}

/// Waits for the child's end; returns its exit status.
fn status_of(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: waits for this process's own child, into a place on this stack.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(ended, child, "{}", std::io::Error::last_os_error());
    assert!(libc::WIFEXITED(status), "the child did not exit by itself: {status:#x}");
    libc::WEXITSTATUS(status)
}

/// A scope whose tasks are the parent's panics in a child, and none of its tasks touches what it borrows there.
fn scopes_end_in_a_child(rt: &Runtime) {
    /// Forks inside a scope. In the child it returns whether the scope told that.
    fn forks(handle: Handle) -> Option<bool> {
        let (mut child, borrowed, flag) = (0, AtomicBool::new(false), Flag::new());
        let parent = std::process::id();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            handle.scope(|scope| {
                for _ in 0..2 {
                    let (borrowed, wait) = (&borrowed, flag.wait());
                    scope.spawn(async move {
                        wait.await;
                        borrowed.store(true, SeqCst);
                    });
                }
                scope.spawn(async move { assert_eq!(std::process::id(), parent) });
                // SAFETY: the child leaves by `_exit`, or by its alarm.
                child = unsafe { libc::fork() };
                // SAFETY: only sets a timer.
                let alarm = || unsafe { libc::alarm(20) };
                if child == 0 { _ = alarm() } else { flag.set() }
            });
        }));
        if child == 0 {
            let told = |panic: &Panicked| message(&**panic).contains("parent process");
            return Some(outcome.is_err_and(|panic| told(&panic)) && !borrowed.into_inner());
        }
        assert!(outcome.is_ok() && borrowed.into_inner());
        assert_eq!(status_of(child), 23);
        None
    }
    let leave = |told: Option<bool>| {
        if let Some(told) = told {
            // SAFETY: ends the child.
            unsafe { libc::_exit(if told { 23 } else { 1 }) }
        }
    };
    leave(forks(*rt.handle()));
    let local = LocalRuntime::new().unwrap();
    leave(forks(*local.handle()));
    leave(local.block_on(async { forks(*local.handle()) }));
    drop(local);
    // The worker of the child goes on, and polls tasks of the scope that wait in its queues.
    let single = runtime(1);
    let handle = *single.handle();
    let task = single.spawn(async move {
        let parent = std::process::id();
        let last = filch_std::spawn(async move {
            for _ in 0..9 {
                filch_std::task::yield_now().await;
            }
            // SAFETY: ends the child.
            _ = (std::process::id() != parent).then(|| unsafe { libc::_exit(23) });
        });
        if forks(handle) == Some(false) {
            // SAFETY: ends the child.
            unsafe { libc::_exit(1) }
        }
        last.await.unwrap();
    });
    single.block_on(task).unwrap();
}

#[test]
fn a_forked_child_is_told_that_the_runtime_is_its_parents() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    assert_eq!(rt.spawn(async { 1 }).join().unwrap(), 1);
    let handle = *rt.handle();
    // A thread that is just starting holds a lock of the standard library, which a child would find locked for ever.
    until(|| handle.metrics().workers().filter(|(_, worker)| worker.online).count() == 2);
    // In the child, an alarm ends a hang.
    let alarm = || {
        // SAFETY: only sets a timer.
        unsafe { libc::alarm(20) };
    };

    let local = LocalRuntime::new().unwrap();
    let waits = local.spawn_local(core::future::pending::<()>()).unwrap();
    let status = in_child(|| {
        alarm();
        let turn = || local.turn(8);
        let calls = [
            catch_unwind(AssertUnwindSafe(|| local.block_on(async {}))).is_err(),
            catch_unwind(AssertUnwindSafe(turn)).is_err(),
            local.spawn_local(async {}).is_err(),
        ];
        // SAFETY: the child uses it no more, and leaves by `_exit`.
        drop(unsafe { core::ptr::read(&raw const local) });
        if calls == [true; 3] { 16 } else { 1 }
    });
    assert_eq!(status, 16);
    assert_eq!(local.turn(8), filch_std::runtime::Turn::Rests(None));
    assert!(!waits.is_finished());
    drop(local);

    let status = in_child(|| {
        alarm();
        match handle.spawn_with(TaskOptions::new(), async {}) {
            Err(refused) if refused.kind == SpawnErrorKind::Forked => 17,
            Err(_) => 1,
            Ok(_) => 2,
        }
    });
    assert_eq!(status, 17);

    let status = in_child(|| {
        alarm();
        let worker = filch_std::runtime::WorkerId::new(0);
        let refused = [
            handle.spawn_with(TaskOptions::new().pinned(worker), async {}).err().map(|e| e.kind),
            handle.spawn_local(async {}).err().map(|e| e.kind),
            handle.spawn_with(TaskOptions::new(), async {}).err().map(|e| e.kind),
        ];
        if refused == [Some(SpawnErrorKind::Forked); 3] { 18 } else { 1 }
    });
    assert_eq!(status, 18);

    // Functions that cannot return an error panic; they do not hang.
    std::panic::set_hook(Box::new(|_| {}));
    let status = in_child(|| {
        alarm();
        let block_on = catch_unwind(AssertUnwindSafe(|| handle.block_on(async {})));
        let spawn = catch_unwind(AssertUnwindSafe(|| handle.spawn(async {}).detach()));
        let told = |result: Result<(), Box<dyn core::any::Any + Send>>| {
            result.is_err_and(|panic| common::message(&*panic).contains("parent process"))
        };
        if told(block_on) && told(spawn) { 19 } else { 1 }
    });
    assert_eq!(status, 19);

    // The child does not wait for a task of the parent, and blocking closures use a new runtime's
    // threads.
    let waker = Arc::new(Mutex::new(None));
    let keeps = Arc::clone(&waker);
    let mut waits = rt.spawn(core::future::poll_fn(move |cx| {
        *keeps.lock().unwrap() = Some(cx.waker().clone());
        core::task::Poll::<()>::Pending
    }));
    until(|| waker.lock().unwrap().is_some());
    let status = in_child(|| {
        alarm();
        let refused = matches!(waits.join(), Err(JoinError::MustNotWait));
        let own = runtime(1);
        let blocking = own.block_on(own.handle().spawn_blocking(|| 20));
        if refused { blocking.unwrap_or(1) } else { 2 }
    });
    assert_eq!(status, 20);

    // The parent's timers are left alone: a worker may hold the lock of their wheel.
    let sleeps: Vec<_> = (0..2)
        .map(|_| {
            rt.spawn(async {
                loop {
                    filch_std::time::sleep(core::time::Duration::from_micros(1)).await;
                }
            })
        })
        .collect();
    let timers = handle.timers();
    for _ in 0..50 {
        let long = core::time::Duration::from_secs(100);
        let mut linked = Box::pin(timers.sleep(long));
        let mut cx = core::task::Context::from_waker(core::task::Waker::noop());
        assert!(linked.as_mut().poll(&mut cx).is_pending());
        let status = in_child(|| {
            alarm();
            let mut other = Box::pin(timers.sleep(long));
            let pending = other.as_mut().poll(&mut cx).is_pending();
            // SAFETY: the child never uses the original again: it leaves by `_exit`.
            drop(unsafe { core::ptr::read(&raw const linked) });
            if pending { 21 } else { 1 }
        });
        assert_eq!(status, 21);
    }
    drop(sleeps);

    #[cfg(feature = "observe")]
    {
        use core::{future::Future, time::Duration};
        // A dump is under way, and workers tell what they poll: the child has dumps of its own.
        let patience = Duration::from_secs(10);
        let clones = || {
            core::future::poll_fn(|cx| {
                drop(cx.waker().clone());
                cx.waker().wake_by_ref();
                core::task::Poll::<()>::Pending
            })
        };
        let busy = [clones(), clones()].map(|task| rt.spawn(task));
        let mut dump = Box::pin(handle.dump_tasks(patience));
        let mut cx = core::task::Context::from_waker(core::task::Waker::noop());
        assert!(dump.as_mut().poll(&mut cx).is_pending());
        for _ in 0..50 {
            let status = in_child(|| {
                alarm();
                // SAFETY: the child never uses the original again: it leaves by `_exit`.
                drop(unsafe { core::ptr::read(&raw const dump) });
                let own = runtime(1);
                let waits = own.spawn(core::future::pending::<()>());
                let dump = own.block_on(own.handle().dump_tasks(patience));
                drop(waits);
                if dump.is_ok_and(|tasks| tasks.len() == 1) { 22 } else { 1 }
            });
            assert_eq!(status, 22);
        }
        drop(dump);
        busy.iter().for_each(filch_std::JoinHandle::abort);
    }

    scopes_end_in_a_child(&rt);

    // The child drops it without waiting for the missing threads, and builds its own.
    let status = in_child(|| {
        alarm();
        // SAFETY: the child never uses the original again: it leaves by `_exit`.
        drop(unsafe { core::ptr::read(&raw const rt) });
        let own = runtime(1);
        own.spawn(async { 20 }).join().unwrap_or(1)
    });
    assert_eq!(status, 20);

    drop(std::panic::take_hook());
    // The parent's runtime is not affected.
    assert_eq!(rt.spawn(async { 2 }).join().unwrap(), 2);
    drop(rt);
}
