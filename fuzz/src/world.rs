//! What the tasks of the executor's scripts do, and the state of each.

use core::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::rc::Rc;

use arbitrary::Arbitrary;
use filch::{
    AbortHandle, Fork, Heap, JoinError, JoinHandle, Platform as _, Scheduler, SpawnErrorKind,
    TaskPool, WorkerId, shield, yield_now,
};

use crate::common::{Manual, Mine, Room};

/// Rings this small overflow.
pub(crate) const RING: usize = 4;
pub(crate) const TASKS: usize = 24;
pub(crate) const GATES: usize = 6;

pub(crate) type Executor = Scheduler<Manual, Room<RING>, RING>;
pub(crate) type Pool = TaskPool<512, TASKS>;

/// One step of a task.
#[derive(Arbitrary, Clone, Debug)]
pub(crate) enum Do {
    Yield,
    Wait(u8),
    /// The same, under a shield.
    Hold(u8),
    Sleep(u16),
    /// Waits at a gate, with a timeout.
    Timeout(u8, u16),
    /// Waits for an older task.
    Join(u8),
    Open(u8),
    Abort(u8),
    Child,
    LocalChild,
    /// Waits for a child in sync code.
    SyncChild,
    Fork(u8),
    Panic,
}

/// The state of a task.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) pin: Option<WorkerId>,
    /// It was woken, and not polled since.
    pub(crate) wanted: Cell<bool>,
    /// It may end as cancelled: it was aborted, or its last waker was dropped.
    pub(crate) asked: Cell<bool>,
    /// One of its wakers was dropped, so it may never go on.
    pub(crate) lost: Cell<bool>,
    /// The task that it waits for.
    joins: Cell<Option<usize>>,
    pub(crate) refused: Cell<bool>,
    pub(crate) done: Cell<bool>,
    pub(crate) panicked: Cell<bool>,
    pub(crate) dropped: Cell<bool>,
    shields: Cell<u32>,
}

impl Seen {
    pub(crate) fn new(pin: Option<WorkerId>) -> Self {
        Self { pin, ..Self::default() }
    }
}

/// The tasks that wait at a gate, by number, with their wakers.
#[derive(Default)]
pub(crate) struct Gate {
    open: Cell<bool>,
    waiting: RefCell<Vec<(usize, Waker)>>,
}

/// What scripts and tasks share.
pub(crate) struct World {
    pub(crate) executor: &'static Executor,
    pub(crate) pool: &'static Pool,
    pub(crate) heap: &'static Heap,
    pub(crate) gates: [Gate; GATES],
    pub(crate) tasks: RefCell<Vec<Rc<Seen>>>,
    pub(crate) handles: RefCell<Vec<Option<JoinHandle<usize>>>>,
    /// The tasks that can be aborted, by number.
    pub(crate) aborts: RefCell<Vec<(usize, AbortHandle)>>,
    /// The number of live children.
    pub(crate) children: Cell<usize>,
}

impl World {
    pub(crate) fn seen(&self, i: usize) -> Rc<Seen> {
        Rc::clone(&self.tasks.borrow()[i])
    }

    /// A task is woken, unless it is over.
    pub(crate) fn want(&self, i: usize) {
        let seen = self.seen(i);
        seen.wanted.set(!seen.done.get() && !seen.dropped.get());
    }

    pub(crate) fn open(&self, gate: usize) {
        self.gates[gate].open.set(true);
        for (i, waker) in self.gates[gate].waiting.take() {
            self.want(i);
            waker.wake();
        }
    }

    /// Whether a task may wait for ever: its waker was dropped, or that of the task that it waits
    /// for.
    pub(crate) fn is_stuck(&self, i: usize) -> bool {
        let seen = self.seen(i);
        seen.lost.get() || seen.joins.get().is_some_and(|other| self.is_stuck(other))
    }

    pub(crate) fn abort(&self, which: u8) {
        let aborts = self.aborts.borrow();
        if let Some((i, handle)) = aborts.get(usize::from(which) % aborts.len().max(1)) {
            self.seen(*i).asked.set(true);
            self.want(*i);
            handle.abort();
        }
    }

    /// Takes a waker out of a gate.
    pub(crate) fn take_waker(&self, gate: usize) -> Option<(usize, Waker)> {
        self.gates[gate].waiting.borrow_mut().pop()
    }

    /// A task's waker is dropped. A task under a shield is woken: it could not be ended otherwise.
    pub(crate) fn forget(&self, i: usize, waker: Waker) {
        let seen = self.seen(i);
        if seen.shields.get() > 0 {
            self.want(i);
            return waker.wake();
        }
        seen.lost.set(true);
        seen.asked.set(true);
    }

    async fn wait(&self, me: usize, gate: usize) {
        poll_fn(|cx| {
            if self.gates[gate].open.get() {
                return Poll::Ready(());
            }
            self.gates[gate].waiting.borrow_mut().push((me, cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    fn child(self: &Rc<Self>) -> impl Future<Output = ()> + 'static {
        let alive = Alive::new(self);
        async move {
            yield_now().await;
            drop(alive);
        }
    }

    fn spawn_child(self: &Rc<Self>) -> Option<JoinHandle<()>> {
        let child = Sendable(Box::pin(self.child()), Mine::new(()));
        match self.executor.spawn(self.heap, child) {
            Ok(handle) => Some(handle),
            Err(refused) => {
                assert_eq!(refused.kind, SpawnErrorKind::Shutdown, "heaps have room");
                None
            }
        }
    }

    fn spawn_local_child(self: &Rc<Self>, pinned: bool) {
        match self.executor.spawner().spawn_local(self.pool, self.child()) {
            Ok(handle) => {
                assert!(pinned);
                handle.detach();
            }
            Err(refused) => match refused.kind {
                SpawnErrorKind::Full | SpawnErrorKind::Shutdown => {}
                other => assert!(!pinned && other == SpawnErrorKind::NotPinned, "{other}"),
            },
        }
    }
}

/// Counts a child while it lives.
struct Alive(Rc<World>);

impl Alive {
    fn new(world: &Rc<World>) -> Self {
        world.children.set(world.children.get() + 1);
        Self(Rc::clone(world))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.children.set(self.0.children.get() - 1);
    }
}

/// A future that only this thread uses, as whichever context it acts.
struct Sendable<F>(Pin<Box<F>>, Mine<()>);

// SAFETY: one thread acts as all contexts, which `poll` checks.
unsafe impl<F> Send for Sendable<F> {}

impl<F: Future> Future for Sendable<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let () = *self.1;
        self.0.as_mut().poll(cx)
    }
}

/// The future of a task: records its polls and its drop.
pub(crate) fn task(
    world: &Rc<World>,
    me: usize,
    script: Vec<Do>,
) -> impl Future<Output = usize> + Send + 'static {
    let seen = world.seen(me);
    let steps = steps(Rc::clone(world), Rc::clone(&seen), me, script);
    let watched = Watched { steps: Box::pin(steps), executor: world.executor, seen };
    Sendable(Box::pin(watched), Mine::new(()))
}

struct Watched<F> {
    steps: Pin<Box<F>>,
    executor: &'static Executor,
    seen: Rc<Seen>,
}

impl<F: Future<Output = usize>> Future for Watched<F> {
    type Output = usize;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<usize> {
        let seen = Rc::clone(&self.seen);
        assert!(!seen.done.get() && !seen.panicked.get(), "polled after its end");
        seen.wanted.set(false);
        let here = self.executor.platform().current_worker();
        assert!(here.is_some() && seen.pin.is_none_or(|pin| here == Some(pin)));
        let polled = self.steps.as_mut().poll(cx);
        seen.done.set(polled.is_ready());
        polled
    }
}

impl<F> Drop for Watched<F> {
    fn drop(&mut self) {
        let seen = &self.seen;
        assert!(!seen.dropped.replace(true), "dropped twice");
        if seen.refused.get() {
            return;
        }
        assert!(self.executor.platform().current_worker().is_some(), "dropped on a worker");
        assert_eq!(seen.shields.get(), 0, "a shield was cut");
        assert!(
            seen.done.get() || seen.panicked.get() || seen.asked.get(),
            "nobody wanted it cancelled"
        );
    }
}

async fn steps(world: Rc<World>, seen: Rc<Seen>, me: usize, script: Vec<Do>) -> usize {
    for step in script {
        match step {
            Do::Yield => {
                seen.wanted.set(true);
                yield_now().await;
            }
            Do::Wait(gate) => world.wait(me, usize::from(gate) % GATES).await,
            Do::Hold(gate) => {
                let held = async {
                    seen.shields.set(1);
                    world.wait(me, usize::from(gate) % GATES).await;
                    seen.shields.set(0);
                };
                shield(held).await;
            }
            Do::Sleep(micros) => {
                let deadline =
                    world.executor.platform().now() + Duration::from_micros(micros.into());
                world.executor.timers().sleep_until(deadline).await;
                assert!(world.executor.platform().now() >= deadline, "woken early");
            }
            Do::Open(gate) => world.open(usize::from(gate) % GATES),
            Do::Abort(which) => world.abort(which),
            Do::Child => world.spawn_child().into_iter().for_each(JoinHandle::detach),
            Do::SyncChild => {
                if let Some(Err(error)) = world.spawn_child().map(|mut child| child.join()) {
                    assert!(error.is_cancelled(), "{error}");
                }
            }
            Do::Fork(n) => {
                let n = u32::from(n % 12);
                let leaves = world.executor.fork(|fork| leaves(fork, n));
                assert_eq!(leaves.unwrap_or_else(|alone| alone(Fork::alone())), 1 << n);
            }
            Do::Timeout(gate, micros) => {
                let limit = Duration::from_micros(micros.into());
                let wait = world.wait(me, usize::from(gate) % GATES);
                _ = world.executor.timers().timeout(limit, wait).await;
            }
            Do::Join(which) => {
                let other = usize::from(which).checked_rem(me);
                let Some(other) = other else { continue };
                let handle = world.handles.borrow_mut()[other].take();
                let Some(handle) = handle else { continue };
                seen.joins.set(Some(other));
                judge(other, &world.seen(other), handle.await);
                seen.joins.set(None);
            }
            Do::LocalChild => {
                world.spawn_local_child(seen.pin.is_some() || world.executor.workers() == 1)
            }
            Do::Panic => {
                seen.panicked.set(true);
                // Without the hook, which would end a fuzzer.
                std::panic::resume_unwind(Box::new("a task's own"));
            }
        }
    }
    me
}

/// How many leaves a tree of forks has.
fn leaves(fork: Fork<'_>, depth: u32) -> u32 {
    if depth == 0 {
        return 1;
    }
    let (a, b) = fork.join(|fork| leaves(fork, depth - 1), |fork| leaves(fork, depth - 1));
    a + b
}

/// Checks that a task's outcome is one that its script, and others, asked for.
pub(crate) fn judge(i: usize, seen: &Seen, outcome: Result<usize, JoinError>) {
    match outcome {
        Ok(output) => assert!(output == i && seen.done.get()),
        Err(error) if error.is_panic() => assert!(seen.panicked.get()),
        Err(error) if error.is_cancelled() => assert!(seen.asked.get() && !seen.done.get()),
        Err(error) => panic!("{error}"),
    }
}
