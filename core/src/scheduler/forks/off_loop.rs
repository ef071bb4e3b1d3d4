//! A worker in user code, as fork-join asks it to wait and to run jobs.

use crate::{
    fork::worker::OffLoop,
    platform::{Panic, Platform},
    scheduler::{
        core::{
            context::Worker,
            faces::{Jobs, Waiting},
            leave_loop::OutOfLoop,
            slot::Slots,
        },
        upkeep::listening::ListensFrom,
    },
};

/// A worker that is out of its loop.
pub(super) struct Out<'w, P: Platform, S: Slots<RING>, const RING: usize> {
    worker: &'w Worker<P, S, RING>,
    out: OutOfLoop<'w>,
    listens_from: ListensFrom,
}

impl<'w, P: Platform, S: Slots<RING>, const RING: usize> Out<'w, P, S, RING> {
    pub(super) fn new(worker: &'w Worker<P, S, RING>, out: OutOfLoop<'w>) -> Self {
        Self { worker, out, listens_from: ListensFrom::default() }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> OffLoop for Out<'_, P, S, RING> {
    fn run(&self, job: &mut dyn FnMut()) -> Result<(), Panic> {
        let slot = self.worker.slot();
        let outcome = slot.without_task(|| self.worker.executor.platform.guard(job));
        slot.counters.jobs.add(1);
        outcome
    }

    fn join_broadcast(&self) {
        self.worker.join_broadcast();
        self.worker.run_foreign_broadcast();
    }

    fn nesting(&self) -> u32 {
        self.worker.executor.config.nesting()
    }

    fn spin_rounds(&self) -> u32 {
        self.worker.executor.config.spin_rounds()
    }

    fn relax(&self, round: u32) {
        self.worker.executor.platform.relax(round);
    }

    fn sleep(&self, still: &dyn Fn() -> bool) {
        let (executor, slot) = (self.worker.executor, self.worker.slot());
        let counted = executor.begin_join_sleep(slot);
        if still() {
            self.worker.wait(&self.out, &self.listens_from);
        }
        drop(counted);
        self.worker.serve();
    }

    fn block(&self, still: &dyn Fn() -> bool) {
        let (executor, slot) = (self.worker.executor, self.worker.slot());
        // What a broadcast's closure queues goes to the others too: this worker does not come to it.
        let give_away = || {
            let was = slot.lifo.replace_in_user_code(false);
            self.worker.give_away();
            slot.lifo.set_in_user_code(was);
        };
        give_away();
        let _blocked = executor.begin_block(slot);
        while still() {
            self.join_broadcast();
            give_away();
            self.worker.wait(&self.out, &self.listens_from);
            self.worker.serve();
        }
    }
}
