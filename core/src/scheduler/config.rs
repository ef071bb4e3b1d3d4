//! The configuration of an executor.

use core::{marker::PhantomData, time::Duration};

use super::error::BuildError;
use crate::{
    atomic::Setting,
    parts::{Parts, Switch},
    task::coop::BUDGET,
};

/// The settings of an executor, each with a default that suits most programs.
///
/// ```
/// use core::time::Duration;
/// use filch::Config;
/// /// Workers that keep their tasks, and sleep at once.
/// const PER_CORE: Config = Config::new().stealing(false).spin_rounds(0).watchdog(None);
/// /// What helps while a platform is brought up.
/// const BRINGUP: Config = PER_CORE
///     .seed(7)
///     .lifo_cap(0)
///     .budget(1)
///     .park_timeout(Some(Duration::from_micros(500)))
///     .timer_resolution(Duration::from_micros(64));
/// /// For sync code: waits may nest, and spare slots take the place of blocked workers.
/// const BLOCKING: Config = Config::new().nesting(16).spare_slots(2).poll_limit(Some(Duration::from_micros(900)));
/// /// For fork-join runs beside tasks with short delays.
/// const MIXED: Config = Config::new().job_slice(Duration::from_micros(200)).job_workers(3);
/// # #[cfg(feature = "classes")]
/// const RANKED: Config = MIXED.classes(true).background_share(8);
/// assert_ne!(Config::default(), PER_CORE);
/// # let _ = (BRINGUP, BLOCKING, MIXED);
/// # #[cfg(feature = "classes")]
/// # let _ = RANKED;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub(crate) stealing: bool,
    pub(crate) lifo_cap: u32,
    pub(crate) budget: u16,
    pub(crate) spin_rounds: u32,
    pub(crate) watchdog: Option<(u64, u64)>,
    pub(crate) park_timeout: Option<u64>,
    pub(crate) poll_limit: Option<u64>,
    pub(crate) nesting: u32,
    pub(crate) spares: u16,
    pub(crate) wheel_slot_log2: u32,
    pub(crate) job_slice: u64,
    pub(crate) job_workers: u16,
    pub(crate) seed: u64,
    #[cfg(feature = "classes")]
    pub(crate) classes: bool,
    #[cfg(feature = "classes")]
    pub(crate) background: u32,
}

const fn nanos(d: Duration) -> u64 {
    let n = d.as_nanos();
    if n > u64::MAX as u128 { u64::MAX } else { n as u64 }
}

impl Config {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            stealing: true,
            lifo_cap: 3,
            budget: BUDGET as u16,
            spin_rounds: 32,
            watchdog: Some((400_000, 10_000_000)),
            park_timeout: None,
            poll_limit: None,
            nesting: 64,
            spares: 0,
            wheel_slot_log2: 18,
            job_slice: 1_000_000,
            job_workers: u16::MAX,
            seed: 0,
            #[cfg(feature = "classes")]
            classes: true,
            #[cfg(feature = "classes")]
            background: 16,
        }
    }

    /// The seed of the workers' choices of victims (default: 0). Equal seeds make equal choices; a simulation sets it.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Whether idle workers steal (default: true). Without it each worker keeps what was woken on it, thread-per-core;
    /// tasks from outside still go to any worker that is free.
    pub const fn stealing(mut self, on: bool) -> Self {
        self.stealing = on;
        self
    }

    /// How many polls in a row may come from the LIFO slot before it is flushed to the ring (default: 3; 0 turns the
    /// slot off). Without the part [`Cores`](crate::parts::Cores) there is no such slot.
    pub const fn lifo_cap(mut self, polls: u32) -> Self {
        self.lifo_cap = polls;
        self
    }

    /// How many ready operations a task may do in one poll before it gives way (default: [`BUDGET`], 128; from 1 to 65,535): see
    /// [`consume_budget`](crate::consume_budget). A small budget lets the other tasks of a worker run soon while one task has much that is
    /// ready; a large one saves what a poll costs. A budget of zero is refused where the executor is made.
    pub const fn budget(mut self, units: u16) -> Self {
        self.budget = units;
        self
    }

    /// How often an idle worker looks for work again before it sleeps, at most, with [`Platform::relax`](crate::Platform::relax)
    /// in between (default: 32; 0 on kernels that want it). A worker whose sleeps are long looks less often, down to 6 times. One that
    /// has heard of I/O looks once, until 64 of its sleeps have ended by work or by a timer.
    pub const fn spin_rounds(mut self, rounds: u32) -> Self {
        self.spin_rounds = rounds;
        self
    }

    /// The watchdog's short and long timeout (default: 400 us and 10 ms), or `None` for no watchdog.
    ///
    /// While a worker is awake, up to two sleeping workers wake at this timeout and scan the others. A worker that two scans find
    /// in the same poll is stuck. The scanning worker then takes the task in the stuck worker's LIFO slot and half of its ring,
    /// and fires its due timers.
    ///
    /// The timeout is the long one until a scan finds a long poll. It is the short one for 256 scans after the last that found
    /// one. So a program whose polls are short pays for one scan in each long timeout. A task waits for about two long timeouts
    /// behind the first long poll, and for about two short ones behind the next.
    ///
    /// Without a watchdog the tasks and timers of a stuck worker wait for the end of its poll, unless another worker is busy:
    /// that one looks at one other worker at the end of each tick. A timeout of zero is refused where the executor is made.
    pub const fn watchdog(mut self, timeouts: Option<(Duration, Duration)>) -> Self {
        self.watchdog = match timeouts {
            Some((short, long)) => Some((nanos(short), nanos(long))),
            None => None,
        };
        self
    }

    /// Refuses a timeout of zero of the watchdog, which would never sleep, and a budget of zero, with which no task would come further.
    pub(crate) const fn check(&self) -> Result<(), BuildError> {
        match self {
            Self { watchdog: Some((0, _) | (_, 0)), .. } => Err(BuildError::WatchdogNeverSleeps),
            Self { budget: 0, .. } => Err(BuildError::ZeroBudget),
            _ => Ok(()),
        }
    }

    /// The longest sleep of an idle worker (default: none). No protocol relies on it. It helps while a platform is brought up.
    pub const fn park_timeout(mut self, longest: Option<Duration>) -> Self {
        self.park_timeout = match longest {
            Some(d) => Some(nanos(d)),
            None => None,
        };
        self
    }

    /// How long one poll may last before it is reported as [`Event::LongPoll`](crate::Event::LongPoll) (default:
    /// none).
    pub const fn poll_limit(mut self, limit: Option<Duration>) -> Self {
        self.poll_limit = match limit {
            Some(d) => Some(nanos(d)),
            None => None,
        };
        self
    }

    /// How deep waits in sync code may nest on one worker before the worker blocks (default: 64). A blocked worker still runs the
    /// tasks that are pinned to it, since no other worker can run them.
    pub const fn nesting(mut self, depth: u32) -> Self {
        self.nesting = depth;
        self
    }

    /// How many of the executor's worker slots are spare slots (default: 0): for threads that help while they wait, and for
    /// compensation workers in the place of blocked ones.
    pub const fn spare_slots(mut self, slots: u16) -> Self {
        self.spares = slots;
        self
    }

    /// How long a worker may run a piece of another worker's fork-join loop before it gives back the rest of the piece (default:
    /// 1 ms). It does so only if tasks, timers or I/O may wait that no sleeping worker would take. It looks at the time between
    /// two calls of the loop's closure. The worker that began the run continues with the rest, or gives it to other workers.
    ///
    /// So with two workers or more a task waits for such a loop at most this long and one call of the closure. That holds for
    /// [`Fork::for_each`](crate::Fork::for_each) and its like. A side of a [`join`](crate::Fork::join) and a job of a scope run
    /// to their end, see [`job_workers`](Self::job_workers). The worker that began a run is in it until its end, as in a long
    /// poll.
    pub const fn job_slice(mut self, slice: Duration) -> Self {
        self.job_slice = nanos(slice);
        self
    }

    /// How many workers at most take jobs of others' fork-join runs at a time (default: no limit). Workers that began a run are
    /// not counted. The other workers stay free for tasks, whose delay then does not depend on how long jobs are; without tasks
    /// they sleep.
    pub const fn job_workers(mut self, most: u16) -> Self {
        self.job_workers = most;
        self
    }

    /// Whether tasks have classes (default: true). Without, each task is [`Normal`](crate::Class::Normal), whatever it is given: to see
    /// what classes are worth.
    #[cfg(feature = "classes")]
    pub const fn classes(mut self, on: bool) -> Self {
        self.classes = on;
        self
    }

    /// The share of its polling time that a worker gives to background tasks while it always has others: one of `n` (default: 16).
    /// 0: they run in idle time alone. 1 counts as 2, the largest share.
    ///
    /// Among any polls of a worker whose own queues hold a background task, such tasks get at least that share of the time, less
    /// 17 polls of other classes and one of their own: a worker looks after each eighth poll, and the first look starts the clock.
    /// Urgent tasks still come first, and the time of their polls counts for the share.
    #[cfg(feature = "classes")]
    pub const fn background_share(mut self, n: u32) -> Self {
        self.background = n;
        self
    }

    /// The width of a slot of the timer wheel (default: 2^18 ns, about 262 us). It is rounded down to a power of two of
    /// nanoseconds, between 2^10 and 2^30. No timer fires early or late by it: it only sets how often far timers are moved.
    pub const fn timer_resolution(mut self, width: Duration) -> Self {
        let log = 63 - (nanos(width) | 1).leading_zeros();
        self.wheel_slot_log2 = if log < 10 {
            10
        } else if log > 30 {
            30
        } else {
            log
        };
        self
    }
}

/// A [`Config`] in force. It may change from one use of an executor's memory to the next
/// ([`reopen_with`](crate::Scheduler::reopen_with)), while wakers of the last use still read it.
pub(crate) struct Settings<F> {
    /// These never change: the layout of slots and wheels depends on them.
    pub(crate) spares: u16,
    pub(crate) wheel_slot_log2: u32,
    /// The lower half and the upper.
    seed: [Setting; 2],
    stealing: Setting,
    lifo_cap: Setting,
    budget: Setting,
    spin_rounds: Setting,
    nesting: Setting,
    job_workers: Setting,
    // In microseconds, rounded up; `NEVER` for none.
    shortest: Setting,
    longest: Setting,
    park_timeout: Setting,
    poll_limit: Setting,
    job_slice: Setting,
    #[cfg(feature = "classes")]
    classes: Setting,
    #[cfg(feature = "classes")]
    background: Setting,
    parts: PhantomData<fn() -> F>,
}

const NEVER: u32 = u32::MAX;

/// Converts nanoseconds to microseconds, rounded up: at most `NEVER - 1`, about 71 minutes, and `NEVER` for none.
const fn micros(nanos: Option<u64>) -> u32 {
    match nanos {
        Some(n) if n.div_ceil(1_000) >= NEVER as u64 => NEVER - 1,
        Some(n) => n.div_ceil(1_000) as u32,
        None => NEVER,
    }
}

fn nanos_of(setting: &Setting) -> Option<u64> {
    match setting.get() {
        NEVER => None,
        micros => {
            // In two halves: a small core has no instruction for a product of 64 bits.
            let (high, low) = ((micros >> 16) * 1_000, (micros & 0xFFFF) * 1_000);
            Some((u64::from(high) << 16) + u64::from(low))
        }
    }
}

impl<F: Parts> Settings<F> {
    pub(crate) const fn new(config: &Config) -> Self {
        let (shortest, longest) = match config.watchdog {
            Some((shortest, longest)) => (Some(shortest), Some(longest)),
            None => (None, None),
        };
        Self {
            spares: config.spares,
            wheel_slot_log2: config.wheel_slot_log2,
            seed: [Setting::new(config.seed as u32), Setting::new((config.seed >> 32) as u32)],
            stealing: Setting::new(config.stealing as u32),
            lifo_cap: Setting::new(config.lifo_cap),
            budget: Setting::new(config.budget as u32),
            spin_rounds: Setting::new(config.spin_rounds),
            nesting: Setting::new(config.nesting),
            job_workers: Setting::new(config.job_workers as u32),
            shortest: Setting::new(micros(shortest)),
            longest: Setting::new(micros(longest)),
            park_timeout: Setting::new(micros(config.park_timeout)),
            poll_limit: Setting::new(micros(config.poll_limit)),
            job_slice: Setting::new(micros(Some(config.job_slice))),
            #[cfg(feature = "classes")]
            classes: Setting::new(config.classes as u32),
            #[cfg(feature = "classes")]
            background: Setting::new(config.background),
            parts: PhantomData,
        }
    }

    /// The settings that may change.
    fn each(&self) -> [&Setting; if cfg!(feature = "classes") { 15 } else { 13 }] {
        let Self { stealing, lifo_cap, budget, spin_rounds, nesting, job_workers, .. } = self;
        let Self { shortest, longest, park_timeout, poll_limit, job_slice, .. } = self;
        [
            stealing,
            lifo_cap,
            budget,
            spin_rounds,
            nesting,
            job_workers,
            shortest,
            longest,
            park_timeout,
            poll_limit,
            job_slice,
            &self.seed[0],
            &self.seed[1],
            #[cfg(feature = "classes")]
            &self.classes,
            #[cfg(feature = "classes")]
            &self.background,
        ]
    }

    pub(crate) fn change(&self, config: &Config) {
        for (old, new) in self.each().into_iter().zip(Self::new(config).each()) {
            old.set(new.get());
        }
    }

    pub(crate) fn seed(&self) -> u64 {
        let [low, high] = &self.seed;
        u64::from(high.get()) << 32 | u64::from(low.get())
    }

    #[inline(always)]
    pub(crate) fn stealing(&self) -> bool {
        F::Cores::ON && self.stealing.get() != 0
    }
    #[inline(always)]
    pub(crate) fn lifo_cap(&self) -> u16 {
        self.lifo_cap.get().try_into().unwrap_or(u16::MAX)
    }
    pub(crate) fn budget(&self) -> u16 {
        self.budget.get() as u16
    }
    pub(crate) fn spin_rounds(&self) -> u32 {
        if F::Cores::ON { self.spin_rounds.get() } else { 0 }
    }
    pub(crate) fn nesting(&self) -> u32 {
        self.nesting.get()
    }
    pub(crate) fn job_workers(&self) -> u32 {
        self.job_workers.get()
    }
    #[inline]
    pub(crate) fn has_watchdog(&self) -> bool {
        F::Cores::ON && F::Watchdog::ON && self.shortest.get() != NEVER
    }
    /// In nanoseconds, as are the results of the methods below.
    pub(crate) fn watchdog(&self) -> Option<(u64, u64)> {
        if !self.has_watchdog() {
            return None;
        }
        nanos_of(&self.shortest).zip(nanos_of(&self.longest))
    }
    pub(crate) fn park_timeout(&self) -> Option<u64> {
        nanos_of(&self.park_timeout)
    }
    pub(crate) fn poll_limit(&self) -> Option<u64> {
        if F::Watchdog::ON { nanos_of(&self.poll_limit) } else { None }
    }
    /// Whether tasks may have classes.
    #[inline(always)]
    pub(crate) fn classes(&self) -> bool {
        #[cfg(feature = "classes")]
        return F::Classes::ON && self.classes.get() != 0;
        #[cfg(not(feature = "classes"))]
        false
    }
    /// Background tasks have one of so many nanoseconds; 0 for none.
    pub(crate) fn background_share(&self) -> u32 {
        #[cfg(feature = "classes")]
        return self.background.get();
        #[cfg(not(feature = "classes"))]
        0
    }
    pub(crate) fn job_slice(&self) -> u64 {
        nanos_of(&self.job_slice).unwrap_or(u64::MAX)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}
