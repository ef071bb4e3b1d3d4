//! Deadlines: soon after now, and far away.

use core::time::Duration;

use filch::{
    Instant, Platform, WorkerId,
    atomic::{AtomicU32, Ordering},
};

use crate::Suite;

/// The methods of a platform that sleep until a deadline.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Way {
    /// `Platform::wait`, and `Platform::wake`.
    Wait,
    /// `Reactor::listen`, and `Reactor::interrupt`.
    Listen,
    /// `Platform::block`, and `Platform::unblock`.
    Block,
}

/// A check of a time succeeds if one of so many tries does: the host may be busy, but not each time.
const TRIES: u32 = 50;
/// How long a sleep with a far deadline lasts before it is woken.
const SPELL: Duration = Duration::from_millis(5);
/// The number of far deadlines.
const FAR: u32 = 6;
/// So often it may end before, for no reason.
const RETURNS: usize = 20;

impl<P: Platform, const N: usize, const RING: usize> Suite<P, N, RING> {
    /// The ways in which this core may sleep as a worker.
    fn ways(&self, me: WorkerId) -> impl Iterator<Item = Way> {
        let listens = me.index() == 0 && self.executor.platform().reactor().is_some();
        [Way::Wait, Way::Listen].into_iter().take(1 + usize::from(listens))
    }

    fn sleep_by(&self, way: Way, me: WorkerId, seen: u32, deadline: Instant) {
        let word = &self.lanes[me.index()].word;
        match way {
            Way::Block => self.executor.platform().block(word, seen, Some(deadline)),
            _ => self.sleep(me, way == Way::Listen, word, seen, Some(deadline)),
        }
    }

    fn rouse_by(&self, way: Way, core: WorkerId, word: &AtomicU32) {
        match way {
            Way::Block => self.executor.platform().unblock(word),
            _ => self.rouse(core, word),
        }
    }

    /// The contract of deadlines, of a core that is a worker.
    pub(crate) fn deadlines(&self, me: WorkerId) {
        self.on_each(me, "a wait ends at its deadline", || {
            self.ways(me).all(|way| self.ends_in_time(way, me))
        });
        let what = "a wait sleeps until its deadline";
        match self.port.stirs {
            Some(stirs) => {
                self.on_each(me, what, || self.ways(me).all(|way| self.lasts(way, me, stirs)));
            }
            None if me.index() == 0 => {
                self.skip(what, "wake-ups for no reason are this platform's");
            }
            None => {}
        }
        let what = "a wait with a far deadline sleeps until it is woken";
        self.far_deadlines(me, what, N, |core| self.ways(core));
    }

    /// The contract of `block`, for a core that is no worker. How late one ends is not asked: the default spins, and a busy host
    /// lets those wait that spin.
    pub(crate) fn blocks(&self, me: WorkerId) {
        let what = "a block with a far deadline sleeps until it is unblocked";
        if N > 1 {
            // It knows no cores, so one is enough.
            self.far_deadlines(me, what, 1, |_| [Way::Block].into_iter());
        } else {
            self.skip(what, "one core has no other that unblocks it");
        }
    }

    /// Whether sleeps of several lengths end soon after their deadlines. A timer that is slower than
    /// the clock shows in the long ones.
    fn ends_in_time(&self, way: Way, me: WorkerId) -> bool {
        let platform = self.executor.platform();
        let late = |millis| {
            let deadline = platform.now() + Duration::from_millis(millis);
            while platform.now() < deadline {
                self.sleep_by(way, me, 0, deadline);
            }
            platform.now() - deadline
        };
        let in_time = |millis| (0..TRIES).any(|_| late(millis) <= self.port.late);
        // One that has passed already, too.
        self.sleep_by(way, me, 0, platform.now());
        [0, 1, 5, 20, 100].into_iter().all(in_time)
    }

    /// Whether most sleeps last for most of the time to their deadlines. If the timer is faster than the
    /// clock, each ends too early, and is repeated. A busy host makes sleeps longer, and never shorter.
    fn lasts(&self, way: Way, me: WorkerId, stirs: usize) -> bool {
        let platform = self.executor.platform();
        // So short that the interrupts of a periodic clock leave most of them alone.
        let length = Duration::from_millis(20) / (stirs as u32 + 1);
        let lasts = |_: &u32| {
            let begin = platform.now();
            self.sleep_by(way, me, 0, begin + length);
            platform.now() - begin >= length * 3 / 4
        };
        (0..9).filter(lasts).count() >= 7
    }

    /// Sleeps whose deadlines are so far away that arithmetic may overflow end when they are woken,
    /// and not before: of the first so many cores, one after the other.
    fn far_deadlines<W: Iterator<Item = Way>>(
        &self,
        me: WorkerId,
        what: &str,
        sleepers: usize,
        ways: impl Fn(WorkerId) -> W,
    ) {
        if N == 1 && self.port.alarm.is_none() {
            return self.skip(what, "no hook; one core has no other that wakes it");
        }
        self.on_each(me, what, || {
            let mut sound = true;
            for target in 0..sleepers {
                let sleeper = WorkerId::new(target as u16);
                for way in ways(sleeper) {
                    for round in 1..=FAR {
                        if me == sleeper {
                            sound &= self.sleeps_far(way, me, round);
                        } else if me.index() == (target + 1) % N {
                            self.wake_far(way, sleeper, round, what);
                        }
                    }
                    if me == sleeper {
                        self.reset(me);
                    }
                }
            }
            sound
        });
    }

    /// In each round the word goes up by one, and the sleep sees it.
    fn sleeps_far(&self, way: Way, me: WorkerId, round: u32) -> bool {
        let (platform, lane) = (self.executor.platform(), &self.lanes[me.index()]);
        let begin = platform.now();
        lane.data.store(0, Ordering::Relaxed);
        // Ordering: Release, as in `chased`.
        lane.seen.store(round, Ordering::Release);
        let mut returns = 0_usize;
        while lane.word.load(Ordering::Acquire) < round {
            if N == 1 && returns <= 2 * RETURNS {
                // The handler changes the word.
                self.port.alarm.iter().for_each(|alarm| alarm(SPELL.as_nanos() as u32));
            }
            self.sleep_by(way, me, round - 1, far(begin, round));
            returns += 1;
            lane.data.store(returns as u32, Ordering::Relaxed);
        }
        let spell = (platform.now() - begin).as_millis() as usize;
        self.port.stirs.is_none_or(|stirs| returns <= RETURNS + stirs * spell / 1_000)
    }

    fn wake_far(&self, way: Way, sleeper: WorkerId, round: u32, what: &str) {
        let (platform, lane) = (self.executor.platform(), &self.lanes[sleeper.index()]);
        // Ordering: Acquire, as in `chased`.
        let asleep = || lane.seen.load(Ordering::Acquire) == round;
        self.until(asleep, || {
            let core = sleeper.index();
            (self.port.print)(format_args!("hang {what}: core {core} sleeps on"));
        });
        // Until the sleep has lasted for a spell, or has ended too often: a sleeper that runs on a busy host needs time for that.
        let (mut returns, mut end) = (0, platform.now() + SPELL);
        while platform.now() < end {
            platform.relax(0);
            let now = lane.data.load(Ordering::Relaxed);
            if now != returns && now as usize <= 2 * RETURNS {
                (returns, end) = (now, platform.now() + SPELL);
            }
        }
        lane.word.store(round, Ordering::Release);
        self.rouse_by(way, sleeper, &lane.word);
    }
}

/// The far deadline of this round.
fn far(now: Instant, round: u32) -> Instant {
    const WRAP: u64 = 1 << 32;
    match round {
        // Its lower half is that of now: in nanoseconds, and in most ticks.
        1 => now.after_nanos(WRAP),
        2 => now.after_nanos(WRAP * 1_000_000),
        3 => now + Duration::from_secs(3_600),
        // Negative, as a signed number.
        4 => Instant::from_nanos(1 << 63),
        // Rounded up to a multiple of anything, it overflows.
        5 => Instant::from_nanos(u64::MAX - 1),
        _ => Instant::MAX,
    }
}
