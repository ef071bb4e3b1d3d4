//! Loom models of the queue of urgent tasks, with the real code. As in `models`, each task has a payload in a checked cell.

use alloc::{boxed::Box, vec::Vec};
use core::ptr::NonNull;

use loom::{sync::Arc, thread};

use super::{models::assert_all, urgent::Urgent};
use crate::{
    Instant,
    atomic::{UnsafeCell, model::check},
    task::{
        due::Due,
        header::{Header, Ready, Tag, Vtable},
    },
};

extern crate alloc;

#[repr(C)]
struct Item {
    header: Header,
    due: Due,
    payload: UnsafeCell<Option<usize>>,
}

static VTABLE: Vtable = Vtable {
    #[cfg(feature = "type-names")]
    type_name: || "",
    poll: |_, _, _| unreachable!(),
    drop_future: |_| unreachable!(),
    fail: |_, _| unreachable!(),
    drop_output: |_| unreachable!(),
    take_output: |_, _| unreachable!(),
    meta: |_| Tag::default(),
    // SAFETY: all tasks here are items.
    due: |task| unsafe { Some(NonNull::from(&task.cast::<Item>().as_ref().due)) },
    workers: |_| None,
    join_offset: 0,
};

/// A task with a number for its payload, and with a deadline if `due` is not 0.
fn item(n: usize, due: u64) -> Ready {
    let due = Due::new((due > 0).then(|| Instant::from_nanos(due)));
    let payload = UnsafeCell::new(None);
    let item = Box::leak(Box::new(Item { header: Header::vacant(), due, payload }));
    // SAFETY: no other context knows of the item.
    unsafe {
        item.payload.with_mut(|p| *p = Some(n));
        item.header.set_vtable(&VTABLE);
        Ready::from_raw(NonNull::from(item).cast())
    }
}

fn value(ready: Ready) -> usize {
    let item = ready.into_raw().cast::<Item>();
    // SAFETY: all tasks here are items, and the holder of the `Ready` owns the payload.
    unsafe { item.as_ref().payload.with_mut(|p| (*p).take()) }.expect("a task came out twice")
}

/// Two contexts push, and two workers pop. A worker that finds the lock taken goes on: what is left then comes out at the end.
///
/// Seen to catch: `spin_release`, `spin_acquire`.
#[test]
fn models_urgent_pushes_against_two_consumers() {
    check(3, || {
        let queue = Arc::new(Urgent::new());
        queue.push(item(0, 2));
        let other = thread::spawn({
            let queue = Arc::clone(&queue);
            move || {
                queue.push(item(1, 1));
                queue.pop().map(value)
            }
        });
        queue.push(item(2, 0));
        let mut got: Vec<_> = queue.pop().map(value).into_iter().collect();
        got.extend(other.join().unwrap());
        while let Some(ready) = queue.pop() {
            got.push(value(ready));
        }
        assert!(queue.is_empty());
        assert_all(got, 3);
    });
}

/// What one consumer has put in order, the next one takes in order.
///
/// Seen to catch: `spin_release`.
#[test]
fn models_urgent_order_is_handed_over() {
    check(3, || {
        let queue = Arc::new(Urgent::new());
        [3, 1, 2].into_iter().for_each(|due| queue.push(item(due, due as u64)));
        let other = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.pop().map(value)
        });
        let ours = queue.pop().map(value);
        let theirs = other.join().unwrap();
        let mut taken: Vec<_> = [ours, theirs].into_iter().flatten().collect();
        taken.sort_unstable();
        assert_eq!(taken, (1..=taken.len()).collect::<Vec<_>>());
        let mut next = taken.len() + 1;
        while let Some(ready) = queue.pop() {
            assert_eq!(value(ready), next);
            next += 1;
        }
        assert_eq!(next, 4);
    });
}

/// A worker that sees that no task waits sees what the one that took the last did before.
///
/// Seen to catch: `urgent_waiting`.
#[test]
fn models_urgent_is_empty_after_the_last() {
    check(3, || {
        let queue = Arc::new(Urgent::new());
        queue.push(item(0, 1));
        queue.push(item(1, 2));
        let first = queue.pop().map(value);
        assert_eq!(first, Some(0));
        let seen = Arc::new(UnsafeCell::new(false));
        let other = thread::spawn({
            let (queue, seen) = (Arc::clone(&queue), Arc::clone(&seen));
            move || {
                // SAFETY: the other side looks once it has seen the queue empty.
                seen.with_mut(|p| unsafe { *p = true });
                queue.pop().map(value)
            }
        });
        if queue.is_empty() {
            // SAFETY: as above.
            assert!(seen.with(|p| unsafe { *p }));
        }
        assert_eq!(other.join().unwrap(), Some(1));
    });
}

/// A worker that finds neither a task nor the queue empty of those that another is taking knows that it must look again.
///
/// Seen to catch: `urgent_taking`.
#[test]
fn models_urgent_is_not_empty_while_one_is_taken() {
    check(3, || {
        let queue = Arc::new(Urgent::new());
        queue.push(item(0, 1));
        queue.push(item(1, 2));
        let other = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.pop().map(value)
        });
        // As in `Worker::take_urgent`.
        let seen_to = queue.pop().map(value).is_none() && queue.is_empty();
        let _ = other.join().unwrap();
        let left = queue.pop().map(value);
        assert!(!seen_to || left.is_none(), "it looks no more, and {left:?} waits");
        while let Some(ready) = queue.pop() {
            value(ready);
        }
    });
}
