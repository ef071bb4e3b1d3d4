//! Task memory: pools, cells, reservations, and what a failed spawn returns.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    future::{Future, Ready, ready},
    mem::size_of,
    pin::Pin,
    task::{Context, Poll},
};

use common::{Drops, Flag, Sim, Tally, id, output, pool, quiet};
use filch::{
    Executor, Instant, JoinError, RunError, SpawnErrorKind, TaskCell, TaskOptions, TaskPool,
    TaskSlot, TaskSlots,
};

/// A future with a number to tell it from others. It counts its drop.
struct Numbered(u32, #[expect(dead_code, reason = "it is there to be dropped")] Tally);

impl Future for Numbered {
    type Output = u32;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u32> {
        Poll::Ready(self.0)
    }
}

#[test]
fn a_full_pool_gives_the_very_future_back() {
    static POOL: TaskPool<128, 2> = TaskPool::new();
    let sim = Sim::new(1);
    let drops = Drops::new();
    let mut first = sim.executor.spawn(&POOL, Numbered(1, drops.tally())).unwrap();
    let second = sim.executor.spawn(&POOL, Numbered(2, drops.tally())).unwrap();
    let refused = sim.executor.spawn(&POOL, Numbered(3, drops.tally())).unwrap_err();
    assert_eq!(refused.kind, SpawnErrorKind::Full);
    assert_eq!(refused.future.0, 3);
    assert_eq!(drops.count(), 0, "nothing was lost on the way");

    // Complete, but the handles still keep the slots.
    assert_eq!(sim.run(0), 2);
    let refused = sim.executor.spawn(&POOL, refused.future).unwrap_err();
    assert_eq!(refused.kind, SpawnErrorKind::Full);
    assert_eq!(output(&mut first).unwrap(), 1);
    let mut third = sim.executor.spawn(&POOL, refused.future).expect("one slot is free again");
    assert_eq!(sim.run(0), 1);
    assert_eq!(output(&mut third).unwrap(), 3);
    drop(second);
    let again: Vec<_> = (0..2).map(|i| sim.executor.spawn(&POOL, ready(i)).unwrap()).collect();
    assert_eq!(sim.run(0), again.len());
    // A refused spawn is not counted.
    assert_eq!(sim.executor.metrics().totals().spawned, 5);
}

#[test]
fn slots_given_at_run_time_are_a_pool() {
    let sim = Sim::new(1);
    for number in 0..4 {
        let slots: Vec<TaskSlot<128>> = (0..number).map(|_| TaskSlot::new()).collect();
        let pool: &'static _ = Box::leak(Box::new(TaskSlots::over(slots.leak())));
        assert_eq!(pool.capacity(), number);
        for _ in 0..2 {
            let spawn = |i| sim.executor.spawn(pool, ready(i));
            let mut tasks: Vec<_> = (0..number).map(|i| spawn(i).unwrap()).collect();
            assert_eq!(spawn(number).unwrap_err().kind, SpawnErrorKind::Full);
            assert_eq!(sim.run(0), number);
            for (i, task) in tasks.iter_mut().enumerate() {
                assert_eq!(output(task).unwrap(), i);
            }
        }
        let refused = sim.executor.spawn(pool, ready([0_u8; 200])).unwrap_err();
        assert!(matches!(refused.kind, SpawnErrorKind::TooLarge { slot: 128, .. }), "{refused}");
    }
}

#[test]
fn a_full_pool_is_told_inside_a_task_too() {
    static POOL: TaskPool<512, 1> = TaskPool::new();
    let sim = Sim::new(1);
    let executor = sim.executor;
    let mut handle =
        executor.spawn(&POOL, async { executor.spawn(&POOL, ready(1)).unwrap_err().kind }).unwrap();
    assert_eq!(sim.run(0), 1);
    assert_eq!(output(&mut handle).unwrap(), SpawnErrorKind::Full);
    assert_eq!(executor.metrics().totals().spawned, 1);
}

#[test]
fn a_future_too_large_or_too_aligned_comes_back() {
    #[repr(align(64))]
    struct Aligned(u8);

    static POOL: TaskPool<64, 2> = TaskPool::new();
    let sim = Sim::new(1);
    let refused = sim.executor.spawn(&POOL, ready([7_u8; 100])).unwrap_err();
    let SpawnErrorKind::TooLarge { needed, slot, .. } = refused.kind else {
        panic!("{refused:?}");
    };
    assert!(needed > 100 && slot == 64, "{refused}");
    assert_eq!(refused.future.into_inner(), [7; 100]);

    static ROOMY: TaskPool<1024, 2> = TaskPool::new();
    let refused = sim.executor.spawn(&ROOMY, ready(Aligned(9))).unwrap_err();
    let SpawnErrorKind::TooLarge { align: 64, slot_align: 16, .. } = refused.kind else {
        panic!("{refused:?}");
    };
    assert_eq!(refused.future.into_inner().0, 9);
    assert!(matches!(
        sim.executor.spawner().reserve::<Ready<[u8; 100]>>(&POOL),
        Err(SpawnErrorKind::TooLarge { .. })
    ));
    let cell: &TaskCell<Ready<u8>> = common::forever(Box::default());
    let refused = sim.executor.spawn(cell, ready([7_u8; 200])).unwrap_err();
    assert!(matches!(refused.kind, SpawnErrorKind::TooLarge { .. }), "another's cell: {refused}");
    assert_eq!(refused.future.into_inner(), [7; 200]);
    // A cell takes what a pool does not.
    let cell: &TaskCell<Ready<Aligned>> = common::forever(Box::default());
    let mut handle = sim.executor.spawn(cell, ready(Aligned(9))).unwrap();
    sim.run(0);
    assert_eq!(output(&mut handle).unwrap().0, 9);
}

#[test]
fn a_slot_of_the_needed_size_is_enough() {
    const HEADER: usize = 6 * size_of::<usize>() + 2 * size_of::<u64>();
    static POOL: TaskPool<{ HEADER + 64 }, 1> = TaskPool::new();
    let sim = Sim::new(1);
    let mut handle = sim.executor.spawn(&POOL, ready([3_u8; 56])).unwrap();
    sim.run(0);
    assert_eq!(output(&mut handle).unwrap(), [3; 56]);
}

#[test]
fn memory_serves_the_first_executor_that_used_it() {
    static POOL: TaskPool<128, 2> = TaskPool::new();
    let (a, b) = (Sim::new(1), Sim::new(1));
    let mut handle = a.executor.spawn(&POOL, ready(1)).unwrap();
    let refused = b.executor.spawn(&POOL, ready(2)).unwrap_err();
    assert_eq!(refused.kind, SpawnErrorKind::ForeignMemory);
    assert_eq!(refused.future.into_inner(), 2);
    a.run(0);
    assert_eq!(output(&mut handle).unwrap(), 1);
    let kind = b.executor.spawn(&POOL, ready(2)).unwrap_err().kind;
    assert_eq!(kind, SpawnErrorKind::ForeignMemory, "also when it is empty again");
}

#[test]
fn a_cell_holds_one_task_after_the_other() {
    static CELL: TaskCell<Ready<u32>> = TaskCell::new();
    let sim = Sim::new(1);
    for round in 0..10 {
        let mut handle = sim.executor.spawn(&CELL, ready(round)).unwrap();
        let refused = sim.executor.spawn(&CELL, ready(99)).unwrap_err();
        assert_eq!(refused.kind, SpawnErrorKind::Full);
        sim.run(0);
        assert_eq!(output(&mut handle).unwrap(), round);
    }
}

#[test]
fn a_waker_keeps_its_slot_until_it_is_dropped() {
    static POOL: TaskPool<256, 1> = TaskPool::new();
    let sim = Sim::new(1);
    let flag = Flag::new();
    let mut handle = sim.executor.spawn(&POOL, flag.wait()).unwrap();
    sim.run(0);
    let waker = flag.take_wakers().pop().unwrap();
    handle.abort();
    sim.run(0);
    assert!(output(&mut handle).unwrap_err().is_cancelled());
    drop(handle);
    assert_eq!(sim.executor.spawn(&POOL, ready(1)).unwrap_err().kind, SpawnErrorKind::Full);
    waker.wake();
    sim.executor.spawn(&POOL, ready(1)).expect("the slot is free again").detach();
}

#[test]
fn a_reservation_makes_a_later_spawn_infallible() {
    static POOL: TaskPool<256, 2> = TaskPool::new();
    let sim = Sim::new(1);
    let spawner = sim.executor.spawner();
    let reserved = spawner.reserve::<Ready<u8>>(&POOL).unwrap();
    let other = spawner.spawn(&POOL, ready(0)).unwrap();
    assert_eq!(spawner.spawn(&POOL, ready(0)).unwrap_err().kind, SpawnErrorKind::Full);
    assert_eq!(spawner.reserve::<Ready<u8>>(&POOL).unwrap_err(), SpawnErrorKind::Full);
    let mut handle = reserved.spawn(ready(5));
    sim.run(0);
    assert_eq!(output(&mut handle).unwrap(), 5);
    drop((handle, other));

    // A dropped reservation gives its slot back.
    let (a, b) = (spawner.reserve::<Ready<u8>>(&POOL), spawner.reserve::<Ready<u8>>(&POOL));
    assert_eq!(spawner.spawn(&POOL, ready(0)).unwrap_err().kind, SpawnErrorKind::Full);
    drop(a);
    spawner.spawn(&POOL, ready(0)).expect("a free slot").detach();
    drop(b);
    sim.run(0);
}

#[test]
fn a_reservation_outlives_the_shutdown() {
    static POOL: TaskPool<256, 2> = TaskPool::new();
    let sim = Sim::new(1);
    let spawner = sim.executor.spawner();
    let reserved = spawner.reserve::<Numbered>(&POOL).unwrap();
    let unused = spawner.reserve::<Numbered>(&POOL).unwrap();
    sim.close();
    let drops = Drops::new();
    let mut handle = reserved.spawn(Numbered(1, drops.tally()));
    assert_eq!(drops.count(), 1, "the future is dropped there and then");
    assert!(handle.is_finished());
    assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
    assert!(matches!(handle.join(), Err(JoinError::Taken)));
    drop(unused);
}

#[test]
fn spawning_after_the_shutdown_gives_the_future_back() {
    let sim = Sim::new(1);
    sim.executor.spawn(pool(), ready(0)).unwrap().detach();
    sim.close();
    let spawner = sim.executor.spawner();
    let drops = Drops::new();
    let memory = pool();
    let refused = spawner.spawn(memory, Numbered(4, drops.tally())).unwrap_err();
    assert_eq!((refused.kind, refused.future.0), (SpawnErrorKind::Shutdown, 4));
    let refused = spawner.spawn_pinned(memory, id(0), refused.future).unwrap_err();
    assert_eq!((refused.kind, refused.future.0), (SpawnErrorKind::Shutdown, 4));
    let refused =
        spawner.spawn_with(TaskOptions::new().name("late"), memory, refused.future).unwrap_err();
    assert_eq!((refused.kind, refused.future.0), (SpawnErrorKind::Shutdown, 4));
    assert_eq!(drops.count(), 0);
}

#[test]
fn errors_read_well() {
    let sim = Sim::offline(1, quiet());
    let refused = sim.executor.spawner().spawn_pinned(pool(), id(1), ready(0)).unwrap_err();
    assert_eq!(refused.kind, SpawnErrorKind::NoSuchWorker);
    assert_eq!(refused.to_string(), "the executor has no such worker, or it is to leave");
    assert_eq!(SpawnErrorKind::Full.to_string(), "no free slot for the task");
    let large = SpawnErrorKind::TooLarge { needed: 200, align: 64, slot: 100, slot_align: 16 };
    let text = "the task takes 200 bytes aligned to 64, a slot has 100 aligned to 16";
    assert_eq!(large.to_string(), text);
    let none = RunError::NoSuchWorker(3).to_string();
    assert_eq!(none, "no such worker: the executor has 3");
}

#[test]
fn a_static_executor_and_pool_need_no_allocator() {
    // The types alone: they are made in constants.
    const _: Executor<common::Manual, 1> = Executor::new(common::Manual::new());
    static POOL: TaskPool<128, 3> = TaskPool::new();
    assert_eq!(POOL.capacity(), 3);
    let _ = Instant::ZERO;
}
