//! What the models of tasks share: a scheduler that is only an injector, a future whose accesses loom checks, and a
//! signal.

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
    error::JoinError,
    executor_ref::{Anchor, Caller, ExecutorRef, Polls, TaskExecutor, Waiter},
    header::{Header, Ready, Slot},
    join::JoinHandle,
    options::TaskOptions,
    run::{self, Guard, Polled},
    spawn::Spawner,
    state::Snapshot,
    waker::carry_out,
};
use crate::{
    atomic::{AtomicU32, UnsafeCell},
    memory::{pool::TaskPool, slab::Slab},
    platform::{Panic, WorkerId},
    queue::injector::Injector,
};

extern crate alloc;

loom::thread_local! {
    /// Whether the thread is in a poll.
    static POLLING: Cell<bool> = Cell::new(false);
}

/// A scheduler with one queue. A thread that calls `run` is its worker.
#[repr(C)]
struct Bare {
    anchor: Anchor,
    queue: Injector,
}

type Pool = TaskPool<640, 2>;

#[derive(Clone, Copy)]
pub(super) struct System {
    bare: &'static Bare,
    pool: &'static Pool,
}

impl System {
    pub(super) fn new() -> Self {
        let bare = Bare { anchor: Anchor::of::<Bare>(), queue: Injector::new() };
        Self { bare: Box::leak(Box::new(bare)), pool: Box::leak(Box::new(Pool::new())) }
    }

    pub(super) fn spawn<T: Send + 'static>(
        self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.spawner().spawn(self.pool, future).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(super) fn spawn_with<T: Send + 'static>(
        self,
        options: TaskOptions,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let spawned = self.spawner().spawn_with(options, self.pool, future);
        spawned.unwrap_or_else(|error| panic!("{error}"))
    }

    /// A task that waits for a signal. It has been polled once, and that poll left a waker.
    pub(super) fn spawn_waiting(
        self,
        options: TaskOptions,
    ) -> (JoinHandle<()>, Signal, Arc<AtomicUsize>) {
        let (signal, drops) = (Signal::new(), Arc::new(AtomicUsize::new(0)));
        let guarded = Guarded::new(&drops);
        let handle = self.spawn_with(options, {
            let signal = signal.clone();
            async move {
                guarded.touch();
                signal.wait().await;
                guarded.touch();
            }
        });
        self.run();
        (handle, signal, drops)
    }

    /// Cancels all tasks, as a shutdown does.
    pub(super) fn abort_all(self) {
        Slab::for_each(self.bare.anchor.owners(), |task| {
            // SAFETY: a slot is a header for ever (INV-SLAB-SLOT); the transition needs no reference.
            unsafe { carry_out(task.as_ref().state.apply(Snapshot::abort_once), task) };
        });
    }

    /// `None` if no slot is free.
    pub(super) fn try_spawn<T: Send + 'static>(
        self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<JoinHandle<T>> {
        self.spawner().spawn(self.pool, future).ok()
    }

    fn spawner(self) -> Spawner {
        // SAFETY: a `Bare` begins with the anchor of its type.
        Spawner::new(unsafe { ExecutorRef::new(self.bare) })
    }

    /// Polls queued tasks until the queue is empty.
    pub(super) fn run(self) {
        loop {
            let Some(ready) = self.bare.queue.pop_batch(1, 0, |_| {}) else { return };
            POLLING.with(|polling| polling.set(true));
            let polled = run::poll(ready, &Unguarded, &Cell::new(false));
            POLLING.with(|polling| polling.set(false));
            if let Polled::Again(ready) = polled {
                self.bare.queue.push(ready);
            }
        }
    }

    /// Checks that every slot is free, once: each can be taken, and no more.
    pub(super) fn assert_no_slot_leaks(self) {
        let reserve = || self.spawner().reserve::<core::future::Ready<()>>(self.pool);
        let reserved: Vec<_> = (0..2).map(|_| reserve().expect("a slot has leaked")).collect();
        assert!(reserve().is_err(), "a slot was freed twice");
        drop(reserved);
    }
}

/// Calls user code, and contains nothing: models do not panic.
struct Unguarded;

impl Guard for Unguarded {
    fn call(&self, code: &mut dyn FnMut()) -> Result<(), Panic> {
        code();
        Ok(())
    }

    fn trace_panic(&self, _: NonNull<Header>) {}
}

impl TaskExecutor for Bare {
    fn schedule(&'static self, ready: Ready) {
        self.queue.push(ready);
    }
    fn admit(&'static self) -> Option<Caller> {
        Some(None)
    }
    fn dismiss(&'static self) {}
    fn launch(&'static self, ready: Ready, _: Caller) {
        self.queue.push(ready);
    }
    fn caller(&'static self) -> Caller {
        None
    }
    fn free(&'static self, slot: Slot) {
        Slab::give(slot, || None);
    }
    fn admit_local(&'static self) -> Option<WorkerId> {
        None
    }
    fn dismiss_local(&'static self) {}
    fn admit_affine(&'static self, _: crate::platform::WorkerSet) -> bool {
        true
    }
    fn dismiss_affine(&'static self, _: WorkerId) {}
    fn budget(&'static self) -> Option<NonNull<Cell<u32>>> {
        None
    }
    fn wakes(&'static self) -> Option<u32> {
        None
    }
    fn units(&'static self) -> u32 {
        crate::BUDGET
    }
    fn count_forced_yield(&'static self) {}
    fn waiter(&'static self) -> Waiter {
        Waiter::Thread(Polls([core::ptr::null(); 2]))
    }
    fn help(&'static self, _: &mut dyn FnMut() -> bool) -> bool {
        false
    }
    fn block(&'static self, word: &AtomicU32) {
        while word.load(core::sync::atomic::Ordering::Acquire) == 0 {
            thread::yield_now();
        }
    }
    fn unblock(&'static self, _: &AtomicU32) {}
    fn unpark(&'static self, _: WorkerId) {}
    fn guard(&'static self, code: &mut dyn FnMut()) {
        code();
    }
    #[cfg(feature = "classes")]
    fn has_classes(&'static self) -> bool {
        false
    }
    #[cfg(feature = "classes")]
    fn has_boosts(&'static self) -> bool {
        false
    }
    #[cfg(feature = "classes")]
    fn task(&'static self) -> Option<crate::TaskInfo> {
        None
    }
    #[cfg(feature = "classes")]
    fn class(&'static self) -> Option<crate::Class> {
        None
    }
    #[cfg(feature = "classes")]
    fn set_class(&'static self, _: crate::Class) -> bool {
        false
    }
    #[cfg(feature = "classes")]
    fn set_deadline(&'static self, _: Option<crate::Instant>) -> bool {
        false
    }
    #[cfg(feature = "classes")]
    fn should_yield(&'static self) -> bool {
        false
    }
}

/// Counts its drops. Each drop writes a checked cell, as a future writes its state.
pub(super) struct Guarded {
    drops: Arc<AtomicUsize>,
    /// Set for a value inside a future: a worker must drop it.
    future: bool,
    cell: UnsafeCell<u32>,
}

impl Guarded {
    pub(super) fn new(drops: &Arc<AtomicUsize>) -> Self {
        Self { drops: Arc::clone(drops), future: true, cell: UnsafeCell::new(0) }
    }

    pub(super) fn output(drops: &Arc<AtomicUsize>) -> Self {
        let mut this = Self::new(drops);
        this.future = false;
        this
    }

    pub(super) fn touch(&self) {
        // SAFETY: the context that polls or drops the future has it to itself; the models check that.
        self.cell.with_mut(|p| unsafe { *p += 1 });
    }
}

// SAFETY: sent between the threads of a model; loom checks the cell.
unsafe impl Send for Guarded {}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.touch();
        assert!(!self.future || POLLING.with(Cell::get), "a future was dropped by no worker");
        self.drops.fetch_add(1, Relaxed);
    }
}

/// A flag, and a place for a waker.
#[derive(Clone)]
pub(super) struct Signal(Arc<(AtomicBool, Mutex<Option<Waker>>)>);

impl Signal {
    pub(super) fn new() -> Self {
        Self(Arc::new((AtomicBool::new(false), Mutex::new(None))))
    }

    /// Leaves the waker first, then reads the flag: a wake may come in between, while the task runs.
    pub(super) async fn wait(&self) {
        poll_fn(|cx| {
            let mut left = self.0.1.lock().unwrap();
            // A clone orders this poll after the wake that led to it, so the waker is cloned only if it has changed, as
            // real futures do.
            if !left.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
                *left = Some(cx.waker().clone());
            }
            drop(left);
            if self.0.0.load(Relaxed) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Sets the flag with a relaxed store: only the waker makes the woken poll see it.
    pub(super) fn set(&self) {
        self.0.0.store(true, Relaxed);
    }

    pub(super) fn wake(&self) {
        let waker = self.waker();
        self.set();
        waker.wake();
    }

    /// A clone of the waker that the last poll left.
    pub(super) fn waker(&self) -> Waker {
        self.0.1.lock().unwrap().clone().expect("a poll came before")
    }

    /// Drops the waker that the last poll left.
    pub(super) fn forget(&self) {
        let waker = self.0.1.lock().unwrap().take();
        drop(waker);
    }
}

pub(super) struct Count(pub(super) AtomicUsize);

impl Wake for Count {
    fn wake(self: alloc::sync::Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A waker that counts, and its count.
pub(super) fn counter() -> (alloc::sync::Arc<Count>, Waker) {
    let count = alloc::sync::Arc::new(Count(AtomicUsize::new(0)));
    (count.clone(), count.into())
}

pub(super) fn poll<T>(handle: &mut JoinHandle<T>, waker: &Waker) -> Poll<Result<T, JoinError>> {
    Pin::new(handle).poll(&mut Context::from_waker(waker))
}
