//! Loom models of the queues, over the real code.
//!
//! Each task has a payload in a checked cell: its producer writes it, its consumer reads it, so that a hand-over without
//! an order between the two is seen as a race.

use alloc::{boxed::Box, vec, vec::Vec};
use core::ptr::NonNull;

use loom::{model::Builder, sync::Arc, thread};

use super::{
    chain::{Chain, Stack},
    injector::Injector,
    ring::{Overflow, Ring},
};
use crate::{
    atomic::UnsafeCell,
    bits::Field,
    task::{
        header::{Header, Ready},
        memory::Sealed,
        pool::TaskPool,
    },
};

extern crate alloc;

#[repr(C)]
struct Item {
    header: Header,
    payload: UnsafeCell<usize>,
}

/// A task that holds a number.
fn item(n: usize) -> Ready {
    let item = Box::leak(Box::new(Item { header: Header::vacant(), payload: UnsafeCell::new(0) }));
    // SAFETY: nobody else knows of the item.
    item.payload.with_mut(|p| unsafe { *p = n });
    // SAFETY: as above.
    unsafe { Ready::from_raw(NonNull::from(item).cast()) }
}

fn value(ready: Ready) -> usize {
    // SAFETY: all tasks here are items; whoever has the `Ready` has the payload.
    unsafe { ready.into_raw().cast::<Item>().as_ref().payload.with(|p| *p) }
}

fn check(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 20_000;
    model.check(f);
}

/// All numbers came out, each once.
fn assert_all(mut got: Vec<usize>, n: usize) {
    got.sort_unstable();
    assert_eq!(got, (0..n).collect::<Vec<_>>());
}

fn assert_ascending(got: &[usize]) {
    assert!(got.is_sorted(), "out of order: {got:?}");
}

/// The last index before both halves wrap.
const NEAR_WRAP: u32 = Field::first(crate::atomic::Word::BITS / 2).max() as u32 - 1;

/// Keeps what a push could not.
fn push<const CAP: usize>(ring: &Ring<CAP>, n: usize, out: &mut Vec<usize>) {
    // SAFETY: the caller is the owner.
    match unsafe { ring.push(item(n)) } {
        Overflow::None => {}
        Overflow::One(ready) => out.push(value(ready)),
        Overflow::Chain(mut chain) => {
            while let Some(ready) = chain.pop_front() {
                out.push(value(ready));
            }
        }
    }
}

fn drain<const CAP: usize>(ring: &Ring<CAP>) -> Vec<usize> {
    let mut got = vec![];
    // SAFETY: the caller is the owner.
    while let Some(ready) = unsafe { ring.pop() } {
        got.push(value(ready));
    }
    got
}

/// A thief with `held` tasks of its own already; what it ends up with.
fn thief<const CAP: usize>(victim: &Ring<CAP>, held: usize) -> Vec<usize> {
    let mine = Ring::<CAP>::new();
    for i in 0..held {
        let mut none = vec![];
        push(&mine, 1_000 + i, &mut none);
        assert!(none.is_empty());
    }
    let mut got = vec![];
    // SAFETY: this thread owns `mine`.
    if let Some((ready, n)) = unsafe { victim.steal_into(&mine) } {
        got.push(value(ready));
        let rest: Vec<_> = drain(&mine).into_iter().filter(|v| *v < 1_000).collect();
        assert_eq!(rest.len(), n - 1);
        got.extend(rest);
    }
    assert_ascending(&got);
    got
}

/// An owner that pushes `n` and pops some, against thieves.
fn ring_model<const CAP: usize>(first: u32, before: usize, n: usize, thieves: usize, held: usize) {
    let ring = Arc::new(Ring::<CAP>::starting_at(first));
    let mut out = vec![];
    (0..before).for_each(|i| push(&ring, i, &mut out));
    let threads: Vec<_> = (0..thieves)
        .map(|_| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || thief(&ring, held))
        })
        .collect();
    let mut popped = vec![];
    for i in before..n {
        push(&ring, i, &mut out);
    }
    // SAFETY: this thread is the owner.
    popped.extend(unsafe { ring.pop() }.map(value));
    let mut all: Vec<_> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
    popped.extend(drain(&ring));
    assert_ascending(&popped);
    all.extend(popped);
    all.extend(out);
    assert_all(all, n);
}

// Seen to catch: `ring_publish`, `ring_release` (a slot written anew while a thief reads it).
#[test]
fn models_ring_owner_and_thief_across_the_wrap() {
    check(3, || ring_model::<4>(NEAR_WRAP, 2, 5, 1, 0));
}

#[test]
fn models_ring_of_two_overflows_under_a_thief() {
    check(3, || ring_model::<2>(NEAR_WRAP, 1, 5, 1, 0));
}

// Seen to catch: `ring_half` (a thief overflows).
#[test]
fn models_ring_thief_with_tasks_of_its_own() {
    check(2, || ring_model::<4>(0, 3, 4, 1, 3));
}

#[test]
fn models_ring_two_thieves() {
    check(2, || ring_model::<4>(NEAR_WRAP, 3, 4, 2, 0));
}

/// What a consumer takes from the injector in one batch.
fn batch(injector: &Injector) -> Vec<usize> {
    let mut rest = vec![];
    let first = injector.pop_batch(2, 3, |ready| rest.push(value(ready)));
    let mut got: Vec<_> = first.map(value).into_iter().collect();
    got.extend(rest);
    got
}

/// Two producers, one of a chain, and as many consumers as said: nothing lost, nothing twice, each producer's in order.
fn injector_model(consumers: usize) {
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
            thread::spawn(move || batch(&injector))
        })
        .collect();
    let mut chain = Chain::new();
    chain.push_back(item(2));
    chain.push_back(item(3));
    injector.push_chain(chain);
    let mut mine = batch(&injector);
    single.join().unwrap();
    let mut all = vec![];
    for taker in takers {
        let got = taker.join().unwrap();
        assert_in_producers_order(&got);
        all.extend(got);
    }
    // Nobody is left: it must all be there for the taking.
    while !injector.is_empty() {
        mine.extend(batch(&injector));
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

// Seen to catch: `stack_push`.
#[test]
fn models_injector_two_producers_one_consumer() {
    check(2, || injector_model(1));
}

// Seen to catch: `injector_unlock`.
#[test]
fn models_injector_two_producers_two_consumers() {
    check(2, || injector_model(2));
}

// Seen to catch: `stack_push`.
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

// Seen to catch: `free_tag` (without the tag a slot that left and came back is handed out twice).
#[test]
fn models_free_list_hands_no_slot_out_twice() {
    check(3, || {
        let pool: &'static TaskPool<64, 2> = Box::leak(Box::new(TaskPool::new()));
        let Ok(home) = pool.home(core::alloc::Layout::new::<[usize; 2]>()) else { panic!() };
        let owned: Arc<[UnsafeCell<u32>; 2]> = Arc::new([UnsafeCell::new(0), UnsafeCell::new(0)]);
        let base = {
            // Both have been used, so that the free list holds them.
            let (a, b) = (home.take().unwrap(), home.take().unwrap());
            // SAFETY: ours.
            unsafe {
                home.give(b);
                home.give(a);
            }
            a.as_ptr().addr().min(b.as_ptr().addr())
        };
        let mark = move |owned: &[UnsafeCell<u32>; 2], slot: NonNull<Header>| {
            let index = usize::from(slot.as_ptr().addr() != base);
            // SAFETY: whoever took the slot is alone with it; that is what the model checks.
            owned[index].with_mut(|p| unsafe { *p += 1 });
        };
        let other = thread::spawn({
            let owned = Arc::clone(&owned);
            move || {
                let a = home.take();
                a.into_iter().for_each(|slot| mark(&owned, slot));
                let b = home.take();
                b.into_iter().for_each(|slot| mark(&owned, slot));
                // SAFETY: ours.
                a.into_iter().for_each(|slot| unsafe { home.give(slot) });
                b
            }
        });
        let mine = home.take();
        mine.into_iter().for_each(|slot| mark(&owned, slot));
        let theirs = other.join().unwrap();
        assert!(mine.is_none() || mine != theirs);
        let again = home.take();
        assert!(again.is_none() || (again != mine && again != theirs));
    });
}
