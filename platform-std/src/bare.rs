//! For crates that put another face on a runtime's workers, such as rayon's: who is a worker, and how to wait as one. Hidden,
//! and no part of what is kept stable.

use filch::WorkerId;

use crate::context::Handle;

#[doc(hidden)]
impl Handle {
    /// Which runtime this is: its address, and the process that has its threads. A later runtime in the same memory has the
    /// same identity, and as many workers.
    #[inline]
    pub fn identity(&self) -> (usize, u32) {
        (core::ptr::from_ref(self.0.core).cast::<()>().addr(), self.0.process)
    }

    /// The worker that the calling thread is; at or above [`workers`](Self::workers) a stand-in, or a thread that helps.
    #[inline]
    pub fn worker(&self) -> Option<WorkerId> {
        self.0.core.current_worker()
    }

    /// How many workers there are, stand-ins not counted.
    pub fn workers(&self) -> usize {
        self.0.core.workers()
    }

    /// How many there are at most, with stand-ins and threads that help.
    pub fn slots(&self) -> usize {
        self.0.core.slots()
    }

    /// Works until `done`, on a worker: as [`filch::Scheduler::help_until`], but it always holds then, however deep the wait is nested.
    /// What makes `done` true then calls [`unpark`](Self::unpark).
    pub fn help_until(&self, done: &mut dyn FnMut() -> bool) -> bool {
        self.0.core.help_until_done(done)
    }

    /// Has a worker look around. From any context, also when the runtime has ended.
    pub fn unpark(&self, worker: WorkerId) {
        self.0.core.unpark(worker);
    }

    /// The calling thread is that worker until the runtime ends; `begin` is called first. False, with nothing done, if
    /// there is no such worker, or it is there already, or the runtime has ended. For a runtime that was built bare.
    pub fn be_worker(&self, worker: WorkerId, begin: &mut dyn FnMut()) -> bool {
        self.0.core.be_worker(worker, begin)
    }

    /// The calling thread is that worker for ever, and works for the runtime only while it waits in it. The runtime must
    /// then never be dropped: that would wait for this worker.
    pub fn stay_worker(&self, worker: WorkerId) -> bool {
        self.0.core.stay_worker(worker)
    }

    /// Cancels every task and ends the workers, without waiting for either.
    pub fn begin_shutdown(&self) {
        self.0.core.begin_shutdown();
    }
}
