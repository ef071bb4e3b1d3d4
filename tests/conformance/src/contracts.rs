//! The contract of `Platform`, method by method, without a scheduler.

use core::{mem, time::Duration};

use filch::{
    Instant, Memory, Platform, Step, WorkerId,
    atomic::{AtomicU32, Ordering},
};

use crate::{Dice, Lane, Suite};

impl<P: Platform, const N: usize, const RING: usize> Suite<P, N, RING> {
    /// Checks the contract of each method of the platform. To be called once in each context that
    /// will be a worker, before it enters: in all `N` at the same time, as they wait for each
    /// other. Needs `memory` for five small tasks.
    ///
    /// # Safety
    /// The calling context is the one that may be worker `me`, and is no worker yet.
    pub unsafe fn contracts(&'static self, me: WorkerId, memory: &'static impl Memory) {
        let platform = self.executor.platform();
        // SAFETY: the caller's contract, until the end of it below.
        unsafe { platform.set_worker(Some(me)) };
        self.on_each(me, "each context is the worker of its number", || {
            platform.current_worker() == Some(me)
        });
        self.on_each(me, "the clock goes on, and never back", || self.clock_goes_on());
        self.on_each(me, "a wait for a word that has changed returns", || {
            // The word is 0. If a wait does not return, the suite hangs.
            (0..100)
                .for_each(|n| self.sleep(me, n % 2 == 0, &self.lanes[me.index()].word, 1, None));
            true
        });
        self.deadlines(me);
        self.on_each(me, "a poll runs once under guard", || {
            let mut calls = 0;
            let contained = platform.guard(&mut || calls += 1);
            contained.is_ok() && calls == 1
        });
        self.panic_contracts(me);
        if N > 1 {
            for target in 0..N {
                let what = format_args!("wakes from core to core all arrive: core {target}");
                self.on_each(me, what, || self.chased(me, target));
                self.reset(me);
            }
            self.on_each(me, "wakes of all by all arrive", || self.crowd(me));
        } else if me.index() == 0 {
            self.skip("wakes from core to core", "there is one core");
        }
        self.interrupt_contracts(me);
        // SAFETY: it has entered, and does not sleep.
        unsafe { platform.set_worker(None) };
        self.blocks(me);
        self.offline(me, memory);
        self.stepped(me, memory);
        self.meet(me, &"the end of the contracts");
    }

    /// Sleeps as a worker does; if it `listens`, in the reactor, if the platform has one, and this is core 0: one worker is there at
    /// a time.
    pub(crate) fn sleep(
        &self,
        me: WorkerId,
        listens: bool,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) {
        let platform = self.executor.platform();
        // SAFETY: contract of `contracts`, which has entered.
        unsafe {
            match platform.reactor().filter(|_| listens && me.index() == 0) {
                Some(reactor) => {
                    reactor.listen(me, word, expected, deadline);
                    reactor.deliver(me);
                }
                None => platform.wait(me, word, expected, deadline),
            }
        }
    }

    /// Ends the sleep of a core, wherever it sleeps.
    pub(crate) fn rouse(&self, core: WorkerId, word: &AtomicU32) {
        let platform = self.executor.platform();
        platform.wake(core, word);
        if let Some(reactor) = platform.reactor() {
            reactor.interrupt(core, word);
        }
    }

    fn clock_goes_on(&self) -> bool {
        let platform = self.executor.platform();
        let (first, mut last) = (platform.now(), platform.now());
        let mut steady = first <= last;
        // If the clock stands still, this hangs.
        for reads in 0_u32.. {
            let now = platform.now();
            steady &= last <= now;
            last = now;
            if reads >= 1_000 && now > first {
                break;
            }
        }
        steady
    }

    /// A panic under guard, and one that goes on from there.
    fn panic_contracts(&self, me: WorkerId) {
        let what = "guard contains a panic, once, and keeps its message";
        if !self.port.unwinds {
            if me.index() == 0 {
                self.skip(what, "panics abort here");
            }
            return;
        }
        self.on_each(me, what, || {
            let platform = self.executor.platform();
            // If the panic passes the guard, it ends this context, and no code below runs.
            let escape = Escape { suite: self, what };
            let mut calls = 0;
            let caught = platform.guard(&mut || {
                calls += 1;
                panic!("on purpose");
            });
            let Err(panic) = caught else {
                mem::forget(escape);
                return false;
            };
            let kept = panic.message() == Some("on purpose");
            // As the core does at the end of a fork-join run.
            let mut panic = Some(panic);
            let again = platform.guard(&mut || {
                if let Some(panic) = panic.take() {
                    panic.resume();
                }
            });
            mem::forget(escape);
            calls == 1 && kept && again.is_err_and(|panic| panic.message() == Some("on purpose"))
        });
    }

    /// One core wakes another, which goes to sleep again as soon as it has seen the wake: most
    /// wakes come while it goes to sleep.
    fn chased(&self, me: WorkerId, target: usize) -> bool {
        let lane = &self.lanes[target];
        if me.index() == target {
            self.be_chased(me)
        } else if me.index() == (target + 1) % N {
            let mut dice = Dice::new(target + 1);
            for round in 1..=self.chases() {
                lane.data.store(round.wrapping_mul(3), Ordering::Relaxed);
                // Ordering: Release pairs with the Acquire of the sleeper's check.
                lane.word.store(round, Ordering::Release);
                let id = WorkerId::new(target as u16);
                self.rouse(id, &lane.word);
                if dice.below(4) == 0 {
                    self.rouse(id, &lane.word);
                }
                // Ordering: Acquire pairs with the sleeper's Release: it has finished this round.
                let woken = || lane.seen.load(Ordering::Acquire) == round;
                self.until(woken, || {
                    let what = "hang wakes from core to core: core";
                    (self.port.print)(format_args!("{what} {target} sleeps on"));
                });
                dice.pause(1_000);
            }
            true
        } else {
            self.keep_away(me, lane);
            true
        }
    }

    /// Sleeps while two other cores need the processors: an emulated machine may have fewer of them
    /// than cores. An earlier check has shown that a sleep ends at its deadline.
    fn keep_away(&self, me: WorkerId, target: &Lane) {
        let (platform, own) = (self.executor.platform(), &self.lanes[me.index()].word);
        while target.seen.load(Ordering::Acquire) < self.chases() {
            self.sleep(me, false, own, 0, Some(platform.now() + Duration::from_millis(10)));
        }
    }

    /// The number of wakes for each core.
    fn chases(&self) -> u32 {
        self.port.wakes / N as u32
    }

    fn be_chased(&self, me: WorkerId) -> bool {
        let lane = &self.lanes[me.index()];
        let (mut ordered, mut at) = (true, 0);
        while at < self.chases() {
            while lane.word.load(Ordering::Acquire) == at {
                self.sleep(me, at % 2 == 0, &lane.word, at, None);
            }
            at = lane.word.load(Ordering::Acquire);
            ordered &= lane.data.load(Ordering::Relaxed) == at.wrapping_mul(3);
            lane.seen.store(at, Ordering::Release);
        }
        ordered
    }

    /// Every core wakes all others, and each sleeps until all have.
    fn crowd(&self, me: WorkerId) -> bool {
        let own = &self.lanes[me.index()].word;
        let mut dice = Dice::new(me.index() + 17);
        let rounds = self.port.wakes / 100;
        for round in 1..=rounds {
            dice.pause(300);
            for other in (0..N).filter(|other| *other != me.index()) {
                let word = &self.lanes[other].word;
                word.fetch_add(1, Ordering::Release);
                self.rouse(WorkerId::new(other as u16), word);
            }
            loop {
                let seen = own.load(Ordering::Acquire);
                if seen >= round * (N as u32 - 1) {
                    break;
                }
                self.sleep(me, (round + me.index() as u32) % 2 == 0, own, seen, None);
            }
        }
        self.meet(me, &"wakes of all by all arrive");
        let all = own.load(Ordering::Acquire) == rounds * (N as u32 - 1);
        self.reset(me);
        all
    }

    pub(crate) fn reset(&self, me: WorkerId) {
        let lane = &self.lanes[me.index()];
        lane.word.store(0, Ordering::Release);
        lane.seen.store(0, Ordering::Release);
    }

    /// A worker goes offline with tasks in its queue: another one runs them. With only one core,
    /// the worker returns.
    fn offline(&'static self, me: WorkerId, memory: &'static impl Memory) {
        let (leaver, heir) = (N - 1, 0);
        let what = "a worker that goes offline leaves its tasks to others";
        self.on_each(me, what, || {
            if me.index() == leaver && !self.leave_behind(me, memory) {
                return false;
            }
            self.meet(me, &what);
            if me.index() != heir {
                return true;
            }
            let Ok(worker) = self.executor.worker(me) else { return false };
            let polls = (0..100).filter(|_| worker.step() == Step::Polled).count();
            let totals = self.executor.metrics().totals();
            polls == 4 && totals.live == 0
        });
    }

    fn leave_behind(&'static self, me: WorkerId, memory: &'static impl Memory) -> bool {
        let Ok(worker) = self.executor.worker(me) else { return false };
        self.queue_tasks(me, memory) && worker.step() == Step::Polled
    }

    /// The next poll of this worker puts four tasks into its queue.
    pub(crate) fn queue_tasks(&'static self, me: WorkerId, memory: &'static impl Memory) -> bool {
        let spawner = self.executor.spawner();
        let parent = spawner.spawn_pinned(memory, me, async move {
            // In a poll, so that they go to this worker's own queues.
            (0..4).all(|_| spawner.spawn(memory, async {}).is_ok())
        });
        parent.is_ok()
    }
}

/// Dropped by a panic that guard lets through: says so.
struct Escape<'a, P: Platform, const N: usize, const RING: usize> {
    suite: &'a Suite<P, N, RING>,
    what: &'a str,
}

impl<P: Platform, const N: usize, const RING: usize> Drop for Escape<'_, P, N, RING> {
    fn drop(&mut self) {
        self.suite.check(self.what, false);
    }
}
