//! The checks that every platform of filch passes: for those who port it, on the machine itself.
//!
//! No `std`, no allocator. A port makes one [`Suite`] over its executor, and
//!
//! 1. each core, before it enters its worker, calls [`Suite::contracts`]: the contract of [`Platform`], method by method,
//!    all cores in step;
//! 2. one core spawns [`Suite::tasks`], and all enter [`Scheduler::run`](filch::Scheduler::run): the scheduler over this
//!    platform;
//! 3. [`Suite::verdict`] says how many checks have passed and failed.
//!
//! Each check prints a line when it has ended. A lost wake-up is a hang: whoever runs the suite sets a limit, and the last line
//! says which check came before. The executor should have no watchdog and no spin rounds, since both hide a lost wake-up for
//! a while: `Config::new().watchdog(None).spin_rounds(0)`.
//!
//! A platform that checks the word and then sleeps, with a gap between, passes all of this most of the time: the gap is a
//! few instructions wide. Widen it: let the platform [`linger`] between the two (the kernels under `examples/` do so under
//! their feature `delay`), and run the suite again. It also should run over [`Hostile`], which does with wakes and
//! clocks all that the contract allows.
#![no_std]

/// The code in the page on porting compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/porting.md")]
struct Porting;

mod contracts;
mod hostile;
mod interrupts;
mod stepped;
mod tasks;

use core::{fmt, hint, time::Duration};

use filch::{
    Executor, Platform, WorkerId,
    atomic::{AtomicBool, AtomicU32, Ordering},
    io::Readiness,
};
pub use hostile::Hostile;

/// Lets so much time pass, by the platform's clock, that an interrupt which the suite has asked for comes in between: for
/// the gap between a platform's last look at the word and its halt, where no interrupt may get lost. By the clock and not by
/// a count, as emulated machines run at any speed and have their interrupts late.
pub fn linger(platform: &impl Platform) {
    let end = platform.now() + Duration::from_micros(200);
    while platform.now() < end {
        hint::spin_loop();
    }
}

/// What the suite asks of a port beyond its [`Platform`]. What is `None` is skipped, and a line says so.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// Prints a line. From any core.
    pub print: fn(fmt::Arguments<'_>),
    /// Raises an interrupt on the calling core now, whose handler calls [`Suite::on_interrupt`]: at once if interrupts are
    /// enabled, else as soon as they are.
    pub raise: Option<fn()>,
    /// As `raise`, after about so many nanoseconds: by a timer. The platform's own deadlines must not suffer by it.
    pub alarm: Option<fn(u32)>,
    /// As `raise`, on the first core and after so many instructions, as soon as interrupts are enabled; 0 calls it off. For
    /// machines that can single-step.
    pub after: Option<fn(u32)>,
    /// Wakes the waker in a context that is no worker: another thread, a core without a worker.
    pub foreign: Option<fn(core::task::Waker)>,
    /// How often cores have come out of their halt so far, all together.
    pub halts: Option<fn() -> usize>,
    /// How often a core may come out of its sleep in a second without work: 0, but for a clock that has to be wound. `None`:
    /// the platform is one of spurious wake-ups.
    pub stirs: Option<usize>,
    /// Whether panics unwind here; as they do in this build, unless the port says otherwise. Then a task of the suite panics, and the
    /// platform's `guard` must contain it: one whose guard is the default ends here, and says so.
    pub unwinds: bool,
    /// How many wakes from core to core, in each of the checks that count them, all cores together.
    pub wakes: u32,
    /// How many tasks live at the same time: as many as the memory holds that [`Suite::tasks`] gets, at most.
    pub tasks: u32,
}

impl Port {
    /// A port without hooks: 10,000 wakes, 64 tasks.
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
    /// Interrupts are raised at the scheduler's events.
    provoking: AtomicBool,
    struck: interrupts::Struck,
    /// Cores on which the check under way does not hold.
    broken: AtomicU32,
    passed: AtomicU32,
    failed: AtomicU32,
    skipped: AtomicU32,
}

/// What a core waits on, and tells.
#[repr(align(64))]
struct Lane {
    /// The word of its waits.
    word: AtomicU32,
    /// What came with the word.
    data: AtomicU32,
    /// The last value of the word that it has seen.
    seen: AtomicU32,
    interrupts: AtomicU32,
}

impl Lane {
    const fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            data: AtomicU32::new(0),
            seen: AtomicU32::new(0),
            interrupts: AtomicU32::new(0),
        }
    }
}

/// Where cores wait for each other.
struct Meeting {
    arrived: AtomicU32,
    held: AtomicU32,
}

impl<P: Platform, const N: usize, const RING: usize> Suite<P, N, RING> {
    /// The suite for this executor, which nobody has entered yet.
    pub const fn new(executor: &'static Executor<P, N, RING>, port: Port) -> Self {
        Self {
            executor,
            port,
            meeting: Meeting { arrived: AtomicU32::new(0), held: AtomicU32::new(0) },
            lanes: [const { Lane::new() }; N],
            cell: Readiness::new(),
            provoking: AtomicBool::new(false),
            struck: interrupts::Struck::new(),
            broken: AtomicU32::new(0),
            passed: AtomicU32::new(0),
            failed: AtomicU32::new(0),
            skipped: AtomicU32::new(0),
        }
    }

    /// How many checks have passed, and how many have failed.
    pub fn verdict(&self) -> (u32, u32) {
        (self.passed.load(Ordering::Acquire), self.failed.load(Ordering::Acquire))
    }

    /// Counts and prints a check, also one of the port's own.
    pub fn check(&self, what: impl fmt::Display, holds: bool) {
        (self.port.print)(format_args!("{} {what}", if holds { "ok  " } else { "FAIL" }));
        let count = if holds { &self.passed } else { &self.failed };
        count.fetch_add(1, Ordering::AcqRel);
    }

    fn skip(&self, what: &str, why: &str) {
        (self.port.print)(format_args!("skip {what}: {why}"));
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// A check that each core makes for itself, at the same time.
    fn on_each(&self, me: WorkerId, what: impl fmt::Display, check: impl FnOnce() -> bool) {
        self.meet();
        if !check() {
            self.broken.fetch_add(1, Ordering::AcqRel);
        }
        self.meet();
        if me.index() == 0 {
            let holds = self.broken.swap(0, Ordering::AcqRel) == 0;
            self.check(what, holds);
        }
    }

    /// Waits until all cores are here.
    fn meet(&self) {
        let Meeting { arrived, held } = &self.meeting;
        // Ordering: our own arrival comes after it, and the next meeting needs that.
        let number = held.load(Ordering::Acquire);
        // Ordering: AcqRel: the last to arrive sees what all have done, and passes it on by `held`.
        if arrived.fetch_add(1, Ordering::AcqRel) + 1 == N as u32 {
            arrived.store(0, Ordering::Relaxed);
            held.store(number.wrapping_add(1), Ordering::Release);
            return;
        }
        // Ordering: Acquire pairs with the Release above.
        while held.load(Ordering::Acquire) == number {
            self.executor.platform().relax(u32::MAX);
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
