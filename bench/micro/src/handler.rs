//! What an interrupt handler does, on a machine of two cores that one thread plays.

use core::{
    future::poll_fn,
    sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering::Relaxed},
    task::{Poll, Waker},
};
use std::sync::{Arc, Mutex};

use filch::{
    Config, Context, Executor, Instant, Platform, Step, TaskPool, WorkerId,
    atomic::AtomicU32,
    io::{Readiness, Ready},
    parts::Cores,
};

/// On which core the thread is, and whether in a handler.
static CORE: AtomicU16 = AtomicU16::new(0);
static HANDLER: AtomicBool = AtomicBool::new(false);

struct Board;

// SAFETY: there is one thread; workers rest between the two halves of a park, and none waits.
unsafe impl Platform for Board {
    fn now(&self) -> Instant {
        Instant::ZERO
    }
    fn current_worker(&self) -> Option<WorkerId> {
        Some(WorkerId::new(CORE.load(Relaxed)))
    }
    fn context(&self) -> Context {
        if HANDLER.load(Relaxed) { Context::Handler } else { Context::Thread }
    }
    unsafe fn wait(&self, _: WorkerId, _: &AtomicU32, _: u32, _: Option<Instant>) {}
    fn wake(&self, _: WorkerId, _: &AtomicU32) {}
}

type Machine = Executor<Board, 2, 256, Cores>;

/// What a handler does.
enum Wake {
    Task(Waker),
    Waiter(&'static Readiness),
}

/// What `bench/instructions` counts here: a handler from its first instruction to its last.
#[inline(never)]
#[unsafe(no_mangle)]
extern "C" fn in_a_handler(wake: &Wake) {
    HANDLER.store(true, Relaxed);
    match wake {
        Wake::Task(waker) => waker.wake_by_ref(),
        Wake::Waiter(cell) => cell.set(Ready::READABLE),
    }
    HANDLER.store(false, Relaxed);
}

fn on<R>(core: u16, f: impl FnOnce() -> R) -> R {
    CORE.store(core, Relaxed);
    f()
}

/// A handler wakes a task, while another core is awake.
pub(crate) fn wake(n: usize) {
    strike(n, false, false);
}

/// The same while the other core sleeps.
pub(crate) fn wake_a_core(n: usize) {
    strike(n, true, false);
}

/// A handler sets a cell that a task awaits, while the other core is awake.
pub(crate) fn set(n: usize) {
    strike(n, false, true);
}

/// So many times a handler interrupts a poll of core 0. The task that it wakes is polled by core 1, which `sleeps` until then or
/// is awake.
fn strike(n: usize, sleeps: bool, by_cell: bool) {
    // There for ever, as their tasks are: another run has others.
    let tasks: &'static TaskPool<256, 4> = Box::leak(Box::default());
    let cell: &'static Readiness = Box::leak(Box::default());
    let machine: &'static Machine =
        Box::leak(Box::new(Executor::with_config(Board, Config::new().watchdog(None))));
    let (waker, woken) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));

    let cores = [0, 1].map(|core| on(core, || machine.worker(WorkerId::new(core)).expect("once")));
    let (count, keep) = (Arc::clone(&woken), Arc::clone(&waker));
    let task = async move {
        loop {
            if by_cell {
                cell.clear(cell.ready(Ready::READABLE).await);
            } else {
                let mut again = false;
                poll_fn(|cx| {
                    keep.lock()
                        .expect("no panic under the lock")
                        .get_or_insert_with(|| cx.waker().clone());
                    if core::mem::replace(&mut again, true) {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    }
                })
                .await;
            }
            count.fetch_add(1, Relaxed);
        }
    };
    on(1, || {
        machine.spawn(tasks, task).expect("room").detach();
        assert_eq!(cores[1].step(), Step::Polled);
    });
    let waker = waker.lock().expect("no panic under the lock").take();
    let wake = waker.map_or(Wake::Waiter(cell), Wake::Task);
    let interrupted = poll_fn(move |cx| {
        in_a_handler(&wake);
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    let spawner = machine.spawner();
    on(0, || spawner.spawn_pinned(tasks, WorkerId::new(0), interrupted).expect("room").detach());
    for _ in 0..n {
        if sleeps {
            on(1, || assert!(cores[1].begin_park().is_some(), "it has nothing to do"));
        }
        on(0, || assert_eq!(cores[0].step(), Step::Polled));
        on(1, || assert_eq!(cores[1].step(), Step::Polled));
    }
    assert_eq!(woken.load(Relaxed), n);
    core::mem::forget(cores);
}
