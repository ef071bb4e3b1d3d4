//! An executor without the part `Cores`: one worker, and one queue for all tasks.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    cell::Cell,
    future::poll_fn,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    task::Poll,
};
use std::{
    rc::Rc,
    sync::{Arc, mpsc},
    thread,
};

use common::{Log, Manual, Room, Threads, forever, id, pool, quiet, slots, until, watchdog};
use filch::{
    Scheduler, Step, TaskPool,
    parts::{Shutdown, Waits},
    yield_now,
};

type Stepped<F> = Scheduler<Manual, Room<8, F>, 8>;
type Threaded<F> = Scheduler<Threads, Room<8, F>, 8>;

fn stepped() -> &'static Stepped<Shutdown> {
    forever(Box::new(Scheduler::over(Manual::new(), quiet(), slots(1)).unwrap()))
}

#[test]
fn tasks_are_polled_in_the_order_of_their_wakes_pinned_or_not() {
    let executor = stepped();
    let worker = executor.worker(id(0)).unwrap();
    let log = Log::new();
    let memory = pool();
    for n in 0..20 {
        let polls = log.clone();
        let task = async move {
            polls.push(n);
            yield_now().await;
            polls.push(n);
        };
        let spawned = match n % 3 {
            0 => executor.spawner().spawn_pinned(memory, id(0), task),
            _ => executor.spawn(memory, task),
        };
        spawned.unwrap().detach();
    }
    assert_eq!(worker.run_for(100), 40);
    assert_eq!(log.take(), (0..20).chain(0..20).collect::<Vec<_>>());
}

/// Of a worker that blocks too deep to help, nothing can end the wait: it fails, as the tasks that wait have no worker.
#[test]
fn a_wait_that_is_too_deep_fails_while_tasks_are_queued() {
    let _watchdog = watchdog();
    let executor: &Threaded<(Waits, Shutdown)> =
        forever(Box::new(Scheduler::over(Threads::new(), quiet().nesting(0), slots(1)).unwrap()));
    let memory = pool();
    let (sender, receiver) = mpsc::channel();
    let (waited, ran) = (sender.clone(), sender);
    executor
        .spawn(memory, async move { waited.send(executor.help_until(|| false)).unwrap() })
        .unwrap()
        .detach();
    for _ in 0..3 {
        let ran = ran.clone();
        executor.spawn(memory, async move { ran.send(true).unwrap() }).unwrap().detach();
    }
    let worker = thread::spawn(move || executor.run(id(0)));
    assert_eq!([(); 4].map(|()| receiver.recv().unwrap()), [false, true, true, true]);
    executor.shutdown(filch::Instant::MAX, |_| {}).unwrap();
    worker.join().unwrap().unwrap();
}

/// Local tasks end with the worker's handle, in its context, wherever they wait: in the queue, for a wake, or woken by the end of another.
#[test]
fn local_tasks_end_with_the_worker() {
    let executor = stepped();
    static LOCALS: TaskPool<256, 8> = TaskPool::new();
    let here = thread::current().id();
    let ended = Log::new();
    struct Ends(usize, Log<usize>, thread::ThreadId);
    impl Drop for Ends {
        fn drop(&mut self) {
            assert_eq!(thread::current().id(), self.2);
            self.1.push(self.0);
        }
    }
    let worker = executor.worker(id(0)).unwrap();
    let (begun, log) = (Arc::new(AtomicBool::new(false)), ended.clone());
    let begins = Arc::clone(&begun);
    executor
        .spawn(pool(), async move {
            for n in 0..4 {
                let ends = Ends(n, log.clone(), here);
                let turns = Rc::new(Cell::new(0));
                let task = poll_fn(move |cx| {
                    let _ = &ends;
                    turns.set(turns.get() + 1);
                    if n % 2 == 0 {
                        cx.waker().wake_by_ref();
                    }
                    Poll::<()>::Pending
                });
                executor.spawner().spawn_local(&LOCALS, task).unwrap().detach();
            }
            begins.store(true, SeqCst);
        })
        .unwrap()
        .detach();
    until(|| {
        assert_eq!(worker.step(), Step::Polled);
        begun.load(SeqCst)
    });
    assert_eq!(worker.run_for(6), 6);
    drop(worker);
    let mut ended = ended.take();
    ended.sort_unstable();
    assert_eq!(ended, [0, 1, 2, 3]);
    executor.shutdown(filch::Instant::MAX, |_| {}).unwrap();
}

/// Tasks that wait as the handle is dropped come before those that come later.
#[test]
fn the_order_of_wakes_outlives_the_handle() {
    let executor = stepped();
    let log = Log::new();
    let spawn = |n: usize| {
        let log = log.clone();
        executor.spawn(pool(), async move { log.push(n) }).unwrap().detach();
    };
    let worker = executor.worker(id(0)).unwrap();
    (0..4).for_each(spawn);
    assert_eq!(worker.step(), Step::Polled);
    (4..6).for_each(spawn);
    drop(worker);
    (6..8).for_each(spawn);
    assert_eq!(executor.worker(id(0)).unwrap().run_for(100), 7);
    assert_eq!(log.take(), (0..8).collect::<Vec<_>>());
}

/// In a wait that is too deep the worker polls what is pinned to it, and no other task.
#[test]
fn a_wait_that_is_too_deep_polls_a_pinned_task() {
    let _watchdog = watchdog();
    let executor: &'static Stepped<Waits> =
        forever(Box::new(Scheduler::over(Manual::new(), quiet().nesting(0), slots(1)).unwrap()));
    let worker = executor.worker(id(0)).unwrap();
    let log = Log::new();
    let joined = log.clone();
    executor
        .spawn(pool(), async move {
            let mut any = executor.spawn(pool(), async {}).unwrap();
            let mut pinned = executor.spawner().spawn_pinned(pool(), id(0), async {}).unwrap();
            joined.push(pinned.join().is_ok());
            joined.push(any.join().is_ok());
        })
        .unwrap()
        .detach();
    worker.run_for(10);
    assert_eq!(log.take(), [true, false]);
}
