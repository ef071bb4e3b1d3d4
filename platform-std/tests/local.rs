//! The runtime of one thread: driven by `block_on`, and by the turns that another loop gives it.

mod common;

use core::{
    cell::{Cell, RefCell},
    future::{Future, pending, poll_fn},
    panic::AssertUnwindSafe,
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use std::{
    panic::catch_unwind,
    rc::Rc,
    sync::{Arc, mpsc},
    thread::{self, ThreadId},
};

use common::{Drops, Flag, message, runtime, until, watchdog};
use filch_std::{
    LocalRuntime, Runtime, TaskOptions, parallel,
    runtime::{BuildError, ConfigError, NoRuntime, Turn, UnhandledPanic, WorkerId},
    spawn_local,
    task::{JoinSet, SpawnErrorKind, yield_now},
    time,
};

fn local() -> LocalRuntime {
    LocalRuntime::new().expect("a runtime")
}

fn here() -> ThreadId {
    thread::current().id()
}

#[test]
fn local_tasks_run_on_the_calling_thread() {
    let _watchdog = watchdog();
    let rt = local();
    let main = here();
    // The future borrows, and is not `Send`; nor are the tasks and their outputs.
    let words = RefCell::new(Vec::new());
    let output = rt.block_on(async {
        let shared = Rc::new(Cell::new(1));
        let inner = Rc::clone(&shared);
        let task = filch_std::spawn_local(async move {
            yield_now().await;
            let nested = Rc::clone(&inner);
            // From a task that is `Send`, too: there is no other thread to which it could go.
            let (send, free) = (
                here(),
                filch_std::spawn(async {
                    let mut not_send = filch_std::spawn_local(async { *Rc::new(here()) }).unwrap();
                    not_send.join().unwrap()
                }),
            );
            let add = filch_std::spawn_local(async move { nested.set(nested.get() + 1) }).unwrap();
            add.await.unwrap();
            assert_eq!(free.await.unwrap(), send);
            inner
        });
        words.borrow_mut().push("before");
        let seen = task.unwrap().await.unwrap();
        assert!(Rc::ptr_eq(&seen, &shared));
        words.borrow_mut().push("after");
        assert_eq!(here(), main);
        seen.get()
    });
    assert_eq!((output, words.into_inner()), (2, vec!["before", "after"]));
    let mut set = JoinSet::new();
    rt.block_on(async {
        (0..10).for_each(|i| set.insert(spawn_local(async move { *Rc::new(i) }).unwrap()));
        let mut sum = 0;
        while let Some(output) = set.join_next().await {
            sum += output.unwrap();
        }
        assert_eq!(sum, 45);
    });
}

#[test]
fn tasks_wait_between_two_calls() {
    let _watchdog = watchdog();
    let rt = local();
    let (flag, steps) = (Flag::new(), Rc::new(Cell::new(0)));
    let (wait, counts) = (flag.wait(), Rc::clone(&steps));
    let task = rt.spawn_local(async move {
        counts.set(1);
        wait.await;
        counts.set(2);
    });
    assert_eq!(steps.get(), 0, "it runs in `block_on` alone");
    rt.block_on(yield_now());
    assert_eq!(steps.get(), 1);
    flag.set();
    assert_eq!(steps.get(), 1);
    rt.block_on(task.unwrap()).unwrap();
    assert_eq!(steps.get(), 2);
}

#[test]
fn other_threads_wake_it_and_spawn_on_it() {
    let _watchdog = watchdog();
    let rt = local();
    let (flag, asleep) = (Flag::new(), Flag::new());
    let (set, handle, seen) = (flag.clone(), *rt.handle(), asleep.clone());
    let other = thread::spawn(move || {
        until(|| set.is_awaited());
        let ran = handle.spawn(async { here() }).join().unwrap();
        seen.set();
        set.set();
        let mut pinned = handle
            .spawn_with(TaskOptions::new().pinned(WorkerId::new(0)), async { here() })
            .unwrap();
        (ran, pinned.join().unwrap())
    });
    rt.block_on(flag.wait());
    assert!(asleep.is_set());
    let other = rt.spawn_blocking_join(other);
    assert_eq!(other, (here(), here()));
}

/// Waits for a thread without blocking the runtime.
trait SpawnBlockingJoin {
    fn spawn_blocking_join<T: Send + 'static>(&self, thread: thread::JoinHandle<T>) -> T;
}

impl SpawnBlockingJoin for LocalRuntime {
    fn spawn_blocking_join<T: Send + 'static>(&self, thread: thread::JoinHandle<T>) -> T {
        let joined = async { filch_std::spawn_blocking(|| thread.join()).await };
        self.block_on(joined).unwrap().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

#[test]
fn timers_the_blocking_pool_and_fork_join_work() {
    let _watchdog = watchdog();
    let rt = local();
    let main = here();
    rt.block_on(async {
        let begin = time::now();
        let sleeps = filch_std::spawn_local(async {
            filch_std::time::sleep(Duration::from_millis(3)).await;
            time::now()
        });
        filch_std::time::sleep(Duration::from_millis(1)).await;
        assert!(sleeps.unwrap().await.unwrap() - begin >= Duration::from_millis(3));
        let gone = filch_std::time::timeout(Duration::from_millis(1), pending::<()>()).await;
        assert!(gone.is_err());
        let elsewhere = filch_std::spawn_blocking(here).await.unwrap();
        assert_ne!(elsewhere, main);
        assert_eq!(parallel::join(here, here), (main, main));
        let forks = filch_std::spawn_local(async move {
            let threads = Arc::new(AtomicUsize::new(0));
            parallel::for_each(0..1_000, |_| {
                threads.fetch_add(usize::from(here() == main), SeqCst);
            });
            let sum = parallel::map_reduce_async(0..100, |i| i, |a, b| a + b).await;
            (threads.load(SeqCst), sum)
        });
        assert_eq!(forks.unwrap().await.unwrap(), (1_000, Some(4_950)));
    });
    assert_eq!(parallel::join(here, here), (main, main), "outside of a poll");
}

#[test]
fn a_drop_cancels_its_tasks_on_its_thread() {
    struct Checks(ThreadId, Rc<Cell<usize>>);
    impl Drop for Checks {
        fn drop(&mut self) {
            assert_eq!(here(), self.0);
            self.1.set(self.1.get() + 1);
        }
    }
    let _watchdog = watchdog();
    let (rt, dropped, drops) = (local(), Rc::new(Cell::new(0)), Drops::new());
    let flag = Flag::new();
    let keeps = || {
        let (checks, wait) = (Checks(here(), Rc::clone(&dropped)), flag.wait());
        async move {
            let _checks = checks;
            wait.await;
        }
    };
    rt.spawn_local(keeps()).unwrap().detach();
    let (tally, wait) = (drops.tally(), flag.wait());
    let sends = async move {
        let _tally = tally;
        wait.await;
    };
    rt.spawn(sends).detach();
    rt.block_on(yield_now());
    // These were never polled.
    rt.spawn_local(keeps()).unwrap().detach();
    rt.spawn_local(filch_std::task::shield(async { yield_now().await })).unwrap().detach();
    let handle = *rt.handle();
    assert_eq!((dropped.get(), drops.count()), (0, 0));
    drop(rt);
    assert_eq!((dropped.get(), drops.count()), (2, 1));
    assert_eq!(
        handle.spawn_with(TaskOptions::new(), async {}).unwrap_err().kind,
        SpawnErrorKind::Shutdown
    );
    assert_eq!(NoRuntime, filch_std::Handle::current().unwrap_err());
}

#[test]
fn a_thread_of_another_runtime_takes_no_local_task() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let refused = rt.block_on(async { filch_std::spawn_local(async {}).unwrap_err() });
    assert_eq!(refused.kind, SpawnErrorKind::NoWorker);
    assert!(refused.to_string().contains("use a `LocalRuntime`"), "{refused}");
    let refuse = || filch_std::spawn_local(async {}).unwrap_err().kind;
    let refused = rt.block_on(async { filch_std::spawn_blocking(refuse).await.unwrap() });
    assert_eq!(refused, SpawnErrorKind::NoWorker);
    let free = rt.block_on(rt.spawn(async move { refuse() })).unwrap();
    assert_eq!(free, SpawnErrorKind::NotPinned);
    // Nor does another thread for a runtime of this one.
    let local = local();
    let handle = *local.handle();
    let refused = thread::spawn(move || handle.spawn_local(async {}).unwrap_err().kind);
    assert_eq!(refused.join().unwrap(), SpawnErrorKind::NoWorker);
    assert!(local.spawn_local(async {}).is_ok());
}

#[test]
fn runtimes_on_one_thread_do_not_mix() {
    let _watchdog = watchdog();
    let current = || filch_std::Handle::current().map(|handle| handle.identity());
    assert!(current().is_err());
    let one = local();
    let identity = one.handle().identity();
    // The thread is in it, and its code may spawn.
    assert_eq!(current(), Ok(identity));
    let spawned = filch_std::spawn_local(async { *Rc::new(1) }).unwrap();
    let two = local();
    assert_eq!(current(), Ok(identity));
    let inside = two.block_on(async { filch_std::Handle::current().unwrap().identity() });
    assert_eq!(inside, two.handle().identity());
    assert_ne!(inside, identity);
    let nested = one.block_on(async {
        let outer = two.block_on(async { one.block_on(async { current() }) });
        (outer, current(), spawned.await.unwrap())
    });
    assert_eq!(nested, (Ok(identity), Ok(identity), 1));
    drop(one);
    assert_eq!(current(), Ok(two.handle().identity()), "it still lives");
    assert!(two.spawn_local(async {}).is_ok());
    drop(two);
    assert!(current().is_err());

    // In a task of a runtime with several workers.
    let rt = runtime(2);
    let outer = rt.handle().identity();
    let task = rt.spawn(async move {
        let inner = local();
        assert_eq!(current(), Ok(outer));
        let seen = inner.block_on(async {
            let local = filch_std::spawn_local(async move { current() }).unwrap();
            local.await.unwrap()
        });
        assert_eq!(seen, Ok(inner.handle().identity()));
        drop(inner);
        current()
    });
    assert_eq!(rt.block_on(task).unwrap(), Ok(outer));
}

#[test]
fn it_ends_inside_its_own_poll() {
    let _watchdog = watchdog();
    let drops = Drops::new();
    let (rt, tally) = (Rc::new(local()), drops.tally());
    rt.spawn_local(async move {
        let _tally = tally;
        pending::<()>().await;
    })
    .unwrap()
    .detach();
    let own = Rc::clone(&rt);
    let mut last = rt.spawn_local(async move { drop(own) }).unwrap();
    drop(rt);
    last.join().unwrap();
    until(|| drops.count() == 1);
    assert_eq!(NoRuntime, filch_std::Handle::current().unwrap_err());
    // The thread may have another.
    assert_eq!(local().block_on(async { 7 }), 7);
}

#[test]
fn a_block_on_goes_on_after_its_runtime() {
    let _watchdog = watchdog();
    let (rt, flag) = (local(), Flag::new());
    let (handle, sets, (begin, begun)) = (*rt.handle(), flag.clone(), mpsc::channel());
    let other = thread::spawn(move || {
        begun.recv().unwrap();
        sets.set();
    });
    let output = handle.block_on(async move {
        drop(rt);
        // The thread is a worker no more, and another one wakes it.
        let mut wait = pin!(flag.wait());
        poll_fn(|cx| {
            let polled = wait.as_mut().poll(cx);
            let _ = begin.send(());
            polled
        })
        .await;
        7
    });
    assert_eq!(output, 7);
    other.join().unwrap();
}

#[test]
fn a_thread_is_in_no_runtime_that_has_ended() {
    let _watchdog = watchdog();
    let current = || filch_std::Handle::current().map(|handle| handle.identity());
    let (rt, other) = (local(), local());
    let (handle, kept) = (*rt.handle(), other.handle().identity());
    handle.block_on(async { drop(rt) });
    assert_eq!(current(), Ok(kept));
    let handle = *other.handle();
    handle.scope(|_| drop(other));
    assert_eq!(current(), Err(NoRuntime));
    let rt = local();
    let handle = *rt.handle();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        handle.block_on(async {
            drop(rt);
            panic!("on purpose")
        })
    }));
    assert_eq!(message(&*outcome.unwrap_err()), "on purpose");
    assert_eq!(current(), Err(NoRuntime));
    // They need not end in order.
    let (outer, inner) = (local(), local());
    let (first, second) = (*outer.handle(), *inner.handle());
    first.block_on(async { second.block_on(async { drop(outer) }) });
    assert_eq!(current(), Ok(second.identity()));
    drop(inner);
    assert_eq!(current(), Err(NoRuntime));
}

#[test]
fn panics_end_what_they_are_in() {
    let _watchdog = watchdog();
    let rt = local();
    let outcome = catch_unwind(AssertUnwindSafe(|| rt.block_on(async { panic!("on purpose") })));
    assert_eq!(message(&*outcome.unwrap_err()), "on purpose");
    let task = rt.spawn_local(async { panic!("a task") }).unwrap();
    assert!(rt.block_on(task).unwrap_err().is_panic());
    assert_eq!(rt.block_on(rt.spawn(async { 7 })).unwrap(), 7);
    assert_eq!(rt.turn(8), Turn::Rests(None));
}

#[test]
fn it_has_one_worker() {
    let refused = |n| Runtime::builder().workers(n).build_local().map(drop);
    assert!(matches!(refused(0), Err(BuildError::Config(ConfigError::ZeroWorkers))));
    assert!(matches!(refused(2), Err(BuildError::Config(ConfigError::TooManyWorkers(1)))));
    assert!(refused(1).is_ok());
}

#[test]
fn many_come_and_go_on_many_threads() {
    let _watchdog = watchdog();
    let threads: Vec<_> = (0..4)
        .map(|i| {
            thread::spawn(move || {
                (0..50)
                    .map(|j| {
                        let rt = local();
                        rt.spawn_local(pending::<()>()).unwrap().detach();
                        rt.block_on(async move {
                            let task = filch_std::spawn_local(async move { *Rc::new(i + j) });
                            task.unwrap().await.unwrap()
                        })
                    })
                    .sum::<i32>()
            })
        })
        .collect();
    let sums: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(sums, [1_225, 1_275, 1_325, 1_375]);
}

/// Its own `block_on` is its loop, and no nested wait.
#[test]
fn it_blocks_on_futures_whatever_may_nest() {
    let _watchdog = watchdog();
    for depth in [0, 1, u32::MAX] {
        let rt = Runtime::builder().nesting(depth).build_local().unwrap();
        assert_eq!(rt.block_on(rt.spawn(async { 7 })).unwrap(), 7);
        let mut task = rt.spawn(async { 8 });
        assert_eq!(task.join().unwrap(), 8);
        let nests = rt.spawn(async { filch_std::spawn(async { 9 }).join() });
        assert_eq!(rt.block_on(nests).unwrap().is_ok(), depth > 0);
    }
}

#[test]
fn a_turn_is_as_long_as_it_is_told() {
    let _watchdog = watchdog();
    let rt = local();
    let polls = Rc::new(Cell::new(0));
    let counts = Rc::clone(&polls);
    let task = rt.spawn_local(async move {
        loop {
            counts.set(counts.get() + 1);
            yield_now().await;
        }
    });
    assert_eq!((rt.turn(0), polls.get()), (Turn::Again, 0));
    assert_eq!((rt.turn(5), polls.get()), (Turn::Again, 5));
    assert_eq!((rt.turn_for(Duration::ZERO), polls.get()), (Turn::Again, 6));
    assert_eq!(rt.turn_for(Duration::from_millis(1)), Turn::Again);
    assert!(polls.get() > 7, "a poll takes less than that");
    task.unwrap().abort();
    assert_eq!(rt.turn(8), Turn::Rests(None));
    let sleeps = rt.spawn_local(filch_sleep(Duration::from_secs(3_600))).unwrap();
    let Turn::Rests(Some(time)) = rt.turn(8) else { panic!("a timer") };
    assert!(time > Duration::from_secs(3_500) && time <= Duration::from_secs(3_600));
    sleeps.abort();
    assert_eq!(rt.turn_for(Duration::from_secs(60)), Turn::Rests(None));
    // Inside a task it is a part of that task's poll.
    let nested = Rc::new(rt);
    let (inner, seen) = (Rc::clone(&nested), Rc::new(Cell::new(None)));
    let sees = Rc::clone(&seen);
    let task = nested.spawn_local(async move { sees.set(Some(inner.turn(8))) });
    assert_eq!(nested.turn(8), Turn::Rests(None));
    assert_eq!((task.unwrap().is_finished(), seen.get()), (true, Some(Turn::Again)));
}

async fn filch_sleep(time: Duration) {
    filch_std::time::sleep(time).await;
}

#[test]
fn a_loop_that_sleeps_is_woken() {
    let _watchdog = watchdog();
    let (post, events) = mpsc::channel();
    let rt = Runtime::builder().on_wake(move || post.send(()).unwrap()).build_local().unwrap();
    let handle = *rt.handle();
    let (flag, done) = (Flag::new(), Rc::new(Cell::new(0)));
    for _ in 0..3 {
        let (wait, counts) = (flag.wait(), Rc::clone(&done));
        let task = async move {
            wait.await;
            counts.set(counts.get() + 1);
        };
        rt.spawn_local(task).unwrap().detach();
    }
    assert!(events.try_recv().is_err(), "the first turn comes unasked");
    assert_eq!(rt.turn(64), Turn::Rests(None));
    assert!(events.try_recv().is_err());
    // By another thread: a wake, and a spawn. One event for a rest.
    let sets = flag.clone();
    thread::spawn(move || sets.set()).join().unwrap();
    events.recv().unwrap();
    assert!(events.try_recv().is_err());
    assert_eq!((rt.turn(64), done.get()), (Turn::Rests(None), 3));
    thread::spawn(move || handle.spawn(async {}).detach()).join().unwrap();
    events.recv().unwrap();
    assert_eq!(rt.turn(64), Turn::Rests(None));
    // By code of the loop itself: a spawn, a `block_on`, a free function, a timer.
    rt.spawn_local(async {}).unwrap().detach();
    events.recv().unwrap();
    assert_eq!(rt.turn(64), Turn::Rests(None));
    rt.block_on(async {
        filch_std::spawn_local(async {}).unwrap().detach();
    });
    events.recv().unwrap();
    assert_eq!(rt.turn(64), Turn::Rests(None));
    assert_eq!(rt.block_on(rt.spawn(async { 7 })).unwrap(), 7);
    events.recv().unwrap();
    assert_eq!(rt.turn(64), Turn::Rests(None));
    assert_eq!(rt.spawn(async { 8 }).join().unwrap(), 8);
    events.recv().unwrap();
    drop(rt);
    // The closure has gone.
    while events.recv().is_ok() {}
    assert!(handle.spawn_with(TaskOptions::new(), async {}).is_err());
}

/// A loop that sleeps until it is asked for a turn, and threads that wake tasks meanwhile: no wake is lost.
#[test]
fn no_wake_of_a_driven_runtime_is_lost() {
    let _watchdog = watchdog();
    let mut rng = filch_test_support::rng();
    let (post, events) = mpsc::channel();
    let rt = Runtime::builder().on_wake(move || post.send(()).unwrap()).build_local().unwrap();
    let (threads, rounds) = (3, 300);
    let mut tasks = Vec::new();
    let mut others = Vec::new();
    for _ in 0..threads {
        let (send, receive) = mpsc::channel::<Flag>();
        let naps: Vec<_> = (0..rounds).map(|_| rng.u32(..200)).collect();
        others.push(thread::spawn(move || {
            for (flag, nap) in receive.into_iter().zip(naps) {
                until(|| flag.is_awaited());
                (0..nap).for_each(|_| core::hint::spin_loop());
                flag.set();
            }
        }));
        let task = rt.spawn_local(async move {
            for _ in 0..rounds {
                let flag = Flag::new();
                send.send(flag.clone()).unwrap();
                flag.wait().await;
            }
        });
        tasks.push(task.unwrap());
    }
    let polls = rng.usize(1..5);
    loop {
        let turn = rt.turn(polls);
        if tasks.iter().all(|task| task.is_finished()) {
            break;
        }
        match turn {
            Turn::Again => {}
            Turn::Rests(time) => {
                assert_eq!(time, None);
                events.recv().unwrap();
            }
            Turn::Stopped => panic!("it goes on"),
        }
    }
    others.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_panic_may_stop_it() {
    let _watchdog = watchdog();
    let builder = Runtime::builder().unhandled_panic(UnhandledPanic::ShutDown);
    let rt = builder.build_local().unwrap();
    rt.spawn_local(async { panic!("on purpose") }).unwrap().detach();
    assert_eq!(rt.turn(8), Turn::Stopped);
    assert_eq!(rt.spawn_local(async {}).unwrap_err().kind, SpawnErrorKind::Shutdown);
    assert_eq!(rt.turn(8), Turn::Stopped);
    assert!(catch_unwind(AssertUnwindSafe(|| rt.block_on(pending::<()>()))).is_err());
}

#[test]
fn a_stopped_clock_moves_in_block_on_and_by_hand_in_turns() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().build_local_pausable().unwrap();
    let day = Duration::from_secs(86_400);
    rt.block_on(async {
        time::pause();
        let begin = time::now();
        filch_sleep(day).await;
        assert_eq!(time::now() - begin, day);
    });
    let sleeps = rt.spawn_local(filch_sleep(day)).unwrap();
    assert_eq!(rt.turn(8), Turn::Rests(Some(day)));
    assert_eq!(rt.turn(8), Turn::Rests(Some(day)), "it stands");
    assert!(time::advance(day));
    assert_eq!(rt.turn(8), Turn::Rests(None));
    assert!(sleeps.is_finished());
}

#[cfg(feature = "macros")]
mod attributes {
    use super::*;

    #[filch_std::test(local)]
    async fn a_test_runs_on_its_thread() {
        let main = here();
        let task = filch_std::spawn_local(async { *Rc::new(here()) }).unwrap();
        assert_eq!(task.await.unwrap(), main);
        assert_eq!(filch_std::spawn(async { here() }).await.unwrap(), main);
    }

    #[filch_std::test(local, paused)]
    async fn a_day_takes_no_time() {
        let begin = std::time::Instant::now();
        let not_send = Rc::new(());
        let task = filch_std::spawn_local(async {
            filch_std::time::sleep(Duration::from_secs(86_400)).await;
            drop(not_send);
        });
        task.unwrap().await.unwrap();
        assert!(begin.elapsed() < Duration::from_secs(3_600));
    }

    #[filch_std::main(local)]
    async fn of_a_program() -> u8 {
        filch_std::spawn_local(async { *Rc::new(7) }).unwrap().await.unwrap()
    }

    #[test]
    fn a_main_runs_on_its_thread() {
        assert_eq!(of_a_program(), 7);
    }
}
