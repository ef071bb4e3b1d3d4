//! Only the core assigns a worker to a context.

use filch::{Platform, Scheduler, Slots, WorkerId};

fn become_worker<P: Platform, S: Slots<256>>(executor: &'static Scheduler<P, S>) {
    executor.platform().enter(WorkerId::new(0));
    executor.platform().leave(WorkerId::new(0));
}

fn main() {}
