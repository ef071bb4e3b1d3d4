//! The parts of the real tokio that are re-exported need no runtime of that one's: where they may block, their timeouts, the budget.
//! compat/tokio/patch/check.sh runs these tests on the package `tokio` of patch/ too.

use core::{panic::AssertUnwindSafe, time::Duration};
use std::{panic::catch_unwind, sync::Arc, thread, time::Instant};

use filch_test_support::watchdog;
use filch_tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::{
        Mutex, Notify, RwLock, Semaphore, broadcast, mpsc,
        mpsc::error::{SendTimeoutError, TrySendError},
        oneshot,
    },
    task::{self, JoinSet, LocalSet, coop},
    time::{sleep, timeout},
};

const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(30);

fn threaded(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
}

fn current() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn both() -> [Runtime; 2] {
    [current(), threaded(1)]
}

/// Calls that block: each could go on at once.
const BLOCKING: [(&str, fn()); 9] = [
    ("oneshot::Receiver::blocking_recv", || {
        let (sender, receiver) = oneshot::channel();
        sender.send(1).unwrap();
        assert_eq!(receiver.blocking_recv(), Ok(1));
    }),
    ("mpsc::Sender::blocking_send", || {
        let (sender, mut receiver) = mpsc::channel(1);
        sender.blocking_send(1).unwrap();
        assert_eq!(receiver.try_recv(), Ok(1));
    }),
    ("mpsc::Receiver::blocking_recv", || {
        let (sender, mut receiver) = mpsc::channel(1);
        sender.try_send(1).unwrap();
        assert_eq!(receiver.blocking_recv(), Some(1));
    }),
    ("mpsc::UnboundedReceiver::blocking_recv", || {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        sender.send(1).unwrap();
        assert_eq!(receiver.blocking_recv(), Some(1));
    }),
    ("broadcast::Receiver::blocking_recv", || {
        let (sender, mut receiver) = broadcast::channel(1);
        sender.send(1).unwrap();
        assert_eq!(receiver.blocking_recv(), Ok(1));
    }),
    ("Mutex::blocking_lock", || assert_eq!(*Mutex::new(1).blocking_lock(), 1)),
    ("RwLock::blocking_read", || assert_eq!(*RwLock::new(1).blocking_read(), 1)),
    ("RwLock::blocking_write", || assert_eq!(*RwLock::new(1).blocking_write(), 1)),
    ("Semaphore::blocking_acquire", || drop(Semaphore::new(1).blocking_acquire().unwrap())),
];

fn panics(call: fn()) -> bool {
    catch_unwind(call).is_err()
}

#[test]
fn calls_that_block_panic_where_futures_are_polled() {
    let _watchdog = watchdog();
    for runtime in both() {
        for (name, call) in BLOCKING {
            assert!(runtime.block_on(async { panics(call) }), "{name} in a root future");
            let task = runtime.spawn(async move { panics(call) });
            assert!(runtime.block_on(task).unwrap(), "{name} in a task");
            let local = LocalSet::new();
            let task = local.spawn_local(async move { panics(call) });
            assert!(local.block_on(&runtime, task).unwrap(), "{name} in a local task");
        }
    }
}

#[test]
fn calls_that_block_do_so_elsewhere() {
    let _watchdog = watchdog();
    for runtime in both() {
        for (_, call) in BLOCKING {
            call();
            let entered = runtime.enter();
            call();
            drop(entered);
            let handle = runtime.handle().clone();
            runtime.block_on(async { task::spawn_blocking(call).await }).unwrap();
            let other = thread::spawn(move || {
                let _entered = handle.enter();
                call();
            });
            other.join().unwrap();
        }
    }
    let runtime = threaded(2);
    for (_, call) in BLOCKING {
        runtime.block_on(async { task::block_in_place(call) });
        runtime.block_on(runtime.spawn(async move { task::block_in_place(call) })).unwrap();
    }
    // The budget, and the ban, are back afterwards.
    let after = runtime.spawn(async {
        task::block_in_place(|| {});
        BLOCKING.iter().all(|(_, call)| panics(*call)) && coop::has_budget_remaining()
    });
    assert!(runtime.block_on(after).unwrap());
}

#[test]
fn a_call_that_blocks_is_woken_by_a_task() {
    let _watchdog = watchdog();
    for runtime in [threaded(1), threaded(2)] {
        let (sender, receiver) = oneshot::channel();
        let (full, mut taken) = mpsc::channel(1);
        full.try_send(0).unwrap();
        let waits = runtime.spawn_blocking(move || {
            full.blocking_send(1).unwrap();
            receiver.blocking_recv().unwrap()
        });
        runtime.spawn(async move {
            sleep(MS).await;
            assert_eq!(taken.recv().await, Some(0));
            assert_eq!(taken.recv().await, Some(1));
            sender.send(7).unwrap();
        });
        assert_eq!(runtime.block_on(waits).unwrap(), 7);
    }
}

#[test]
fn nested_runtimes_and_calls_that_block() {
    let _watchdog = watchdog();
    let (outer, inner) = (threaded(1), current());
    let task = outer.spawn(async move {
        task::block_in_place(|| {
            BLOCKING.iter().for_each(|(_, call)| call());
            let polled = inner.block_on(async {
                sleep(MS).await;
                BLOCKING.iter().all(|(_, call)| panics(*call))
            });
            assert!(polled);
            BLOCKING.iter().for_each(|(_, call)| call());
            drop(inner);
        });
    });
    outer.block_on(task).unwrap();
}

#[test]
fn a_send_ends_in_time() {
    let _watchdog = watchdog();
    for runtime in both() {
        let sends = async {
            let (sender, mut receiver) = mpsc::channel(1);
            sender.send_timeout(1, LONG).await.unwrap();
            let begun = Instant::now();
            let late = sender.send_timeout(2, 20 * MS).await;
            assert_eq!(late, Err(SendTimeoutError::Timeout(2)));
            assert!(begun.elapsed() >= 20 * MS);
            let waits = sender.clone();
            let waits = task::spawn(async move { waits.send_timeout(3, LONG).await });
            assert_eq!((receiver.recv().await, receiver.recv().await), (Some(1), Some(3)));
            waits.await.unwrap().unwrap();
            drop(receiver);
            let error = sender.send_timeout(4, LONG).await.unwrap_err();
            assert_eq!(error, SendTimeoutError::Closed(4));
            assert_eq!((error.to_string(), error.into_inner()), ("channel closed".into(), 4));
        };
        runtime.block_on(sends);
    }
}

#[test]
fn a_channel_has_all_of_tokios() {
    let _watchdog = watchdog();
    let uses = async {
        let (sender, mut receiver) = mpsc::channel(3);
        let weak = sender.downgrade();
        assert!(weak.upgrade().unwrap().same_channel(&sender));
        assert_eq!((sender.strong_count(), sender.weak_count()), (1, 1));
        sender.reserve().await.unwrap().send(1);
        sender.try_reserve_many(2).unwrap().for_each(|permit| permit.send(2));
        assert_eq!((sender.capacity(), sender.max_capacity()), (0, 3));
        assert_eq!(sender.try_send(3), Err(TrySendError::Full(3)));
        let sender = match sender.try_reserve_owned() {
            Err(TrySendError::Full(sender)) => sender,
            other => panic!("{other:?}"),
        };
        let mut all = Vec::new();
        assert_eq!(receiver.recv_many(&mut all, 9).await, 3);
        assert_eq!(all, [1, 2, 2]);
        let permit = sender.reserve_owned().await.unwrap();
        let sender = permit.send(4);
        let permit = sender.clone().reserve_owned().await.unwrap();
        assert!(permit.same_channel_as_sender(&sender));
        drop(permit.release());
        assert_eq!(receiver.recv().await, Some(4));
        receiver.close();
        sender.closed().await;
        assert!(sender.is_closed() && sender.send(5).await.is_err());
        drop(sender);
        assert!(weak.upgrade().is_none());
    };
    current().block_on(uses);
}

#[test]
fn locks_pass_from_task_to_task() {
    let _watchdog = watchdog();
    for runtime in both() {
        let (permits, notify) = (Arc::new(Semaphore::new(2)), Arc::new(Notify::new()));
        let (sum, wakes) = (Arc::new(Mutex::new(0)), Arc::clone(&notify));
        let sums = Arc::clone(&sum);
        let all = async move {
            let mut set = JoinSet::new();
            for n in 0..50 {
                let (permits, sum) = (Arc::clone(&permits), Arc::clone(&sum));
                set.spawn(async move {
                    let _permit = permits.acquire_owned().await.unwrap();
                    task::yield_now().await;
                    *sum.lock().await += n;
                });
            }
            set.spawn_blocking(move || wakes.notify_one());
            notify.notified().await;
            set.join_all().await.len()
        };
        assert_eq!(runtime.block_on(all), 51);
        assert_eq!(*sums.blocking_lock(), 50 * 49 / 2);
    }
}

#[test]
fn a_loop_over_what_is_ready_gives_way() {
    let _watchdog = watchdog();
    for runtime in both() {
        let loops = |handle: &Handle| {
            let stop = Arc::new(Notify::new());
            let stopped = Arc::clone(&stop);
            let task = handle.spawn(async move {
                let stopped = stopped.notified();
                let mut stopped = core::pin::pin!(stopped);
                let semaphore = Semaphore::new(1);
                let mut rounds = 0_u64;
                // Without a budget, the other task would never be polled.
                while timeout(Duration::ZERO, stopped.as_mut()).await.is_err() {
                    drop(semaphore.acquire().await.unwrap());
                    rounds += 1;
                }
                rounds
            });
            (stop, task)
        };
        let (stop, task) = loops(runtime.handle());
        let other = runtime.spawn(async move { stop.notify_one() });
        runtime.block_on(async {
            other.await.unwrap();
            task.await.unwrap();
        });
    }
}

#[test]
fn a_panic_in_a_blocking_call_leaves_the_thread_as_it_was() {
    let _watchdog = watchdog();
    let runtime = threaded(1);
    let task = runtime.spawn(async {
        let panics = AssertUnwindSafe(|| task::block_in_place(|| panic!("of the test")));
        assert!(catch_unwind(panics).is_err());
        BLOCKING.iter().all(|(_, call)| self::panics(*call))
    });
    assert!(runtime.block_on(task).unwrap());
}
