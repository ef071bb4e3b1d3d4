//! What interrupt handlers wake, on platforms that say that they are handlers.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    future::poll_fn,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::{Poll, Waker},
    time::Duration,
};
use std::sync::{Arc, Mutex};

use common::{Sim, id, pool, quiet, shared};
use filch::{Step, Worker};

/// Tasks that wait until they are woken, and count their polls from then on.
struct Sleepers {
    wakers: Mutex<Vec<Waker>>,
    polls: AtomicUsize,
}

impl Sleepers {
    /// So many tasks, each of which has been polled once, by worker 0.
    fn new<const RING: usize>(sim: &Sim<RING>, n: usize) -> Arc<Self> {
        let this = Arc::new(Self { wakers: Mutex::default(), polls: AtomicUsize::new(0) });
        for _ in 0..n {
            let sleepers = Arc::clone(&this);
            let mut polled = false;
            let task = sim.executor.spawn(
                pool(),
                poll_fn(move |cx| {
                    if polled {
                        sleepers.polls.fetch_add(1, SeqCst);
                        return Poll::Ready(());
                    }
                    polled = true;
                    sleepers.wakers.lock().unwrap().push(cx.waker().clone());
                    Poll::Pending
                }),
            );
            task.unwrap().detach();
            assert_eq!(sim.step(0), Step::Polled);
        }
        this
    }

    /// A handler wakes them all.
    fn wake<const RING: usize>(&self, sim: &Sim<RING>) {
        let wakers = core::mem::take(&mut *self.wakers.lock().unwrap());
        sim.executor.platform().interrupt(|| wakers.into_iter().for_each(Waker::wake));
    }

    fn polls(&self) -> usize {
        self.polls.load(SeqCst)
    }
}

/// Runs `f` in a poll of worker 0.
fn in_a_poll<const RING: usize>(sim: &Sim<RING>, f: impl FnOnce() + Send + 'static) {
    sim.executor.spawn(pool(), async move { f() }).unwrap().detach();
    assert_eq!(sim.step(0), Step::Polled);
}

#[test]
fn a_task_that_a_handler_wakes_does_not_wait_for_the_poll_that_was_interrupted() {
    let (sim, inside) = shared(Sim::new(2));
    let sleepers = Sleepers::new(&sim, 1);
    assert_eq!(sim.step(1), Step::Idle);
    assert!(sim.on(1, Worker::begin_park).is_some());
    in_a_poll(&sim, {
        let sleepers = Arc::clone(&sleepers);
        move || {
            sleepers.wake(&inside);
            assert_eq!(inside.executor.platform().woken(), [1], "the sleeper was woken at once");
            // Worker 0 is still in its poll.
            assert_eq!(inside.step(1), Step::Polled);
            assert_eq!(sleepers.polls(), 1);
        }
    });
}

/// A ring of four is full; the handler neither moves half of it nor loses anything.
#[test]
fn a_handler_on_the_only_core_uses_the_lifo_slot_and_leaves_the_ring_alone() {
    let (sim, inside) = shared(Sim::<4>::build(1, quiet()));
    let sleepers = Sleepers::new(&sim, 3);
    in_a_poll(&sim, {
        let (sleepers, sim) = (Arc::clone(&sleepers), Arc::clone(&inside));
        move || {
            for _ in 0..5 {
                // One in the LIFO slot, four in the ring.
                sim.executor.spawn(pool(), async {}).unwrap().detach();
            }
            sleepers.wake(&sim);
            let metrics = sim.executor.metrics();
            assert_eq!(metrics.totals().injector_depth, 3);
            assert_eq!(metrics.workers().next().unwrap().1.overflows, 0);
        }
    });
    sim.settle();
    assert_eq!(sleepers.polls(), 3);

    let sleepers = Sleepers::new(&sim, 1);
    in_a_poll(&sim, {
        let sleepers = Arc::clone(&sleepers);
        move || {
            sleepers.wake(&inside);
            assert_eq!(inside.executor.metrics().totals().injector_depth, 0);
        }
    });
    assert_eq!(sim.step(0), Step::Polled);
    assert_eq!(sleepers.polls(), 1, "it is the next one");
}

/// `lifo_cap(0)` turns the slot off; without stealing a worker keeps what is woken on it.
#[test]
fn a_handler_does_as_the_settings_say() {
    for (workers, config, queued) in
        [(1, quiet().lifo_cap(0), 1), (2, quiet().stealing(false), 0), (2, quiet(), 1)]
    {
        let (sim, inside) = shared(Sim::<4>::build(workers, config));
        let sleepers = Sleepers::new(&sim, 1);
        in_a_poll(&sim, {
            let sleepers = Arc::clone(&sleepers);
            move || {
                sleepers.wake(&inside);
                assert_eq!(inside.executor.metrics().totals().injector_depth, queued);
            }
        });
        sim.settle();
        assert_eq!(sleepers.polls(), 1);
    }
}

/// A machine of more cores than the executor has workers: an interrupt may come to any of them.
#[test]
fn a_handler_on_a_core_without_a_worker_wakes_another() {
    let sim = Sim::new(2);
    assert_eq!(sim.step(1), Step::Idle);
    assert!(sim.on(1, Worker::begin_park).is_some());
    let platform = sim.executor.platform();
    platform.pose(100, || {
        platform.interrupt(|| sim.executor.spawn(pool(), async {}).unwrap().detach());
    });
    assert_eq!(platform.woken(), [1]);
    sim.settle();
}

/// A core that sleeps takes an interrupt, and so is awake: no other core is woken for what its handler wakes.
#[test]
fn a_handler_on_a_core_that_slept_wakes_that_core() {
    let sim = Sim::new(3);
    let sleepers = Sleepers::new(&sim, 1);
    for worker in 0..3 {
        assert_eq!(sim.step(worker), Step::Idle);
    }
    for worker in 0..3 {
        assert!(sim.on(worker, Worker::begin_park).is_some());
    }
    sim.on(2, |_| sleepers.wake(&sim));
    assert_eq!(sim.executor.platform().woken(), [2]);
    assert_eq!(sim.executor.metrics().totals().parked, 2);
    assert_eq!(sim.step(2), Step::Polled);
    assert_eq!(sleepers.polls(), 1);
}

/// Stepped until it is idle, then only as `wake` asks for it or the deadline has come.
#[test]
fn a_worker_that_another_loop_drives_is_woken_by_the_platform() {
    let sim = Sim::new(1);
    let sleepers = Sleepers::new(&sim, 1);
    let begin = || sim.on(0, Worker::begin_park);
    assert_eq!(sim.step(0), Step::Idle);
    assert_eq!(begin(), Some(None));
    assert_eq!(sim.executor.platform().woken(), [0_u16; 0]);
    sleepers.wake(&sim);
    assert_eq!(sim.executor.platform().woken(), [0]);
    sleepers.wake(&sim);
    assert_eq!(sim.executor.platform().woken(), [0_u16; 0], "once in a sleep");
    assert_eq!(sim.step(0), Step::Polled);
    assert_eq!(sleepers.polls(), 1);

    // A notice that comes before it sleeps.
    sim.executor.unpark_worker(id(0));
    assert_eq!((begin(), begin()), (None, Some(None)));
    sim.on(0, Worker::end_park);

    let task = sim.executor.spawn(pool(), sim.executor.sleep(Duration::from_millis(3))).unwrap();
    assert_eq!(sim.step(0), Step::Polled);
    assert_eq!(sim.step(0), Step::Idle);
    let deadline = begin().expect("nothing to do").expect("a timer");
    assert_eq!(deadline.as_nanos(), 3_000_000);
    sim.executor.platform().advance(Duration::from_millis(3));
    assert_eq!(sim.step(0), Step::Polled, "a step ends the sleep");
    assert!(task.is_finished());
}
