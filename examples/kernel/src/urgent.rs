//! A second executor, whose worker is run by a software interrupt: its tasks preempt polls of the kernel's own executor.

use core::{array, cell::UnsafeCell, fmt, hint::spin_loop, time::Duration};

use filch::{
    Executor, Memory, Platform, TaskPool, Turn, Worker, WorkerId, WorkerSlot,
    atomic::{AtomicU32, Ordering},
    io::{Readiness, Ready},
};

use crate::Kernel;

/// Interrupts that are measured.
const ROUNDS: u32 = 50;
/// In nanoseconds: how long the poll that is preempted may last. On a busy host the interrupt may be late.
const PATIENCE: u64 = 10_000_000_000;

/// The delays, in nanoseconds, and how many there are.
static DELAYS: [AtomicU32; ROUNDS as usize] = [const { AtomicU32::new(0) }; ROUNDS as usize];
static SEEN: AtomicU32 = AtomicU32::new(0);

type Slots = [WorkerSlot<8, ()>; 1];

/// The executor, and its worker.
///
/// `P` is a platform of its own: `current_worker` is worker 0 in the software interrupt, and none elsewhere, in handlers that
/// interrupt it too; `wake` pends the software interrupt; `wait` is never called.
pub struct Urgent<P: Platform> {
    executor: Executor<P, 1, 8, ()>,
    tasks: TaskPool<192, 1>,
    /// INV-SOFTIRQ: touched by the software interrupt alone, which does not interrupt itself.
    worker: UnsafeCell<Option<Worker<P, Slots, 8>>>,
}

// SAFETY: INV-SOFTIRQ; all else is shared.
unsafe impl<P: Platform> Sync for Urgent<P> {}

impl<P: Platform> Urgent<P> {
    /// An executor without tasks.
    pub const fn new(platform: P) -> Self {
        Self {
            executor: Executor::new(platform),
            tasks: TaskPool::new(),
            worker: UnsafeCell::new(None),
        }
    }

    /// The software interrupt: a turn of the worker, on which it stays until it has nothing to do.
    ///
    /// # Safety
    /// The caller is the software interrupt's handler, on one core, and is not interrupted by itself.
    pub unsafe fn on_interrupt(&'static self) {
        // SAFETY: INV-SOFTIRQ, by the caller's promise.
        let worker = unsafe { &mut *self.worker.get() };
        if worker.is_none() {
            *worker = self.executor.worker(WorkerId::new(0)).ok();
        }
        while worker.as_ref().is_some_and(|worker| worker.turn(64) == Turn::Again) {}
    }

    /// Spawns the task that the measurement wakes: it notes how long ago `struck_at` was, each time that the cell is set.
    pub fn start(&'static self, cell: &'static Readiness, struck_at: fn() -> u32) {
        // Interrupts of earlier checks are none of this measurement's.
        cell.clear(cell.get());
        let task = async move {
            loop {
                let event = cell.ready(Ready::READABLE).await;
                let now = self.executor.platform().now().as_nanos() as u32;
                cell.clear(event);
                if let Some(delay) = DELAYS.get(SEEN.load(Ordering::Relaxed) as usize) {
                    delay.store(now.wrapping_sub(struck_at()), Ordering::Relaxed);
                }
                SEEN.fetch_add(1, Ordering::Release);
            }
        };
        if let Ok(task) = self.executor.spawn(&self.tasks, task) {
            task.detach();
        }
        // A worker that was never there is woken by no task: the first turn is asked for by hand.
        self.executor.platform().wake(WorkerId::new(0), &AtomicU32::new(0));
    }
}

impl<P: Platform> fmt::Debug for Urgent<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Urgent").finish_non_exhaustive()
    }
}

impl<P: Platform, M: Memory + 'static, const N: usize, const RING: usize> Kernel<P, M, N, RING> {
    /// Whether an interrupt in the midst of a poll of core 0 leads to a poll of the urgent task before that one goes on; prints how long
    /// it takes, in nanoseconds of the kernel's clock.
    pub(crate) async fn preempt(&'static self) {
        let (Some(start), Some(alarm)) = (self.urgent, self.suite.port().alarm) else { return };
        start();
        let core = WorkerId::new(0);
        let computing = self.executor.spawner().spawn_pinned(self.memory, core, async move {
            let platform = self.executor.platform();
            for round in 1..=ROUNDS {
                self.executor.sleep(Duration::from_millis(1)).await;
                let begun = platform.now();
                alarm(200_000);
                // It computes: the kernel's own executor polls nothing else on this core.
                while SEEN.load(Ordering::Acquire) < round {
                    if platform.now().nanos_since(begun) > PATIENCE {
                        return false;
                    }
                    spin_loop();
                }
            }
            true
        });
        let preempted = match computing {
            Ok(computing) => computing.await.unwrap_or(false),
            Err(_) => false,
        };
        self.suite.check("a task of a software interrupt's executor preempts a poll", preempted);
        let mut delays: [u32; ROUNDS as usize] =
            array::from_fn(|i| DELAYS[i].load(Ordering::Relaxed));
        delays.sort_unstable();
        (self.print)(format_args!(
            "from a handler to the urgent poll: {} {} {} ns",
            delays[0],
            delays[delays.len() / 2],
            delays[delays.len() - 1]
        ));
    }
}
