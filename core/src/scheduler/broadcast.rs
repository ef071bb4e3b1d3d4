//! Broadcast: a closure that each worker runs once.
//!
//! There is one at a time. It lives on the stack of the worker that makes it; a pointer to it is in the scheduler, and a mark
//! in the slot of each worker that is online. Whoever takes a mark down owes the call one count: the worker itself, between two
//! tasks or while it waits for a job, runs the closure first; a worker that leaves, or a caller that finds that one has left, does
//! not.

use core::{mem::MaybeUninit, ptr::NonNull};

use super::{
    duties::Away,
    executor::Scheduler,
    leave::Leave,
    slot::{Slots, WorkerSlot},
    worker::Worker,
};
use crate::{
    atomic::{AtomicBool, AtomicU32, Ordering, UnsafeCell, fence},
    platform::{Panic, Platform, WorkerId},
};

/// A broadcast under way.
///
/// INV-CALL: it stays until `pending` is zero. Each mark that is up in a slot is one of `pending`, and whoever takes a mark
/// down may use the call until it counts down. `panic` is written by the one that sets `failed`, and read when `pending` is zero.
pub(crate) struct Call {
    /// # Safety
    /// `closure` is that of the call.
    run: unsafe fn(*const (), WorkerId),
    closure: *const (),
    caller: WorkerId,
    pending: AtomicU32,
    ran: AtomicU32,
    failed: AtomicBool,
    panic: UnsafeCell<MaybeUninit<Panic>>,
}

impl Call {
    fn new<F: Fn(WorkerId) + Sync>(caller: WorkerId, f: &F) -> Self {
        unsafe fn run<F: Fn(WorkerId)>(closure: *const (), worker: WorkerId) {
            // SAFETY: the caller's; `new` made the pointer of an `F`.
            let f = unsafe { &*closure.cast::<F>() };
            f(worker);
        }
        Self {
            run: run::<F>,
            closure: core::ptr::from_ref(f).cast(),
            caller,
            // One is the caller's, until it has marked all.
            pending: AtomicU32::new(1),
            ran: AtomicU32::new(0),
            failed: AtomicBool::new(false),
            panic: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Keeps the first panic.
    fn keep(&self, panic: Panic) {
        // Ordering: who is first is all that counts; what it writes is passed on by the count.
        if !self.failed.swap(true, Ordering::Relaxed) {
            // SAFETY: INV-CALL.
            self.panic.with_mut(|p| unsafe { p.write(MaybeUninit::new(panic)) });
        }
    }
}

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    /// Calls `f` once on each worker that is online, in that worker's context and with its id; returns how many there were when
    /// all have. The caller is one of them, unless it runs in a spare slot.
    ///
    /// From a task or a job, or between two steps, of a worker. It blocks its worker until the
    /// others are done, and they come to it between two polls: one that is stuck in a long poll delays it. A worker that is
    /// offline is not waited for, and one that leaves meanwhile may be left out; spares are not asked. A
    /// worker that is stepped by hand has to be stepped meanwhile, by another context, or the broadcast does not end. Broadcasts
    /// come one after the other.
    ///
    /// `f` also runs on workers that wait for fork-join jobs: it must take no lock that is held across a fork. It must
    /// not wait for another broadcast either. Results go through what `f` borrows, say a slice of cells with one for each
    /// worker.
    ///
    /// # Panics
    /// With the first panic of `f`; it has run on all by then.
    ///
    /// # Errors
    /// The closure, if the calling context is no worker, is in a broadcast already, or must not wait ([`Platform::may_wait`]).
    pub fn broadcast<F>(&'static self, f: F) -> Result<usize, F>
    where
        F: Fn(WorkerId) + Sync,
    {
        let here = self.working().filter(|(_, slot)| !slot.local.called.get());
        let Some((me, slot)) = here.filter(|_| self.platform.may_wait()) else {
            return Err(f);
        };
        let leave = Leave::at_end(self, me);
        // It may be called in a batch of wakers, or between two steps.
        let away = leave.worker().leave_loop();
        self.publish_all(&slot.bay);
        let call = Call::new(me, &f);
        self.begin_call(leave.worker(), &call, &away);
        self.call_all(&call);
        self.join_broadcast(me, slot, &away);
        self.count_down(NonNull::from(&call));
        // Ordering: Acquire pairs with the Release in `count_down`.
        while call.pending.load(Ordering::Acquire) > 0 {
            leave.worker().wait(&away);
        }
        // Ordering: Release pairs with the Acquire in `begin_call`: the next call's marks come after ours.
        self.call.store(core::ptr::null_mut(), Ordering::Release);
        // Those who wait for their turn sleep.
        self.wake_all();
        // Ordering of both: after the Acquire above.
        if call.failed.load(Ordering::Relaxed) {
            // SAFETY: INV-CALL; taken once.
            self.platform.resume(call.panic.with(|p| unsafe { (*p).assume_init_read() }));
        }
        Ok(call.ran.load(Ordering::Relaxed) as usize)
    }

    /// Waits until no other call is under way.
    fn begin_call(&self, worker: &Worker<P, S, RING>, call: &Call, away: &Away<'_>) {
        let call = core::ptr::from_ref(call).cast_mut();
        // Ordering: AcqRel; Release pairs with the Acquire in `join_broadcast`, Acquire with the Release at the end of `broadcast`.
        while self
            .call
            .compare_exchange(core::ptr::null_mut(), call, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            // The other may wait for us.
            if !self.join_broadcast(worker.id(), worker.slot(), away) {
                worker.wait(away);
            }
        }
    }

    /// Marks all workers that are online.
    fn call_all(&self, call: &Call) {
        for (i, slot) in self.regular().iter().enumerate() {
            if !slot.is_online() {
                continue;
            }
            call.pending.fetch_add(1, Ordering::Relaxed);
            // Ordering: Release pairs with the Acquire in `take_mark`: who takes the mark down sees the call.
            slot.shared.called.store(true, Ordering::Release);
            // Ordering: pairs with the fence in `decline_call`: either we see that the worker has left, or it sees the mark.
            fence(Ordering::SeqCst);
            if !slot.is_online() && Self::take_mark(slot) {
                call.pending.fetch_sub(1, Ordering::Relaxed);
            } else {
                self.unpark(WorkerId::new(i as u16));
            }
        }
    }

    /// Whether the mark was up; it is down now.
    fn take_mark(slot: &WorkerSlot<RING>) -> bool {
        // Ordering: Acquire pairs with the Release in `call_all`.
        slot.shared.called.swap(false, Ordering::Acquire)
    }

    /// If the calling worker is marked, runs the closure; whether it was.
    #[inline]
    pub(crate) fn join_broadcast(
        &self,
        me: WorkerId,
        slot: &WorkerSlot<RING>,
        away: &Away<'_>,
    ) -> bool {
        // Ordering: a look first. Who marks a worker unparks it, so that it comes again.
        slot.shared.called.load(Ordering::Relaxed) && self.run_broadcast(me, slot, away)
    }

    #[cold]
    #[inline(never)]
    fn run_broadcast(&self, me: WorkerId, slot: &WorkerSlot<RING>, _: &Away<'_>) -> bool {
        if !Self::take_mark(slot) {
            return false;
        }
        // Ordering: by the mark's Acquire.
        let Some(call) = NonNull::new(self.call.load(Ordering::Relaxed)) else { return false };
        // SAFETY: INV-CALL: the mark was ours.
        let Call { run, closure, ref ran, .. } = *unsafe { call.as_ref() };
        slot.local.called.set(true);
        let was = slot.lifo.replace_accept(true);
        slot.bay.mix(true);
        // SAFETY: INV-CALL, for the closure too.
        let outcome = self.platform.guard(&mut || unsafe { run(closure, me) });
        slot.bay.mix(false);
        slot.lifo.accept(was);
        slot.local.called.set(false);
        // Ordering: passed on by the count.
        ran.fetch_add(1, Ordering::Relaxed);
        if let Err(panic) = outcome {
            // SAFETY: INV-CALL.
            unsafe { call.as_ref() }.keep(panic);
        }
        self.count_down(call);
        true
    }

    /// A worker has left: if it is marked, it is left out.
    pub(crate) fn decline_call(&self, slot: &WorkerSlot<RING>) {
        // Ordering: see `call_all`.
        fence(Ordering::SeqCst);
        if slot.shared.called.load(Ordering::Relaxed) && Self::take_mark(slot) {
            // Ordering: as in `run_broadcast`.
            if let Some(call) = NonNull::new(self.call.load(Ordering::Relaxed)) {
                self.count_down(call);
            }
        }
    }

    /// One less to wait for; the call may be gone.
    fn count_down(&self, call: NonNull<Call>) {
        // SAFETY: INV-CALL: it is one of `pending` that we count down.
        let call = unsafe { call.as_ref() };
        let caller = call.caller;
        // Ordering: Release pairs with the Acquire in `broadcast`; a release sequence, since all are read-modify-writes.
        if call.pending.fetch_sub(1, Ordering::Release) == 1 {
            self.unpark(caller);
        }
    }
}

impl<P: Platform, S, const RING: usize> Worker<P, S, RING>
where
    S: Slots<RING>,
{
    /// Runs a broadcast's closure, if there is one for this worker; whether there was.
    #[inline]
    pub(crate) fn join_broadcast(&self) -> bool {
        // Ordering: as in the executor's.
        self.slot().shared.called.load(Ordering::Relaxed)
            && self.executor.run_broadcast(self.id(), self.slot(), &self.leave_loop())
    }
}
