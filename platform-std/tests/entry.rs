//! The end of a `main` with the attribute: closures that have begun.

mod common;

use core::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::Duration,
};
use std::{
    panic::catch_unwind,
    sync::{Mutex, mpsc},
    thread,
};

use common::watchdog;
use filch_std::{Handle, spawn_blocking};

/// Returns once a closure has begun that goes on until the runtime has shut down, and sets the flag at its end.
async fn save(saved: &'static AtomicBool) {
    let handle = Handle::current().unwrap();
    let (begin, begun) = mpsc::channel();
    spawn_blocking(move || {
        begin.send(()).unwrap();
        while let Ok(task) = handle.spawn_with(Default::default(), async {}) {
            task.detach();
            thread::yield_now();
        }
        // The end of the runtime does not wait for it.
        (0..100).for_each(|_| thread::yield_now());
        saved.store(true, SeqCst);
    })
    .detach();
    while begun.try_recv().is_err() {
        filch_std::task::yield_now().await;
    }
}

#[test]
fn the_end_waits_for_a_closure_that_has_begun() {
    static SAVED: AtomicBool = AtomicBool::new(false);

    #[filch_std::main(workers = 1)]
    async fn program() {
        save(&SAVED).await;
    }

    let _watchdog = watchdog();
    program();
    assert!(SAVED.load(SeqCst));
}

#[test]
fn the_end_of_one_thread_waits_too() {
    static SAVED: AtomicBool = AtomicBool::new(false);

    #[filch_std::main(local, shutdown = Duration::MAX)]
    async fn program() {
        save(&SAVED).await;
    }

    let _watchdog = watchdog();
    program();
    assert!(SAVED.load(SeqCst));
}

#[test]
fn the_end_by_a_panic_waits_too() {
    static SAVED: AtomicBool = AtomicBool::new(false);

    #[filch_std::main(workers = 1)]
    async fn program() {
        save(&SAVED).await;
        panic!("on purpose");
    }

    let _watchdog = watchdog();
    assert!(catch_unwind(program).is_err());
    assert!(SAVED.load(SeqCst));
}

/// The closure ends only after the program has.
#[test]
fn the_end_does_not_wait_longer_than_it_was_told() {
    static GATE: Mutex<Option<mpsc::Receiver<()>>> = Mutex::new(None);

    async fn hang() {
        let gate = GATE.lock().unwrap().take().unwrap();
        let (begin, begun) = mpsc::channel();
        spawn_blocking(move || {
            begin.send(()).unwrap();
            gate.recv()
        })
        .detach();
        while begun.try_recv().is_err() {
            filch_std::task::yield_now().await;
        }
    }

    #[filch_std::main(workers = 1, shutdown = Duration::from_millis(1))]
    async fn short() {
        hang().await;
    }

    #[filch_std::main(workers = 1, shutdown = Duration::ZERO)]
    async fn none() {
        hang().await;
    }

    let _watchdog = watchdog();
    for program in [short, none] {
        let (open, gate) = mpsc::channel();
        *GATE.lock().unwrap() = Some(gate);
        program();
        open.send(()).expect("the closure waits on");
    }
}

/// What still waits for a thread is dropped, and not waited for.
#[test]
fn an_idle_pool_is_no_reason_to_wait() {
    #[filch_std::main(workers = 1, shutdown = Duration::MAX)]
    async fn program() -> u8 {
        spawn_blocking(|| 7).await.unwrap()
    }

    let _watchdog = watchdog();
    assert_eq!(program(), 7);
}
