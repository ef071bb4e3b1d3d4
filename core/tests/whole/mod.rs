//! Programs for the whole executor, of two to four workers and foreign threads, with every timeout off. `crate::model`
//! provides the checker that runs them: its platform, its threads and its locks.

#[cfg(filch_weakmem)]
pub(crate) mod ends;
#[cfg(filch_weakmem)]
pub(crate) mod handover;

use core::{
    future::{Future, poll_fn},
    task::{Poll, Waker},
};

use filch::{Config, Executor, Instant, JoinError, RunError, TaskPool, WorkerId};

use crate::model::{Arc, Board, Mutex, leak, thread};

pub(crate) type Small<const N: usize> = Executor<Board, N, 4>;
pub(crate) type Pool = TaskPool<1024, 16>;

pub(crate) struct System<const N: usize> {
    pub(crate) executor: &'static Small<N>,
    pub(crate) pool: &'static Pool,
    workers: Vec<thread::JoinHandle<()>>,
}

/// `N` workers on threads. Their memory stays to the end of the schedule.
pub(crate) fn start<const N: usize>() -> System<N> {
    start_with(Config::new().watchdog(None).spin_rounds(0))
}

pub(crate) fn start_with<const N: usize>(config: Config) -> System<N> {
    let executor: &'static Small<N> = leak(Executor::with_config(Board::new(), config));
    let run = move |i: u16| match executor.run(WorkerId::new(i)) {
        // The worker may come too late to do anything, or during a shutdown.
        Ok(()) | Err(RunError::Stopped | RunError::AlreadyRunning) => {}
        Err(error) => panic!("{error}"),
    };
    let workers = (0..N as u16).map(|i| thread::spawn(move || run(i))).collect();
    System { executor, pool: leak(Pool::new()), workers }
}

impl<const N: usize> System<N> {
    pub(crate) fn spawn<F>(&self, future: F) -> filch::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.executor.spawn(self.pool, future).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn end(self) {
        self.executor.shutdown(Instant::MAX, |_| {}).expect("called from no worker");
        let totals = self.executor.metrics().totals();
        assert_eq!((totals.live, totals.spawned), (0, totals.completed));
        self.join();
    }

    /// Waits for the workers' threads, after the executor has shut down.
    pub(crate) fn join(self) {
        self.workers.into_iter().for_each(|w| w.join().expect("workers do not panic"));
    }
}

/// A flag that one task waits for and another sets.
#[derive(Clone, Default)]
pub(crate) struct Flag(Arc<Mutex<(bool, Option<Waker>)>>);

impl Flag {
    pub(crate) fn set(&self) {
        let waker = {
            let mut state = self.0.lock().expect("no panic holds it");
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn wait(&self) -> impl Future<Output = ()> + use<> {
        let flag = self.clone();
        poll_fn(move |cx| {
            let mut state = flag.0.lock().expect("no panic holds it");
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(cx.waker().clone());
            Poll::Pending
        })
    }
}

pub(crate) fn foreign_spawns<const N: usize>() {
    let system = start::<N>();
    let mut handles: Vec<_> = (0..4)
        .map(|i| {
            system.spawn(async move {
                filch::yield_now().await;
                i
            })
        })
        .collect();
    let sum: u32 = handles.iter_mut().map(|h| h.join().expect("completes")).sum();
    assert_eq!(sum, 6);
    system.end();
}

pub(crate) fn a_task_that_fills_its_ring_shares() {
    let system = start::<3>();
    let (executor, pool) = (system.executor, system.pool);
    let mut parent = system.spawn(async move {
        let children: Vec<_> = (0..9)
            .map(|i| executor.spawn(pool, async move { i }).unwrap_or_else(|e| panic!("{e}")))
            .collect();
        let mut sum = 0;
        for child in children {
            sum += child.await.expect("completes");
        }
        sum
    });
    assert_eq!(parent.join().expect("completes"), 36);
    system.end();
}

pub(crate) fn wakes_between_tasks_and_from_outside_arrive() {
    let system = start::<2>();
    let flags: [Flag; 3] = Default::default();
    let [a, b, c] = flags.clone();
    let mut first = system.spawn(async move {
        a.wait().await;
        b.set();
    });
    let [_, b, _] = flags.clone();
    let mut second = system.spawn(async move {
        b.wait().await;
        c.set();
    });
    flags[0].set();
    first.join().expect("completes");
    second.join().expect("completes");
    assert!(flags[2].0.lock().expect("no panic holds it").0);
    system.end();
}

pub(crate) fn aborts_race_with_wakes_and_joins() {
    let system = start::<2>();
    let flag = Flag::default();
    let dropped = Arc::new(Mutex::new(0));
    struct Count(Arc<Mutex<u32>>);
    impl Drop for Count {
        fn drop(&mut self) {
            *self.0.lock().expect("no panic holds it") += 1;
        }
    }
    let (waits, count) = (flag.wait(), Count(Arc::clone(&dropped)));
    let mut task = system.spawn(async move {
        let _count = count;
        waits.await;
    });
    let aborter = thread::spawn({
        let abort = task.abort_handle().expect("few references");
        move || abort.abort()
    });
    flag.set();
    let end = task.join();
    assert!(matches!(end, Ok(()) | Err(JoinError::Cancelled)), "{end:?}");
    aborter.join().expect("does not panic");
    // A task that nothing can wake any more is dropped too, if its spawn said so.
    let count = Count(Arc::clone(&dropped));
    let unreachable = async move {
        let _count = count;
        core::future::pending::<()>().await;
    };
    let options = filch::TaskOptions::new().end_unreachable();
    let spawned = system.executor.spawner().spawn_with(options, system.pool, unreachable);
    spawned.unwrap_or_else(|error| panic!("{error}")).detach();
    system.end();
    assert_eq!(*dropped.lock().expect("no panic holds it"), 2);
}

pub(crate) fn workers_come_late_and_leave_early() {
    let config = Config::new().watchdog(None).spin_rounds(0);
    let executor: &'static Small<2> = leak(Executor::with_config(Board::new(), config));
    let pool: &'static Pool = leak(Pool::new());
    let spawn = move |i: u32| {
        let yields = async move {
            filch::yield_now().await;
            i
        };
        executor.spawn(pool, yields).unwrap_or_else(|error| panic!("{error}"))
    };
    let mut early = [spawn(1), spawn(2)];
    let brief = thread::spawn(move || {
        let worker = executor.worker(WorkerId::new(0)).expect("nobody else is it");
        worker.run_for(2);
    });
    let late = thread::spawn(move || match executor.run(WorkerId::new(1)) {
        Ok(()) | Err(RunError::Stopped) => {}
        Err(error) => panic!("{error}"),
    });
    let sum: u32 = early.iter_mut().map(|task| task.join().expect("completes")).sum();
    assert_eq!(sum, 3);
    brief.join().expect("does not panic");
    executor.shutdown(Instant::MAX, |_| {}).expect("called from no worker");
    late.join().expect("does not panic");
}
