//! Wakes from interrupt handlers, on the core that they interrupt.

use core::{
    future::{Future, poll_fn},
    pin::pin,
    time::Duration,
};

use filch::{
    Event, Memory, Platform, WorkerId,
    atomic::{AtomicU32, Ordering},
    io::{Readiness, Ready},
};

use crate::{Dice, Lane, Suite};

/// How often interrupts were raised inside each operation.
pub(crate) struct Struck {
    spawns: AtomicU32,
    steals: AtomicU32,
    parks: AtomicU32,
}

impl Struck {
    pub(crate) const fn new() -> Self {
        Self { spawns: AtomicU32::new(0), steals: AtomicU32::new(0), parks: AtomicU32::new(0) }
    }
}

impl<P: Platform, const N: usize, const RING: usize> Suite<P, N, RING> {
    /// To be called by the handler of the interrupts that [`Port::raise`](crate::Port::raise) and
    /// [`Port::alarm`](crate::Port::alarm) raise.
    pub fn on_interrupt(&self) {
        self.note_interrupt();
        let platform = self.executor.platform();
        // Ordering: the cell publishes it.
        self.struck_at.store(platform.now().as_nanos() as u32, Ordering::Relaxed);
        if let Some(me) = platform.current_worker() {
            if let Some(lane) = self.lanes.get(me.index()) {
                lane.interrupts.fetch_add(1, Ordering::Relaxed);
                // Ordering: Relaxed, as on the other side: the same core.
                let struck = u32::from(lane.waking.load(Ordering::Relaxed));
                lane.struck.fetch_add(struck, Ordering::Relaxed);
                lane.word.fetch_add(1, Ordering::Release);
                self.rouse(me, &lane.word);
            }
        }
        self.cell.set(Ready::READABLE);
    }

    /// To be called by [`Platform::event`]. During one check it raises interrupts where a worker
    /// spawns, steals and goes to sleep.
    #[inline]
    pub fn on_event(&self, event: Event) {
        // Ordering: Relaxed; a flag only.
        if self.provoking.load(Ordering::Relaxed) {
            self.strike(event);
        }
    }

    #[cold]
    fn strike(&self, event: Event) {
        let count = match event {
            Event::Spawn(_) => &self.struck.spawns,
            Event::Steal { .. } => &self.struck.steals,
            Event::Park => &self.struck.parks,
            _ => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
        if let Some(raise) = self.port.raise {
            raise();
        }
    }

    /// How many interrupts each check raises.
    fn strikes(&self) -> u32 {
        (self.port.wakes / 10).min(1_000)
    }

    /// How many interrupts have come to `on_interrupt`.
    pub(crate) fn interrupts(&self) -> u32 {
        self.lanes.iter().fold(0, |n, lane| n.wrapping_add(lane.interrupts.load(Ordering::Relaxed)))
    }

    /// The contract of `wake` in interrupt handlers.
    pub(crate) fn interrupt_contracts(&self, me: WorkerId) {
        let platform = self.executor.platform();
        let word = &self.lanes[me.index()].word;
        let sleep_from = |at: u32| {
            while word.load(Ordering::Acquire) == at {
                self.sleep(me, at % 2 == 0, word, at, None);
            }
        };
        let what = "an interrupt handler's wake before the wait is kept";
        match self.port.raise {
            Some(raise) => self.on_each(me, what, || {
                for _ in 0..200 {
                    let at = word.load(Ordering::Acquire);
                    raise();
                    sleep_from(at);
                }
                true
            }),
            None if me.index() == 0 => self.skip(what, "no hook"),
            None => {}
        }
        let what = "an interrupt handler's wake ends the wait of its own core";
        match self.port.alarm {
            Some(alarm) => {
                self.on_each(me, what, || {
                    let mut dice = Dice::new(me.index() + 31);
                    for _ in 0..self.strikes() {
                        let at = word.load(Ordering::Acquire);
                        alarm(dice.below(20_000));
                        dice.pause(1_500);
                        sleep_from(at);
                    }
                    true
                });
                self.on_each(me, "an interrupt does not cost a sleep its deadline", || {
                    let at = word.load(Ordering::Acquire);
                    let deadline = platform.now() + Duration::from_millis(5);
                    alarm(500_000);
                    while platform.now() < deadline {
                        let seen = word.load(Ordering::Acquire);
                        self.sleep(me, true, word, seen, Some(deadline));
                    }
                    // A sleep must not lose the interrupt: on a machine that was away for so long
                    // it comes only now.
                    let late = deadline + Duration::from_secs(1);
                    while word.load(Ordering::Acquire) == at && platform.now() < late {
                        platform.relax(0);
                    }
                    word.load(Ordering::Acquire) != at
                });
            }
            None if me.index() == 0 => self.skip(what, "no hook"),
            None => {}
        }
        self.reset(me);
        let what = "an interrupt handler may wake in the midst of a wake";
        match self.port.alarm {
            // One core after the other, so that the others can name the one that hangs: because `wake` waits for a lock that the
            // interrupted code holds.
            Some(alarm) => {
                for core in 0..N {
                    self.on_each(me, format_args!("{what}: core {core}"), || {
                        if me.index() == core {
                            self.interrupted_wakes(me, alarm);
                        }
                        true
                    });
                }
                if me.index() == 0 {
                    let struck = |lane: &Lane| lane.struck.load(Ordering::Relaxed);
                    let struck = self.lanes.iter().map(struck).sum::<u32>();
                    (self.port.print)(format_args!(
                        "     {struck} interrupts in the midst of a wake"
                    ));
                }
            }
            None if me.index() == 0 => self.skip(what, "no hook"),
            None => {}
        }
        self.reset(me);
    }

    /// This core does nothing but wake itself and its neighbour, while interrupts come whose handlers wake it too.
    fn interrupted_wakes(&self, me: WorkerId, alarm: fn(u32)) {
        let lane = &self.lanes[me.index()];
        let neighbour = (me.index() + 1) % N;
        let mut dice = Dice::new(me.index() + 41);
        for _ in 0..(self.strikes() / (4 * N as u32)).max(16) {
            let came = lane.interrupts.load(Ordering::Relaxed);
            alarm(dice.below(20_000));
            while lane.interrupts.load(Ordering::Relaxed) == came {
                lane.waking.store(true, Ordering::Relaxed);
                self.rouse(me, &lane.word);
                self.rouse(WorkerId::new(neighbour as u16), &self.lanes[neighbour].word);
                lane.waking.store(false, Ordering::Relaxed);
            }
        }
    }

    /// A task that waits for interrupts, woken by their handlers.
    pub(crate) async fn interrupt_tasks(&'static self, memory: &'static impl Memory) {
        let what = "interrupt handlers wake tasks";
        if let Some(raise) = self.port.raise {
            let mut woken = 0;
            while woken < self.strikes() {
                self.forget_interrupts();
                woken += u32::from(self.struck_while_waiting(raise).await);
            }
            self.check(what, true);
            self.provoke(memory).await;
        } else {
            self.skip(what, "no hook");
        }
        let what = "interrupt handlers wake tasks while their core sleeps";
        if let Some(alarm) = self.port.alarm {
            let mut dice = Dice::new(7);
            for _ in 0..self.strikes() {
                self.forget_interrupts();
                alarm(dice.below(50_000));
                self.cell.ready(Ready::READABLE).await;
            }
            self.check(what, true);
        } else {
            self.skip(what, "no hook");
        }
    }

    /// Waits for an interrupt, which is raised once the waker is registered. Returns whether it was
    /// needed: a late one may have come before.
    async fn struck_while_waiting(&self, raise: fn()) -> bool {
        let mut raised = false;
        let mut ready = pin!(self.cell.ready(Ready::READABLE));
        poll_fn(|cx| {
            let poll = ready.as_mut().poll(cx);
            if poll.is_pending() && !raised {
                raised = true;
                raise();
            }
            poll
        })
        .await;
        raised
    }

    pub(crate) fn forget_interrupts(&self) {
        self.cell.clear(self.cell.get());
    }

    /// Interrupts at each spawn, each steal and each park, whose handlers wake a task on the
    /// interrupted core.
    async fn provoke(&'static self, memory: &'static impl Memory) {
        static STOP: AtomicU32 = AtomicU32::new(0);
        static WOKEN: AtomicU32 = AtomicU32::new(0);
        /// The waiting task sets it each time that it is woken.
        static PASSED_ON: Readiness = Readiness::new();
        STOP.store(0, Ordering::Relaxed);
        WOKEN.store(0, Ordering::Relaxed);
        self.forget_interrupts();
        let waiting = async move {
            while STOP.load(Ordering::Acquire) == 0 {
                let event = self.cell.ready(Ready::READABLE).await;
                self.cell.clear(event);
                WOKEN.fetch_add(1, Ordering::Relaxed);
                PASSED_ON.set(Ready::READABLE);
            }
        };
        let Some(waiting) = self.spawn(memory, waiting) else { return };
        let (before, enough) = (self.interrupts(), self.strikes() / 5);
        self.provoking.store(true, Ordering::Relaxed);
        let mut sound = true;
        // Spawns and steals come with the bursts, parks with the waits in between: only the
        // interrupt at a park ends such a wait.
        for _ in 0..2_000 {
            sound &= self.burst(memory, self.port.tasks / 2, 300).await;
            for _ in 0..8 {
                PASSED_ON.clear(PASSED_ON.get());
                PASSED_ON.ready(Ready::READABLE).await;
            }
            let struck = &self.struck;
            let least = |count: &AtomicU32| count.load(Ordering::Relaxed) >= enough;
            let stole = N == 1 || struck.steals.load(Ordering::Relaxed) >= 20;
            if least(&struck.spawns) && least(&struck.parks) && stole {
                break;
            }
        }
        self.provoking.store(false, Ordering::Relaxed);
        let woken = WOKEN.load(Ordering::Relaxed);
        STOP.store(1, Ordering::Release);
        self.cell.set(Ready::READABLE);
        sound &= waiting.await.is_ok();
        let count = |count: &AtomicU32| count.load(Ordering::Relaxed);
        let Struck { spawns, steals, parks } = &self.struck;
        let (spawns, steals, parks) = (count(spawns), count(steals), count(parks));
        let came = self.interrupts().wrapping_sub(before);
        (self.port.print)(format_args!(
            "     {came} interrupts: {spawns} at a spawn, {steals} at a steal, {parks} at a park"
        ));
        self.check(
            "interrupt handlers wake in the midst of spawns, steals and parks of their own core",
            sound
                && spawns >= enough
                && parks >= enough
                && (N == 1 || steals >= 20)
                && came >= enough
                && woken > 0,
        );
    }
}
