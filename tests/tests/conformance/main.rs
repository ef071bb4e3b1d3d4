//! The conformance suite on threads, with the hosts of both runtimes; plain, and as hostile as the
//! contract allows. Signals are the interrupts. Then platforms with planted bugs, which it must see.
#![cfg(target_os = "linux")]

mod faults;
mod faulty;
mod threads;

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

use filch::{Config, Executor, Instant, Platform, TaskPool, WorkerId};
use filch_conformance::{Hostile, Port, Suite};
use filch_std::runtime::{Futex, Host};

use crate::threads::{Hook, Hooked, Threads};

/// A lost wake-up stays lost.
const NO_NETS: Config = Config::new().watchdog(None).spin_rounds(0);

/// Only one suite runs at a time.
fn my_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn port() -> Port {
    threads::port(|line| println!("{line}"))
}

/// A suite on this platform; its contracts have been checked in a thread for each worker. Some of these may have panicked.
fn contracts<P: Platform + Hooked, const N: usize>(
    platform: P,
    port: Port,
    config: Config,
) -> (&'static Executor<P, N>, &'static Suite<P, N>, thread::Result<()>) {
    let executor: &'static Executor<P, N> =
        Box::leak(Box::new(Executor::with_config(platform, config)));
    let suite: &'static Suite<P, N> = Box::leak(Box::new(Suite::new(executor, port)));
    let memory: &'static TaskPool<512, 8> = Box::leak(Box::new(TaskPool::new()));
    let hook: Hook = Box::leak(Box::new(move |event: Option<filch::Event>| match event {
        None => suite.on_interrupt(),
        Some(event) => suite.on_event(event),
    }));
    assert!(executor.platform().hook().set(hook).is_ok());
    let cores = (0..N as u16)
        // SAFETY: the thread is new, and the only one of this number.
        .map(|i| thread::spawn(move || unsafe { suite.contracts(WorkerId::new(i), memory) }));
    let ends = cores.collect::<Vec<_>>().into_iter().map(|core| core.join());
    (executor, suite, ends.collect())
}

fn conforms<P: Platform + Hooked>(platform: P, port: Port, config: Config) {
    let _turn = my_turn();
    // A lost wake-up is a hang.
    let _watchdog = filch_test_support::watchdog();
    let (executor, suite, ended) = contracts::<P, 4>(platform, port, config);
    ended.unwrap();
    assert!(suite.start());
    let memory: &'static TaskPool<512, 64> = Box::leak(Box::new(TaskPool::new()));
    let all: &'static TaskPool<4_096, 1> = Box::leak(Box::new(TaskPool::new()));
    let mut all = executor.spawn(all, suite.tasks(memory)).map_err(|_| "too large").unwrap();
    all.join().unwrap();
    assert_eq!(executor.shutdown(Instant::MAX, |_| {}), Ok(0));
    let (passed, failed) = suite.verdict();
    println!("{passed} passed, {failed} failed");
    assert!(passed >= 30 && failed == 0);
}

fn default_configuration<H: Host>() {
    let mut port = port();
    // The sleepers that watch the others look around a few times before they rest.
    port.stirs = Some(16);
    conforms(Threads::<H>::new(), port, Config::new());
}

fn hostile<H: Host>() {
    let mut port = port();
    port.stirs = None;
    let seed = 7;
    println!("seed {seed}");
    conforms(Hostile::new(Threads::<H>::new(), seed), port, NO_NETS);
}

#[test]
fn the_futex_host_conforms() {
    conforms(Threads::<Futex>::new(), port(), NO_NETS);
}

#[test]
fn the_futex_host_conforms_with_the_default_configuration() {
    default_configuration::<Futex>();
}

#[test]
fn the_futex_host_conforms_when_it_is_hostile() {
    hostile::<Futex>();
}

#[test]
fn the_linux_host_conforms() {
    conforms(Threads::<filch_linux::runtime::Linux>::new(), port(), NO_NETS);
}

#[test]
fn the_linux_host_conforms_with_the_default_configuration() {
    default_configuration::<filch_linux::runtime::Linux>();
}

#[test]
fn the_linux_host_conforms_when_it_is_hostile() {
    hostile::<filch_linux::runtime::Linux>();
}

// Of its locks a signal handler takes one for reading, which is written while no worker is online: so signals may be the
// interrupts here, on Linux.

#[test]
fn the_polling_host_conforms() {
    conforms(Threads::<filch_io::runtime::Polling>::new(), port(), NO_NETS);
}

#[test]
fn the_polling_host_conforms_with_the_default_configuration() {
    default_configuration::<filch_io::runtime::Polling>();
}

#[test]
fn the_polling_host_conforms_when_it_is_hostile() {
    hostile::<filch_io::runtime::Polling>();
}
