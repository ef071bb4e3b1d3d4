//! How long a task waits that an interrupt handler wakes, by what its core does at that moment.

use core::{array, time::Duration};

use filch::{
    Memory, Platform, WorkerId,
    atomic::{AtomicU32, Ordering},
    io::Ready,
};

use crate::Kernel;

/// Interrupts for each row.
const ROUNDS: u32 = 50;
/// The delays of a row, in nanoseconds.
static DELAYS: [AtomicU32; ROUNDS as usize] = [const { AtomicU32::new(0) }; ROUNDS as usize];
/// How many of them there are.
static SEEN: AtomicU32 = AtomicU32::new(0);

impl<P: Platform, M: Memory + 'static, const N: usize, const RING: usize> Kernel<P, M, N, RING> {
    /// Prints a row for each: core 0 asleep, and in a poll of 0.2, 2 and 20 ms, as the interrupt comes.
    pub(crate) async fn delays(&'static self) {
        let Some(alarm) = self.suite.port().alarm else {
            return (self.print)(format_args!("no alarm"));
        };
        (self.print)(format_args!("from a handler to its task, {N} cores, in microseconds"));
        for busy in [0, 200, 2_000, 20_000] {
            SEEN.store(0, Ordering::Relaxed);
            let waiter = self.spawn(self.wait_for_interrupts());
            let (core, busy) = (WorkerId::new(0), Duration::from_micros(busy));
            let worker = self.executor.spawner().spawn_pinned(self.memory, core, async move {
                for round in 1..=ROUNDS {
                    // All cores go to sleep.
                    self.executor.sleep(Duration::from_millis(2)).await;
                    let pause = if busy.is_zero() { 2_000_000 } else { busy.as_nanos() as u32 / 4 };
                    alarm(pause);
                    let end = self.executor.platform().now() + busy;
                    while self.executor.platform().now() < end {
                        core::hint::spin_loop();
                    }
                    while SEEN.load(Ordering::Acquire) < round {
                        self.executor.sleep(Duration::from_millis(1)).await;
                    }
                }
            });
            let (Some(waiter), Ok(worker)) = (waiter, worker) else {
                return (self.print)(format_args!("no memory for tasks"));
            };
            let _ = (worker.await, waiter.await);
            self.show_delays(busy);
        }
    }

    async fn wait_for_interrupts(&'static self) {
        let cell = self.suite.cell();
        cell.clear(cell.get());
        for delay in &DELAYS {
            let event = cell.ready(Ready::READABLE).await;
            let now = self.executor.platform().now().as_nanos() as u32;
            cell.clear(event);
            delay.store(now.wrapping_sub(self.suite.struck_at()), Ordering::Relaxed);
            SEEN.fetch_add(1, Ordering::Release);
        }
    }

    fn show_delays(&self, busy: Duration) {
        let mut delays: [u32; ROUNDS as usize] =
            array::from_fn(|i| DELAYS[i].load(Ordering::Relaxed) / 1_000);
        delays.sort_unstable();
        let (least, median, most) = (delays[0], delays[delays.len() / 2], delays[delays.len() - 1]);
        let micros = busy.as_micros();
        (self.print)(format_args!("busy {micros:5}: {least:6} {median:6} {most:6}"));
    }
}
