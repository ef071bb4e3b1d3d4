//! Broadcast: a closure that each worker runs once.
//!
//! There is one broadcast at a time. It lives on the stack of the worker that makes it. The scheduler has a pointer to it, and
//! the slot of each online worker has a mark. A context that takes a mark down must count the broadcast down once. The worker
//! itself takes its mark down between two tasks, or while it waits for a job, and runs the closure first. A worker that leaves
//! takes its mark down without a run of the closure, and so does the caller where it finds that a worker has left.

use core::{mem::MaybeUninit, ptr::NonNull};

use super::{
    away::Away,
    context::Leave,
    context::Worker,
    executor::Scheduler,
    slot::{Slots, WorkerSlot},
};
use crate::{
    atomic::{AtomicBool, AtomicU32, Ordering, UnsafeCell, fence},
    platform::{Panic, Platform, WorkerId},
};

/// A broadcast under way.
///
/// INV-CALL: it stays until `pending` is zero. Each mark that is up in a slot is one of `pending`. A context that takes a mark
/// down may use the call until it counts down. The context that sets `failed` writes `panic`; the caller reads it when `pending`
/// is zero.
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
            // One is the caller's own, until it has marked all workers.
            pending: AtomicU32::new(1),
            ran: AtomicU32::new(0),
            failed: AtomicBool::new(false),
            panic: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Keeps the panic if it is the first.
    fn keep(&self, panic: Panic) {
        // Ordering: only the first panic counts. The count passes on what is written here.
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
    /// Calls `f` once on each online worker, in that worker's context and with its id. Returns the number of calls, after the
    /// last has ended. The caller is one of these workers, unless it runs in a spare slot.
    ///
    /// Call it from a task or a job of a worker, or between two steps of a worker. It blocks that worker until the others are
    /// done. A worker takes part between two polls, so one that is stuck in a long poll delays the broadcast. A worker that is
    /// offline is not waited for, a worker that leaves meanwhile may be left out, and workers in spare slots take no part. A
    /// worker that is stepped by hand must be stepped meanwhile, by another context, or the broadcast does not end. Broadcasts
    /// run one after the other.
    ///
    /// `f` also runs on workers that wait for fork-join jobs: it must take no lock that is held across a fork. It must not wait
    /// for another broadcast either. Results go through what `f` borrows, for example a slice of cells with one for each worker.
    ///
    /// # Panics
    /// With the first panic of `f`, after `f` has run on all workers.
    ///
    /// # Errors
    /// The closure, if the calling context is no worker, is in a broadcast already, or must not wait ([`Platform::context`]).
    pub fn broadcast<F>(&'static self, f: F) -> Result<usize, F>
    where
        F: Fn(WorkerId) + Sync,
    {
        let here = self.working().filter(|(_, slot)| !slot.local.called.get());
        let Some((me, slot)) = here.filter(|_| self.platform.may_wait()) else {
            return Err(f);
        };
        let leave = Leave::at_end(self, me);
        // The caller may be in a batch of wakers, or between two steps.
        let (away, _batch) = leave.worker().leave_batch();
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
        // Ordering: Release pairs with the Acquire in `begin_call`: the marks of the next call come after those of this one.
        self.call.store(core::ptr::null_mut(), Ordering::Release);
        // Workers that wait for their turn to broadcast are asleep.
        self.wake_all();
        // Ordering: the Acquire above orders this load and the one below.
        if call.failed.load(Ordering::Relaxed) {
            // SAFETY: INV-CALL; taken once.
            call.panic.with(|p| unsafe { (*p).assume_init_read() }).resume();
        }
        Ok(call.ran.load(Ordering::Relaxed) as usize)
    }

    /// Waits until no other call is under way, and makes this one the call under way.
    fn begin_call(&self, worker: &Worker<P, S, RING>, call: &Call, away: &Away<'_>) {
        let call = core::ptr::from_ref(call).cast_mut();
        // Ordering: AcqRel. Release pairs with the Acquire in `join_broadcast`, Acquire with the Release at the end of
        // `broadcast`.
        while self
            .call
            .compare_exchange(core::ptr::null_mut(), call, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            // The caller of the other broadcast may wait for this worker.
            if !self.join_broadcast(worker.id(), worker.slot(), away) {
                worker.wait(away);
            }
        }
    }

    /// Marks all online workers.
    fn call_all(&self, call: &Call) {
        for (i, slot) in self.regular().iter().enumerate() {
            if !slot.is_online() {
                continue;
            }
            call.pending.fetch_add(1, Ordering::Relaxed);
            // Ordering: Release pairs with the Acquire in `take_mark`: the context that takes the mark down sees the call.
            slot.shared.called.store(true, Ordering::Release);
            // Ordering: pairs with the fence in `decline_call`: either this caller sees that the worker has left, or the worker
            // sees the mark.
            fence(Ordering::SeqCst);
            if !slot.is_online() && Self::take_mark(slot) {
                call.pending.fetch_sub(1, Ordering::Relaxed);
            } else {
                self.unpark(WorkerId::new(i as u16));
            }
        }
    }

    /// Takes the mark down; whether it was up.
    fn take_mark(slot: &WorkerSlot<RING>) -> bool {
        // Ordering: Acquire pairs with the Release in `call_all`.
        slot.shared.called.swap(false, Ordering::Acquire)
    }

    /// Runs the closure if the calling worker is marked; whether it was.
    #[inline]
    pub(crate) fn join_broadcast(
        &self,
        me: WorkerId,
        slot: &WorkerSlot<RING>,
        away: &Away<'_>,
    ) -> bool {
        // Ordering: a look first. The caller of a broadcast marks a worker and then unparks it, so this worker looks again.
        slot.shared.called.load(Ordering::Relaxed) && self.run_broadcast(me, slot, away)
    }

    #[cold]
    #[inline(never)]
    fn run_broadcast(&self, me: WorkerId, slot: &WorkerSlot<RING>, _: &Away<'_>) -> bool {
        if !Self::take_mark(slot) {
            return false;
        }
        // Ordering: after the Acquire in `take_mark`.
        let Some(call) = NonNull::new(self.call.load(Ordering::Relaxed)) else { return false };
        // SAFETY: INV-CALL: we took the mark down.
        let Call { run, closure, ref ran, .. } = *unsafe { call.as_ref() };
        slot.local.called.set(true);
        let was = slot.lifo.replace_accept(true);
        slot.bay.mix(true);
        // SAFETY: INV-CALL, for the closure too.
        let outcome = self.platform.guard(&mut || unsafe { run(closure, me) });
        slot.bay.mix(false);
        slot.lifo.accept(was);
        slot.local.called.set(false);
        // Ordering: the count passes it on.
        ran.fetch_add(1, Ordering::Relaxed);
        if let Err(panic) = outcome {
            // SAFETY: INV-CALL.
            unsafe { call.as_ref() }.keep(panic);
        }
        self.count_down(call);
        true
    }

    /// A worker has left. If it is marked, the broadcast goes on without it.
    pub(crate) fn decline_call(&self, slot: &WorkerSlot<RING>) {
        // Ordering: pairs with the fence in `call_all`.
        fence(Ordering::SeqCst);
        if slot.shared.called.load(Ordering::Relaxed) && Self::take_mark(slot) {
            // Ordering: as in `run_broadcast`.
            if let Some(call) = NonNull::new(self.call.load(Ordering::Relaxed)) {
                self.count_down(call);
            }
        }
    }

    /// Counts one participant down. Afterwards the call may be gone.
    fn count_down(&self, call: NonNull<Call>) {
        // SAFETY: INV-CALL: the caller's count is one of `pending`.
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
        // Ordering: as in `Scheduler::join_broadcast`.
        self.slot().shared.called.load(Ordering::Relaxed)
            && self.executor.run_broadcast(self.id(), self.slot(), &self.leave_loop())
    }
}
