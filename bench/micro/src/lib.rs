//! The hot paths of filch, each a loop of so many operations on a runtime of one worker.
//!
//! `bench/instructions` counts the instructions of each under valgrind, without noise, and compares
//! them with `bench/instructions.txt`; `cargo bench -p filch-micro` measures their time.

mod handler;

use core::{
    future::poll_fn,
    hint::black_box,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::sync::Mutex;

use filch::io::{Readiness, Ready};
use filch_harness::bench::{self, Item};
use filch_std::{Runtime, parallel, time};

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
                    filch_std::yield_now().await;
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
            filch_std::yield_now().await;
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
            let sleep = pin!(filch_std::sleep(far(i)));
            assert!(sleep.poll(&mut cx).is_pending());
        }
    });
}

/// A sleep is moved to another deadline, again and again, with a thousand others in the wheel.
fn timer_reset(n: usize) {
    alone(async move {
        let mut cx = Context::from_waker(Waker::noop());
        let mut others: Vec<_> = (0..1_000).map(|i| Box::pin(filch_std::sleep(far(i)))).collect();
        for other in &mut others {
            assert!(other.as_mut().poll(&mut cx).is_pending());
        }
        let now = time::now();
        let mut sleep = pin!(filch_std::sleep(far(0)));
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
