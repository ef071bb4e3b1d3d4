//! The hot paths of filch, each a loop of so many operations on a runtime of one worker.
//!
//! `bench/instructions` counts the instructions of each under valgrind, without noise, and compares
//! them with `bench/instructions.txt`; `cargo bench --manifest-path bench/micro/Cargo.toml` measures their time.

mod handler;

use core::{
    future::poll_fn,
    hint::black_box,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::sync::{Mutex, mpsc};

use filch::io::{Readiness, Ready};
use filch_harness::bench::{self, Item};
use filch_std::{
    Runtime,
    parallel::{self, Fork},
    time,
};

/// A path: its name, and a function that runs it so many times.
pub type Path = (&'static str, fn(usize));

/// All of them.
pub const PATHS: &[Path] = &[
    ("yield", yields),
    ("spawn_join", spawn_join),
    ("spawn_detached", spawn_detached),
    ("chained_spawn", chained_spawn),
    ("wake_another", wake_another),
    ("timer_create_cancel", timer_create_cancel),
    ("timer_reset", timer_reset),
    ("readiness", readiness),
    ("join", join),
    ("join_queued", join_queued),
    ("join_queued_open", join_queued_open),
    ("join_handle", join_handle),
    ("scope_queued", scope_queued),
    ("ring_push_pop", ring_push_pop),
    ("ring_steal", ring_steal),
    ("handler_wake", handler::wake),
    ("handler_wake_core", handler::wake_a_core),
    ("handler_set", handler::set),
];

/// Runs the task alone, on a runtime of one worker.
fn alone(task: impl Future<Output = ()> + Send + 'static) {
    let runtime = Runtime::builder().workers(1).build().expect("the runtime starts");
    runtime.spawn(task).join().expect("the task ends by itself");
}

/// 100 tasks that yield in turn: waker, ring, worker, poll.
fn yields(n: usize) {
    alone(async move {
        let tasks: [_; 100] = core::array::from_fn(|_| {
            filch_std::spawn(async move {
                for _ in 0..n / 100 {
                    filch_std::task::yield_now().await;
                }
            })
        });
        for task in tasks {
            task.await.expect("it ends by itself");
        }
    });
}

/// A task spawns an empty one and awaits it.
fn spawn_join(n: usize) {
    alone(async move {
        for i in 0..n {
            let output = filch_std::spawn(async move { i }).await;
            assert!(output.is_ok_and(|output| output == i));
        }
    });
}

/// A task spawns empty ones, a hundred at a time.
fn spawn_detached(n: usize) {
    alone(async move {
        for _ in 0..n / 100 {
            for i in 0..100 {
                filch_std::spawn(async move { _ = black_box(i) }).detach();
            }
            filch_std::task::yield_now().await;
        }
    });
}

/// Each task spawns the next.
fn chained_spawn(n: usize) {
    async fn link(left: usize, end: Waker) {
        match left.checked_sub(1) {
            Some(left) => start(left, end),
            None => {
                *ENDED.lock().expect("no panic under the lock") = true;
                end.wake();
            }
        }
    }
    fn start(left: usize, end: Waker) {
        filch_std::spawn(link(left, end)).detach();
    }
    static ENDED: Mutex<bool> = Mutex::new(false);
    alone(async move {
        let mut begun = false;
        poll_fn(|cx| {
            if !core::mem::replace(&mut begun, true) {
                *ENDED.lock().expect("no panic under the lock") = false;
                start(n, cx.waker().clone());
            }
            if *ENDED.lock().expect("no panic under the lock") {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    });
}

/// Two tasks that wake each other in turn, through wakers that they cloned once.
fn wake_another(n: usize) {
    static WAKERS: Mutex<[Option<Waker>; 2]> = Mutex::new([None, None]);
    fn player(me: usize, turns: usize) -> impl Future<Output = ()> + Send {
        let (mut left, mut other) = (turns, None::<Waker>);
        poll_fn(move |cx| {
            if left == turns {
                WAKERS.lock().expect("no panic under the lock")[me] = Some(cx.waker().clone());
            }
            if other.is_none() {
                other = WAKERS.lock().expect("no panic under the lock")[1 - me].clone();
            }
            let Some(other) = &other else {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            };
            other.wake_by_ref();
            left -= 1;
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
    }
    alone(async move {
        *WAKERS.lock().expect("no panic under the lock") = [None, None];
        let players = [0, 1].map(|me| filch_std::spawn(player(me, n / 2 + 2)));
        for player in players {
            // The last player has no other to wait for.
            drop(player.await);
        }
    });
}

/// A sleep is begun, and dropped.
fn timer_create_cancel(n: usize) {
    alone(async move {
        let mut cx = Context::from_waker(Waker::noop());
        for i in 0..n {
            let sleep = pin!(filch_std::time::sleep(far(i)));
            assert!(sleep.poll(&mut cx).is_pending());
        }
    });
}

/// A sleep is moved to another deadline, again and again, with a thousand others in the wheel.
fn timer_reset(n: usize) {
    alone(async move {
        let mut cx = Context::from_waker(Waker::noop());
        let mut others: Vec<_> =
            (0..1_000).map(|i| Box::pin(filch_std::time::sleep(far(i)))).collect();
        for other in &mut others {
            assert!(other.as_mut().poll(&mut cx).is_pending());
        }
        let now = time::now();
        let mut sleep = pin!(filch_std::time::sleep(far(0)));
        for i in 0..n {
            sleep.as_mut().reset(now + far(i));
            assert!(sleep.as_mut().poll(&mut cx).is_pending());
        }
    });
}

/// Far away, and not the same for all.
fn far(i: usize) -> Duration {
    Duration::from_micros(3_600_000_000 + (i * 7_919 % 1_000_003) as u64 * 100)
}

/// A task waits for a cell, which an edge makes ready.
fn readiness(n: usize) {
    static CELL: Readiness = Readiness::new();
    alone(async move {
        for _ in 0..n {
            let mut ready = pin!(CELL.ready(Ready::READABLE));
            let mut poll = |cx: &mut Context<'_>| Pin::new(&mut ready).poll(cx);
            let event = poll_fn(|cx| match poll(cx) {
                Poll::Pending => {
                    CELL.set(Ready::READABLE);
                    poll(cx)
                }
                ready => ready,
            })
            .await;
            CELL.clear(event);
        }
    });
}

/// Naive fork and join: forks that are not stolen.
fn join(n: usize) {
    fn count(n: usize) -> usize {
        match n {
            0 | 1 => 1,
            _ => {
                let (a, b) = parallel::join(|| count(n / 2), || count(n - n / 2));
                a + b
            }
        }
    }
    alone(async move { assert_eq!(parallel::run(|_| count(n)), n) });
}

/// Runs the closure on a worker whose only fellow is in a long poll: jobs wait in the deque, and nobody takes them.
fn beside_a_busy_one(run: impl FnOnce() + Send + 'static) {
    let runtime = Runtime::builder().workers(2).build().expect("the runtime starts");
    let (end, ended) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let mut busy = runtime.spawn(async move {
        begin.send(()).expect("the receiver waits");
        _ = ended.recv();
    });
    begun.recv().expect("the task begins");
    runtime.spawn(async move { run() }).join().expect("the task ends by itself");
    drop(end);
    busy.join().expect("the task ends by itself");
}

/// Forks that wait in the deque, and are not stolen. A tree of seven is not deep enough for forks in place.
fn join_queued(n: usize) {
    fn tree(depth: usize) -> usize {
        match depth {
            0 => 1,
            _ => {
                let (a, b) = parallel::join(|| tree(depth - 1), || tree(depth - 1));
                a + b
            }
        }
    }
    beside_a_busy_one(move || {
        parallel::run(|_| (0..n / 7).for_each(|_| assert_eq!(black_box(tree(3)), 8)));
    });
}

/// As `join_queued`, of the forks of crates that present another API.
fn join_queued_open(n: usize) {
    fn tree(depth: usize) -> usize {
        match depth {
            0 => 1,
            _ => {
                let joined = parallel::try_join_open(|_| tree(depth - 1), |_| tree(depth - 1));
                joined.map_or(0, |(a, b)| a + b)
            }
        }
    }
    beside_a_busy_one(move || {
        parallel::run(|_| (0..n / 7).for_each(|_| assert_eq!(black_box(tree(3)), 8)));
    });
}

/// As `join_queued`, by the handle of the run, which is passed down.
fn join_handle(n: usize) {
    fn tree(fork: Fork<'_>, depth: usize) -> usize {
        match depth {
            0 => 1,
            _ => {
                let (a, b) = fork.join(|fork| tree(fork, depth - 1), |fork| tree(fork, depth - 1));
                a + b
            }
        }
    }
    beside_a_busy_one(move || {
        parallel::run(|fork| (0..n / 7).for_each(|_| assert_eq!(black_box(tree(fork, 3)), 8)));
    });
}

/// Jobs of a scope that wait in the deque, and are not stolen.
fn scope_queued(n: usize) {
    beside_a_busy_one(move || {
        parallel::run(|fork| {
            for _ in 0..n / 8 {
                fork.scope(|scope| (0..8).for_each(|i| scope.spawn(move |_| _ = black_box(i))));
            }
        });
    });
}

/// The owner pushes and pops, half a ring at a time.
fn ring_push_pop(n: usize) {
    let (mut owner, _) = bench::ring();
    for _ in 0..n / 128 {
        for _ in 0..128 {
            // SAFETY: the ring is empty before, and holds 256.
            unsafe { owner.push(Item::dangling()) };
        }
        while owner.pop().is_some() {}
    }
}

/// Items that a thief takes, half a ring at a time.
fn ring_steal(n: usize) {
    let ((mut owner, victim), (mut thief, _)) = (bench::ring(), bench::ring());
    for _ in 0..n / 128 {
        for _ in 0..128 {
            // SAFETY: the ring is empty before, and holds 256.
            unsafe { owner.push(Item::dangling()) };
        }
        while thief.steal(&victim).is_some() {
            while thief.pop().is_some() {}
        }
    }
}
