//! Chooses the next thread.

use crate::rng::Rng;

/// How a run's schedule is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// At each switch point a random thread, with odds that differ from run to run.
    Random,
    /// Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte, 2010): threads have random
    /// priorities, the highest runs, and at `depth - 1` random steps of the first `length` it falls below all others.
    /// A bug that needs `depth` ordered steps is found by a run with a probability of at least
    /// `1 / (threads * length ^ (depth - 1))`.
    Pct {
        /// How many ordered steps the bugs need that are searched for: about 1 to 5.
        depth: u32,
        /// About how many steps a run has.
        length: u32,
    },
}

/// Steps in a row after which even the highest priority is lowered: for loops that wait without a
/// spin hint.
const STREAK: u32 = 5_000;

/// The lowest initial priority; lowered threads are below it.
const HIGH: u64 = 1 << 32;

#[derive(Debug)]
pub(crate) struct Schedule {
    strategy: Strategy,
    /// The probability of a switch, of 256.
    odds: u32,
    /// The priority of each thread, with PCT.
    priorities: Vec<u64>,
    /// Steps at which the running thread is lowered.
    falls: Vec<u64>,
    lowest: u64,
    streak: u32,
    /// A thread became ready.
    news: bool,
    yielded: Option<usize>,
}

impl Schedule {
    pub(crate) fn new(strategy: Strategy, rng: &mut Rng) -> Self {
        let falls = match strategy {
            Strategy::Random => Vec::new(),
            Strategy::Pct { depth, length } => {
                (1..depth).map(|_| 1 + rng.below(length.max(1) as usize) as u64).collect()
            }
        };
        let odds = [128, 64, 24, 8][rng.below(4)];
        Self {
            strategy,
            odds,
            priorities: Vec::new(),
            falls,
            lowest: HIGH,
            streak: 0,
            news: false,
            yielded: None,
        }
    }

    pub(crate) fn spawn(&mut self, rng: &mut Rng) {
        self.priorities.push(HIGH + (rng.next() >> 32));
        self.news = true;
    }

    pub(crate) fn wake(&mut self) {
        self.news = true;
    }

    /// Whether to ask `pick` before this step of the running thread.
    pub(crate) fn interrupts(&mut self, thread: usize, step: u64, rng: &mut Rng) -> bool {
        if self.strategy == Strategy::Random {
            return rng.chance(self.odds);
        }
        self.streak += 1;
        let falls = self.falls.contains(&step) || self.streak > STREAK;
        if falls {
            self.fall(thread);
        }
        falls || self.news
    }

    /// The running thread waits for others, with a yield or a hint.
    pub(crate) fn give_way(&mut self, thread: usize) {
        self.yielded = Some(thread);
        self.fall(thread);
    }

    /// Chooses one of the ready threads, of which there is at least one.
    pub(crate) fn pick(&mut self, ready: &[usize], rng: &mut Rng) -> usize {
        let yielded = self.yielded.take();
        self.news = false;
        self.streak = 0;
        match self.strategy {
            Strategy::Random => {
                let others = ready.len() - usize::from(ready.iter().any(|t| Some(*t) == yielded));
                match others {
                    0 => ready[0],
                    n => {
                        let nth = rng.below(n);
                        let mut others = ready.iter().filter(|t| Some(**t) != yielded);
                        others.nth(nth).copied().unwrap_or(ready[0])
                    }
                }
            }
            Strategy::Pct { .. } => {
                ready.iter().copied().max_by_key(|t| self.priorities[*t]).unwrap_or(ready[0])
            }
        }
    }

    fn fall(&mut self, thread: usize) {
        self.lowest -= 1;
        self.priorities[thread] = self.lowest;
    }
}
