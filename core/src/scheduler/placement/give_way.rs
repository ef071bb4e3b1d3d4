//! How code of a task lets urgent tasks go first.

use crate::{
    parts::{On, Parts},
    platform::Platform,
    scheduler::{
        core::{
            context::{Waits, Worker},
            executor::{Cores, Scheduler},
            faces::Queues,
            nested::Nested,
            slot::Slots,
        },
        state::classes::OwnClasses,
    },
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Polls the urgent tasks that wait, on top of the caller: for loops in sync code of a task, or of a piece of a fork-join run, that is
    /// not urgent itself. Whether there were any. False in interrupt handlers and event sinks, in a context that is no worker's, and where
    /// waits nest too deep ([`Config::nesting`](crate::Config::nesting)). The caller keeps its budget: other tasks than urgent ones still
    /// wait.
    ///
    /// Every 16th call in vain looks for I/O and timers too, 50 us after the last look at the earliest: what they wake may be urgent. Cost
    /// of the others: a few loads. As for [`help_until`](Self::help_until), a lock that the caller holds may be one that a task needs.
    ///
    /// The caller waits for the urgent tasks. In a piece of a fork-join run that another worker waits for, an urgent task that blocks in
    /// sync code until that very worker runs something (a task that is pinned there) is a deadlock: urgent tasks `await`.
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use filch::{Class, Executor, TaskOptions, TaskPool, WorkerId};
    /// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
    /// # static TASKS: TaskPool<512, 8> = TaskPool::new();
    /// const REQUEST: TaskOptions = TaskOptions::new().class(Class::Urgent);
    /// let mut bulk = EXECUTOR.spawn(&TASKS, async {
    ///     let request = EXECUTOR.spawner().spawn_with(REQUEST, &TASKS, async { 7 }).unwrap();
    ///     // In the midst of a long loop:
    ///     assert!(EXECUTOR.give_way());
    ///     assert!(request.is_finished());
    /// })?;
    /// # EXECUTOR.worker(WorkerId::new(0))?.run_for(8);
    /// # bulk.join()?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn give_way(&'static self) -> bool
    where
        S::Parts: Parts<Waits = On, Classes = On>,
    {
        self.give_way_if(OwnClasses::is_time_to_look_around).0
    }

    /// As [`give_way`](Self::give_way), for callers that count their calls: it looks for I/O and timers unless the last look was less than
    /// 50 us ago. False if it did neither that nor poll a task.
    #[doc(hidden)]
    pub fn give_way_and_look(&'static self) -> bool
    where
        S::Parts: Parts<Waits = On, Classes = On>,
    {
        let (polled, looked) = self.give_way_if(|_| true);
        polled || looked
    }

    /// Whether it polled a task, and whether it looked for I/O and timers, which it does if it `may`.
    fn give_way_if(
        &'static self,
        may: impl FnOnce(&OwnClasses<RING, Cores<S, RING>>) -> bool,
    ) -> (bool, bool)
    where
        S::Parts: Parts<Waits = On, Classes = On>,
    {
        // First, as a handler must not touch the rest.
        let Waits::OnWorker(id, slot) = self.waits() else { return (false, false) };
        let Some(own) = slot.classes.get() else { return (false, false) };
        let worker = Worker::of(self, id);
        let pressed = self.has_urgent_for(slot);
        if !pressed && !may(own)
            || Self::is_in_urgent(slot)
            || slot.local.depth.get() >= self.config.nesting()
        {
            return (false, false);
        }
        let looks = !pressed && worker.is_time_to_look();
        if !pressed && !looks {
            return (false, false);
        }
        let left = slot.local.budget.get();
        let mut nested = Nested::enter(self, id, slot);
        nested.keep_budget(left);
        (worker.run_urgent(looks), looks)
    }
}
