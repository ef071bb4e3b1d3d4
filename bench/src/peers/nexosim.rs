//! The executor inside nexosim. It gets tasks, and then runs until all have ended: no task spawns
//! another.

use core::future::Future;

use nexosim::dev_hooks::Executor;

use super::Peer;

pub(crate) struct Nexosim(Executor);

impl Peer for Nexosim {
    type Here = Executor;

    fn start(workers: usize) -> Self {
        Self(Executor::new(workers))
    }

    fn detach(here: &Executor, future: impl Future<Output = ()> + Send + 'static) {
        here.spawn_and_forget(future);
    }

    fn submit(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn_and_forget(future);
    }

    fn within(&mut self, job: impl FnOnce(&Executor) + Send + 'static) {
        job(&self.0);
        self.drive();
    }

    fn drive(&mut self) {
        self.0.run();
    }
}
