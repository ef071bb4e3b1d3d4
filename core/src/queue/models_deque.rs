//! Loom models of the deque, with the real code.
//!
//! Each job has a payload in a checked cell, as in `models`: loom reports a hand-over without an order as a race, and a
//! job that comes out twice has no payload the second time.

use core::ptr::NonNull;

use loom::{sync::Arc, thread};

use super::deque::{Deque, Steal};
use crate::atomic::{
    AtomicBool, Ordering, UnsafeCell,
    model::{check, leak},
};

type Job = UnsafeCell<Option<usize>>;

fn job(n: usize) -> NonNull<Job> {
    let job = leak(UnsafeCell::new(None));
    // SAFETY: no other context knows of the job.
    job.with_mut(|p| unsafe { *p = Some(n) });
    NonNull::from(job)
}

/// Runs the job: takes the number out.
fn run(job: NonNull<Job>) -> usize {
    // SAFETY: jobs live until the end of the model. The context that got this one has it to itself, or loom reports a
    // race.
    let n = unsafe { job.as_ref() }.with_mut(|p| unsafe { (*p).take() });
    n.expect("a job came out twice")
}

/// The owner's side.
struct Owner<const CAP: usize> {
    deque: Arc<Deque<Job, CAP>>,
    held: Vec<(usize, NonNull<Job>)>,
    next: usize,
    /// Run by the owner: jobs that it took back, and jobs that found no room.
    done: Vec<usize>,
    /// How many jobs the owner knows to be stolen.
    lost: usize,
}

impl<const CAP: usize> Owner<CAP> {
    fn new(index: usize) -> Self {
        let deque = Arc::new(Deque::starting_at(index));
        Self { deque, held: vec![], next: 0, done: vec![], lost: 0 }
    }

    fn push(&mut self) {
        let job = job(self.next);
        self.next += 1;
        // SAFETY: there is one `Owner` of each deque; jobs live until the end of the model.
        unsafe {
            let at = self.deque.bottom();
            if self.deque.push(at, job) {
                self.held.push((at, job));
            } else {
                self.done.push(run(job));
            }
        }
    }

    fn publish(&mut self, n: usize) {
        // SAFETY: as above.
        let _ = unsafe { self.deque.publish(n) };
    }

    /// Pushes an open job.
    fn open(&mut self) {
        let job = job(self.next);
        self.next += 1;
        // SAFETY: as above.
        unsafe {
            let at = self.deque.bottom();
            if self.deque.push_open(at, job) {
                self.held.push((at, job));
            } else {
                self.done.push(run(job));
            }
        }
    }

    fn take_open(&mut self) {
        let (at, job) = self.held.pop().expect("a script takes what it has pushed");
        // SAFETY: as above.
        if unsafe { self.deque.take(at, false) } {
            self.done.push(run(job));
        } else {
            self.lost += 1;
            // SAFETY: as above. What its thief does with it does not concern the deque.
            unsafe { self.deque.settle() };
        }
    }

    /// Takes the newest job.
    fn take(&mut self) {
        self.take_nth(self.held.len() - 1);
    }

    /// Takes the job that is so many above the oldest of those that it has not taken.
    fn take_nth(&mut self, n: usize) {
        let (at, job) = self.held.remove(n);
        // SAFETY: as above.
        if unsafe { self.deque.take(at, true) } {
            self.done.push(run(job));
        } else {
            self.lost += 1;
            // SAFETY: as above. What its thief does with it does not concern the deque.
            unsafe { self.deque.settle() };
        }
    }
}

/// An owner against thieves that make `tries` attempts each.
fn deque_model<const CAP: usize>(
    begin: usize,
    thieves: usize,
    tries: usize,
    before: impl Fn(&mut Owner<CAP>),
    script: impl Fn(&mut Owner<CAP>),
) {
    let mut owner = Owner::<CAP>::new(begin);
    before(&mut owner);
    let threads: Vec<_> = (0..thieves)
        .map(|_| {
            let victim = Arc::clone(&owner.deque);
            thread::spawn(move || {
                let steal = |_| match victim.steal() {
                    Steal::Success(job) => Some(run(job)),
                    Steal::Empty | Steal::Retry => None,
                };
                (0..tries).filter_map(steal).collect::<Vec<_>>()
            })
        })
        .collect();
    script(&mut owner);
    while !owner.held.is_empty() {
        owner.take();
    }
    let mut stolen = vec![];
    for thread in threads {
        let got = thread.join().unwrap();
        assert!(got.is_sorted(), "out of order: {got:?}");
        stolen.extend(got);
    }
    assert_eq!(stolen.len(), owner.lost);
    // SAFETY: the only context.
    assert_eq!(unsafe { owner.deque.unsettled() }, 0);
    // At most empty slots are left.
    while owner.deque.steal() == Steal::Retry {}
    assert!(!owner.deque.is_public());
    let mut all = owner.done;
    all.extend(stolen);
    all.sort_unstable();
    assert_eq!(all, (0..owner.next).collect::<Vec<_>>());
}

/// One below the last index before indices wrap.
const NEAR_WRAP: usize = usize::MAX - 1;

/// Open jobs, the last of which its owner takes through `top`, and a private one on top of them.
///
/// Seen to catch: `deque_open`.
#[test]
fn models_deque_open_jobs_against_a_thief() {
    check(3, || {
        deque_model::<4>(
            NEAR_WRAP,
            1,
            2,
            |_| {},
            |owner| {
                owner.open();
                owner.take_open();
                owner.open();
                owner.open();
                owner.push();
                owner.take();
                owner.take_open();
                owner.take_open();
            },
        );
    });
}

/// A plain Chase-Lev deque: every job is public at once.
///
/// Seen to catch: `deque_publish`, `deque_last`.
#[test]
fn models_deque_pushes_and_takes_against_a_thief() {
    check(3, || {
        deque_model::<4>(
            NEAR_WRAP,
            1,
            2,
            |_| {},
            |owner| {
                owner.push();
                owner.publish(1);
                owner.push();
                owner.publish(1);
                owner.take();
                owner.push();
                owner.publish(1);
            },
        );
    });
}

/// Three jobs; two takes at each end.
///
/// Seen to catch: `deque_take_fence`, `deque_steal_fence`, `deque_last`, `deque_lower`.
#[test]
fn models_deque_takes_against_a_thief() {
    check(3, || {
        deque_model::<4>(
            NEAR_WRAP,
            1,
            2,
            |_| {},
            |owner| {
                (0..3).for_each(|_| owner.push());
                owner.publish(3);
                owner.take();
                owner.take();
            },
        );
    });
}

/// Two thieves and the owner compete for the last two jobs.
///
/// Seen to catch: `deque_last`, `deque_take_fence`.
#[test]
fn models_deque_two_thieves_and_the_last_jobs() {
    let before = |owner: &mut Owner<4>| {
        (0..2).for_each(|_| owner.push());
        owner.publish(2);
    };
    check(2, move || {
        deque_model::<4>(0, 2, 1, before, |owner| {
            owner.take();
            owner.take();
        });
    });
}

/// Coroutines take public jobs in any order: the middle one of three, the oldest, and the last.
///
/// Seen to catch: `deque_middle`, `deque_take_fence`.
#[test]
fn models_deque_takes_from_the_middle_against_a_thief() {
    check(3, || {
        deque_model::<4>(
            NEAR_WRAP,
            1,
            2,
            |_| {},
            |owner| {
                (0..3).for_each(|_| owner.push());
                owner.publish(3);
                owner.take_nth(1);
                owner.take_nth(0);
            },
        );
    });
}

/// The oldest of two public jobs is taken first, perhaps as a thief has just taken it, and turns to the other one.
///
/// Seen to catch: `deque_restore`, `deque_last`.
#[test]
fn models_deque_takes_the_oldest_first_against_a_thief() {
    check(3, || {
        deque_model::<4>(
            NEAR_WRAP,
            1,
            2,
            |_| {},
            |owner| {
                (0..2).for_each(|_| owner.push());
                owner.publish(2);
                owner.take_nth(0);
            },
        );
    });
}

/// Private jobs that are not the newest leave empty slots, which become public, and of which thieves get nothing.
///
/// Seen to catch: `deque_empty`.
#[test]
fn models_deque_of_empty_slots_against_a_thief() {
    check(3, || {
        deque_model::<4>(
            NEAR_WRAP,
            1,
            3,
            |_| {},
            |owner| {
                (0..3).for_each(|_| owner.push());
                owner.take_nth(0);
                owner.publish(3);
                owner.take_nth(0);
                owner.push();
                owner.publish(1);
            },
        );
    });
}

/// The split: private jobs are out of reach, and are published while a thief looks.
///
/// Seen to catch: `deque_publish`.
#[test]
fn models_deque_private_part_against_a_thief() {
    check(3, || {
        deque_model::<4>(
            NEAR_WRAP,
            1,
            2,
            |_| {},
            |owner| {
                owner.push();
                owner.push();
                owner.publish(1);
                owner.take();
                owner.push();
                owner.publish(2);
            },
        );
    });
}

/// A full deque: slots are overwritten while a thief reads the oldest.
///
/// Seen to catch: `deque_room`, `deque_late`.
#[test]
fn models_deque_of_two_is_full() {
    check(3, || {
        deque_model::<2>(
            NEAR_WRAP,
            1,
            2,
            |_| {},
            |owner| {
                owner.push();
                owner.push();
                owner.publish(2);
                owner.push();
                owner.push();
                owner.publish(1);
            },
        );
    });
}

/// A thief wants the jobs that its victim forks within one job, and none that it forks later: two before the end, two
/// after it.
///
/// Seen to catch: `deque_still`.
#[test]
fn models_deque_a_thief_takes_pieces_of_one_job() {
    check(3, || {
        let mut owner = Owner::<4>::new(NEAR_WRAP);
        let over = Arc::new(AtomicBool::new(false));
        let thief = thread::spawn({
            let (victim, over) = (Arc::clone(&owner.deque), Arc::clone(&over));
            move || match victim.steal_if(|| !over.load(Ordering::Relaxed)) {
                Steal::Success(job) => Some(run(job)),
                Steal::Empty | Steal::Retry => None,
            }
        });
        let two = |owner: &mut Owner<4>| {
            owner.push();
            owner.push();
            owner.publish(2);
            owner.take();
            owner.take();
        };
        two(&mut owner);
        // Ordering: Relaxed; the next publication passes it on.
        over.store(true, Ordering::Relaxed);
        two(&mut owner);
        let stolen = thief.join().unwrap();
        assert!(stolen.is_none_or(|n| n < 2), "a later job was taken: {stolen:?}");
        assert_eq!(owner.done.len() + usize::from(stolen.is_some()), 4);
    });
}
