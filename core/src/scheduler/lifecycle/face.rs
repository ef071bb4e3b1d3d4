//! What the path of a task asks of this room.

use crate::{
    atomic::{Ordering, fence},
    memory::slab::Slab,
    platform::{Platform, WorkerId},
    scheduler::{
        core::{
            context::Worker,
            executor::Scheduler,
            faces::{JobOffers, Lifecycle},
            slot::{Slots, WorkerSlot},
        },
        error::RunError,
        state::{
            gate::{CANCELLING, OPEN, STOPPED},
            retiring::Retiring,
        },
    },
    task::{state::Snapshot, waker::carry_out},
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Lifecycle<P, S, RING>
    for Scheduler<P, S, RING>
{
    fn enter_slot(&'static self, id: WorkerId, from: u32) -> Result<Worker<P, S, RING>, RunError> {
        self.attach(id, from)
    }

    #[inline]
    fn settle(&self) -> bool {
        match self.gate.stage() {
            OPEN => false,
            STOPPED => true,
            stage => self.settle_closing(stage),
        }
    }

    fn try_retire(&self, slot: &WorkerSlot<RING, S::Parts>) -> bool {
        let may = slot.shared.retiring.get().is_some_and(Retiring::may_retire)
            && !slot.has_user_frames()
            && slot.local.locals.get() == 0;
        slot.local.duties.set_leaving(may);
        may
    }

    fn is_wanted(&self, id: WorkerId) -> bool {
        // Ordering: see `start_active`.
        let retiring = self.regular().get(id.index()).and_then(|slot| slot.shared.retiring.get());
        retiring.is_some_and(|retiring| !retiring.may_retire() && !self.gate.is_stopped())
    }

    fn mark_as_started(slot: &WorkerSlot<RING, S::Parts>) -> bool {
        slot.shared.retiring.get().is_some_and(Retiring::mark_started)
    }

    fn leave_as(&self, slot: &WorkerSlot<RING, S::Parts>, status: u32) {
        // SAFETY: as said in `attach`, which has made it that worker.
        unsafe { self.platform.set_worker(None) };
        // Ordering: Release pairs with the Acquire in `attach`.
        slot.shared.status.store(status, Ordering::Release);
        self.decline_broadcast(slot);
        self.census.leave();
        self.gate.tell_if_closing(&self.platform);
        // Ordering: after the fence in `tell_if_closing`, which pairs with the one in `block`.
        if !self.census.blocked.is_zero() {
            self.wake_all();
        }
        self.wake_for_orphaned_timers(slot);
        self.wake_new_listener();
    }

    fn dismiss_affine(&self, first: WorkerId) {
        if self.slot_of(first).shared.retiring.get().is_some_and(Retiring::dismiss) {
            self.unpark(first);
        }
    }

    fn wake_shutdown_waiter(&self) {
        if self.gate.is_closing() {
            self.gate.tell(&self.platform);
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
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

    pub(crate) fn abort_all(&self) {
        Slab::for_each(self.anchor.owners(), |task| {
            // SAFETY: a slot is a header for ever (INV-SLAB-SLOT); the transition needs no reference.
            unsafe { carry_out(task.as_ref().state.apply(Snapshot::abort_once), task) };
        });
    }
}
