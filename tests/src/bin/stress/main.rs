//! Stress: a runtime of workers and as many foreign threads, which spawn, wake, abort, join and drop at random.
//!
//! ```text
//! cargo run --release -p filch-tests --bin stress -- [--seconds 60] [--workers 4] [--foreign 4] [--seed S]
//! ```
//!
//! The watchdog and every timeout are off, so that nothing repairs a lost wake-up: it is a hang,
//! which is reported with the seed, and exit status 101. Time is divided into *lives* of a runtime,
//! each of which ends with a shutdown under load, and lives into *rounds*. At the end of each round
//! the foreign threads pause, only the tasks in slots are woken, and the accounts must balance:
//! every task completed, cancelled, panicked or refused; every future and every output dropped
//! once; no task cancelled unless it was aborted.
//!
//! `--seed` repeats the random choices of each thread and each task. It does not repeat how they interleave.

mod accounts;
mod foreign;
mod kinds;
mod tables;

use core::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use std::{
    process::ExitCode,
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use fastrand::Rng;
use filch_std::{Handle, Runtime, runtime::WorkerMetrics};

use crate::{
    foreign::{Control, Pace},
    kinds::Ctx,
};

/// If no task ends for so long, it is a hang.
const PATIENCE: Duration = Duration::from_secs(20);
const LIFE: Duration = Duration::from_secs(3);

struct Options {
    seconds: u64,
    workers: u16,
    foreign: usize,
    seed: u64,
}

fn options() -> Result<Options, String> {
    let seed = Rng::new().u64(..);
    let mut options = Options { seconds: 60, workers: 4, foreign: 4, seed };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name} wants a value"))?;
        let number: u64 = value.parse().map_err(|e| format!("{name} {value}: {e}"))?;
        match name.as_str() {
            "--seconds" => options.seconds = number,
            "--workers" => options.workers = u16::try_from(number).map_err(|e| e.to_string())?,
            "--foreign" => options.foreign = number as usize,
            "--seed" => options.seed = number,
            other => return Err(format!("no such option: {other}")),
        }
    }
    if options.workers == 0 {
        return Err("at least one worker".into());
    }
    Ok(options)
}

/// Prints the state of a runtime.
fn print_state(handle: &Handle) {
    let metrics = handle.metrics();
    eprintln!("{:?}", metrics.totals());
    for (id, worker) in metrics.workers() {
        eprintln!("{id:?}: {worker:?}");
    }
    accounts::errors().iter().for_each(|error| eprintln!("{error}"));
}

/// The runtime of the current life, for the watchdog.
static CURRENT: Mutex<Option<Handle>> = Mutex::new(None);
static SEED: AtomicU64 = AtomicU64::new(0);
static OVER: AtomicBool = AtomicBool::new(false);

/// Ends the process if no task ends for too long.
fn watchdog() {
    let (mut last, mut since) = (0, Instant::now());
    while !OVER.load(Relaxed) {
        thread::sleep(Duration::from_millis(100));
        let ended = accounts::ended();
        if ended != last {
            (last, since) = (ended, Instant::now());
        } else if since.elapsed() > PATIENCE + Duration::from_secs(5) {
            // The main thread, which could print the tasks, hangs itself.
            hang(|| {
                let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
                current.iter().for_each(print_state);
            });
        }
    }
}

fn hang(state: impl FnOnce()) -> ! {
    eprintln!("HANG (seed {}): no progress for {PATIENCE:?}", SEED.load(Relaxed));
    state();
    std::process::exit(101);
}

/// One runtime, from its beginning to its shutdown under load.
struct Life<'a> {
    options: &'a Options,
    control: &'a Control,
    rng: Rng,
    /// Spawned and refused before this life.
    before: (u64, u64),
    /// The runtime's own counts before: an earlier runtime may have used its memory.
    counted: (usize, usize),
}

impl Life<'_> {
    /// Runs rounds until the time is up; returns how many.
    fn rounds(&mut self, runtime: &Runtime, end: Instant) -> u64 {
        let mut rounds = 0;
        while Instant::now() < end {
            let pace = match self.rng.u8(..6) {
                0 | 1 => Pace::Busy,
                2 => Pace::Bursty,
                3 => Pace::Sparse,
                _ => Pace::Alone,
            };
            self.control.resume(pace);
            thread::sleep(Duration::from_millis(self.rng.u64(20..300)));
            self.control.pause();
            self.settle(runtime);
            rounds += 1;
        }
        rounds
    }

    /// Waits until the foreign threads pause, no task is left and the accounts balance.
    fn settle(&mut self, runtime: &Runtime) {
        let (mut last, mut since) = (0, Instant::now());
        loop {
            tables::fire_all(&mut self.rng);
            tables::clear();
            let resting = self.control.waiting() == self.options.foreign;
            let totals = runtime.metrics().totals();
            if resting
                && totals.live == 0
                && accounts::errors().is_empty()
                && self.miscounted(totals.spawned, totals.completed).is_none()
            {
                return;
            }
            let ended = accounts::ended();
            if ended != last {
                (last, since) = (ended, Instant::now());
            } else if since.elapsed() > PATIENCE {
                hang(|| {
                    eprintln!("foreign threads at rest: {}", self.control.waiting());
                    print_state(&self.handle(runtime));
                    let miscounted = self.miscounted(totals.spawned, totals.completed);
                    eprintln!("{}", miscounted.unwrap_or_default());
                    runtime.tasks().iter().for_each(|task| eprintln!("{task:?}"));
                });
            }
            thread::sleep(Duration::from_micros(200));
        }
    }

    fn handle(&self, runtime: &Runtime) -> Handle {
        *runtime.handle()
    }

    /// The first difference between the runtime's counts and these, once all tasks have ended.
    fn miscounted(&self, spawned: usize, completed: usize) -> Option<String> {
        let (created, refused) = accounts::spawned();
        let ours = (created - self.before.0) - (refused - self.before.1);
        let theirs = (
            spawned.wrapping_sub(self.counted.0) as u64,
            completed.wrapping_sub(self.counted.1) as u64,
        );
        (theirs != (ours, ours))
            .then(|| format!("the runtime counts {theirs:?}, spawned here were {ours}"))
    }
}

/// What the workers have done, over all lives.
#[derive(Default)]
struct Figures {
    workers: Vec<WorkerMetrics>,
    lives: u64,
    rounds: u64,
    survivors: usize,
    steps: u64,
    joins: u64,
}

impl Figures {
    fn add(&mut self, before: &[WorkerMetrics], after: &[WorkerMetrics]) {
        self.workers.resize(after.len().max(self.workers.len()), WorkerMetrics::default());
        for ((sum, a), b) in self.workers.iter_mut().zip(after).zip(before) {
            sum.polls += a.polls - b.polls;
            sum.lifo_hits += a.lifo_hits - b.lifo_hits;
            sum.steals += a.steals - b.steals;
            sum.stolen += a.stolen - b.stolen;
            sum.injector_batches += a.injector_batches - b.injector_batches;
            sum.overflows += a.overflows - b.overflows;
            sum.parks += a.parks - b.parks;
            sum.sweeps += a.sweeps - b.sweeps;
            sum.busy_micros += a.busy_micros - b.busy_micros;
        }
    }

    fn print(&self, workers: u16) {
        println!(
            "{:<10}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
            "worker",
            "polls",
            "lifo",
            "steals",
            "stolen",
            "batches",
            "overflows",
            "parks",
            "busy ms"
        );
        for (i, w) in self.workers.iter().enumerate() {
            let name =
                if i < usize::from(workers) { format!("{i}") } else { format!("{i} (spare)") };
            println!(
                "{name:<10}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
                w.polls,
                w.lifo_hits,
                w.steals,
                w.stolen,
                w.injector_batches,
                w.overflows,
                w.parks,
                w.busy_micros / 1_000
            );
        }
        println!(
            "lives {}, rounds {}, survivors of shutdowns {}, steps of foreign threads {}, joins by them {}",
            self.lives, self.rounds, self.survivors, self.steps, self.joins
        );
    }
}

fn build(options: &Options, rng: &mut Rng) -> Result<Runtime, filch_std::runtime::BuildError> {
    let mut builder =
        Runtime::builder().workers(options.workers.into()).watchdog(None).park_timeout(None);
    // The other options vary, but repeat, so that a runtime's memory is reused.
    builder = match rng.u8(..7) {
        0 => builder.spin_rounds(0),
        1 => builder.nesting(2),
        2 => builder.lifo_cap(0).spin_rounds(1),
        3 => builder.stealing(false),
        4 => builder.budget(1),
        _ => builder,
    };
    builder.build()
}

fn live(options: &Options, mut rng: Rng, length: Duration, figures: &mut Figures) {
    let runtime = match build(options, &mut rng) {
        Ok(runtime) => runtime,
        Err(error) => accounts::violation(&format!("no runtime: {error}")),
    };
    let handle = *runtime.handle();
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
    accounts::set_closing(false);
    let workers = || handle.metrics().workers().map(|(_, m)| m).collect::<Vec<_>>();
    let before = workers();
    let totals = runtime.metrics().totals();
    let control = Control::default();
    let done = AtomicBool::new(false);
    control.pause();
    let mut life = Life {
        options,
        control: &control,
        rng: rng.fork(),
        before: accounts::spawned(),
        counted: (totals.spawned, totals.completed),
    };
    let ctx = Ctx { handle, workers: options.workers };
    thread::scope(|scope| {
        for index in 0..options.foreign {
            let (control, rng) = (&control, rng.fork());
            scope.spawn(move || foreign::run(ctx, control, index, rng));
        }
        figures.rounds += life.rounds(&runtime, Instant::now() + length);

        // The end, under load.
        control.resume(Pace::Busy);
        thread::sleep(Duration::from_millis(rng.u64(..50)));
        accounts::set_closing(true);
        scope.spawn(|| {
            let mut rng = Rng::with_seed(options.seed);
            while !done.load(Relaxed) {
                tables::fire_all(&mut rng);
                thread::sleep(Duration::from_micros(500));
            }
        });
        let patience = Duration::from_millis([0, 1, 20, 100][rng.usize(..4)]);
        figures.survivors += runtime.shutdown(patience).len();
        done.store(true, Relaxed);
        // Nothing runs any more; late wakes, aborts and spawns have no effect.
        thread::sleep(Duration::from_millis(rng.u64(..20)));
        control.quit();
    });
    tables::fire_all(&mut rng);
    tables::clear();
    let totals = handle.metrics().totals();
    let mut errors = accounts::errors();
    errors.extend(life.miscounted(totals.spawned, totals.completed));
    if totals.live != 0 {
        errors.push(format!("{} tasks are left", totals.live));
    }
    if !errors.is_empty() {
        print_state(&handle);
        accounts::violation(&format!("after a shutdown: {}", errors.join("; ")));
    }
    figures.add(&before, &workers());
    figures.lives += 1;
    figures.steps += control.steps.load(Relaxed);
    figures.joins += control.joins.load(Relaxed);
}

/// Silences the panics that are on purpose; any other ends the process.
fn hook_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        let on_purpose = payload.downcast_ref::<&str>() == Some(&accounts::ON_PURPOSE)
            || payload.downcast_ref::<String>().is_some_and(|s| s == accounts::ON_PURPOSE);
        if !on_purpose {
            print(info);
            accounts::violation("a panic that is not on purpose");
        }
    }));
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("stress: {error}");
            return ExitCode::from(2);
        }
    };
    println!(
        "stress: {} s, {} workers, {} foreign threads, seed {} (repeats the choices, not the interleaving)",
        options.seconds, options.workers, options.foreign, options.seed
    );
    SEED.store(options.seed, Relaxed);
    accounts::set_seed(options.seed);
    hook_panics();
    let dog = thread::spawn(watchdog);
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut figures = Figures::default();
    let mut rng = Rng::with_seed(options.seed);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        live(&options, rng.fork(), left.min(LIFE), &mut figures);
    }
    OVER.store(true, Relaxed);
    drop(dog.join());
    accounts::print();
    figures.print(options.workers);
    println!("the books balance: every task, future and output is accounted for");
    ExitCode::SUCCESS
}
