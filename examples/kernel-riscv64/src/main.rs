//! filch on four RISC-V harts without an operating system, under QEMU: boots, runs tasks across all harts, checks what
//! came of it, and ends with a verdict.
#![no_std]
#![no_main]

mod board;
mod boot;

use core::{
    fmt::Write,
    future::{Future, poll_fn},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    task::{Poll, Waker},
};

use board::{Board, Console, HALTS};
use filch::{Config, Executor, JoinHandle, TaskPool, WorkerId};

/// No timeout at all: a wake-up that is lost stays lost, and the boot hangs.
const CONFIG: Config = Config::new().sentry(None).spin_rounds(0);

static EXECUTOR: Executor<Board, { boot::HARTS }> = Executor::with_config(Board, CONFIG);
static TASKS: TaskPool<256, 600> = TaskPool::new();

/// Every hart, from boot.
extern "C" fn hart_main(hart: usize) {
    if hart == 0 {
        spawn(demonstrate()).detach();
    }
    match EXECUTOR.run(WorkerId::new(hart as u16)) {
        Ok(()) => {}
        Err(error) => panic!("hart {hart}: {error}"),
    }
}

fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match EXECUTOR.spawn(&TASKS, future) {
        Ok(handle) => handle,
        Err(error) => panic!("{error}"),
    }
}

async fn demonstrate() {
    let mut report = Report { passed: 0, failed: 0 };
    report.check("500 tasks of 100 yields all end", yields().await);
    report.check("10,000 wakes from hart to hart all arrive", ping_pong().await);
    report.check("a pinned task stays on its hart", pinned().await);
    report.check("an aborted task says so", aborted().await);

    let _ = writeln!(Console, "hart    polls   steals   stolen    parks");
    let (mut polled, mut stole) = (0, 0);
    for (hart, m) in EXECUTOR.metrics().workers() {
        let (polls, steals, stolen, parks) = (m.polls, m.steals, m.stolen, m.parks);
        let _ = writeln!(Console, "{:4} {polls:8} {steals:8} {stolen:8} {parks:8}", hart.index());
        polled += usize::from(polls > 0);
        stole += usize::from(steals > 0);
    }
    let _ = writeln!(Console, "{} halts", HALTS.load(Ordering::Relaxed));
    report.check("every hart has polled", polled == boot::HARTS);
    report.check("at least three harts have stolen", stole >= 3);
    report.end()
}

async fn yields() -> bool {
    static SUM: AtomicUsize = AtomicUsize::new(0);
    let parent = spawn(async {
        for _ in 0..500 {
            spawn(async {
                for _ in 0..100 {
                    SUM.fetch_add(1, Ordering::Relaxed);
                    filch::yield_now().await;
                }
            })
            .detach();
        }
    });
    let spawned = parent.await.is_ok();
    while SUM.load(Ordering::Relaxed) < 50_000 {
        filch::yield_now().await;
    }
    spawned
}

/// Two tasks, each pinned to a hart, take turns: each turn is a wake of a hart that sleeps.
async fn ping_pong() -> bool {
    static TURNS: AtomicUsize = AtomicUsize::new(0);
    static WAITING: [Slot; 2] = [const { Slot::new() }; 2];
    let player = |me: usize| async move {
        for turn in 0..5_000 {
            let mine = 2 * turn + me;
            poll_fn(|cx| {
                if TURNS.load(Ordering::Acquire) == mine {
                    return Poll::Ready(());
                }
                WAITING[me].put(cx.waker());
                // The other may have come before the waker was there.
                if TURNS.load(Ordering::Acquire) == mine { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            TURNS.store(mine + 1, Ordering::Release);
            WAITING[1 - me].wake();
        }
    };
    let pin = |hart: u16| EXECUTOR.spawner().spawn_pinned(&TASKS, WorkerId::new(hart), player(hart as usize - 2));
    let (Ok(a), Ok(b)) = (pin(2), pin(3)) else { return false };
    a.await.is_ok() && b.await.is_ok() && TURNS.load(Ordering::Relaxed) == 10_000
}

async fn pinned() -> bool {
    for hart in 0..boot::HARTS as u16 {
        let here = async move {
            let mut stayed = true;
            for _ in 0..100 {
                let now = filch::Platform::current_worker(EXECUTOR.platform());
                stayed &= now == Some(WorkerId::new(hart));
                filch::yield_now().await;
            }
            stayed
        };
        let Ok(task) = EXECUTOR.spawner().spawn_pinned(&TASKS, WorkerId::new(hart), here) else {
            return false;
        };
        if !matches!(task.await, Ok(true)) {
            return false;
        }
    }
    true
}

async fn aborted() -> bool {
    let endless = spawn(core::future::pending::<()>());
    endless.abort();
    matches!(endless.await, Err(error) if error.is_cancelled())
}

/// A waker to be left for somebody, under a spin lock of a few instructions.
struct Slot {
    locked: AtomicBool,
    waker: core::cell::UnsafeCell<Option<Waker>>,
}

// SAFETY: `waker` is touched under the lock.
unsafe impl Sync for Slot {}

impl Slot {
    const fn new() -> Self {
        Self { locked: AtomicBool::new(false), waker: core::cell::UnsafeCell::new(None) }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Option<Waker>) -> R) -> R {
        while self.locked.swap(true, Ordering::Acquire) {
            core::hint::spin_loop();
        }
        // SAFETY: we hold the lock.
        let result = f(unsafe { &mut *self.waker.get() });
        self.locked.store(false, Ordering::Release);
        result
    }

    fn put(&self, waker: &Waker) {
        let before = self.with(|slot| slot.replace(waker.clone()));
        drop(before);
    }

    fn wake(&self) {
        if let Some(waker) = self.with(Option::take) {
            waker.wake();
        }
    }
}

struct Report {
    passed: u32,
    failed: u32,
}

impl Report {
    fn check(&mut self, what: &str, holds: bool) {
        let _ = writeln!(Console, "{} {what}", if holds { "ok  " } else { "FAIL" });
        *(if holds { &mut self.passed } else { &mut self.failed }) += 1;
    }

    fn end(&self) -> ! {
        let _ = writeln!(Console, "{} passed, {} failed", self.passed, self.failed);
        board::exit(self.failed)
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let _ = writeln!(Console, "{info}\n0 passed, 1 failed");
    board::exit(101)
}
