//! embassy-executor, on one thread. Tasks live in arrays of static storage, as its users write them, one for each kind of future.

use core::{
    any::{Any, TypeId},
    cell::{Cell, RefCell},
    future::Future,
};
use std::{
    sync::{Mutex, PoisonError, mpsc},
    thread,
};

use embassy_executor::{
    Executor, SendSpawner, SpawnToken, Spawner,
    raw::{AvailableTask, TaskStorage},
};

use super::Peer;

/// The most tasks of one kind at a time: those of the largest workload.
const STORAGES: usize = 10_001;

/// Storage of one kind of future, used in turn.
struct Pool<F: Future + 'static> {
    storages: Box<[TaskStorage<F>]>,
    next: Cell<usize>,
}

impl<F: Future + 'static> Pool<F> {
    fn leak() -> &'static Self {
        let storages = (0..STORAGES).map(|_| TaskStorage::new()).collect();
        Box::leak(Box::new(Self { storages, next: Cell::new(0) }))
    }

    fn next(&'static self) -> &'static TaskStorage<F> {
        let next = self.next.get();
        self.next.set((next + 1) % STORAGES);
        &self.storages[next]
    }
}

thread_local! {
    /// A thread's pools: few, found by a linear search.
    static POOLS: RefCell<Vec<(TypeId, &'static dyn Any)>> = const { RefCell::new(Vec::new()) };
}

/// Puts a future into storage of its kind.
fn stored<F: Future + 'static>(future: F) -> SpawnToken<F> {
    let pool = POOLS.with_borrow_mut(|pools| {
        let id = TypeId::of::<Pool<F>>();
        let pool = match pools.iter().find(|(other, _)| *other == id) {
            Some((_, pool)) => *pool,
            None => {
                let pool = Pool::<F>::leak() as &dyn Any;
                pools.push((id, pool));
                pool
            }
        };
        pool.downcast_ref::<Pool<F>>().expect("it was found by its type")
    });
    // The last task of a pass may not have ended yet.
    let free = (0..STORAGES).find_map(|_| AvailableTask::claim(pool.next()));
    free.expect("a storage is free").initialize(|| future)
}

type Job = Box<dyn FnOnce(&Spawner) + Send>;

pub(crate) struct Embassy {
    spawner: SendSpawner,
    jobs: &'static Mutex<Option<Job>>,
}

impl Peer for Embassy {
    type Here = Spawner;

    fn start(_: usize) -> Self {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let executor = Box::leak(Box::new(Executor::new()));
            executor.run(|spawner| {
                tell.send(spawner.make_send()).expect("it is waited for");
            });
        });
        let spawner = told.recv().expect("the executor starts");
        Self { spawner, jobs: Box::leak(Box::new(Mutex::new(None))) }
    }

    fn detach(here: &Spawner, future: impl Future<Output = ()> + Send + 'static) {
        here.spawn(stored(future));
    }

    fn submit(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.spawner.spawn(stored(future));
    }

    fn within(&mut self, job: impl FnOnce(&Spawner) + Send + 'static) {
        let jobs = self.jobs;
        *jobs.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(job));
        self.submit(async move {
            // SAFETY: awaited at once in a task of this executor.
            let spawner = unsafe { Spawner::for_current_executor() }.await;
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
            job.expect("one job at a time")(&spawner);
        });
    }
}
