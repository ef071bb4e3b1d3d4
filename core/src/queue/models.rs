//! Loom models of the queues, with the real code.
//!
//! Each task has a payload in a checked cell. Its producer writes the payload and its consumer takes it out. So loom
//! reports a race if nothing orders the two, and a task that comes out twice has no payload the second time.

use alloc::{boxed::Box, vec, vec::Vec};
use core::ptr::NonNull;

use loom::{sync::Arc, thread};

use super::{
    chain::{Chain, Stack},
    inbox::Inbox,
    injector::Injector,
    ring::{LAST, Overflow, Ring},
};
use crate::{
    atomic::{UnsafeCell, model::check},
    task::header::{Header, Ready},
};

extern crate alloc;

#[repr(C)]
struct Item {
    header: Header,
    payload: UnsafeCell<Option<usize>>,
}

/// A task with a number for its payload.
pub(super) fn item(n: usize) -> Ready {
    let item =
        Box::leak(Box::new(Item { header: Header::vacant(), payload: UnsafeCell::new(None) }));
    // SAFETY: no other context knows of the item.
    item.payload.with_mut(|p| unsafe { *p = Some(n) });
    // SAFETY: as above.
    unsafe { Ready::from_raw(NonNull::from(item).cast()) }
}

/// Takes the number out of the task.
pub(super) fn value(ready: Ready) -> usize {
    let item = ready.into_raw().cast::<Item>();
    // SAFETY: all tasks here are items, and the holder of the `Ready` owns the payload.
    let n = unsafe { item.as_ref().payload.with_mut(|p| (*p).take()) };
    n.expect("a task came out twice")
}

/// Checks that all numbers came out, each once.
pub(super) fn assert_all(mut got: Vec<usize>, n: usize) {
    got.sort_unstable();
    assert_eq!(got, (0..n).collect::<Vec<_>>());
}

fn assert_ascending(got: &[usize]) {
    assert!(got.is_sorted(), "out of order: {got:?}");
}

/// One below the last index, so that both halves of a head wrap soon.
const NEAR_WRAP: u32 = LAST - 1;

/// The bound of preemptions: a claim with narrow indices has more steps.
const STEPS: usize = if cfg!(filch_narrow) { 2 } else { 3 };

/// The number of the first task that a thief has before it steals.
const OWN: usize = 1_000;

/// The owner's side of a ring.
struct Owner<const CAP: usize> {
    ring: Arc<Ring<CAP>>,
    popped: Vec<usize>,
    /// Tasks that a push did not keep; they would go to the injector.
    shed: Vec<usize>,
}

impl<const CAP: usize> Owner<CAP> {
    /// The owner of a ring that begins at `index` and holds `tasks`.
    fn new(index: u32, tasks: core::ops::Range<usize>) -> Self {
        let ring = Arc::new(Ring::starting_at(index));
        let mut this = Self { ring, popped: vec![], shed: vec![] };
        tasks.for_each(|n| this.push(n));
        this
    }

    fn push(&mut self, n: usize) {
        // SAFETY: there is one `Owner` of each ring.
        match unsafe { self.ring.push(item(n)) } {
            Overflow::None => {}
            Overflow::One(ready) => self.shed.push(value(ready)),
            Overflow::Chain(mut chain) => {
                assert_eq!(chain.len(), CAP / 2 + 1);
                let first = self.shed.len();
                while let Some(ready) = chain.pop_front() {
                    self.shed.push(value(ready));
                }
                assert_ascending(&self.shed[first..]);
            }
        }
        assert!(self.ring.len() <= CAP);
    }

    fn pop(&mut self) {
        // SAFETY: as in `push`.
        self.popped.extend(unsafe { self.ring.pop() }.map(value));
    }

    /// Steals, and runs the first stolen task.
    fn steal(&mut self, victim: &Ring<CAP>) {
        let before = self.ring.len();
        // SAFETY: as in `push`.
        if let Some((ready, n)) = unsafe { victim.steal_into(&self.ring) } {
            self.popped.push(value(ready));
            assert!(n <= CAP / 2 && before + n - 1 <= CAP, "{n} stolen on top of {before}");
        }
    }

    fn drain(&mut self) {
        while !self.ring.is_empty() {
            self.pop();
        }
    }

    /// All tasks that this owner got: those it had before in order, and those it has stolen in order.
    fn end(mut self) -> Vec<usize> {
        self.drain();
        let (own, got): (Vec<_>, Vec<_>) = self.popped.iter().partition(|n| **n >= OWN);
        assert_ascending(&own);
        assert_ascending(&got);
        self.popped.extend(self.shed);
        self.popped
    }
}

/// An owner against thieves that steal twice each and begin with `held` tasks.
fn ring_model<const CAP: usize>(
    begin: u32,
    before: usize,
    thieves: usize,
    held: usize,
    script: impl Fn(&mut Owner<CAP>),
) {
    let mut owner = Owner::<CAP>::new(begin, 0..before);
    let threads: Vec<_> = (0..thieves)
        .map(|_| {
            let victim = Arc::clone(&owner.ring);
            thread::spawn(move || {
                let mut thief = Owner::<CAP>::new(0, OWN..OWN + held);
                thief.steal(&victim);
                thief.drain();
                thief.steal(&victim);
                let mut got = thief.end();
                got.retain(|n| *n < OWN);
                got
            })
        })
        .collect();
    script(&mut owner);
    let mut all: Vec<_> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
    all.extend(owner.end());
    let pushed = all.len();
    assert_all(all, pushed);
}

/// Tasks are pushed while a thief loads the head and the tail.
///
/// Seen to catch: `ring_publish`, `ring_half`.
#[test]
fn models_ring_pushes_against_a_thief() {
    check(3, || {
        ring_model::<4>(NEAR_WRAP, 0, 1, 0, |owner| {
            owner.push(0);
            owner.push(1);
            owner.push(2);
        });
    });
}

/// The owner pops as many tasks as there are indices, while a thief is between its loads and its claim.
///
/// Seen to catch: a claim in one step, as it is with wide indices.
#[cfg(filch_narrow)]
#[test]
fn models_ring_indices_come_round_under_a_thief() {
    check(2, || {
        ring_model::<4>(0, 3, 1, 0, |owner| {
            (0..3).for_each(|_| owner.pop());
            for n in 3..=LAST as usize {
                owner.push(n);
                owner.pop();
            }
        });
    });
}

/// Seen to catch: `ring_publish`, `ring_half`, `ring_release` (a slot is overwritten while a thief reads it).
#[test]
fn models_ring_owner_and_thief_across_the_wrap() {
    check(STEPS, || {
        ring_model::<4>(NEAR_WRAP, 2, 1, 0, |owner| {
            owner.push(2);
            owner.pop();
            owner.push(3);
            owner.push(4);
        });
    });
}

/// A full ring sheds half of its tasks, or, while a thief is at work, only the new task.
///
/// Seen to catch: `ring_release`, `ring_publish`.
#[test]
fn models_ring_of_two_overflows_under_a_thief() {
    check(STEPS, || {
        ring_model::<2>(NEAR_WRAP, 1, 1, 0, |owner| (1..5).for_each(|n| owner.push(n)));
    });
}

/// Seen to catch: `ring_release`.
#[test]
fn models_ring_of_four_overflows_under_a_thief() {
    check(2, || {
        ring_model::<4>(NEAR_WRAP, 3, 1, 0, |owner| (3..7).for_each(|n| owner.push(n)));
    });
}

/// Seen to catch: `ring_room` (the thief's ring overflows).
#[test]
fn models_ring_thief_with_tasks_of_its_own() {
    check(2, || ring_model::<4>(0, 3, 1, 4, |owner| owner.push(3)));
    check(2, || ring_model::<4>(0, 4, 1, 3, Owner::pop));
}

/// Seen to catch: `ring_half`, `ring_publish`.
#[test]
fn models_ring_two_thieves() {
    check(2, || {
        ring_model::<4>(NEAR_WRAP, 1, 2, 0, |owner| {
            owner.push(1);
            owner.pop();
        });
    });
}

/// Two workers steal from each other.
///
/// Seen to catch: `ring_publish`, `ring_half`.
#[test]
fn models_ring_two_workers_steal_from_each_other() {
    check(2, || {
        let mut mine = Owner::<4>::new(NEAR_WRAP, 0..2);
        let mut theirs = Owner::<4>::new(NEAR_WRAP, 0..0);
        let (my_ring, their_ring) = (Arc::clone(&mine.ring), Arc::clone(&theirs.ring));
        let other = thread::spawn(move || {
            theirs.push(2);
            theirs.push(3);
            theirs.steal(&my_ring);
            theirs.pop();
            theirs
        });
        mine.steal(&their_ring);
        mine.push(4);
        mine.pop();
        let mut all = vec![];
        for mut owner in [other.join().unwrap(), mine] {
            owner.drain();
            // Each worker got its own tasks in order and the other's in order, but the two mixed.
            for range in [[0, 1, 4].as_slice(), &[2, 3]] {
                let of: Vec<_> =
                    owner.popped.iter().copied().filter(|n| range.contains(n)).collect();
                assert_ascending(&of);
            }
            all.extend(owner.popped);
            all.extend(owner.shed);
        }
        assert_all(all, 5);
    });
}

/// The batch that a consumer takes from the injector.
fn batch(injector: &Injector, room: usize) -> Vec<usize> {
    let mut rest = vec![];
    let first = injector.pop_batch(1, room, |ready| {
        // The lock is held here, and no context waits for it.
        assert!(injector.pop_batch(1, 0, |_| {}).is_none());
        rest.push(value(ready));
    });
    let mut got: Vec<_> = first.map(value).into_iter().collect();
    got.extend(rest);
    got
}

/// Two producers, one of which pushes a chain, and this many consumers. No task is lost or doubled, and each producer's
/// tasks come out in order.
fn injector_model(consumers: usize, room: usize) {
    let injector = Arc::new(Injector::new());
    let single = thread::spawn({
        let injector = Arc::clone(&injector);
        move || {
            injector.push(item(0));
            injector.push(item(1));
        }
    });
    let takers: Vec<_> = (1..consumers)
        .map(|_| {
            let injector = Arc::clone(&injector);
            thread::spawn(move || batch(&injector, room))
        })
        .collect();
    let mut chain = Chain::new();
    chain.push_back(item(2));
    chain.push_back(item(3));
    injector.push_chain(chain);
    let mut mine = batch(&injector, room);
    single.join().unwrap();
    let mut all = vec![];
    for taker in takers {
        let got = taker.join().unwrap();
        assert_in_producers_order(&got);
        all.extend(got);
    }
    // All threads have ended, so the remaining tasks can be taken.
    while !injector.is_empty() {
        mine.extend(batch(&injector, room));
    }
    assert_eq!(injector.len(), 0);
    assert_in_producers_order(&mine);
    all.extend(mine);
    assert_all(all, 4);
}

fn assert_in_producers_order(got: &[usize]) {
    for producer in [[0, 1], [2, 3]] {
        let of = |n| got.iter().position(|v| *v == n);
        if let (Some(first), Some(second)) = (of(producer[0]), of(producer[1])) {
            assert!(first < second, "{got:?}");
        }
    }
}

/// Seen to catch: `stack_push`.
#[test]
fn models_injector_two_producers_one_consumer() {
    check(2, || injector_model(1, 3));
}

/// Seen to catch: `stack_push`, `spin_release`.
#[test]
fn models_injector_two_producers_two_consumers() {
    check(2, || injector_model(2, 3));
}

/// Batches of one task: the others stay in the ordered part.
///
/// Seen to catch: `spin_release`.
#[test]
fn models_injector_leaves_tasks_behind() {
    check(2, || injector_model(2, 0));
}

/// Seen to catch: `stack_push`.
#[test]
fn models_stack_pushes_against_take_all() {
    check(3, || {
        let stack = Arc::new(Stack::new());
        let threads: Vec<_> = (0..2)
            .map(|i| {
                let stack = Arc::clone(&stack);
                thread::spawn(move || stack.push(item(i)))
            })
            .collect();
        let take = || {
            let mut chain = stack.take_all();
            let mut got = vec![];
            while let Some(ready) = chain.pop_front() {
                got.push(value(ready));
            }
            got
        };
        let mut all = take();
        threads.into_iter().for_each(|t| t.join().unwrap());
        all.extend(take());
        assert!(stack.is_empty());
        assert_all(all, 2);
    });
}

/// Seen to catch: `stack_push`.
#[test]
fn models_stack_inbox_pushes_against_its_worker() {
    check(3, || {
        let inbox = Arc::new(Inbox::new());
        let threads: Vec<_> = [[0, 1].as_slice(), &[2]]
            .into_iter()
            .map(|numbers| {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || numbers.iter().for_each(|n| inbox.push(item(*n))))
            })
            .collect();
        let mut got = vec![];
        // SAFETY: this thread is the worker.
        let pop = |got: &mut Vec<usize>| got.extend(unsafe { inbox.pop() }.map(value));
        pop(&mut got);
        pop(&mut got);
        threads.into_iter().for_each(|t| t.join().unwrap());
        // SAFETY: as above.
        while unsafe { !inbox.is_empty() } {
            pop(&mut got);
        }
        let ascending: Vec<_> = got.iter().copied().filter(|n| *n < 2).collect();
        assert_ascending(&ascending);
        assert_all(got, 3);
    });
}
