//! Static tasks on executors: their slots, arguments, outputs and ends.

#[path = "../../core/tests/common/mod.rs"]
mod common;

use core::{
    cell::Cell,
    future::{IntoFuture, pending},
    mem::size_of_val,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};
use std::{rc::Rc, sync::OnceLock, thread};

use common::{Drops, Flag, ManualExecutor, Sim, Tally, id, output, quiet, stop, threads};
use filch::{JoinError, SpawnErrorKind, SpawnToken, yield_now};

/// What a slot has beside the future: the header, the joining side, and the worker of a pinned task.
fn expected_size<F: IntoFuture>(token: SpawnToken<F>) -> usize
where
    SpawnToken<F>: IntoFuture<Output = F::Output, IntoFuture = F>,
{
    let slot_align = align_of::<F>().max(align_of::<usize>());
    let future = token.into_future();
    let stage = size_of_val(&future).max(size_of::<Result<F::Output, JoinError>>());
    (6 * size_of::<usize>() + stage.next_multiple_of(align_of::<usize>()) + size_of::<u32>())
        .next_multiple_of(slot_align)
}

#[test]
fn a_slot_is_exactly_as_large_as_the_future_and_the_header() {
    #[filch::task]
    async fn small() {}
    #[filch::task]
    async fn large(bytes: [u8; 1_000]) -> u8 {
        yield_now().await;
        bytes.iter().sum()
    }
    #[filch::task]
    async fn output_is_larger() -> [u64; 100] {
        [0; 100]
    }
    assert_eq!(small().slot().size(), expected_size(small()));
    let slot = large([1; 1_000]).slot();
    assert_eq!(slot.size(), expected_size(large([1; 1_000])));
    assert!(slot.size() > 1_000);
    let slot = output_is_larger().slot();
    assert_eq!(slot.size(), expected_size(output_is_larger()));
    assert!(slot.size() > 800);
    assert_eq!(slot.align(), align_of::<usize>());
}

#[test]
fn a_slot_is_as_aligned_as_the_future() {
    #[repr(align(64))]
    struct Line(u8);
    #[repr(align(4096))]
    struct Page(u8);
    #[filch::task(pool_size = 3)]
    async fn line(line: Line) -> usize {
        yield_now().await;
        core::ptr::from_ref(&line).addr() % 64 + usize::from(line.0)
    }
    #[filch::task(pool_size = 2)]
    async fn page(page: Page) -> usize {
        yield_now().await;
        core::ptr::from_ref(&page).addr() % 4_096 + usize::from(page.0)
    }
    let sim = Sim::new(1);
    assert_eq!(line(Line(0)).slot().align(), 64);
    assert_eq!(page(Page(0)).slot().align(), 4_096);
    let mut lines = [1, 2, 3].map(|n| line(Line(n)).spawn(sim.executor).unwrap());
    let mut pages = [4, 5].map(|n| page(Page(n)).spawn(sim.executor).unwrap());
    sim.settle();
    let lines = lines.each_mut().map(|handle| output(handle).unwrap());
    let pages = pages.each_mut().map(|handle| output(handle).unwrap());
    assert_eq!((lines, pages), ([1, 2, 3], [4, 5]));
}

#[test]
fn so_many_run_and_the_next_is_refused_until_one_has_ended() {
    #[filch::task(pool_size = 2 + 1)]
    async fn wait(flag: Flag, n: u32) -> u32 {
        flag.wait().await;
        n
    }
    let sim = Sim::new(1);
    let flags = [Flag::new(), Flag::new(), Flag::new()];
    let mut handles =
        [0, 1, 2].map(|n| wait(flags[n as usize].clone(), n).spawn(sim.executor).unwrap());
    sim.settle();
    let token = wait(flags[0].clone(), 3);
    let error = token.spawn(sim.executor).unwrap_err();
    assert_eq!(error.kind, SpawnErrorKind::Full);
    // A complete task keeps its slot while its output is in it.
    flags[1].set();
    sim.settle();
    let error = error.future.spawn(sim.executor).unwrap_err();
    assert_eq!(error.kind, SpawnErrorKind::Full);
    assert_eq!(output(&mut handles[1]).unwrap(), 1);
    let mut fourth = error.future.spawn(sim.executor).expect("a slot is free again");
    flags[0].set();
    flags[2].set();
    sim.settle();
    assert_eq!(output(&mut fourth).unwrap(), 3);
    assert_eq!(output(&mut handles[0]).unwrap(), 0);
    assert_eq!(output(&mut handles[2]).unwrap(), 2);
}

#[test]
fn arguments_are_passed_and_dropped_once() {
    #[filch::task]
    async fn keep(tally: Tally, text: &'static str, (a, mut b): (u32, u32)) -> String {
        b += 1;
        yield_now().await;
        let _kept = &tally;
        format!("{text} {a} {b}")
    }
    let sim = Sim::new(1);
    let drops = Drops::new();
    let mut handle = keep(drops.tally(), "text", (1, 2)).spawn(sim.executor).unwrap();
    assert_eq!(drops.count(), 0);
    let refused = keep(drops.tally(), "refused", (3, 4)).spawn(sim.executor).unwrap_err();
    assert_eq!(drops.count(), 0, "they are in the token that came back");
    drop(refused);
    assert_eq!(drops.count(), 1);
    sim.settle();
    assert_eq!(drops.count(), 2);
    assert_eq!(output(&mut handle).unwrap(), "text 1 3");
    // A token that is not spawned holds no slot.
    let tokens = [(); 3].map(|()| keep(drops.tally(), "dropped", (5, 6)));
    assert_eq!(drops.count(), 2);
    drop(tokens);
    assert_eq!(drops.count(), 5);
    drop(handle);
    let never_polled = keep(drops.tally(), "never polled", (7, 8)).spawn(sim.executor).unwrap();
    never_polled.abort();
    sim.settle();
    assert_eq!(drops.count(), 6);
}

#[test]
fn a_task_that_panics_or_is_cancelled_gives_its_slot_back() {
    #[filch::task]
    async fn end(tally: Tally, panics: bool) {
        yield_now().await;
        let _kept = &tally;
        assert!(!panics, "as the test wants");
        pending::<()>().await;
    }
    let sim = Sim::new(1);
    let drops = Drops::new();
    for round in 0..3 {
        let mut handle = end(drops.tally(), true).spawn(sim.executor).unwrap();
        sim.settle();
        assert!(output(&mut handle).unwrap_err().is_panic());
        let mut handle = end(drops.tally(), false).spawn(sim.executor).unwrap();
        sim.settle();
        assert!(!handle.is_finished());
        handle.abort();
        sim.settle();
        assert!(output(&mut handle).unwrap_err().is_cancelled());
        assert_eq!(drops.count(), 2 * round + 2);
    }
}

#[test]
fn a_pinned_task_runs_on_its_worker_alone() {
    #[filch::task]
    async fn where_am_i(executor: &'static ManualExecutor, worker: u16) -> u32 {
        for _ in 0..10 {
            assert_eq!(filch::Platform::current_worker(executor.platform()), Some(id(worker)));
            yield_now().await;
        }
        10
    }
    let sim = Sim::new(3);
    let token = where_am_i(sim.executor, 2);
    let error = token.spawn_pinned(sim.executor, id(3)).unwrap_err();
    assert_eq!(error.kind, SpawnErrorKind::NoSuchWorker);
    let mut handle = error.future.spawn_pinned(sim.executor, id(2)).unwrap();
    assert_eq!(handle.info().unwrap().worker, Some(id(2)));
    assert_eq!(sim.run(0) + sim.run(1), 0);
    sim.settle();
    assert_eq!(output(&mut handle).unwrap(), 10);
}

#[test]
fn a_local_task_need_not_be_send_and_is_spawned_by_a_pinned_one() {
    #[filch::task(local, pool_size = 2)]
    async fn add(sum: Rc<Cell<u32>>, n: u32) {
        for _ in 0..n {
            sum.set(sum.get() + 1);
            yield_now().await;
        }
    }
    #[filch::task(local)]
    async fn add_up(executor: &'static ManualExecutor) -> u32 {
        let sum = Rc::default();
        let a = add(Rc::clone(&sum), 3).spawn_local(executor).unwrap();
        let b = add(Rc::clone(&sum), 4).spawn_local(executor).unwrap();
        assert_eq!(a.info().unwrap().worker, Some(id(1)));
        a.await.unwrap();
        b.await.unwrap();
        sum.get()
    }
    #[filch::task]
    async fn parent(executor: &'static ManualExecutor) -> u32 {
        add_up(executor).spawn_local(executor).unwrap().await.unwrap()
    }
    let sim = Sim::new(2);
    let error = add(Rc::default(), 1).spawn_local(sim.executor).unwrap_err();
    assert_eq!(error.kind, SpawnErrorKind::NotPinned);
    let mut handle = parent(sim.executor).spawn_pinned(sim.executor, id(1)).unwrap();
    assert_eq!(sim.run(0), 0);
    sim.settle();
    assert_eq!(output(&mut handle).unwrap(), 7);
}

#[test]
fn a_task_is_named_after_its_function() {
    mod inner {
        #[filch::task]
        pub(crate) async fn blink() {}
    }
    let sim = Sim::new(1);
    assert_eq!(format!("{:?}", inner::blink()), format!("SpawnToken {{ task: {BLINK:?}, .. }}"));
    for pin in [None, Some(id(0))] {
        let handle = match pin {
            None => inner::blink().spawn(sim.executor).unwrap(),
            Some(worker) => inner::blink().spawn_pinned(sim.executor, worker).unwrap(),
        };
        let info = handle.info().unwrap();
        assert_eq!((info.name, info.worker), (Some(BLINK), pin));
        sim.settle();
    }
    const BLINK: &str = "tasks::a_task_is_named_after_its_function::inner::blink";
}

#[test]
fn an_awaited_token_runs_in_its_caller() {
    #[filch::task]
    async fn add(a: u32, b: u32) -> u32 {
        yield_now().await;
        a + b
    }
    #[filch::task]
    async fn sum() -> u32 {
        add(1, 2).await + add(3, 4).await
    }
    let sim = Sim::new(1);
    let _slot_in_use = add(0, 0).spawn(sim.executor).unwrap();
    let mut handle = sum().spawn(sim.executor).unwrap();
    assert_eq!(sim.executor.metrics().totals().spawned, 2);
    sim.settle();
    assert_eq!(output(&mut handle).unwrap(), 10);
}

#[test]
fn a_task_may_spawn_itself_and_tasks_each_other() {
    #[filch::task(pool_size = 15)]
    async fn tree(executor: &'static ManualExecutor, depth: u32, leaves: &'static AtomicUsize) {
        yield_now().await;
        if depth == 0 {
            leaves.fetch_add(1, SeqCst);
            return;
        }
        for _ in 0..2 {
            tree(executor, depth - 1, leaves).spawn(executor).unwrap().detach();
        }
    }
    #[filch::task]
    async fn ping(executor: &'static ManualExecutor, rounds: u32) {
        if rounds > 0 {
            pong(executor, rounds - 1).spawn(executor).unwrap().detach();
        }
        yield_now().await;
    }
    #[filch::task]
    async fn pong(executor: &'static ManualExecutor, rounds: u32) {
        yield_now().await;
        if rounds > 0 {
            ping(executor, rounds - 1).spawn(executor).unwrap().detach();
        }
    }
    static LEAVES: AtomicUsize = AtomicUsize::new(0);
    let sim = Sim::new(2);
    tree(sim.executor, 3, &LEAVES).spawn(sim.executor).unwrap().detach();
    sim.settle();
    assert_eq!(LEAVES.load(SeqCst), 8);
    ping(sim.executor, 9).spawn(sim.executor).unwrap().detach();
    sim.settle();
    assert_eq!(sim.executor.metrics().totals().spawned, 15 + 10);
}

#[test]
fn the_slots_serve_one_executor() {
    #[filch::task(pool_size = 2)]
    async fn answer() -> u32 {
        42
    }
    let (first, second) = (Sim::new(1), Sim::new(1));
    let _in_use = answer().spawn(first.executor).unwrap();
    let error = answer().spawn(second.executor).unwrap_err();
    assert_eq!(error.kind, SpawnErrorKind::ForeignMemory);
    // The token belongs to no executor: refused by one, it is good for the other.
    let mut handle = error.future.spawn(first.executor.spawner()).unwrap();
    first.settle();
    assert_eq!(output(&mut handle).unwrap(), 42);
}

#[test]
fn after_a_shutdown_the_token_comes_back() {
    #[filch::task]
    async fn keep(tally: Tally) {
        drop(tally);
    }
    let sim = Sim::new(1);
    let drops = Drops::new();
    sim.close();
    let error = keep(drops.tally()).spawn(sim.executor).unwrap_err();
    assert_eq!((error.kind, drops.count()), (SpawnErrorKind::Shutdown, 0));
}

/// A signal handler that interrupts a poll is to its thread what an interrupt handler is to its core.
// ThreadSanitizer delays a handler until its thread next calls libc.
#[cfg(all(unix, not(filch_tsan)))]
#[test]
fn an_interrupt_handler_spawns() {
    #[filch::task(pool_size = 2)]
    async fn handle_interrupt(n: usize) {
        yield_now().await;
        HANDLED.fetch_add(n, SeqCst);
    }
    #[filch::task]
    async fn interrupted() {
        for _ in 0..3 {
            raise();
            yield_now().await;
        }
    }
    static EXECUTOR: OnceLock<&ManualExecutor> = OnceLock::new();
    static HANDLED: AtomicUsize = AtomicUsize::new(0);
    static REFUSED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn handler(_: libc::c_int) {
        let Some(executor) = EXECUTOR.get() else { return };
        match handle_interrupt(1).spawn(*executor) {
            Ok(handle) => handle.detach(),
            Err(_) => drop(REFUSED.fetch_add(1, SeqCst)),
        }
    }
    fn raise() {
        // SAFETY: the handler is installed. It runs before this returns.
        assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
    }
    // SAFETY: a handler of the right type.
    unsafe {
        let handler = handler as extern "C" fn(libc::c_int);
        assert_ne!(libc::signal(libc::SIGUSR1, handler as libc::sighandler_t), libc::SIG_ERR);
    }
    let sim = Sim::new(1);
    assert!(EXECUTOR.set(sim.executor).is_ok());
    // Of a thread that is no worker.
    (0..5).for_each(|_| raise());
    assert_eq!(REFUSED.load(SeqCst), 3);
    sim.settle();
    assert_eq!(HANDLED.load(SeqCst), 2);
    let handle = interrupted().spawn(sim.executor).unwrap();
    sim.settle();
    assert!(handle.is_finished());
    assert_eq!(HANDLED.load(SeqCst) + REFUSED.load(SeqCst), 2 + 3 + 3);
    assert!(HANDLED.load(SeqCst) > 2);
}

/// Threads spawn at the same time, and each slot holds one task at a time.
#[test]
fn threads_share_the_slots() {
    const SLOTS: usize = 4;
    #[filch::task(pool_size = SLOTS)]
    async fn enter(tally: Tally) {
        let now = INSIDE.fetch_add(1, SeqCst) + 1;
        assert!(now <= SLOTS, "{now} tasks in {SLOTS} slots");
        yield_now().await;
        INSIDE.fetch_sub(1, SeqCst);
        drop(tally);
    }
    static INSIDE: AtomicUsize = AtomicUsize::new(0);
    let executor = threads(2, quiet());
    let drops = Drops::new();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let mut token = enter(drops.tally());
                    loop {
                        match token.spawn(executor) {
                            Ok(handle) => break handle.detach(),
                            Err(full) => {
                                assert_eq!(full.kind, SpawnErrorKind::Full);
                                token = full.future;
                                thread::yield_now();
                            }
                        }
                    }
                }
            });
        }
    });
    common::until(|| drops.count() == 600);
    stop(executor);
    assert_eq!(INSIDE.load(SeqCst), 0);
}
