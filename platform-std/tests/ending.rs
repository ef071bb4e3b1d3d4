//! The end of a runtime while tasks wait in sync code.

mod common;

use core::{future::pending, time::Duration};
use std::{
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Instant,
};

use common::{Flag, watchdog};
use filch_std::{
    Handle, JoinError, LocalRuntime, Runtime, spawn,
    task::{shield, yield_now},
    time::sleep,
};

/// An hour, which no test lasts.
const LONG: Duration = Duration::from_secs(3_600);

/// A wait in sync code.
type Wait = fn(Handle);

const WAITS: [(&str, Wait); 9] = [
    ("sleep", |here| here.block_on(sleep(LONG))),
    ("for ever", |here| here.block_on(pending())),
    ("of a free function", |_| filch_std::block_on(pending())),
    ("in another runtime", |_| Runtime::builder().workers(1).build().unwrap().block_on(pending())),
    ("in another runtime of one thread", |_| LocalRuntime::new().unwrap().block_on(pending())),
    ("in place", |here| here.block_in_place(|| here.block_on(sleep(LONG)))),
    ("nested", |here| here.block_on(async { here.block_on(pending::<()>()) })),
    ("again and again", |here| {
        loop {
            here.block_on(sleep(Duration::from_millis(1)));
        }
    }),
    ("on top of another", |here| {
        here.block_on(async {
            let other = spawn(async { filch_std::block_on(pending::<()>()) });
            drop(other.await);
        });
    }),
];

/// Each ends after some seconds, all at a time.
#[test]
fn a_runtime_ends_though_a_task_waits_in_sync_code() {
    let _watchdog = watchdog();
    thread::scope(|scope| {
        for (name, wait) in WAITS {
            for (workers, nesting) in [(1, 64), (2, 64), (1, 0), (2, 0)] {
                scope.spawn(move || {
                    let rt = Runtime::builder().workers(workers).nesting(nesting).build().unwrap();
                    let (here, begun) = (*rt.handle(), Flag::new());
                    let begins = begun.clone();
                    let task = rt.spawn(async move {
                        begins.set();
                        wait(here);
                    });
                    begun.block();
                    println!("{name}, {workers} workers, nesting {nesting}");
                    drop(rt);
                    assert!(task.is_finished());
                });
            }
        }
    });
}

#[test]
fn a_runtime_of_one_thread_ends_though_a_task_waits_in_sync_code() {
    let _watchdog = watchdog();
    thread::scope(|scope| {
        for (name, wait) in WAITS {
            scope.spawn(move || {
                let rt = LocalRuntime::new().unwrap();
                let here = *rt.handle();
                let begun = Flag::new();
                let begins = begun.clone();
                // The runtime is dropped on its thread, so the wait begins after the end.
                let task = rt
                    .spawn_local(async move {
                        struct Waits(Handle, Wait);
                        impl Drop for Waits {
                            fn drop(&mut self) {
                                self.1(self.0);
                            }
                        }
                        let _waits = Waits(here, wait);
                        begins.set();
                        pending::<()>().await;
                    })
                    .unwrap();
                rt.block_on(async {
                    while !begun.is_set() {
                        yield_now().await;
                    }
                });
                println!("{name}");
                drop(rt);
                assert!(task.is_finished());
            });
        }
    });
}

/// Each on top of the one before, on one worker: all of them end at a time. One after another they would take minutes.
#[test]
fn waits_on_top_of_each_other_end_together() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(1).build().unwrap();
    let (here, (send, receive)) = (*rt.handle(), mpsc::channel());
    for _ in 0..30 {
        let send = send.clone();
        rt.spawn(async move {
            send.send(()).unwrap();
            here.block_on(pending::<()>());
        })
        .detach();
    }
    receive.iter().take(30).for_each(|()| ());
    drop(rt);
}

/// Nothing waits for it any longer, so that it does not keep the clock of the next runtime, which has the memory of the last one.
#[test]
fn work_that_outlasts_its_runtime_holds_no_other_clock() {
    let _watchdog = watchdog();
    let (go, gate) = (Flag::new(), Flag::new());
    let begins = gate.clone();
    let rt = Runtime::builder().workers(1).build_pausable().unwrap();
    let goes = go.clone();
    let work = move || {
        begins.set();
        goes.block();
    };
    rt.handle().accept(filch_std::internal::Threads::Pool, work).unwrap();
    gate.block();
    drop(rt);
    let rt = Runtime::builder().workers(1).build_pausable().unwrap();
    rt.block_on(async {
        filch_std::time::pause();
        sleep(LONG).await;
    });
    go.set();
}

/// What a destructor waits for is given time.
#[test]
fn a_wait_of_a_destructor_comes_to_its_end() {
    struct Saves(Handle, mpsc::Sender<u32>);
    impl Drop for Saves {
        fn drop(&mut self) {
            let saved = self.0.block_on(async {
                sleep(Duration::from_millis(20)).await;
                7
            });
            self.1.send(saved).unwrap();
        }
    }
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let rt = Runtime::builder().workers(workers).build().unwrap();
        let (begun, (send, receive)) = (Flag::new(), mpsc::channel());
        let (begins, saves) = (begun.clone(), Saves(*rt.handle(), send));
        rt.spawn(async move {
            begins.set();
            pending::<()>().await;
            drop(saves);
        })
        .detach();
        begun.block();
        drop(rt);
        assert_eq!(receive.try_recv(), Ok(7));
    }
}

/// A shield holds for a wait in sync code too, longer than other waits are given.
#[test]
fn a_wait_under_a_shield_comes_to_its_end() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(1).build().unwrap();
    let (here, begun, over) = (*rt.handle(), Flag::new(), Arc::new(Mutex::new(None)));
    let (begins, ends) = (begun.clone(), Arc::clone(&over));
    let begin = Instant::now();
    rt.spawn(shield(async move {
        begins.set();
        here.block_on(sleep(Duration::from_secs(7)));
        *ends.lock().unwrap() = Some(begin.elapsed());
    }))
    .detach();
    begun.block();
    drop(rt);
    assert!(over.lock().unwrap().is_some_and(|after| after >= Duration::from_secs(7)));
}

/// The thread of a `block_on` outside of the runtime's tasks waits for what it likes.
#[test]
fn a_wait_outside_of_the_tasks_goes_on() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(1).build().unwrap();
    let here = *rt.handle();
    let (polled, wait) = (Flag::new(), Flag::new());
    thread::scope(|scope| {
        let (begins, signal) = (polled.clone(), wait.clone());
        let waits = scope.spawn(move || {
            here.block_on(async {
                begins.set();
                while !signal.is_set() {
                    // Not of this runtime.
                    thread::yield_now();
                    yield_now().await;
                }
                7
            })
        });
        polled.block();
        drop(rt);
        wait.set();
        assert_eq!(waits.join().unwrap(), 7);
    });
}

/// The task's handle says that it has ended so.
#[test]
fn a_wait_that_is_ended_is_a_panic_of_its_task() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(1).build().unwrap();
    let (here, begun) = (*rt.handle(), Flag::new());
    let begins = begun.clone();
    let mut task = rt.spawn(async move {
        begins.set();
        here.block_on(pending::<()>());
    });
    begun.block();
    drop(rt);
    match task.join() {
        Err(JoinError::Panicked(panic)) => {
            assert!(panic.message().is_some_and(|text| text.contains("ended")), "{panic:?}");
        }
        other => panic!("{other:?}"),
    }
}
