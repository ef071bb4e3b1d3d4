//! What a user may tune.

use core::time::Duration;

use crate::atomic::Setting;

/// The knobs of an executor, each with a default that suits most.
///
/// ```
/// use core::time::Duration;
/// use filch::Config;
/// const PER_CORE: Config = Config::new().stealing(false).spin_rounds(0).watchdog(None);
/// # let _ = PER_CORE;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub(crate) stealing: bool,
    pub(crate) lifo_cap: u32,
    pub(crate) spin_rounds: u32,
    pub(crate) watchdog: Option<(u64, u64)>,
    pub(crate) park_timeout: Option<u64>,
    pub(crate) poll_limit: Option<u64>,
    pub(crate) nesting: u32,
    pub(crate) spares: u16,
    pub(crate) tick: u32,
    pub(crate) job_slice: u64,
    pub(crate) job_workers: u16,
    pub(crate) seed: u64,
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
            spin_rounds: 32,
            watchdog: Some((400_000, 10_000_000)),
            park_timeout: None,
            poll_limit: None,
            nesting: 64,
            spares: 0,
            tick: 18,
            job_slice: 1_000_000,
            job_workers: u16::MAX,
            seed: 0,
        }
    }

    /// The seed of the workers' choices of victims (default: 0). Equal seeds make equal choices; a simulation sets it.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Whether idle workers steal (default: true). Without it each worker keeps what was woken on it, thread-per-core;
    /// tasks from outside still go to whoever is free.
    pub const fn stealing(mut self, on: bool) -> Self {
        self.stealing = on;
        self
    }

    /// How many polls in a row may come from the LIFO slot before it is flushed to the ring (default: 3; 0 turns the
    /// slot off).
    pub const fn lifo_cap(mut self, polls: u32) -> Self {
        self.lifo_cap = polls;
        self
    }

    /// How many times at most an idle worker looks again, by [`Platform::relax`](crate::Platform::relax), before it goes to
    /// sleep (default: 32; 0 on kernels that want it). A worker whose sleeps are long, or ended by I/O, looks less
    /// often, down to 6 times.
    pub const fn spin_rounds(mut self, rounds: u32) -> Self {
        self.spin_rounds = rounds;
        self
    }

    /// The watchdog's short and long timeout (default: 400 us and 10 ms), or `None` for no watchdog.
    ///
    /// While a worker is awake, up to two of those that sleep wake at this timeout and look at the others. A worker that is in the
    /// same poll at two looks is stuck: another takes the task in its LIFO slot, half of its ring, and its due timers. The timeout
    /// is the long one until a long poll was seen, and the short one for 256 looks after the last: a program whose polls are
    /// short pays for a look in each long timeout. So a task waits behind the first long poll for two long timeouts, and behind the next for two
    /// short ones.
    ///
    /// Without it they wait for the end of the poll, unless another worker is busy and looks at the end of its tick. A
    /// timeout of zero is refused where the executor is made.
    pub const fn watchdog(mut self, timeouts: Option<(Duration, Duration)>) -> Self {
        self.watchdog = match timeouts {
            Some((short, long)) => Some((nanos(short), nanos(long))),
            None => None,
        };
        self
    }

    /// A watcher would never sleep.
    pub(crate) const fn is_sleepless(&self) -> bool {
        matches!(self.watchdog, Some((0, _) | (_, 0)))
    }

    /// The longest sleep of an idle worker (default: none). No protocol needs it; it is there for platforms that are
    /// being brought up.
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

    /// How deep waiting in sync code may nest on one worker before it blocks (default: 64). Tasks pinned to that worker run
    /// even then, since nobody else can run them.
    pub const fn nesting(mut self, depth: u32) -> Self {
        self.nesting = depth;
        self
    }

    /// How many of the executor's worker slots are kept for threads that help while they wait, and for workers that
    /// stand in for blocked ones (default: 0).
    pub const fn spares(mut self, slots: u16) -> Self {
        self.spares = slots;
        self
    }

    /// How long a worker may be in a piece of another's fork-join loop before it gives back what is left of it, for tasks, timers and
    /// I/O to have their turn, if no worker sleeps who could see to them (default: 1 ms). It is looked at between two calls
    /// of the loop's closure. The worker that began the run goes on with what was given back, or gives it to others.
    ///
    /// So with two workers or more a task waits no longer for such a loop than this and one call of the closure. That
    /// holds for [`Fork::for_each`](crate::Fork::for_each) and its like; a side of a [`join`](crate::Fork::join) and a
    /// job of a scope run to their end, see [`job_workers`](Self::job_workers). The worker that began a run is in it until
    /// its end, as in a long poll.
    pub const fn job_slice(mut self, slice: Duration) -> Self {
        self.job_slice = nanos(slice);
        self
    }

    /// How many workers at most take jobs of others' fork-join runs at a time (default: no limit). Those who began a run are not
    /// counted. The rest stay free for tasks, whose delay then does not depend on how long jobs are, and sleep if there are none.
    pub const fn job_workers(mut self, most: u16) -> Self {
        self.job_workers = most;
        self
    }

    /// How wide a slot of the timer wheel is: rounded down to a power of two of nanoseconds, between 2^10 and 2^30 (default:
    /// 2^18, about 262 us). No timer fires early or late by it: it is a matter of how often far timers are moved.
    pub const fn timer_tick(mut self, width: Duration) -> Self {
        let log = 63 - (nanos(width) | 1).leading_zeros();
        self.tick = if log < 10 {
            10
        } else if log > 30 {
            30
        } else {
            log
        };
        self
    }
}

/// A [`Config`] in force: what may change from one use of an executor's memory to the next
/// ([`reopen_with`](crate::Scheduler::reopen_with)), while wakers of the last one look at it.
#[derive(Debug)]
pub(crate) struct Settings {
    /// These stay: slots and wheels are laid out by them.
    pub(crate) spares: u16,
    pub(crate) tick: u32,
    pub(crate) seed: u64,
    stealing: Setting,
    lifo_cap: Setting,
    spin_rounds: Setting,
    nesting: Setting,
    job_workers: Setting,
    // In microseconds, rounded up, `NEVER` for none.
    shortest: Setting,
    longest: Setting,
    park_timeout: Setting,
    poll_limit: Setting,
    job_slice: Setting,
}

const NEVER: u32 = u32::MAX;

/// In microseconds, rounded up; more than 71 minutes are that.
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
        micros => Some(u64::from(micros) * 1_000),
    }
}

impl Settings {
    pub(crate) const fn new(config: &Config) -> Self {
        let (shortest, longest) = match config.watchdog {
            Some((shortest, longest)) => (Some(shortest), Some(longest)),
            None => (None, None),
        };
        Self {
            spares: config.spares,
            tick: config.tick,
            seed: config.seed,
            stealing: Setting::new(config.stealing as u32),
            lifo_cap: Setting::new(config.lifo_cap),
            spin_rounds: Setting::new(config.spin_rounds),
            nesting: Setting::new(config.nesting),
            job_workers: Setting::new(config.job_workers as u32),
            shortest: Setting::new(micros(shortest)),
            longest: Setting::new(micros(longest)),
            park_timeout: Setting::new(micros(config.park_timeout)),
            poll_limit: Setting::new(micros(config.poll_limit)),
            job_slice: Setting::new(micros(Some(config.job_slice))),
        }
    }

    /// All that may change.
    fn each(&self) -> [&Setting; 10] {
        let Self { stealing, lifo_cap, spin_rounds, nesting, job_workers, .. } = self;
        let Self { shortest, longest, park_timeout, poll_limit, job_slice, .. } = self;
        [
            stealing,
            lifo_cap,
            spin_rounds,
            nesting,
            job_workers,
            shortest,
            longest,
            park_timeout,
            poll_limit,
            job_slice,
        ]
    }

    pub(crate) fn change(&self, config: &Config) {
        for (old, new) in self.each().into_iter().zip(Self::new(config).each()) {
            old.set(new.get());
        }
    }

    #[inline(always)]
    pub(crate) fn stealing(&self) -> bool {
        self.stealing.get() != 0
    }
    #[inline(always)]
    pub(crate) fn lifo_cap(&self) -> u32 {
        self.lifo_cap.get()
    }
    pub(crate) fn spin_rounds(&self) -> u32 {
        self.spin_rounds.get()
    }
    pub(crate) fn nesting(&self) -> u32 {
        self.nesting.get()
    }
    pub(crate) fn job_workers(&self) -> u32 {
        self.job_workers.get()
    }
    #[inline]
    pub(crate) fn has_watchdog(&self) -> bool {
        self.shortest.get() != NEVER
    }
    /// In nanoseconds, as all that follow.
    pub(crate) fn watchdog(&self) -> Option<(u64, u64)> {
        nanos_of(&self.shortest).zip(nanos_of(&self.longest))
    }
    pub(crate) fn park_timeout(&self) -> Option<u64> {
        nanos_of(&self.park_timeout)
    }
    pub(crate) fn poll_limit(&self) -> Option<u64> {
        nanos_of(&self.poll_limit)
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
