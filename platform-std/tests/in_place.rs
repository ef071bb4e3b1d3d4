//! `block_in_place`: what its closure queues, and what the task does after another thread has its worker.

mod common;

use core::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};
use std::sync::{Arc, mpsc};

use common::{Flag, until, watchdog};
use filch_std::{
    Builder, JoinError, JoinHandle, Runtime, TaskOptions,
    task::{Class, unconstrained},
    time::sleep,
};

fn builder(spares: u16) -> Builder {
    Runtime::builder().workers(1).spare_slots(spares)
}

/// Waits on the thread itself.
fn block_on_thread<F: Future>(future: F) -> F::Output {
    let waker = core::task::Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = core::task::Context::from_waker(&waker);
    let mut future = core::pin::pin!(future);
    loop {
        if let core::task::Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        std::thread::park();
    }
}

struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_budget_is_put_back_on_the_worker_that_had_it_alone() {
    let _watchdog = watchdog();
    let rt = builder(0).build().unwrap();
    let handle = *rt.handle();
    let (runs, over) = (Flag::new(), Flag::new());
    let blocks = rt.spawn({
        let (runs, over) = (runs.clone(), over.clone());
        async move {
            unconstrained(async { handle.block_in_place(|| until(|| runs.is_set())) }).await;
            over.set();
        }
    });
    let polls = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&polls);
    let other = rt.spawn(unconstrained(async move {
        let first = async {
            runs.set();
            until(|| over.is_set());
            for _ in 0..1_000 {
                filch_std::task::consume_budget().await;
            }
        };
        let mut first = Box::pin(first);
        core::future::poll_fn(|cx| {
            counts.fetch_add(1, Relaxed);
            first.as_mut().poll(cx)
        })
        .await;
    }));
    rt.block_on(blocks).unwrap();
    rt.block_on(other).unwrap();
    assert_eq!(polls.load(Relaxed), 1);
}

/// With a compensation worker, and with none; with a watchdog, which would find what nobody is told of, and without.
fn runtimes() -> impl Iterator<Item = Runtime> {
    let all = [0, 1].into_iter().flat_map(|spares| [true, false].map(|watched| (spares, watched)));
    all.flat_map(|(spares, watched)| [true, false].map(|stealing| (spares, watched, stealing))).map(
        |(spares, watched, stealing)| {
            let builder = builder(spares).stealing(stealing);
            if watched { builder } else { builder.watchdog(None) }.build().unwrap()
        },
    )
}

#[test]
fn a_timer_of_the_closure_fires() {
    for rt in runtimes() {
        let _watchdog = watchdog();
        let handle = *rt.handle();
        let blocks = async move {
            handle.block_in_place(|| {
                // The replacement has gone to sleep.
                block_on_thread(sleep(Duration::from_millis(30)));
                block_on_thread(sleep(Duration::from_millis(10)));
            });
        };
        rt.block_on(rt.spawn(blocks)).unwrap();
    }
}

#[test]
fn a_task_of_the_closure_runs() {
    for rt in runtimes() {
        let _watchdog = watchdog();
        let handle = *rt.handle();
        let blocks = async move {
            handle.block_in_place(|| {
                let (send, receive) = mpsc::channel();
                filch_std::spawn(async move { send.send(7) }).detach();
                receive.recv()
            })
        };
        assert_eq!(rt.block_on(rt.spawn(blocks)).unwrap(), Ok(7));
    }
}

/// Its worker passes to another thread, as there is no spare slot.
fn left_runtime() -> Runtime {
    builder(0).build().unwrap()
}

/// In its own runtime, or in another one. Each ends after some seconds, all at a time.
#[test]
fn a_runtime_ends_though_a_closure_waits_for_ever() {
    fn ends(spares: u16, in_other: bool) {
        let other = Runtime::builder().workers(1).build().unwrap();
        let rt = builder(spares).build().unwrap();
        let handle = *rt.handle();
        let waits_in = if in_other { *other.handle() } else { handle };
        let (waits, drops) = (Flag::new(), common::Drops::new());
        rt.spawn({
            let waits = waits.clone();
            let ends = drops.tally();
            async move {
                let _ends = ends;
                handle.block_in_place(|| {
                    waits.set();
                    waits_in.block_on(core::future::pending::<()>());
                });
            }
        })
        .detach();
        until(|| waits.is_set());
        drop(rt);
        assert_eq!(drops.count(), 1);
    }
    let _watchdog = watchdog();
    std::thread::scope(|scope| {
        for (spares, in_other) in [(0, false), (1, false), (0, true), (1, true)] {
            scope.spawn(move || ends(spares, in_other));
        }
    });
}

#[test]
fn a_task_that_has_left_its_worker_stays_in_its_runtimes() {
    let _watchdog = watchdog();
    let (rt, other) =
        (left_runtime(), Runtime::builder().workers(3).spare_slots(0).build().unwrap());
    let (handle, inner) = (*rt.handle(), *other.handle());
    let workers = || filch_std::Handle::current().unwrap().metrics().workers().count();
    let task = rt.spawn(async move {
        let outside = workers();
        let inside = inner.block_on(async {
            let before = workers();
            handle.block_in_place(|| ());
            (before, workers())
        });
        (outside, inside, workers(), handle.current_worker())
    });
    let (outside, inside, after, worker) = rt.block_on(task).unwrap();
    assert_eq!(worker, None, "it has left its worker");
    assert_eq!((outside, inside, after), (1, (3, 3), 1));
}

#[test]
fn a_task_that_has_left_its_worker_spawns_while_the_runtime_drains() {
    let _watchdog = watchdog();
    let rt = left_runtime();
    let handle = *rt.handle();
    let (blocks, drains) = (Flag::new(), Flag::new());
    let (send, receive) = mpsc::channel();
    rt.spawn({
        let (blocks, drains) = (blocks.clone(), drains.clone());
        async move {
            handle.block_in_place(|| {
                blocks.set();
                until(|| drains.is_set());
            });
            assert_eq!(handle.current_worker(), None);
            filch_std::spawn(async move { send.send(7) }).detach();
        }
    })
    .detach();
    until(|| blocks.is_set());
    let ends = std::thread::spawn(move || rt.shutdown(Duration::from_secs(100)));
    // From now on only tasks may spawn.
    until(|| handle.spawn_with(TaskOptions::new(), async {}).is_err());
    drains.set();
    assert_eq!(receive.recv(), Ok(7));
    assert!(ends.join().unwrap().is_empty());
}

#[test]
fn a_task_that_has_left_its_worker_does_not_join_itself() {
    let _watchdog = watchdog();
    let rt = left_runtime();
    let handle = *rt.handle();
    let (send, receive) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let own = rt.spawn(async move {
        let mut own: JoinHandle<()> = handle.block_in_place(|| receive.recv()).unwrap();
        tell.send(matches!(own.join(), Err(JoinError::OnItself))).unwrap();
    });
    send.send(own).unwrap();
    assert_eq!(told.recv(), Ok(true));
}

/// Blocks in place in a task that has a class, and then goes on for ever.
#[test]
fn a_task_that_has_left_its_worker_keeps_its_class_and_has_a_budget() {
    let _watchdog = watchdog();
    for class in [Class::Urgent, Class::Background] {
        let rt = left_runtime();
        let handle = *rt.handle();
        let (send, receive) = mpsc::channel();
        let task = async move {
            let within =
                handle.block_in_place(|| filch_std::spawn(async { filch_std::task::class() }));
            let after = filch_std::spawn(async { filch_std::task::class() });
            send.send((filch_std::task::class(), within, after)).unwrap();
            loop {
                filch_std::task::consume_budget().await;
            }
        };
        let task = rt.handle().spawn_with(TaskOptions::new().class(class), task).unwrap();
        let (own, within, after) = receive.recv().unwrap();
        assert_eq!(own, Some(class));
        assert_eq!(rt.block_on(within).unwrap(), Some(class));
        assert_eq!(rt.block_on(after).unwrap(), Some(class));
        task.abort();
        assert!(matches!(rt.block_on(task), Err(JoinError::Cancelled)));
    }
}

/// Inside the closure, and after it.
#[test]
fn a_task_that_has_left_its_worker_ends_its_own_runtime() {
    let _watchdog = watchdog();
    let ends: [fn(Runtime); 3] = [
        drop,
        |rt| drop(rt.shutdown(Duration::ZERO)),
        |rt| drop(rt.shutdown(Duration::from_millis(50))),
    ];
    for (end, within) in ends.into_iter().flat_map(|end| [(end, true), (end, false)]) {
        let rt = left_runtime();
        let handle = *rt.handle();
        let (send, receive) = mpsc::channel::<Runtime>();
        let (tell, told) = mpsc::channel();
        rt.spawn(async move {
            let rt = handle.block_in_place(|| {
                let rt = receive.recv().unwrap();
                if within {
                    end(rt);
                    return None;
                }
                Some(rt)
            });
            rt.into_iter().for_each(end);
            tell.send(()).unwrap();
        })
        .detach();
        send.send(rt).unwrap();
        told.recv().unwrap();
    }
}

/// Its root future leaves the worker with which the wait began.
#[test]
fn a_runtime_ends_though_a_wait_has_left_its_worker() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let rt = Runtime::builder().workers(workers).spare_slots(0).build().unwrap();
        let handle = *rt.handle();
        let waits = Flag::new();
        let begins = waits.clone();
        let waits_for_ever = async move {
            handle.block_on(async {
                handle.block_in_place(|| ());
                begins.set();
                core::future::pending::<()>().await;
            });
        };
        rt.spawn(waits_for_ever).detach();
        until(|| waits.is_set());
        drop(rt);
    }
}

/// The waker of a join handle runs where the task has ended: for one that has left its worker, there.
#[test]
fn a_runtime_is_dropped_by_the_waker_of_a_task_that_has_left_its_worker() {
    struct Drops(std::sync::Mutex<Option<Runtime>>, Flag);
    impl std::task::Wake for Drops {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
            self.1.set();
        }
    }
    let _watchdog = watchdog();
    let rt = left_runtime();
    let handle = *rt.handle();
    let (blocks, goes, dropped) = (Flag::new(), Flag::new(), Flag::new());
    let (begins, go) = (blocks.clone(), goes.clone());
    let mut task = Box::pin(rt.spawn(async move {
        handle.block_in_place(|| {
            begins.set();
            until(|| go.is_set());
        });
    }));
    until(|| blocks.is_set());
    let drops = Arc::new(Drops(std::sync::Mutex::new(Some(rt)), dropped.clone()));
    let waker = core::task::Waker::from(drops);
    assert!(task.as_mut().poll(&mut core::task::Context::from_waker(&waker)).is_pending());
    goes.set();
    until(|| dropped.is_set());
}
