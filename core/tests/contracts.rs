//! What a platform must not do, and where nothing may wait. Each ends in an error, or ends the program with a message
//! that says why.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use common::{Room, id, pool, quiet, slots, watchdog};
use filch_test_support::{part, play};

use filch::{
    Context, Instant, JoinError, Panic, Platform, RunError, Scheduler, ShutdownError, Step,
    WorkerId, atomic::AtomicU32,
};

/// A platform of one context, which is worker 0 once it has entered. It breaks its contract where the test says so.
#[derive(Default)]
struct Wrong {
    /// The default guard.
    lets_pass: bool,
    /// The clock panics.
    clock: AtomicBool,
    entered: AtomicBool,
    in_handler: AtomicBool,
}

// SAFETY: there is one thread. It breaks its contract where a test says so, to see the program end.
unsafe impl Platform for Wrong {
    fn now(&self) -> Instant {
        assert!(!self.clock.load(Relaxed), "the clock is broken");
        Instant::ZERO
    }
    fn current_worker(&self) -> Option<WorkerId> {
        self.entered.load(Relaxed).then(|| id(0))
    }
    fn context(&self) -> Context {
        if self.in_handler.load(Relaxed) { Context::Handler } else { Context::Thread }
    }
    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        self.entered.store(worker.is_some(), Relaxed);
    }
    unsafe fn wait(&self, _: WorkerId, _: &AtomicU32, _: u32, _: Option<Instant>) {}
    fn wake(&self, _: WorkerId, _: &AtomicU32) {}
    fn guard(&self, call: &mut dyn FnMut()) -> Result<(), Panic> {
        if !self.lets_pass {
            return common::contain(call);
        }
        call();
        Ok(())
    }
}

type Executor = Scheduler<Wrong, Room<256>>;

fn executor(platform: Wrong) -> &'static Executor {
    let executor = Scheduler::over(platform, quiet(), slots(1)).unwrap();
    common::forever(Box::new(executor))
}

/// Checks that the child was ended by an abort, and printed why.
#[track_caller]
fn aborts(test: &str, child: fn(), message: &str) {
    let _watchdog = watchdog();
    if part().is_some() {
        return child();
    }
    let output = play(test, "child").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.status.code().is_none(), "{output:?}");
    assert!(said.contains(message), "{said}");
    assert!(!said.contains("Ready was lost"), "{said}");
}

#[test]
fn a_guard_that_lets_a_panic_pass_is_named() {
    let child = || {
        let executor = executor(Wrong { lets_pass: true, ..Wrong::default() });
        executor.spawn(pool(), async { panic!("on purpose") }).unwrap().detach();
        let _ = executor.worker(id(0)).unwrap().step();
    };
    let message = "a panic went through `Platform::guard`";
    aborts("a_guard_that_lets_a_panic_pass_is_named", child, message);
}

#[test]
fn a_clock_that_unwinds_ends_the_program() {
    let child = || {
        let executor = executor(Wrong::default());
        executor.spawn(pool(), async {}).unwrap().detach();
        let worker = executor.worker(id(0)).unwrap();
        executor.platform().clock.store(true, Relaxed);
        let _ = worker.step();
    };
    let message = "a method of `Platform` must not unwind";
    aborts("a_clock_that_unwinds_ends_the_program", child, message);
}

#[test]
fn nothing_waits_where_nothing_may() {
    let _watchdog = watchdog();
    let executor = executor(Wrong::default());
    let memory = pool();
    let mut handle = executor.spawn(memory, async { 7 }).unwrap();
    let worker = executor.worker(id(0)).unwrap();
    // A handler that interrupts the worker between two steps.
    executor.platform().in_handler.store(true, Relaxed);
    assert!(matches!(handle.join(), Err(JoinError::MustNotWait)));
    assert!(!executor.help_until(|| handle.is_finished()));
    assert!(executor.fork(|_| ()).is_err());
    assert!(executor.broadcast(|_| ()).is_err());
    assert_eq!(executor.worker(id(0)).err(), Some(RunError::MustNotWait));
    // What a handler may do: spawn, and wake.
    let mut other = executor.spawn(memory, async { 8 }).unwrap();
    executor.platform().in_handler.store(false, Relaxed);
    while worker.step() == Step::Polled {}
    assert_eq!((handle.join().unwrap(), other.join().unwrap()), (7, 8));
    drop(worker);
    executor.platform().in_handler.store(true, Relaxed);
    let refused = executor.shutdown(Instant::ZERO, |_| {});
    assert_eq!(refused, Err(ShutdownError::MustNotWait));
    executor.platform().in_handler.store(false, Relaxed);
    assert_eq!(executor.shutdown(Instant::ZERO, |_| {}), Ok(0));
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

#[test]
fn the_handle_of_a_completed_task_is_dropped_without_a_panic() {
    let executor = executor(Wrong::default());
    let handle = executor.spawn(pool(), async { Bomb }).unwrap();
    let worker = executor.worker(id(0)).unwrap();
    while worker.step() == Step::Polled {}
    assert!(handle.is_finished());
    drop(handle);
    // Nor does one that is detached.
    executor.spawn(pool(), async { Bomb }).unwrap().detach();
    while worker.step() == Step::Polled {}
    drop(worker);
    executor.shutdown(Instant::ZERO, |_| {}).unwrap();
}
