//! What a program uses: an executor, memory, timers, its own choices.

use core::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::sync::{Arc, Mutex, PoisonError};

use fastrand::Rng;
use filch::{
    AbortHandle, JoinError, JoinHandle, Platform, SpawnError, SpawnErrorKind, Spawner, TaskOptions,
    Timers, WorkerId, WorkerSet,
};

use super::{
    ledger::{Entry, Ledger, Record},
    machine::{Machine, On, Pool},
    setup::Setup,
    timer::Nap,
    waker::poll_slowly,
    world::fail,
};

/// A place where one waker waits.
type Bell = Mutex<Option<Waker>>;

/// The state that a program's tasks share.
pub(super) struct Shared {
    pub(super) spawner: Spawner,
    pub(super) timers: Timers,
    pub(super) pool: &'static Pool,
    pub(super) ledger: Ledger,
    /// For fork-join runs, if the program runs in a simulation.
    pub(super) machine: Option<&'static Machine>,
    pub(super) workers: u16,
    /// About how many tasks there are at a time.
    pub(super) size: u32,
    /// How often, of four times, a program lets time pass between two rounds.
    pub(super) pace: u8,
    pub(super) seed: u64,
    pub(super) over: AtomicBool,
    /// How many streams of choices there are.
    pub(super) streams: AtomicU64,
    /// Where tasks wait until another task or thread wakes them.
    pub(super) bells: [Bell; 16],
}

impl Shared {
    pub(super) fn new<P: Platform>(
        setup: &Setup,
        executor: &'static On<P>,
        pool: &'static Pool,
        machine: Option<&'static Machine>,
    ) -> Self {
        Self {
            spawner: executor.spawner(),
            timers: executor.timers(),
            pool,
            ledger: Ledger::default(),
            machine,
            workers: setup.workers,
            size: setup.size,
            pace: setup.pace,
            seed: setup.choices,
            over: false.into(),
            streams: 0.into(),
            bells: Default::default(),
        }
    }
}

/// A copyable reference to the shared state.
#[derive(Clone, Copy)]
pub(super) struct Env(pub(super) &'static Shared);

impl Env {
    /// Whether the program should end.
    pub(super) fn is_over(self) -> bool {
        self.0.over.load(Relaxed)
    }

    /// A stream of choices.
    pub(super) fn rng(self) -> Rng {
        let stream = self.0.streams.fetch_add(1, Relaxed) + 1;
        Rng::with_seed(self.0.seed ^ stream.wrapping_mul(0xD134_2543_DE82_EF95))
    }

    /// Skips one stream.
    pub(super) fn skip_stream(self) {
        self.0.streams.fetch_add(1, Relaxed);
    }

    pub(super) fn nap(self, duration: Duration) -> Nap {
        Nap::new(self.0.timers, duration)
    }

    /// The result of a task that was not aborted: its output, unless all tasks are being cancelled.
    pub(super) fn settle<T>(self, result: Result<T, JoinError>) -> Option<T> {
        result
            .inspect_err(|error| {
                if !self.0.ledger.is_closing() {
                    fail(format!("a task came to no output: {error}"));
                }
            })
            .ok()
    }

    /// Waits until this bell is rung, another task takes this place, or the program ends.
    pub(super) async fn wait_for_bell(self, at: usize) {
        let mut waited = false;
        poll_fn(|cx| {
            let bell = &self.0.bells[at % self.0.bells.len()];
            if core::mem::replace(&mut waited, true) || self.is_over() {
                return Poll::Ready(());
            }
            let before =
                bell.lock().unwrap_or_else(PoisonError::into_inner).replace(cx.waker().clone());
            if let Some(before) = before {
                before.wake();
            }
            Poll::Pending
        })
        .await;
    }

    /// Wakes the task that waits there, by value or by reference.
    pub(super) fn ring(self, at: usize) {
        let bell = &self.0.bells[at % self.0.bells.len()];
        let waker = bell.lock().unwrap_or_else(PoisonError::into_inner).take();
        match waker {
            Some(waker) if at % 2 == 0 => waker.wake_by_ref(),
            Some(waker) => waker.wake(),
            None => {}
        }
    }

    /// Wakes all tasks that wait for a bell.
    pub(super) fn ring_all(self) {
        (0..self.0.bells.len()).for_each(|at| self.ring(at));
    }

    /// A random worker.
    pub(super) fn worker(self, rng: &mut Rng) -> WorkerId {
        WorkerId::new(rng.u16(..self.0.workers))
    }

    /// Some workers.
    pub(super) fn set(self, rng: &mut Rng) -> WorkerSet {
        let some = (0..rng.u8(1..4)).map(|_| self.worker(rng));
        WorkerSet::new(&some.collect::<Vec<_>>()).expect("there are few workers")
    }

    /// The worker whose context this is.
    pub(super) fn here(self) -> Option<WorkerId> {
        self.0.machine?.platform().current_worker()
    }

    fn launch<F: Future>(
        self,
        future: F,
        may_end: bool,
        spawn: impl FnOnce(Entry<F>) -> Result<JoinHandle<F::Output>, SpawnError<Entry<F>>>,
    ) -> Option<Task<F::Output>> {
        let record = Arc::new(Record { may_end: AtomicBool::new(may_end) });
        match spawn(Entry::new(future, &self.0.ledger, Arc::clone(&record))) {
            Ok(handle) => Some(Task { handle, record }),
            Err(error) => {
                use SpawnErrorKind::{Full, NoSuchWorker, Shutdown};
                // The worker may be one that is to leave.
                if !matches!(error.kind, Full | NoSuchWorker | Shutdown) {
                    fail(format!("a spawn was refused: {}", error.kind));
                }
                error.future.refused();
                None
            }
        }
    }

    /// Spawns a task, if there is memory for it.
    pub(super) fn spawn<F>(self, future: F) -> Option<Task<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.launch(future, false, |entry| self.0.spawner.spawn(self.0.pool, entry))
    }

    /// Spawns a task as the options say.
    pub(super) fn spawn_with<F>(self, options: TaskOptions, future: F) -> Option<Task<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let spawner = self.0.spawner;
        self.launch(future, false, |entry| spawner.spawn_with(options, self.0.pool, entry))
    }

    /// Spawns a task that may end without its output: for example, it panics.
    pub(super) fn spawn_mortal<F>(self, future: F) -> Option<Task<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.launch(future, true, |entry| self.0.spawner.spawn(self.0.pool, entry))
    }

    pub(super) fn spawn_pinned<F>(self, worker: WorkerId, future: F) -> Option<Task<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let spawner = self.0.spawner;
        self.launch(future, false, |entry| spawner.spawn_pinned(self.0.pool, worker, entry))
    }

    /// Spawns a local task from a pinned one. It ends when its worker goes offline.
    pub(super) fn spawn_local<F>(self, future: F) -> Option<Task<F::Output>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.launch(future, true, |entry| self.0.spawner.spawn_local(self.0.pool, entry))
    }
}

/// A task's handle, which records in the ledger that the task was aborted.
pub(super) struct Task<T> {
    handle: JoinHandle<T>,
    record: Arc<Record>,
}

impl<T> Task<T> {
    pub(super) fn abort(&self) {
        self.record.may_end.store(true, Relaxed);
        self.handle.abort();
    }

    /// A handle that can abort it later, and outlives this one.
    pub(super) fn aborter(&self) -> Option<Aborter> {
        Some(Aborter { handle: self.handle.abort_handle().ok()?, record: Arc::clone(&self.record) })
    }

    /// Joins in sync code.
    pub(super) fn join(&mut self) -> Result<T, JoinError> {
        self.handle.join()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        poll_slowly(cx, |cx| Pin::new(&mut self.handle).poll(cx))
    }
}

/// Aborts a task without its handle.
pub(super) struct Aborter {
    handle: AbortHandle,
    record: Arc<Record>,
}

impl Aborter {
    pub(super) fn abort(&self) {
        self.record.may_end.store(true, Relaxed);
        self.handle.abort();
    }
}
