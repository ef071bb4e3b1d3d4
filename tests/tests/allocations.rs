//! In steady state the global allocator is never called: with `filch-std`, and in the core alone.
//!
//! One test in a process of its own: the count is for the whole process.

use core::{
    future::{Future, poll_fn},
    sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    task::{Poll, Waker},
};
use std::{sync::Mutex, thread};

use filch::{Executor, Instant, Platform, TaskPool, WorkerId};
use filch_std::{Handle, JoinHandle, Runtime, TaskOptions, task::yield_now};
use filch_test_support::counting::{self, Counting};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `f` some rounds to warm up, then counts the allocator's calls in as many more.
fn steady(what: &str, rounds: usize, mut f: impl FnMut()) {
    (0..rounds).for_each(|_| f());
    counting::begin();
    (0..rounds).for_each(|_| f());
    let calls = counting::end();
    println!("{what}: {rounds} rounds, {calls} calls of the allocator");
    assert_eq!(calls, 0, "{what}");
}

/// Handles without a `Vec`.
fn spawn_many<const N: usize, F>(
    handle: &Handle,
    future: impl Fn(usize) -> F,
) -> [JoinHandle<F::Output>; N]
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    core::array::from_fn(|i| handle.spawn(future(i)))
}

async fn yields(n: usize) -> usize {
    for _ in 0..n {
        yield_now().await;
    }
    n
}

/// More tasks of each size at once than any scenario has.
fn fill(runtime: &Runtime) {
    fn sized<const BYTES: usize>(runtime: &Runtime) {
        let handles: Vec<_> = (0..2_000)
            .map(|_| {
                let ballast = [0_u8; BYTES];
                runtime.spawn(async move {
                    yield_now().await;
                    core::hint::black_box(&ballast);
                })
            })
            .collect();
        for handle in handles {
            runtime.block_on(handle).unwrap();
        }
    }
    sized::<0>(runtime);
    sized::<32>(runtime);
    sized::<64>(runtime);
    sized::<96>(runtime);
    sized::<128>(runtime);
    sized::<160>(runtime);
    sized::<200>(runtime);
    sized::<300>(runtime);
    sized::<400>(runtime);
    sized::<600>(runtime);
    sized::<1_000>(runtime);
    sized::<1_500>(runtime);
    sized::<2_500>(runtime);
}

/// A turn, and the task that waits for it.
struct Turn {
    now: AtomicU32,
    waker: Mutex<Option<Waker>>,
}

static TURN: Turn = Turn { now: AtomicU32::new(0), waker: Mutex::new(None) };

impl Turn {
    async fn wait(&self, until: u32) {
        poll_fn(|cx| {
            let mut waker = self.waker.lock().unwrap();
            if self.now.load(SeqCst) >= until {
                return Poll::Ready(());
            }
            *waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn next(&self) {
        self.now.fetch_add(1, SeqCst);
        let waker = self.waker.lock().unwrap().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn on_std() {
    let runtime = Runtime::builder().workers(3).build().unwrap();
    let handle = *runtime.handle();
    fill(&runtime);
    // Every worker blocks once, so that each has allocated what it keeps for that.
    for worker in 0..3 {
        let nested = move || handle.block_on(async { handle.block_on(yields(3)) });
        let task = handle
            .spawn_with(TaskOptions::new().pinned(WorkerId::new(worker)), async move { nested() });
        runtime.block_on(task.unwrap()).unwrap();
    }

    steady("block_on a future", 10_000, || {
        runtime.block_on(yields(3));
    });
    steady("spawn from outside, await by block_on", 10_000, || {
        assert_eq!(runtime.block_on(runtime.spawn(yields(2))).unwrap(), 2);
    });
    steady("spawn from outside, JoinHandle::join", 10_000, || {
        assert_eq!(runtime.spawn(yields(2)).join().unwrap(), 2);
    });
    steady("spawn from a task, await, yield; steal", 200, || {
        let task = runtime.spawn(async move {
            let children = spawn_many::<32, _>(&handle, |i| yields(i % 8));
            let mut sum = 0;
            for child in children {
                sum += child.await.unwrap();
            }
            sum
        });
        assert_eq!(runtime.block_on(task).unwrap(), 112);
    });
    steady("spawn from a task, JoinHandle::join on the worker", 200, || {
        let task = runtime.spawn(async move {
            spawn_many::<32, _>(&handle, |i| yields(i % 8))
                .into_iter()
                .map(|mut child| child.join().unwrap())
                .sum::<usize>()
        });
        assert_eq!(runtime.block_on(task).unwrap(), 112);
    });
    steady("block_on in a task", 1_000, || {
        let task = runtime.spawn(async move { handle.block_on(handle.spawn(yields(3))).unwrap() });
        assert_eq!(runtime.block_on(task).unwrap(), 3);
    });
    steady("abort, detach", 1_000, || {
        let endless = runtime.spawn(yields(usize::MAX));
        endless.abort();
        assert!(runtime.block_on(endless).unwrap_err().is_cancelled());
        runtime.spawn(yields(3)).detach();
        let abort = runtime.spawn(yields(usize::MAX)).abort_handle().unwrap();
        abort.abort();
    });
    steady("pinned, local, named", 1_000, || {
        let task = handle.spawn_with(TaskOptions::new().pinned(WorkerId::new(1)), async move {
            let local = handle.spawn_local(yields(2)).unwrap();
            let named = handle.spawn_with(TaskOptions::new().name("name"), yields(2)).unwrap();
            local.await.unwrap() + named.await.unwrap()
        });
        assert_eq!(runtime.block_on(task.unwrap()).unwrap(), 4);
    });
    steady("wake from outside", 2_000, || {
        let mine = TURN.now.load(SeqCst) + 2;
        let task = runtime.spawn(TURN.wait(mine));
        TURN.next();
        TURN.next();
        runtime.block_on(task).unwrap();
    });
    let stolen: usize = runtime.metrics().workers().map(|(_, w)| w.stolen).sum();
    println!("tasks stolen meanwhile: {stolen}");
    assert!(stolen > 0, "nothing was stolen, so that stealing was not counted");
}

/// The smallest platform: one thread, which is worker 0 when it says so.
struct Bare {
    here: AtomicBool,
}

// SAFETY: the test steps it on one thread; it never sleeps.
unsafe impl Platform for Bare {
    fn now(&self) -> Instant {
        Instant::ZERO
    }

    fn current_worker(&self) -> Option<WorkerId> {
        self.here.load(SeqCst).then_some(WorkerId::new(0))
    }

    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        self.here.store(worker.is_some(), SeqCst);
    }

    unsafe fn wait(&self, _: WorkerId, _: &filch::atomic::AtomicU32, _: u32, _: Option<Instant>) {
        thread::yield_now();
    }

    fn wake(&self, _: WorkerId, _: &filch::atomic::AtomicU32) {}
}

fn on_the_core() {
    static EXECUTOR: Executor<Bare, 2> = Executor::new(Bare { here: AtomicBool::new(false) });
    static POOL: TaskPool<256, 64> = TaskPool::new();
    let worker = EXECUTOR.worker(WorkerId::new(0)).unwrap();
    steady("the core alone: spawn, yield, join, abort, step", 1_000, || {
        let mut tasks: [_; 8] = core::array::from_fn(|i| EXECUTOR.spawn(&POOL, yields(i)).unwrap());
        let parent = EXECUTOR.spawn(&POOL, async {
            let child = EXECUTOR.spawn(&POOL, yields(3)).unwrap();
            child.await.unwrap()
        });
        let endless = EXECUTOR.spawn(&POOL, yields(usize::MAX)).unwrap();
        endless.abort();
        worker.run_for(usize::MAX);
        assert_eq!(parent.unwrap().join().unwrap(), 3);
        for (i, task) in tasks.iter_mut().enumerate() {
            assert_eq!(task.join().unwrap(), i);
        }
    });
}

#[test]
fn steady_state_never_calls_the_allocator() {
    on_the_core();
    on_std();
    // The counter works.
    counting::begin();
    drop(core::hint::black_box(Box::new(1)));
    assert!(counting::end() >= 2);
}
