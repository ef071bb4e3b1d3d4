//! A loom model of a worker that steals while another steals from it.

use alloc::vec::Vec;
use core::ops::Range;

use loom::{sync::Arc, thread};

use super::{
    models::{assert_all, item, value},
    ring::{Overflow, Ring},
};
use crate::atomic::model::check;

extern crate alloc;

/// A ring that holds these tasks.
fn holding(tasks: Range<usize>) -> Arc<Ring<4>> {
    let ring = Arc::new(Ring::starting_at(0));
    for n in tasks {
        // SAFETY: no other context knows of the ring.
        let Overflow::None = (unsafe { ring.push(item(n)) }) else { panic!("there is room") };
    }
    ring
}

/// Steals, and returns all tasks that `to` then holds.
///
/// # Safety
/// The caller is the owner of `to`.
unsafe fn steal(from: &Ring<4>, to: &Ring<4>) -> Vec<usize> {
    // SAFETY: INV-RING-OWNER: the caller is the owner of `to`.
    let first = unsafe { from.steal_into(to) }.map(|(first, _)| first);
    // SAFETY: as above.
    let rest = core::iter::from_fn(|| unsafe { to.pop() });
    first.into_iter().chain(rest).map(value).collect()
}

/// A full ring is stolen from, and its owner steals into the slots that become free.
///
/// Seen to catch: a `Ring::room` that does not acquire what thieves have released.
#[test]
fn models_ring_fills_what_a_thief_has_freed() {
    check(2, || {
        let (mine, theirs) = (holding(0..4), holding(4..8));
        let victim = Arc::clone(&mine);
        let thief = thread::spawn(move || {
            let own = holding(0..0);
            // SAFETY: the thread's own ring.
            unsafe { steal(&victim, &own) }
        });
        // SAFETY: this thread's own ring.
        let mut all = unsafe { steal(&theirs, &mine) };
        all.extend(thief.join().unwrap());
        // SAFETY: the thief has ended, so each ring has one user.
        all.extend(
            core::iter::from_fn(|| unsafe { mine.pop().or_else(|| theirs.pop()) }).map(value),
        );
        assert_all(all, 8);
    });
}
