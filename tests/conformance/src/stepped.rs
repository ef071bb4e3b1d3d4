//! Interrupts after every single instruction of a push, of a park and of a steal, whose handlers
//! wake a task: on machines that can single-step.

use filch::{
    Memory, Platform, Step, WorkerId,
    atomic::{AtomicU32, AtomicUsize, Ordering},
    io::Ready,
};

use crate::Suite;

/// The count of halts as the stepped park begins.
static HALTS: AtomicUsize = AtomicUsize::new(usize::MAX);
/// How many interrupts have come since, before the halt of that park ended.
static AWAKE: AtomicU32 = AtomicU32::new(0);
/// How often the waiting task was woken.
static WOKEN: AtomicU32 = AtomicU32::new(0);
/// How many times the stepped core has requested tasks to steal, and how many times they were
/// queued.
static ASKED: AtomicU32 = AtomicU32::new(0);
static SERVED: AtomicU32 = AtomicU32::new(0);
/// In `ASKED`: no more requests.
const OVER: u32 = u32::MAX;

impl<P: Platform, const N: usize, const RING: usize> Suite<P, N, RING> {
    /// The first core is stepped, the last one has the tasks that it steals.
    pub(crate) fn stepped(&'static self, me: WorkerId, memory: &'static impl Memory) {
        let what =
            "an interrupt handler may wake after any instruction of a push, a park and a steal";
        let hooks = (self.port.after, self.port.alarm, self.port.halts);
        let (Some(after), Some(alarm), Some(halts)) = hooks else {
            if me.index() == 0 {
                self.skip(what, "no hook, which needs single steps");
            }
            return;
        };
        self.on_each(me, what, || match me.index() {
            0 => {
                let sound = self.after_each_instruction(after, alarm, halts, memory);
                // Ordering: Release, as in `tasks_to_steal`.
                ASKED.store(OVER, Ordering::Release);
                sound
            }
            last if last == N - 1 => self.be_stolen_from(me, memory),
            _ => true,
        });
    }

    /// Notes an interrupt, which may be one of the stepped core.
    pub(crate) fn note_interrupt(&self) {
        // Ordering: Relaxed; only the stepped core uses it.
        if self.port.halts.is_some_and(|halts| halts() == HALTS.load(Ordering::Relaxed)) {
            AWAKE.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn after_each_instruction(
        &'static self,
        after: fn(u32),
        alarm: fn(u32),
        halts: fn() -> usize,
        memory: &'static impl Memory,
    ) -> bool {
        let executor = self.executor;
        let Ok(worker) = executor.worker(WorkerId::new(0)) else { return false };
        self.forget_interrupts();
        let Ok(waiting) = executor.spawn(memory, self.wait_for_interrupts()) else { return false };
        drain(|| worker.step());

        let push = |step| {
            after(step);
            let parent = executor.spawn(memory, async move {
                let child = executor.spawn(memory, filch::yield_now());
                filch::yield_now().await;
                child.is_ok()
            });
            parent.is_ok() && worker.step() == Step::Polled
        };
        let mut lost = false;
        // If the interrupt comes before the core masks interrupts, it must not sleep; if it comes
        // later, the alarm ends its sleep.
        let park = |step| {
            after(step);
            let before = halts();
            AWAKE.store(0, Ordering::Relaxed);
            HALTS.store(before, Ordering::Relaxed);
            alarm(50_000_000);
            worker.park();
            HALTS.store(usize::MAX, Ordering::Relaxed);
            let slept = halts() != before;
            // Only the alarm may end the sleep: an interrupt before it was a wake, which must have
            // kept the core awake.
            lost |= slept && AWAKE.load(Ordering::Relaxed) > 1;
            !slept
        };
        let steal = |step| {
            self.tasks_to_steal();
            after(step);
            worker.step() == Step::Polled
        };
        let stop = || {
            after(0);
            drain(|| worker.step());
        };
        let (pushed, push_sound) = self.step_through(push, stop);
        let (parked, park_sound) = self.step_through(park, stop);
        let steals = || executor.metrics().workers().next().map_or(0, |(_, worker)| worker.steals);
        let before = steals();
        let (stole, steal_sound) = if N > 1 { self.step_through(steal, stop) } else { (0, true) };
        (self.port.print)(format_args!(
            "     after each of {pushed} instructions of a push, {parked} of a park, {stole} of a steal"
        ));
        waiting.abort();
        drain(|| worker.step());
        let long = pushed.min(parked) > 50 && (N == 1 || stole > 50);
        let stolen = steals().wrapping_sub(before) >= stole as usize;
        push_sound && park_sound && steal_sound && !lost && long && stolen && waiting.is_finished()
    }

    async fn wait_for_interrupts(&'static self) {
        loop {
            let event = self.cell.ready(Ready::READABLE).await;
            self.cell.clear(event);
            WOKEN.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs `scenario` again and again, with the interrupt one instruction later each time, until
    /// it ends before the interrupt comes. Returns how many instructions it has, and whether each
    /// interrupt has woken the task.
    fn step_through(&self, mut scenario: impl FnMut(u32) -> bool, stop: impl Fn()) -> (u32, bool) {
        let (mut sound, mut instructions) = (true, 0);
        let (mut beyond, mut first_beyond) = (0, None);
        for step in 1..20_000 {
            let (woken, came) = (WOKEN.load(Ordering::Relaxed), self.interrupts());
            let struck = scenario(step) && self.interrupts() != came;
            stop();
            if struck {
                (instructions, beyond) = (step, 0);
                sound &= WOKEN.load(Ordering::Relaxed) > woken;
            } else {
                beyond += 1;
                first_beyond.get_or_insert(step);
            }
            if beyond == 5 {
                break;
            }
        }
        // Not all runs are equally long. But a run that ended much earlier than the others has lost
        // a wake.
        sound &= first_beyond.is_some_and(|first| first + 100 > instructions);
        (instructions, sound)
    }

    /// Makes the last core put tasks into its queue.
    fn tasks_to_steal(&self) {
        // Ordering: Release pairs with the Acquire of the other side, each way: the request comes
        // after the tasks before it have ended, the answer after the next are queued.
        let turn = ASKED.fetch_add(1, Ordering::Release) + 1;
        while SERVED.load(Ordering::Acquire) != turn {
            self.executor.platform().relax(u32::MAX);
        }
    }

    /// The loop of the core that has the tasks.
    fn be_stolen_from(&'static self, me: WorkerId, memory: &'static impl Memory) -> bool {
        let mut worker = None;
        let mut sound = true;
        loop {
            // Ordering: see `tasks_to_steal`.
            let asked = ASKED.load(Ordering::Acquire);
            if asked == OVER {
                break;
            }
            if asked != SERVED.load(Ordering::Relaxed) {
                // It becomes a worker only now, as pushes and parks should have no other workers.
                let worker = worker.get_or_insert_with(|| self.executor.worker(me));
                sound &= worker.as_ref().is_ok_and(|worker| {
                    drain(|| worker.step());
                    self.queue_tasks(me, memory) && worker.step() == Step::Polled
                });
                SERVED.store(asked, Ordering::Release);
            }
            self.executor.platform().relax(u32::MAX);
        }
        if let Some(Ok(worker)) = worker {
            drain(|| worker.step());
        }
        sound
    }
}

fn drain(step: impl Fn() -> Step) {
    while step() == Step::Polled {}
}
