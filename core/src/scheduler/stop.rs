//! Whether a worker goes on: a worker that finds nothing to do sees whether the last task has ended, and whether it is to leave itself.

use super::{
    context::Worker,
    door::Door,
    executor::Scheduler,
    gate::{CANCELLING, OPEN, STOPPED},
    slot::Slots,
};
use crate::{
    atomic::{Ordering, fence},
    memory::slab::Slab,
    platform::Platform,
    task::{state::Snapshot, waker::carry_out},
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// An idle worker sees whether the end has come; true if the executor has stopped.
    #[inline]
    pub(crate) fn settle(&self) -> bool {
        match self.gate.stage() {
            OPEN => false,
            STOPPED => true,
            stage => self.settle_closing(stage),
        }
    }

    #[cold]
    fn settle_closing(&self, stage: u32) -> bool {
        if stage == CANCELLING {
            // Tasks spawned by polls that did not see the closing yet. Each worker comes here after its own polls, so
            // that none of its spawns is missed.
            self.abort_all();
        }
        // Ordering: two workers that complete the last two tasks: each has counted its own before, and at least one sees
        // the other's.
        fence(Ordering::SeqCst);
        if self.live() != 0 {
            return false;
        }
        // Completions were read before spawns, and a look that sees a completion sees the spawns before it: at some moment
        // between the two no task was alive. So none has been spawned since: only tasks can spawn.
        if self.gate.advance(STOPPED) {
            self.wake_all();
            self.gate.tell(&self.platform);
        }
        true
    }

    pub(super) fn abort_all(&self) {
        Slab::for_each(self.anchor.owners(), |task| {
            // SAFETY: a slot is a header for ever (INV-SLAB-SLOT); the transition needs no reference.
            unsafe { carry_out(task.as_ref().state.apply(Snapshot::abort_once), task) };
        });
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// Whether the worker is to leave, and may: it is in its own loop, and no task keeps it. Its next passes come to no task then.
    pub(crate) fn retires(&self) -> bool {
        let slot = self.slot();
        let may = slot.shared.door.get().is_some_and(Door::lets_go)
            && !slot.is_at_work()
            && slot.local.locals.get() == 0;
        slot.local.duties.sets_out(may);
        may
    }
}
