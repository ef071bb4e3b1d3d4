//! Waits in sync code that once went wrong: each of these hung, or was lost.

use core::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::Duration,
};
use std::{
    sync::{Arc, mpsc},
    thread,
};

use filch_std::{
    Runtime, TaskOptions,
    task::{SpawnErrorKind, yield_now},
};

/// Fails if `f` takes too long: a lost wake-up is a hang.
fn in_time<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(f()));
    receiver.recv_timeout(Duration::from_secs(60)).expect("it hangs, or has panicked")
}

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).watchdog(None).build().unwrap()
}

/// Each join spends a unit of the poll's budget, and `block_on` cannot yield to get a new one.
#[test]
fn block_on_in_a_task_outlives_the_budget_of_its_poll() {
    let joined = in_time(|| {
        let runtime = runtime(1);
        let handle = *runtime.handle();
        let task = runtime.spawn(async move {
            (0..1_000).filter(|_| handle.block_on(handle.spawn(async {})).is_ok()).count()
        });
        runtime.block_on(task).unwrap()
    });
    assert_eq!(joined, 1_000);
}

/// A task that yields is ready at once, so the wait ends before it begins; the only worker must
/// help all the same.
#[test]
fn yielding_in_block_on_lets_others_run() {
    in_time(|| {
        let runtime = runtime(1);
        let handle = *runtime.handle();
        let task = runtime.spawn(async move {
            let flag = Arc::new(AtomicBool::new(false));
            let other = Arc::clone(&flag);
            handle.spawn(async move { other.store(true, SeqCst) }).detach();
            handle.block_on(async {
                while !flag.load(SeqCst) {
                    yield_now().await;
                }
            });
        });
        runtime.block_on(task).unwrap();
    });
}

/// There are more waits on one stack than may help, and more of those than spare slots: the last
/// one sleeps on its own word, and a wake from outside must reach it there.
#[test]
fn block_on_too_deep_to_help_is_woken_from_outside() {
    const DEPTH: usize = 30;
    in_time(|| {
        let runtime = Runtime::builder().workers(1).nesting(1).watchdog(None).build().unwrap();
        let handle = *runtime.handle();
        let tasks: Vec<_> = (0..DEPTH)
            .map(|_| {
                let (sender, receiver) = async_wake();
                let task = handle.spawn(async move { handle.block_on(receiver) });
                (sender, task)
            })
            .collect();
        // Some of them wait by now, one inside the other; the rest are queued.
        thread::sleep(Duration::from_millis(200));
        let tasks: Vec<_> = tasks
            .into_iter()
            .rev()
            .map(|(sender, task)| {
                sender.fire();
                task
            })
            .collect();
        for mut task in tasks {
            task.join().unwrap();
        }
    });
}

/// The memory of a runtime that has shut down waits for the next one; no spawn may get in
/// meanwhile.
#[test]
fn a_handle_that_outlives_its_runtime_is_refused() {
    // As many workers as in no other test: such a test's runtime would get this one's memory.
    let builder = || Runtime::builder().workers(3);
    let first = builder().build().unwrap();
    let handle = *first.handle();
    drop(first);
    for _ in 0..10 {
        let error = handle.spawn_with(TaskOptions::new(), async {}).unwrap_err();
        assert_eq!(error.kind, SpawnErrorKind::Shutdown);
    }
    // The next one works, and has nothing of the first.
    let second = builder().build().unwrap();
    assert_eq!(second.metrics().totals().live, 0);
    assert_eq!(in_time(move || second.block_on(second.spawn(async { 7 })).unwrap()), 7);
}

/// A wake that comes once, from outside.
struct Sender(Arc<Shot>);

struct Shot {
    fired: AtomicBool,
    waker: std::sync::Mutex<Option<core::task::Waker>>,
}

fn async_wake() -> (Sender, impl Future<Output = ()> + Send) {
    let shot = Arc::new(Shot { fired: AtomicBool::new(false), waker: std::sync::Mutex::default() });
    let sender = Sender(Arc::clone(&shot));
    let wait = core::future::poll_fn(move |cx| {
        let mut waker = shot.waker.lock().unwrap();
        if shot.fired.load(SeqCst) {
            return core::task::Poll::Ready(());
        }
        *waker = Some(cx.waker().clone());
        core::task::Poll::Pending
    });
    (sender, wait)
}

impl Sender {
    fn fire(self) {
        self.0.fired.store(true, SeqCst);
        let waker = self.0.waker.lock().unwrap().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
