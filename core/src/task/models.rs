//! Loom models of the task word with its waker, its memory and its join handle: real tasks over a scheduler that is no
//! more than an injector.

use alloc::{boxed::Box, task::Wake, vec::Vec};
use core::{
    cell::Cell,
    future::{Future, poll_fn},
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll, Waker},
};

use loom::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use super::{
    header::Ready,
    join::{JoinError, JoinHandle},
    memory::Home,
    pool::TaskPool,
    run::{self, Polled},
    schedule::{Anchor, Current, Ops},
    spawn::Spawner,
};
use crate::{
    atomic::{AtomicPtr, AtomicU32, UnsafeCell, model::check},
    platform::WorkerId,
    queue::injector::Injector,
};

extern crate alloc;

loom::thread_local! {
    /// Whether the thread is in a poll.
    static POLLING: Cell<bool> = Cell::new(false);
}

/// A scheduler that queues, and whose worker is whoever calls `run`.
#[repr(C)]
struct Bare {
    anchor: Anchor,
    queue: Injector,
    registry: AtomicPtr<Home>,
}

type Pool = TaskPool<640, 2>;

#[derive(Clone, Copy)]
struct System {
    bare: &'static Bare,
    pool: &'static Pool,
}

impl System {
    fn new() -> Self {
        let bare = Bare {
            anchor: Anchor::new(&OPS),
            queue: Injector::new(),
            registry: AtomicPtr::new(core::ptr::null_mut()),
        };
        Self { bare: Box::leak(Box::new(bare)), pool: Box::leak(Box::new(Pool::new())) }
    }

    fn spawn<T: Send + 'static>(
        self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        // SAFETY: leaked, and it begins with its anchor.
        let spawner = unsafe { Spawner::new(NonNull::from(self.bare).cast()) };
        spawner.spawn(self.pool, future).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Polls what is queued, until nothing is.
    fn run(self) {
        loop {
            let Some(ready) = self.bare.queue.pop_batch(1, 0, |_| {}) else { return };
            POLLING.with(|polling| polling.set(true));
            let polled = run::poll(ready, |f| {
                f();
                Ok(())
            });
            POLLING.with(|polling| polling.set(false));
            if let Polled::Again(ready) = polled {
                self.bare.queue.push(ready);
            }
        }
    }

    /// Every slot is free: each can be taken.
    fn assert_no_slot_leaks(self) {
        let reserved: Vec<_> = (0..2)
            .map(|_| {
                // SAFETY: as in `spawn`.
                let spawner = unsafe { Spawner::new(NonNull::from(self.bare).cast()) };
                spawner.reserve::<core::future::Ready<()>>(self.pool).expect("a slot has leaked")
            })
            .collect();
        drop(reserved);
    }
}

static OPS: Ops = Ops {
    schedule: push,
    budget: no_budget,
    current: nobody,
    help: no_help,
    block,
    unblock: nothing,
    unpark: no_unpark,
    admit: always,
    dismiss: ignore,
    launch: push,
    registry,
    workers: one,
    here: nowhere,
    not_here: ignore,
};

unsafe fn bare(anchor: NonNull<Anchor>) -> &'static Bare {
    // SAFETY: all anchors here are those of `Bare`s.
    unsafe { anchor.cast().as_ref() }
}
unsafe fn push(anchor: NonNull<Anchor>, ready: Ready) {
    // SAFETY: as in `bare`.
    unsafe { bare(anchor) }.queue.push(ready);
}
unsafe fn no_budget(_: NonNull<Anchor>) -> Option<&'static Cell<u32>> {
    None
}
unsafe fn nobody(_: NonNull<Anchor>) -> Option<Current> {
    None
}
unsafe fn no_help(_: NonNull<Anchor>, _: &mut dyn FnMut() -> bool) -> bool {
    false
}
unsafe fn block(_: NonNull<Anchor>, word: &AtomicU32) {
    while word.load(core::sync::atomic::Ordering::Acquire) == 0 {
        thread::yield_now();
    }
}
unsafe fn nothing(_: NonNull<Anchor>, _: &AtomicU32) {}
unsafe fn no_unpark(_: NonNull<Anchor>, _: WorkerId) {}
unsafe fn always(_: NonNull<Anchor>) -> bool {
    true
}
unsafe fn ignore(_: NonNull<Anchor>) {}
unsafe fn registry(anchor: NonNull<Anchor>) -> &'static AtomicPtr<Home> {
    // SAFETY: as in `bare`.
    &unsafe { bare(anchor) }.registry
}
unsafe fn one(_: NonNull<Anchor>) -> usize {
    1
}
unsafe fn nowhere(_: NonNull<Anchor>) -> Option<WorkerId> {
    None
}

/// Counts its drops, and touches a checked cell in each, as a future's state would.
struct Guarded {
    drops: Arc<AtomicUsize>,
    /// Part of a future: a worker drops it.
    future: bool,
    cell: UnsafeCell<u32>,
}

impl Guarded {
    fn new(drops: &Arc<AtomicUsize>) -> Self {
        Self { drops: Arc::clone(drops), future: true, cell: UnsafeCell::new(0) }
    }

    fn output(drops: &Arc<AtomicUsize>) -> Self {
        let mut this = Self::new(drops);
        this.future = false;
        this
    }

    fn touch(&self) {
        // SAFETY: whoever polls or drops the future is alone with it; that is what the models check.
        self.cell.with_mut(|p| unsafe { *p += 1 });
    }
}

// SAFETY: for the models' threads; loom checks the cell.
unsafe impl Send for Guarded {}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.touch();
        assert!(!self.future || POLLING.with(Cell::get), "a future was dropped by no worker");
        self.drops.fetch_add(1, Relaxed);
    }
}

/// A flag with a place for a waker.
#[derive(Clone)]
struct Signal(Arc<(AtomicBool, Mutex<Option<Waker>>)>);

impl Signal {
    fn new() -> Self {
        Self(Arc::new((AtomicBool::new(false), Mutex::new(None))))
    }

    /// Leaves the waker first, then looks: the wake may come in between, while the task runs.
    async fn wait(&self) {
        poll_fn(|cx| {
            let mut left = self.0.1.lock().unwrap();
            // A clone orders this poll after the wake that led to it: only if it must be, as futures do.
            if !left.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
                *left = Some(cx.waker().clone());
            }
            drop(left);
            if self.0.0.load(Relaxed) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Sets the flag, relaxed: that the woken poll sees it is the waker's doing.
    fn set(&self) {
        self.0.0.store(true, Relaxed);
    }

    fn wake(&self) {
        let waker = self.waker();
        self.set();
        waker.wake();
    }

    /// A clone of the waker that the last poll left.
    fn waker(&self) -> Waker {
        self.0.1.lock().unwrap().clone().expect("a poll came before")
    }

    /// Drops the waker that the last poll left.
    fn forget(&self) {
        let waker = self.0.1.lock().unwrap().take();
        drop(waker);
    }
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: alloc::sync::Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn counter() -> (alloc::sync::Arc<Count>, Waker) {
    let count = alloc::sync::Arc::new(Count(AtomicUsize::new(0)));
    (count.clone(), count.into())
}

fn poll<T>(handle: &mut JoinHandle<T>, waker: &Waker) -> Poll<Result<T, JoinError>> {
    Pin::new(handle).poll(&mut Context::from_waker(waker))
}

/// A task that waits for a signal is polled again once it came, whether the wake finds it idle, or, if it is `queued`,
/// scheduled or running.
fn wake_against_poll(by_value: bool, queued: bool) {
    let system = System::new();
    let (signal, drops) = (Signal::new(), Arc::new(AtomicUsize::new(0)));
    let guarded = Guarded::new(&drops);
    let mut handle = system.spawn({
        let signal = signal.clone();
        async move {
            guarded.touch();
            signal.wait().await;
            guarded.touch();
        }
    });
    // The first poll leaves a waker.
    system.run();
    if queued {
        signal.waker().wake();
    }
    let waker = thread::spawn(move || {
        let waker = signal.waker();
        signal.set();
        if by_value {
            waker.wake()
        } else {
            waker.wake_by_ref()
        }
        // The rest of the wakers goes here, perhaps last of all.
        signal.forget();
    });
    system.run();
    waker.join().unwrap();
    system.run();
    assert!(matches!(poll(&mut handle, Waker::noop()), Poll::Ready(Ok(()))), "a lost wake-up");
    drop(handle);
    assert_eq!(drops.load(Relaxed), 1);
    system.assert_no_slot_leaks();
}

#[test]
fn models_wake_by_ref_of_an_idle_task() {
    check(3, || wake_against_poll(false, false));
}

#[test]
fn models_wake_by_value_of_an_idle_task() {
    check(3, || wake_against_poll(true, false));
}

/// Seen to catch: `state_load`, `state_apply`, `pending_seen`.
#[test]
fn models_wake_by_ref_against_poll() {
    check(3, || wake_against_poll(false, true));
}

/// Seen to catch: `state_load`, `state_apply`, `pending_seen`.
#[test]
fn models_wake_by_value_against_poll() {
    check(3, || wake_against_poll(true, true));
}

/// A wake that finds the count at its limit changes nothing in the word, and is published all the same.
///
/// Seen to catch: `wake_skip`, `state_load`, `state_apply`.
#[test]
fn models_wake_that_changes_nothing() {
    check(3, || {
        let system = System::new();
        let signal = Signal::new();
        let handle = system.spawn({
            let signal = signal.clone();
            async move { signal.wait().await }
        });
        system.run();
        let late = signal.waker();
        late.wake_by_ref();
        let header = super::waker::header_of(&late).expect("a waker of ours");
        // SAFETY: the waker's reference.
        unsafe { header.as_ref() }.state.apply(super::state::Snapshot::saturate_wakes);
        let waker = thread::spawn(move || {
            signal.set();
            late.wake_by_ref();
            drop(late);
            signal.forget();
        });
        system.run();
        waker.join().unwrap();
        system.run();
        assert!(handle.is_finished(), "a lost wake-up");
    });
}

/// Two wakers and a poll at once: one `Ready` at most (a second one would poll the future twice at once, a race).
#[test]
fn models_two_wakers_against_poll() {
    check(2, || {
        let system = System::new();
        let signal = Signal::new();
        let handle = system.spawn({
            let (signal, guarded) = (signal.clone(), Guarded::new(&Arc::new(AtomicUsize::new(0))));
            async move {
                guarded.touch();
                signal.wait().await;
            }
        });
        system.run();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let signal = signal.clone();
                thread::spawn(move || {
                    signal.wake();
                    system.run();
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        system.run();
        assert!(handle.is_finished(), "a lost wake-up");
    });
}

/// Whoever awaits the handle is woken, or sees the output at once; a waker that was replaced is not needed.
///
/// Seen to catch: `state_load`, `state_apply`, `join_early`, `join_keep`.
#[test]
fn models_join_against_completion() {
    check(3, || {
        let system = System::new();
        let mut handle = system.spawn(async { Box::new(7) });
        let worker = thread::spawn(move || system.run());
        let (first, first_waker) = counter();
        let (second, second_waker) = counter();
        let mut output = None;
        for waker in [&first_waker, &second_waker] {
            if output.is_none() {
                if let Poll::Ready(done) = poll(&mut handle, waker) {
                    output = Some(done);
                }
            }
        }
        worker.join().unwrap();
        let woken = second.0.load(Relaxed) + first.0.load(Relaxed);
        let output = match output {
            Some(done) => done,
            None => {
                assert_eq!(second.0.load(Relaxed), 1, "the registered waker is woken ({woken})");
                match poll(&mut handle, &second_waker) {
                    Poll::Ready(done) => done,
                    Poll::Pending => panic!("woken, and not complete"),
                }
            }
        };
        assert_eq!(*output.unwrap(), 7);
        drop(handle);
        system.assert_no_slot_leaks();
    });
}

/// A thread that is no worker sleeps on the task's completion word.
///
/// Seen to catch: `state_load`, `state_apply`.
#[test]
fn models_blocking_join_against_completion() {
    check(2, || {
        let system = System::new();
        let mut handle = system.spawn(async { Box::new(7) });
        let worker = thread::spawn(move || system.run());
        assert_eq!(*handle.join().unwrap(), 7);
        worker.join().unwrap();
        drop(handle);
        system.assert_no_slot_leaks();
    });
}

/// The output is dropped once, by whoever comes last: the handle, or the worker. With a waker registered before.
///
/// Seen to catch: `state_apply`; with a waker, `join_keep`.
fn drop_against_completion(registered: bool) {
    let system = System::new();
    let drops = Arc::new(AtomicUsize::new(0));
    let output = Guarded::output(&drops);
    let mut handle = system.spawn(async move { output });
    let (_count, waker) = counter();
    if registered {
        assert!(poll(&mut handle, &waker).is_pending());
    }
    let worker = thread::spawn(move || system.run());
    drop(handle);
    worker.join().unwrap();
    assert_eq!(drops.load(Relaxed), 1);
    system.assert_no_slot_leaks();
    // No clone of the waker is left anywhere.
    assert_eq!(alloc::sync::Arc::strong_count(&_count), 2);
}

#[test]
fn models_handle_dropped_against_completion() {
    check(3, || drop_against_completion(false));
}

#[test]
fn models_handle_with_waker_dropped_against_completion() {
    check(3, || drop_against_completion(true));
}

/// An abort takes effect before or after completion, never in the midst: the future is dropped once.
#[test]
fn models_abort_against_poll_and_wake() {
    check(2, || {
        let system = System::new();
        let (signal, drops) = (Signal::new(), Arc::new(AtomicUsize::new(0)));
        let guarded = Guarded::new(&drops);
        let mut handle = system.spawn({
            let signal = signal.clone();
            async move {
                guarded.touch();
                signal.wait().await;
                guarded.touch();
            }
        });
        system.run();
        let abort = handle.abort_handle().unwrap();
        let aborter = thread::spawn(move || abort.abort());
        let waker = thread::spawn(move || {
            signal.wake();
            signal.forget();
        });
        system.run();
        aborter.join().unwrap();
        waker.join().unwrap();
        system.run();
        let Poll::Ready(end) = poll(&mut handle, Waker::noop()) else { panic!("not over") };
        assert!(matches!(end, Ok(()) | Err(JoinError::Cancelled)), "{end:?}");
        assert_eq!(drops.load(Relaxed), 1);
        drop(handle);
        system.assert_no_slot_leaks();
    });
}

/// A shielded task that is aborted runs to the end of its shield.
#[test]
fn models_abort_against_shield() {
    check(2, || {
        let system = System::new();
        let (signal, ended) = (Signal::new(), Arc::new(AtomicBool::new(false)));
        let mut handle = system.spawn({
            let (signal, ended) = (signal.clone(), Arc::clone(&ended));
            async move {
                super::coop::shield(async {
                    signal.wait().await;
                    ended.store(true, Relaxed);
                })
                .await;
                core::future::pending::<()>().await;
            }
        });
        system.run();
        let abort = handle.abort_handle().unwrap();
        let aborter = thread::spawn(move || abort.abort());
        signal.wake();
        signal.forget();
        system.run();
        aborter.join().unwrap();
        drop(signal);
        system.run();
        assert!(ended.load(Relaxed), "the shield was cut");
        let end = poll(&mut handle, Waker::noop());
        assert!(matches!(end, Poll::Ready(Err(JoinError::Cancelled))), "{end:?}");
        drop(handle);
        system.assert_no_slot_leaks();
    });
}

/// The last two references of an idle task go at once: a worker drops its future, once.
#[test]
fn models_last_references_dropped() {
    check(3, || {
        let system = System::new();
        let (signal, drops) = (Signal::new(), Arc::new(AtomicUsize::new(0)));
        let guarded = Guarded::new(&drops);
        let handle = system.spawn({
            let signal = signal.clone();
            async move {
                guarded.touch();
                signal.wait().await;
            }
        });
        system.run();
        let waker = thread::spawn(move || {
            signal.forget();
        });
        drop(handle);
        system.run();
        waker.join().unwrap();
        system.run();
        assert_eq!(drops.load(Relaxed), 1, "a task that nobody can wake is dropped");
        system.assert_no_slot_leaks();
    });
}

/// The last reference goes in a wake of a task that is complete: the slot is free once.
#[test]
fn models_late_wake_of_a_complete_task() {
    check(3, || {
        let system = System::new();
        let signal = Signal::new();
        let mut handle = system.spawn({
            let signal = signal.clone();
            async move { signal.wait().await }
        });
        system.run();
        let late = signal.waker();
        signal.wake();
        signal.forget();
        drop(signal);
        let waker = thread::spawn(move || late.wake());
        system.run();
        let _ = poll(&mut handle, Waker::noop());
        drop(handle);
        waker.join().unwrap();
        system.run();
        system.assert_no_slot_leaks();
    });
}

/// One waker is woken and one dropped while the handle goes: the task is polled or dropped by a worker, and free once.
#[test]
fn models_last_references_woken_and_dropped() {
    check(2, || {
        let system = System::new();
        let (signal, drops) = (Signal::new(), Arc::new(AtomicUsize::new(0)));
        let guarded = Guarded::new(&drops);
        let handle = system.spawn({
            let signal = signal.clone();
            async move {
                guarded.touch();
                signal.wait().await;
                // Never: the flag stays down.
            }
        });
        system.run();
        let one = signal.waker();
        signal.forget();
        let waker = thread::spawn(move || one.wake());
        drop(handle);
        system.run();
        waker.join().unwrap();
        system.run();
        // What a poll left on its way.
        signal.forget();
        system.run();
        assert_eq!(drops.load(Relaxed), 1, "a task that nobody can wake is dropped");
        system.assert_no_slot_leaks();
    });
}

/// The slot of a task that is over is taken for the next, while the last reference to the first goes.
///
/// Seen to catch: `free_give`, `state_apply`.
#[test]
fn models_slot_is_used_again() {
    check(3, || {
        let system = System::new();
        let first = system.spawn(async {});
        // Holds the other slot.
        let second = system.spawn(core::future::pending::<()>());
        let other = thread::spawn(move || drop(first));
        system.run();
        // SAFETY: as in `spawn`.
        let spawner = unsafe { Spawner::new(NonNull::from(system.bare).cast()) };
        let third = spawner.spawn(system.pool, async { Box::new(3) }).ok();
        other.join().unwrap();
        system.run();
        if let Some(mut third) = third {
            let end = poll(&mut third, Waker::noop());
            assert!(matches!(end, Poll::Ready(Ok(three)) if *three == 3));
        }
        drop(second);
        system.run();
        system.assert_no_slot_leaks();
    });
}
