//! The checks that every platform of filch must pass: for ports, on the machine itself.
//!
//! No `std`, no allocator. A port makes one [`Suite`] over its executor, and
//!
//! 1. each core, before it enters its worker, calls [`Suite::contracts`]: the contract of [`Platform`], method by method,
//!    all cores in step;
//! 2. one core spawns [`Suite::tasks`], and all enter [`Scheduler::run`](filch::Scheduler::run): the scheduler over this
//!    platform;
//! 3. [`Suite::verdict`] returns how many checks have passed and failed.
//!
//! Each check prints a line when it has ended. A lost wake-up is a hang: run the suite with a time
//! limit; the last line names the check before the hang, and with several cores a line names the one
//! that hangs. The executor should have no watchdog and
//! no spin rounds, since both hide a lost wake-up for a while:
//! `Config::new().watchdog(None).spin_rounds(0)`. Then run it with the configuration of the program.
//!
//! A platform that checks the word and then sleeps, with a gap in between, usually passes: the gap
//! is a few instructions wide. Widen it: let the platform [`linger`] between the two (the kernels
//! under `examples/` do so with their feature `delay`), and run the suite again. Also run it over
//! [`Hostile`], whose wakes and clock misbehave as far as the contract allows.
#![no_std]

/// The code in docs/porting.md compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/porting.md")]
struct Porting;

mod contracts;
mod hostile;
mod interrupts;
mod stepped;
mod tasks;
mod timing;

use core::{fmt, hint, time::Duration};

use filch::{
    Executor, Platform, WorkerId,
    atomic::{AtomicBool, AtomicU32, Ordering},
    io::Readiness,
};
pub use hostile::Hostile;

/// Waits, by the platform's clock, until an interrupt that the suite has requested has come: for
/// the gap between a platform's last check of the word and its halt, where no interrupt may be
/// lost. It uses the clock and not a count, as emulated machines run at any speed and deliver their
/// interrupts late.
pub fn linger(platform: &impl Platform) {
    let end = platform.now() + Duration::from_micros(200);
    while platform.now() < end {
        hint::spin_loop();
    }
}

/// What the suite needs from a port beyond its [`Platform`]. Checks whose hook is `None` are
/// skipped, and a line says so.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// Prints a line. Called from any core.
    pub print: fn(fmt::Arguments<'_>),
    /// Raises an interrupt on the calling core now, whose handler calls [`Suite::on_interrupt`]: at
    /// once if interrupts are enabled, otherwise as soon as they are.
    pub raise: Option<fn()>,
    /// As `raise`, after about so many nanoseconds: by a timer. It must not disturb the platform's
    /// own deadlines.
    pub alarm: Option<fn(u32)>,
    /// As `raise`, on the first core and after so many instructions, as soon as interrupts are
    /// enabled; 0 cancels it. For machines that can single-step.
    pub after: Option<fn(u32)>,
    /// Wakes the waker in a context that is no worker: another thread, a core without a worker.
    pub foreign: Option<fn(core::task::Waker)>,
    /// How often all cores together have come out of their halt so far.
    pub halts: Option<fn() -> usize>,
    /// How often a core may come out of its sleep in a second without work: 0, unless the clock
    /// needs a periodic interrupt; 16 with a watchdog, whose watchers look around a few times before
    /// they rest. `None`: the platform has spurious wake-ups.
    pub stirs: Option<usize>,
    /// Whether panics unwind here; by default as in this build. If so, a task of the suite panics,
    /// and the platform's `guard` must contain it and keep its message.
    pub unwinds: bool,
    /// How late a sleep may end, at most: the best of many tries, so that a busy host does not
    /// matter. By default 5 ms; a platform whose timer ticks are further apart needs more.
    pub late: Duration,
    /// After so much time in which a core waits for others at the end of a check, a line names the
    /// check and the cores that are still in it: 60 s by default. It is no failure; the time limit
    /// of the whole run is what ends a hang.
    pub patience: Duration,
    /// The number of wakes from core to core in each check that counts them, for all cores
    /// together.
    pub wakes: u32,
    /// The number of tasks that live at the same time: at most as many as fit into the memory that
    /// [`Suite::tasks`] gets.
    pub tasks: u32,
}

impl Port {
    /// A port without hooks: 10,000 wakes, 64 tasks, sleeps that end within 5 ms.
    pub const fn new(print: fn(fmt::Arguments<'_>)) -> Self {
        Self {
            print,
            raise: None,
            alarm: None,
            after: None,
            foreign: None,
            halts: None,
            stirs: Some(0),
            unwinds: cfg!(panic = "unwind"),
            late: Duration::from_millis(5),
            patience: Duration::from_secs(60),
            wakes: 10_000,
            tasks: 64,
        }
    }
}

/// The suite, for an executor of `N` workers. Const-constructible, in a `static`.
pub struct Suite<P: Platform, const N: usize, const RING: usize = 256> {
    executor: &'static Executor<P, N, RING>,
    port: Port,
    meeting: Meeting,
    lanes: [Lane; N],
    /// Set by interrupts.
    cell: Readiness,
    /// When the last of them came.
    struck_at: AtomicU32,
    /// Whether interrupts are raised at the scheduler's events.
    provoking: AtomicBool,
    struck: interrupts::Struck,
    /// The cores on which the current check fails.
    broken: AtomicU32,
    passed: AtomicU32,
    failed: AtomicU32,
    skipped: AtomicU32,
}

/// The word that a core waits on, and its answers.
#[repr(align(64))]
struct Lane {
    /// The word of its waits.
    word: AtomicU32,
    /// The data that came with the word.
    data: AtomicU32,
    /// The last value of the word that the core has seen.
    seen: AtomicU32,
    interrupts: AtomicU32,
    /// It is in a wake that interrupts should come into, and how many have.
    waking: AtomicBool,
    struck: AtomicU32,
    /// How often it has come to a meeting.
    met: AtomicU32,
}

impl Lane {
    const fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            data: AtomicU32::new(0),
            seen: AtomicU32::new(0),
            interrupts: AtomicU32::new(0),
            waking: AtomicBool::new(false),
            struck: AtomicU32::new(0),
            met: AtomicU32::new(0),
        }
    }
}

/// A barrier for all cores.
struct Meeting {
    arrived: AtomicU32,
    held: AtomicU32,
    /// A core has said that this meeting waits for others.
    late: AtomicBool,
}

impl<P: Platform, const N: usize, const RING: usize> Suite<P, N, RING> {
    /// The suite for this executor, whose workers have not been entered yet.
    pub const fn new(executor: &'static Executor<P, N, RING>, port: Port) -> Self {
        Self {
            executor,
            port,
            meeting: Meeting {
                arrived: AtomicU32::new(0),
                held: AtomicU32::new(0),
                late: AtomicBool::new(false),
            },
            lanes: [const { Lane::new() }; N],
            cell: Readiness::new(),
            struck_at: AtomicU32::new(0),
            provoking: AtomicBool::new(false),
            struck: interrupts::Struck::new(),
            broken: AtomicU32::new(0),
            passed: AtomicU32::new(0),
            failed: AtomicU32::new(0),
            skipped: AtomicU32::new(0),
        }
    }

    /// The port's hooks.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// What each interrupt sets, after it has noted its time ([`struck_at`](Self::struck_at)).
    pub fn cell(&self) -> &Readiness {
        &self.cell
    }

    /// When the last interrupt came to its handler: the lower half of the clock's nanoseconds.
    pub fn struck_at(&self) -> u32 {
        self.struck_at.load(Ordering::Relaxed)
    }

    /// How many checks have passed, and how many have failed.
    pub fn verdict(&self) -> (u32, u32) {
        (self.passed.load(Ordering::Acquire), self.failed.load(Ordering::Acquire))
    }

    /// Counts and prints a check. A port may add its own.
    pub fn check(&self, what: impl fmt::Display, holds: bool) {
        (self.port.print)(format_args!("{} {what}", if holds { "ok  " } else { "FAIL" }));
        let count = if holds { &self.passed } else { &self.failed };
        count.fetch_add(1, Ordering::AcqRel);
    }

    fn skip(&self, what: &str, why: &str) {
        (self.port.print)(format_args!("skip {what}: {why}"));
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// A check that each core makes at the same time.
    fn on_each(&self, me: WorkerId, what: impl fmt::Display, check: impl FnOnce() -> bool) {
        self.meet(me, &what);
        if !check() {
            self.broken.fetch_add(1, Ordering::AcqRel);
        }
        self.meet(me, &what);
        if me.index() == 0 {
            let holds = self.broken.swap(0, Ordering::AcqRel) == 0;
            self.check(what, holds);
        }
    }

    /// Waits until all cores are here, in this check.
    fn meet(&self, me: WorkerId, what: &dyn fmt::Display) {
        let Meeting { arrived, held, late } = &self.meeting;
        let met = &self.lanes[me.index()].met;
        // Ordering: Relaxed; a note for `name_hang`.
        met.store(met.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        // Ordering: Acquire pairs with the Release below: this core's arrival comes after it, and
        // the next meeting needs that.
        let number = held.load(Ordering::Acquire);
        // Ordering: AcqRel pairs with itself: the last core to arrive sees what all have done, and
        // publishes it by `held`.
        if arrived.fetch_add(1, Ordering::AcqRel) + 1 == N as u32 {
            arrived.store(0, Ordering::Relaxed);
            late.store(false, Ordering::Relaxed);
            held.store(number.wrapping_add(1), Ordering::Release);
            return;
        }
        // Ordering: Acquire pairs with the Release above.
        let all_are_here = || held.load(Ordering::Acquire) != number;
        self.until(all_are_here, || {
            // Only the first one that has no more patience says so.
            if !late.swap(true, Ordering::Relaxed) {
                self.name_hang(me, what);
            }
        });
    }

    /// Waits for this condition, and calls `hang` if that takes longer than the port's patience.
    fn until(&self, condition: impl Fn() -> bool, hang: impl FnOnce()) {
        let platform = self.executor.platform();
        let (mut rounds, mut end, mut hang) = (0_u32, None, Some(hang));
        while !condition() {
            platform.relax(u32::MAX);
            rounds = rounds.wrapping_add(1);
            // Not in each round: reading the clock may slow down the cores that are waited for.
            if rounds % 1_024 == 0 {
                let now = platform.now();
                if now >= *end.get_or_insert(now + self.port.patience) {
                    hang.take().into_iter().for_each(|hang| hang());
                }
            }
        }
    }

    /// Some cores have not come to the meeting of this check for a long time.
    fn name_hang(&self, me: WorkerId, what: &dyn fmt::Display) {
        let met = |core: usize| self.lanes[core].met.load(Ordering::Relaxed);
        for core in (0..N).filter(|core| met(*core) != met(me.index())) {
            (self.port.print)(format_args!("hang {what}: core {core} is still in it"));
        }
    }
}

impl<P: Platform, const N: usize, const RING: usize> fmt::Debug for Suite<P, N, RING> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passed, failed) = self.verdict();
        f.debug_struct("Suite")
            .field("passed", &passed)
            .field("failed", &failed)
            .finish_non_exhaustive()
    }
}

/// Pseudo-random pauses: xorshift.
struct Dice(u32);

impl Dice {
    fn new(seed: usize) -> Self {
        Self((seed as u32).wrapping_mul(0x9E37_79B9) | 1)
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 % limit
    }

    fn pause(&mut self, longest: u32) {
        (0..self.below(longest)).for_each(|_| core::hint::spin_loop());
    }
}
