//! What the tests of several crates share: a time limit, events to wait for, counts of drops and of
//! allocations, seeds, child processes, coroutines, a platform for examples.

mod board;
pub mod budgets;
mod coroutine;
pub mod counting;
mod flag;
#[cfg(target_os = "linux")]
mod no_ipv6;

use core::{
    any::Any,
    sync::atomic::{AtomicUsize, Ordering},
    task::Waker,
    time::Duration,
};
use std::{
    env, process,
    sync::{Arc, mpsc},
    task::Wake,
    thread,
    time::Instant,
};

pub use coroutine::{Coroutine, Suspend, coroutine};
pub use flag::Flag;
#[cfg(target_os = "linux")]
pub use no_ipv6::without_ipv6;

/// Ends the whole test program if it is not dropped in time: a hang must not look like a slow machine.
#[derive(Debug)]
pub struct Watchdog {
    /// Dropped with the watchdog, which ends the thread.
    _alive: mpsc::Sender<()>,
}

/// A watchdog of two minutes, for the test in the calling thread.
pub fn watchdog() -> Watchdog {
    watchdog_of(Duration::from_secs(120))
}

/// A watchdog of this time, for the test in the calling thread.
pub fn watchdog_of(limit: Duration) -> Watchdog {
    let (alive, dead) = mpsc::channel();
    let name = thread::current().name().unwrap_or("a test").to_owned();
    thread::spawn(move || {
        if dead.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{name} hangs");
            process::abort();
        }
    });
    Watchdog { _alive: alive }
}

/// Counts its own drop.
#[derive(Debug)]
pub struct Tally(Arc<AtomicUsize>);

impl Drop for Tally {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Counts the drops of the tallies that it gave out.
#[derive(Clone, Debug, Default)]
pub struct Drops(Arc<AtomicUsize>);

impl Drops {
    /// A count of zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives out a tally.
    pub fn tally(&self) -> Tally {
        Tally(Arc::clone(&self.0))
    }

    /// How many were dropped.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Waits, on a thread, until the condition holds; the watchdog limits the time.
pub fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

struct Call<F>(F);

impl<F: Fn() + Send + Sync> Wake for Call<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// A waker of the test's own, which calls the closure.
pub fn on_wake(f: impl Fn() + Send + Sync + 'static) -> Waker {
    Arc::new(Call(f)).into()
}

/// The message of a panic's payload.
pub fn message(payload: &(dyn Any + Send)) -> &str {
    match payload.downcast_ref::<&'static str>() {
        Some(text) => text,
        None => payload.downcast_ref::<String>().map_or("something else", String::as_str),
    }
}

/// Names the part that a child process plays.
const PART: &str = "FILCH_TEST_PART";

/// Starts this test program again, to play a part: the same test must ask for it with [`part`].
///
/// # Panics
/// If the path of this program is unknown.
pub fn play(test: &str, part: &str) -> process::Command {
    let mut program = process::Command::new(env::current_exe().expect("its own path"));
    program.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(PART, part);
    program
}

/// The part that this process plays, if it is a child.
pub fn part() -> Option<String> {
    env::var(PART).ok()
}

/// Runs the body of a test in a process of its own, since it changes the state of the whole
/// process.
///
/// # Panics
/// If the body does.
pub fn alone(test: &str, body: impl FnOnce()) {
    if part().is_some() {
        let _watchdog = watchdog();
        return body();
    }
    let status = play(test, "alone").stdin(process::Stdio::null()).status().expect("a process");
    assert!(status.success(), "{status}");
}

/// Fails if the cost of an end grows with the square of the number of what it ends, or nearly so. `made` makes so many; the drop of what it returns is
/// measured.
///
/// # Panics
/// In that case.
pub fn ends_in_linear_time<T>(mut made: impl FnMut(usize) -> T) {
    // More than what caches keep.
    const FEW: usize = 10_000;
    const TIMES: usize = 16;
    let mut cost = |n| {
        let made = made(n);
        let begin = Instant::now();
        drop(made);
        begin.elapsed().as_secs_f64() / n as f64
    };
    // A busy machine makes it longer, at times: the shortest of some attempts counts. These first, as a runtime looks at all the room that its
    // tasks have ever had.
    let few = (0..5).map(|_| cost(FEW)).fold(f64::INFINITY, f64::min);
    // Linear would be 1, and quadratic `TIMES`.
    let mut ratios = (0..8).map(|_| cost(FEW * TIMES) / few);
    let is_linear = ratios.any(|ratio| ratio < TIMES as f64 / 2.5);
    assert!(
        is_linear,
        "of {TIMES} times as many each costs more than {} times as much",
        TIMES as f64 / 2.5
    );
}

/// Random choices; `FILCH_SEED` repeats those of another run.
///
/// # Panics
/// If its value is not a number.
pub fn rng() -> fastrand::Rng {
    let seed = match env::var("FILCH_SEED") {
        Ok(seed) => seed.parse().expect("a number"),
        Err(_) => fastrand::u64(..),
    };
    println!("FILCH_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}
