//! Broadcast: a closure that each worker runs once.
//!
//! There is one broadcast at a time. It lives on the stack of the worker that makes it. The scheduler has a pointer to it, and
//! the slot of each online worker has a flag. A context that clears a flag must count the broadcast down once. The worker
//! itself clears its flag between two tasks, or while it waits for a job, and runs the closure first. A worker that leaves
//! clears its flag without a run of the closure, and so does the caller where it finds that a worker has left.

use core::ptr::NonNull;

use crate::{
    atomic::{AtomicU32, Ordering, fence},
    lock::Spin,
    parts::{On, Parts},
    platform::{Panic, Platform, WorkerId},
    scheduler::{
        core::{
            context::{Inside, SlotGuard, Waits, Worker},
            executor::Scheduler,
            faces::Jobs,
            leave_loop::OutOfLoop,
            slot::Slots,
        },
        state::broadcasts::Broadcast,
        upkeep::listening::ListensFrom,
    },
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
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
    /// The closure, if the calling context is no worker, is in a broadcast already, or must not wait ([`Platform::context`], event sinks).
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use std::sync::Mutex;
    /// # use filch::{Executor, WorkerId};
    /// # static EXECUTOR: Executor<Board, 4> = Executor::new(Board);
    /// # let worker = EXECUTOR.worker(WorkerId::new(0))?;
    /// let seen = Mutex::new(Vec::new());
    /// let calls = EXECUTOR.broadcast(|worker| seen.lock().unwrap().push(worker));
    /// // One worker is online: this one.
    /// assert_eq!(calls.ok(), Some(1));
    /// assert_eq!(seen.into_inner().unwrap(), [WorkerId::new(0)]);
    /// # Ok::<(), filch::RunError>(())
    /// ```
    pub fn broadcast<F>(&'static self, f: F) -> Result<usize, F>
    where
        F: Fn(WorkerId) + Sync,
        S::Parts: Parts<Broadcasts = On>,
    {
        let Waits::OnWorker(me, slot) = self.waits() else { return Err(f) };
        if slot.local.in_broadcast.get() {
            return Err(f);
        }
        let guard = SlotGuard::enter(self, me);
        let worker = guard.worker();
        // The caller may be in a batch of wakers, or between two steps.
        let (out, _batch) = worker.leave_batch();
        let _inside = Inside::enter(&self.platform);
        slot.publish_jobs();
        let broadcast = Broadcast {
            closure: &f,
            caller: me,
            // One is the caller's own, until it has set the flags of all workers.
            pending: AtomicU32::new(1),
            ran: AtomicU32::new(0),
            panic: Spin::new(None),
        };
        let listens_from = ListensFrom::default();
        let wait = || {
            worker.wait(&out, &listens_from);
            // A waker that broadcasts would wait for this broadcast, which is below it on the stack.
            let was = slot.local.in_broadcast.replace(true);
            worker.serve();
            slot.local.in_broadcast.set(was);
        };
        while !self.broadcasts.begin(&broadcast) {
            // The caller of the other broadcast may wait for this worker.
            if !worker.join_broadcast() {
                wait();
            }
        }
        self.mark_all(&broadcast);
        worker.join_broadcast();
        self.count_down(NonNull::from(&broadcast));
        // Ordering: Acquire pairs with the Release in `count_down`.
        while broadcast.pending.load(Ordering::Acquire) > 0 {
            wait();
        }
        self.broadcasts.end();
        // Workers that wait for their turn to broadcast are asleep.
        self.wake_all();
        if let Some(panic) = broadcast.panic.with(Option::take) {
            panic.resume();
        }
        // Ordering: after the Acquire above.
        Ok(broadcast.ran.load(Ordering::Relaxed) as usize)
    }

    /// Hints all online workers.
    fn mark_all(&self, broadcast: &Broadcast<'_>)
    where
        S::Parts: Parts<Broadcasts = On>,
    {
        for (i, slot) in self.regular().iter().enumerate() {
            if !slot.is_online() {
                continue;
            }
            let pending = slot.shared.broadcast.always();
            broadcast.pending.fetch_add(1, Ordering::Relaxed);
            pending.set();
            // Ordering: pairs with the fence in `decline_broadcast`: either this caller sees that the worker has left, or the worker
            // sees the flag.
            fence(Ordering::SeqCst);
            if !slot.is_online() && pending.take() {
                broadcast.pending.fetch_sub(1, Ordering::Relaxed);
            } else {
                self.unpark(WorkerId::new(i as u16));
            }
        }
    }

    /// Counts one participant down. Afterwards the broadcast may be gone.
    pub(super) fn count_down(&self, broadcast: NonNull<Broadcast<'_>>) {
        // SAFETY: INV-BROADCAST: the caller's count is one of `pending`.
        let broadcast = unsafe { broadcast.as_ref() };
        let caller = broadcast.caller;
        // Ordering: Release pairs with the Acquire in `broadcast`; a release sequence, since all are read-modify-writes.
        if broadcast.pending.fetch_sub(1, Ordering::Release) == 1 {
            self.unpark(caller);
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    #[cold]
    #[inline(never)]
    pub(super) fn run_broadcast(&self, _: &OutOfLoop<'_>) -> bool {
        let (executor, slot, me) = (self.executor, self.slot(), self.id());
        let pending = slot.shared.broadcast.get();
        let Some(broadcast) = pending.and_then(|pending| executor.broadcasts.take_part(pending))
        else {
            return false;
        };
        slot.local.in_broadcast.set(true);
        // SAFETY: INV-BROADCAST: we cleared the flag.
        let under_way = unsafe { broadcast.as_ref() };
        let outcome = self.call_as_poll(&mut || (under_way.closure)(me));
        slot.local.in_broadcast.set(false);
        // Ordering: the count of `pending` passes it on.
        under_way.ran.fetch_add(1, Ordering::Relaxed);
        if let Err(panic) = outcome {
            let keep = |first: &mut Option<Panic>| match first {
                None => first.replace(panic),
                Some(_) => Some(panic),
            };
            // A later panic is dropped, out of the lock.
            drop(under_way.panic.with(keep));
        }
        executor.count_down(broadcast);
        true
    }

    /// Runs what the platform has for this worker in a wait for a job.
    #[inline(always)]
    pub(crate) fn run_foreign_broadcast(&self) {
        while let Some(closure) = self.executor.platform.foreign_broadcast() {
            let _ = self.leave_loop();
            // It does not unwind.
            drop(self.call_as_poll(&mut || closure()));
        }
    }

    /// Calls a closure that is none of the worker's tasks, and may take as long as a poll.
    #[inline(always)]
    fn call_as_poll(&self, closure: &mut dyn FnMut()) -> Result<(), Panic> {
        let slot = self.slot();
        let began = slot.lifo.begin_as_poll();
        if began {
            self.wake_watcher_for_poll();
        }
        let was = slot.lifo.replace_in_user_code(true);
        slot.foreign_work(true);
        let outcome = slot.without_task(|| self.executor.platform.guard(closure));
        slot.foreign_work(false);
        slot.lifo.set_in_user_code(was);
        slot.lifo.end_as_poll(began);
        outcome
    }
}
