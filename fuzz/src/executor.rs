//! Scripts of executor operations on a machine that is stepped by hand.
//!
//! Invariants: no task is lost, or runs after its end; each is dropped once, on a worker, and is
//! cancelled only if it was asked to end; outputs arrive; no worker sleeps while a task waits; at
//! the end all memory is returned.

use core::{
    cell::Cell,
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{
    cell::RefCell,
    rc::Rc,
    sync::{Mutex, OnceLock, PoisonError},
};

use arbitrary::{Arbitrary, Unstructured};
use filch::{
    Config, Heap, Instant, JoinHandle, Platform as _, ResizeError, RunError, Scheduler,
    SpawnErrorKind, StartError, Step, Worker, WorkerId,
};

use crate::{
    common::{Manual, Room, forever, id, quiet, slots},
    world::{Do, Executor, Pool, RING, Seen, TASKS, World, judge, task},
};

#[derive(Arbitrary)]
enum Op {
    Spawn {
        via: Option<u8>,
        pin: Option<u8>,
        script: [Option<Do>; 4],
    },
    Open {
        via: Option<u8>,
        gate: u8,
    },
    /// Moves a waker from a gate to the script.
    TakeWaker(u8),
    CloneWaker(u8),
    Wake {
        via: Option<u8>,
        by_value: bool,
        which: u8,
    },
    DropWaker(u8),
    Abort {
        via: Option<u8>,
        which: u8,
    },
    AbortHandle(u8),
    DropHandle(u8),
    PollHandle(u8),
    Step(u8),
    Run(u8),
    Advance(u16),
    Park(u8),
    Unpark(u8),
    Attach(u8),
    Detach(u8),
    BeginShutdown,
    Resize(u8),
}

type Seat = Option<Worker<Manual, Room<RING>, RING>>;

struct Trial {
    world: Rc<World>,
    seats: Vec<Seat>,
    /// The workers that went to sleep, and have not been stepped since.
    parked: Vec<bool>,
    /// When their sleeps end.
    wakers: Vec<(usize, Waker)>,
    closing: bool,
}

type Place = (&'static Executor, &'static Pool, &'static Heap);

/// Executors with their memory, which are reused.
fn places() -> &'static [Place; 4] {
    static PLACES: OnceLock<[Place; 4]> = OnceLock::new();
    let place = |workers: usize, config: Config| {
        let executor =
            Scheduler::over(Manual::new(), config, slots(workers)).expect("a fair number");
        (forever(Box::new(executor)), forever(Box::default()), forever(Box::new(Heap::new())))
    };
    PLACES.get_or_init(|| {
        [
            place(1, quiet().lifo_cap(0).budget(3)),
            place(3, quiet()),
            place(2, quiet().stealing(false)),
            place(3, Config::new()),
        ]
    })
}

pub(crate) fn run(input: &mut Unstructured<'_>) {
    // One thread at a time runs the machine.
    static LOCK: Mutex<()> = Mutex::new(());
    let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let (executor, pool, heap) = places()[usize::from(crate::value::<u8>(input)) % 4];
    executor.reopen();
    let world = World {
        executor,
        pool,
        heap,
        gates: Default::default(),
        tasks: RefCell::default(),
        handles: RefCell::default(),
        aborts: RefCell::default(),
        children: Cell::new(0),
    };
    let seats = executor.workers();
    let mut trial = Trial {
        world: Rc::new(world),
        seats: (0..seats).map(|_| None).collect(),
        parked: vec![false; seats],
        wakers: Vec::new(),
        closing: false,
    };
    (0..seats).for_each(|i| trial.attach(i));
    for op in crate::operations(input, 400) {
        trial.step(op);
        trial.check_sleepers();
    }
    trial.finish();
}

impl Trial {
    fn step(&mut self, op: Op) {
        match op {
            Op::Spawn { via, pin, script } => {
                let script = script.into_iter().flatten().collect();
                self.spawn(via, pin, script);
            }
            Op::Open { via, gate } => {
                let world = Rc::clone(&self.world);
                self.on(via, || world.open(usize::from(gate) % world.gates.len()));
            }
            Op::TakeWaker(gate) => {
                let gate = usize::from(gate) % self.world.gates.len();
                self.wakers.extend(self.world.take_waker(gate));
            }
            Op::CloneWaker(which) => {
                let clone = self.pick(which).map(|i| self.wakers[i].clone());
                self.wakers.extend(clone);
            }
            Op::Wake { via, by_value, which } => self.wake(via, by_value, which),
            Op::DropWaker(which) => {
                if let Some((task, waker)) = self.pick(which).map(|i| self.wakers.swap_remove(i)) {
                    self.world.forget(task, waker);
                }
            }
            Op::Abort { via, which } => {
                let world = Rc::clone(&self.world);
                self.on(via, || world.abort(which));
            }
            Op::AbortHandle(i) => self.abort_handle(i),
            Op::DropHandle(i) => drop(self.take_handle(i)),
            Op::PollHandle(i) => self.poll_handle(i),
            Op::Step(i) => self.work(i, 1),
            Op::Run(i) => self.work(i, 1_000),
            Op::Advance(micros) => self.advance(Duration::from_micros(micros.into())),
            Op::Park(i) => self.park(i),
            Op::Unpark(i) => self.work(i, 0),
            Op::Attach(i) => self.attach(usize::from(i) % self.seats.len()),
            Op::Detach(i) => self.detach(usize::from(i) % self.seats.len()),
            Op::BeginShutdown => {
                self.closing = true;
                self.world.tasks.borrow().iter().for_each(|seen| seen.asked.set(true));
                self.world.executor.begin_shutdown();
            }
            Op::Resize(n) => self.resize(1 + usize::from(n) % self.seats.len()),
        }
    }

    /// The platform starts no worker: those that are missing come by `attach`.
    fn resize(&self, workers: usize) {
        let resized = self.world.executor.resize(workers);
        assert!(matches!(resized, Ok(()) | Err(ResizeError::Start(StartError::Unsupported))));
        assert_eq!(self.world.executor.active(), workers);
    }

    /// Runs `f` in the context of a worker, or outside of all.
    fn on<R>(&mut self, via: Option<u8>, f: impl FnOnce() -> R) -> R {
        let i = via.map_or(0, |via| usize::from(via) % self.seats.len());
        if via.is_none() || self.seats[i].is_none() {
            return f();
        }
        let platform = self.world.executor.platform();
        enter_seat(platform, i);
        let result = f();
        exit_seat(platform);
        result
    }

    fn pick(&self, which: u8) -> Option<usize> {
        usize::from(which).checked_rem(self.wakers.len())
    }

    fn take_handle(&self, i: u8) -> Option<(usize, JoinHandle<usize>)> {
        let mut handles = self.world.handles.borrow_mut();
        let i = usize::from(i).checked_rem(handles.len())?;
        Some((i, handles[i].take()?))
    }

    fn spawn(&mut self, via: Option<u8>, pin: Option<u8>, script: Vec<Do>) {
        let (world, me) = (Rc::clone(&self.world), self.world.tasks.borrow().len());
        if me == 2 * TASKS {
            return;
        }
        let pin = pin.map(|pin| id((usize::from(pin) % self.seats.len()) as u16));
        let seen = Rc::new(Seen::new(pin));
        world.tasks.borrow_mut().push(Rc::clone(&seen));
        let future = task(&world, me, script);
        let spawned = self.on(via, || match pin {
            None => world.executor.spawn(world.pool, future),
            Some(pin) => world.executor.spawner().spawn_pinned(world.pool, pin, future),
        });
        let handle = match spawned {
            Ok(handle) => {
                seen.wanted.set(true);
                Some(handle)
            }
            Err(refused) => {
                let leaves = pin.is_some_and(|pin| pin.index() >= world.executor.active());
                match refused.kind {
                    SpawnErrorKind::NoSuchWorker => assert!(leaves),
                    SpawnErrorKind::Shutdown => assert!(self.closing),
                    kind => assert!(kind == SpawnErrorKind::Full && !self.closing),
                }
                seen.refused.set(true);
                None
            }
        };
        world.handles.borrow_mut().push(handle);
    }

    fn wake(&mut self, via: Option<u8>, by_value: bool, which: u8) {
        let Some(i) = self.pick(which) else { return };
        self.world.want(self.wakers[i].0);
        if by_value {
            let (_, waker) = self.wakers.swap_remove(i);
            self.on(via, || waker.wake());
        } else {
            let waker = self.wakers[i].1.clone();
            self.on(via, || waker.wake_by_ref());
        }
    }

    fn abort_handle(&self, i: u8) {
        if let Some((i, handle)) = self.take_handle(i) {
            let abort = handle.abort_handle().expect("there are few references");
            self.world.aborts.borrow_mut().push((i, abort));
            self.world.handles.borrow_mut()[i] = Some(handle);
        }
    }

    fn poll_handle(&self, i: u8) {
        let Some((i, mut handle)) = self.take_handle(i) else { return };
        let finished = handle.is_finished();
        match pin!(&mut handle).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => judge(i, &self.world.seen(i), outcome),
            Poll::Pending => {
                assert!(!finished);
                self.world.handles.borrow_mut()[i] = Some(handle);
            }
        }
    }

    /// Steps a worker, if it is online, until it is idle, at most `steps` times.
    fn work(&mut self, i: u8, steps: usize) {
        let i = usize::from(i) % self.seats.len();
        let Some(worker) = &self.seats[i] else { return };
        let platform = self.world.executor.platform();
        enter_seat(platform, i);
        worker.end_park();
        let last = (0..steps).map(|_| worker.step()).find(|step| *step != Step::Polled);
        exit_seat(platform);
        self.parked[i] = false;
        if last == Some(Step::Stopped) && !self.closing {
            assert!(i >= self.world.executor.active(), "it was not asked to leave");
            self.detach(i);
        }
    }

    fn park(&mut self, i: u8) {
        let i = usize::from(i) % self.seats.len();
        let Some(worker) = &self.seats[i] else { return };
        let platform = self.world.executor.platform();
        enter_seat(platform, i);
        let sleeps = worker.begin_park();
        exit_seat(platform);
        self.parked[i] = sleeps.is_some();
        if let Some(deadline) = sleeps.flatten() {
            assert!(deadline < Instant::MAX);
        }
    }

    fn attach(&mut self, i: usize) {
        if self.seats[i].is_some() {
            return;
        }
        let executor = self.world.executor;
        match executor.worker(id(i as u16)) {
            Ok(worker) => {
                exit_seat(executor.platform());
                self.seats[i] = Some(worker);
            }
            Err(error) => assert!(error == RunError::Stopped && self.closing, "{error}"),
        }
    }

    fn detach(&mut self, i: usize) {
        if let Some(worker) = self.seats[i].take() {
            // It leaves its context by itself.
            enter_seat(self.world.executor.platform(), i);
            drop(worker);
        }
        self.parked[i] = false;
    }

    fn advance(&self, by: Duration) {
        self.world.executor.platform().advance(by);
    }

    /// If all workers sleep and no wake is pending, no task waits for a worker.
    fn check_sleepers(&self) {
        let online = self.seats.iter().filter(|seat| seat.is_some()).count();
        let parked = self.parked.iter().filter(|parked| **parked).count();
        if online == 0 || parked < online || self.closing {
            return;
        }
        if self.world.executor.metrics().totals().parked < online {
            return;
        }
        let here = |pin: WorkerId| self.seats[pin.index()].is_some();
        for (i, seen) in self.world.tasks.borrow().iter().enumerate() {
            let waits = seen.wanted.get() && !seen.dropped.get() && seen.pin.is_none_or(here);
            assert!(!waits, "all sleep, and task {i} waits: {seen:?}");
        }
    }

    /// Steps all workers, and moves the time, until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..16 {
            for _ in 0..self.seats.len() {
                (0..self.seats.len()).for_each(|i| self.work(i as u8, 10_000));
            }
            self.advance(Duration::from_millis(100));
        }
    }

    /// Ends every task that can end, then cancels the rest.
    fn finish(&mut self) {
        self.resize(self.seats.len());
        (0..self.seats.len()).for_each(|i| self.attach(i));
        for (i, waker) in core::mem::take(&mut self.wakers) {
            self.world.want(i);
            waker.wake();
        }
        (0..self.world.gates.len()).for_each(|gate| self.world.open(gate));
        self.settle();
        let alive = |world: &World| -> Vec<usize> {
            let tasks = world.tasks.borrow();
            (0..tasks.len()).filter(|i| !tasks[*i].dropped.get()).collect()
        };
        for i in alive(&self.world) {
            assert!(self.world.is_stuck(i), "task {i} is lost: {:?}", self.world.seen(i));
            self.world.seen(i).asked.set(true);
            self.world.handles.borrow()[i].iter().for_each(JoinHandle::abort);
        }
        // Tasks that only these abort handles keep end here.
        drop(self.world.aborts.take());
        self.settle();
        assert_eq!(self.world.children.get(), 0, "children are lost");
        let survivors = alive(&self.world).len();
        (0..self.seats.len()).for_each(|i| self.detach(i));
        assert_eq!(self.world.executor.shutdown(Instant::ZERO, |_| {}), Ok(survivors));
        for (i, handle) in self.world.handles.take().into_iter().enumerate() {
            let seen = self.world.seen(i);
            assert!(seen.dropped.get());
            if let Some(mut handle) = handle {
                assert!(handle.is_finished(), "task {i} goes on after its end");
                judge(i, &seen, handle.join());
            }
        }
        self.check_memory();
    }

    /// All memory is returned, and the executor can be used again.
    fn check_memory(&self) {
        let World { executor, pool, .. } = *self.world;
        assert!(executor.reopen());
        let reserve = || executor.spawner().reserve::<core::future::Ready<()>>(pool);
        let all: Vec<_> = (0..TASKS).map(|_| reserve().expect("memory is lost")).collect();
        assert_eq!(reserve().unwrap_err(), SpawnErrorKind::Full);
        drop(all);
        let totals = executor.metrics().totals();
        assert_eq!((totals.live, totals.spawned), (0, totals.completed));
    }
}

/// A failed trial is not cleaned up.
impl Drop for Trial {
    fn drop(&mut self) {
        if std::thread::panicking() {
            core::mem::forget((core::mem::take(&mut self.seats), Rc::clone(&self.world)));
        }
    }
}

/// The thread acts as this worker's context until `exit_seat`.
fn enter_seat(platform: &Manual, i: usize) {
    // SAFETY: there is one thread, and it acts as each context once at a time.
    unsafe { platform.set_worker(Some(id(i as u16))) };
}

fn exit_seat(platform: &Manual) {
    // SAFETY: as above.
    unsafe { platform.set_worker(None) };
}
