//! Only the core assigns a worker to a context.

use filch::{Platform, Scheduler, Slots, WorkerId};

fn become_worker<P: Platform, S: Slots<256>>(executor: &'static Scheduler<P, S>) {
    executor.platform().set_worker(Some(WorkerId::new(0)));
    executor.platform().set_worker(None);
}

fn main() {}
