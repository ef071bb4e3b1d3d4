//! Loom models of the readiness cell, with the real code. A batch holds two wakers here.
//!
//! Wakers count their wakes outside the model, and the models check the counts when all threads are joined: a task that
//! got `Pending` before an edge must have been woken. The data of a source is a relaxed atomic or a checked cell.

use alloc::{boxed::Box, sync::Arc, task::Wake, vec::Vec};
use core::{
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicUsize as Uncounted, Ordering::Relaxed},
    task::{Context, Poll, Waker},
};

use loom::{sync::Notify, thread};

use super::{Direction, Event, Readiness, Ready, WaitReady};
use crate::atomic::{
    AtomicUsize, UnsafeCell,
    model::{check, check_large, leak},
};

extern crate alloc;

/// A waker, and how often it has been woken.
struct Task {
    wakes: Uncounted,
    notify: Notify,
}

impl Task {
    fn new() -> Arc<Self> {
        Arc::new(Self { wakes: Uncounted::new(0), notify: Notify::new() })
    }

    fn wakes(&self) -> usize {
        self.wakes.load(Relaxed)
    }

    /// Polls once.
    fn poll<T>(self: &Arc<Self>, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        let waker = Waker::from(Arc::clone(self));
        poll(&mut Context::from_waker(&waker))
    }

    /// Polls until the result is ready. A lost wake is a deadlock.
    fn block_on<T>(self: &Arc<Self>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
        loop {
            match self.poll(&mut poll) {
                Poll::Ready(value) => return value,
                Poll::Pending => self.notify.wait(),
            }
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Relaxed);
        self.notify.notify();
    }
}

/// A source: how much there is to read, and its cell.
struct Source {
    data: AtomicUsize,
    cell: Readiness,
}

impl Source {
    fn new() -> &'static Self {
        leak(Self { data: AtomicUsize::new(0), cell: Readiness::new() })
    }

    /// What an interrupt handler does. Only the edge orders the source's data.
    fn give(&self) {
        self.data.fetch_add(1, Relaxed);
        self.cell.set(Ready::READABLE);
    }

    /// What a task does. True if there was data; if not, it clears the event.
    fn take(&self, event: Event) -> bool {
        let got = self.data.load(Relaxed);
        if got == 0 {
            self.cell.clear(event);
        } else {
            self.data.fetch_sub(got, Relaxed);
        }
        got != 0
    }

    fn readable(&self) -> bool {
        self.cell.get().ready == Ready::READABLE
    }
}

/// A task that waits in the list of a cell.
struct Waiter {
    task: Arc<Task>,
    future: Pin<Box<WaitReady<'static>>>,
}

impl Waiter {
    fn new(cell: &'static Readiness, interest: Ready) -> Self {
        Self { task: Task::new(), future: Box::pin(cell.ready(interest)) }
    }

    fn poll(&mut self) -> Poll<Event> {
        let Self { task, future } = self;
        task.poll(|cx| future.as_mut().poll(cx))
    }

    /// After all edges: a task that was pending has been woken, and is ready.
    fn assert_woken(&mut self) {
        assert!(self.task.wakes() > 0, "a wake is lost");
        assert!(self.poll().is_ready());
    }
}

fn waiters<const N: usize>(cell: &'static Readiness, interest: Ready) -> [Waiter; N] {
    core::array::from_fn(|_| {
        let mut waiter = Waiter::new(cell, interest);
        assert!(waiter.poll().is_pending());
        waiter
    })
}

/// There was an edge. The task finds no data and clears, while another edge comes.
#[test]
fn models_edge_against_clear() {
    check(2, || {
        let source = Source::new();
        source.cell.set(Ready::READABLE);
        let giver = thread::spawn(|| source.give());
        let got = source.take(source.cell.get());
        giver.join().unwrap();
        assert!(got || source.readable(), "an edge is lost");
    });
}

/// Two tasks have the same event. One gets the data, and the other clears.
#[test]
fn models_edge_against_two_clears() {
    check(2, || {
        let source = Source::new();
        source.cell.set(Ready::READABLE | Ready::WRITABLE);
        let giver = thread::spawn(|| source.give());
        let other = thread::spawn(|| {
            source.cell.clear(source.cell.get().only(Ready::WRITABLE));
            source.take(source.cell.get().only(Ready::READABLE))
        });
        let got = source.take(source.cell.get().only(Ready::READABLE));
        let got = other.join().unwrap() || got;
        giver.join().unwrap();
        assert!(got || source.cell.get().ready.contains(Ready::READABLE), "an edge is lost");
    });
}

/// The loop of a reader, over a cell that has been ready once.
fn read(source: &Source, mut poll: impl FnMut(&mut Context<'_>) -> Poll<Event>) {
    let task = Task::new();
    loop {
        let event = task.block_on(&mut poll);
        if source.take(event) {
            return;
        }
    }
}

#[test]
fn models_set_against_poll_ready() {
    check(2, || {
        let source = Source::new();
        source.cell.set(Ready::READABLE);
        let giver = thread::spawn(|| source.give());
        read(source, |cx| source.cell.poll_ready(cx, Direction::Read));
        giver.join().unwrap();
    });
}

#[test]
fn models_set_against_wait_ready() {
    check(2, || {
        let source = Source::new();
        source.cell.set(Ready::READABLE);
        let giver = thread::spawn(|| source.give());
        let mut waiting = Box::pin(source.cell.ready(Ready::READABLE));
        read(source, |cx| waiting.as_mut().poll(cx));
        giver.join().unwrap();
    });
}

/// A task that sees the edge sees what was written before it, even if another context wakes it in place of `set`.
#[test]
fn models_set_against_ready() {
    check_large(2, || {
        struct Shared {
            cell: Readiness,
            data: [UnsafeCell<usize>; 2],
        }
        // SAFETY: shared between the threads of a model; loom checks the cells.
        unsafe impl Sync for Shared {}
        let data = [UnsafeCell::new(0), UnsafeCell::new(0)];
        let shared: &'static Shared = leak(Shared { cell: Readiness::new(), data });
        let sets = [Ready::READABLE, Ready::WRITABLE].into_iter().enumerate().map(|(i, ready)| {
            thread::spawn(move || {
                // SAFETY: no other thread reads before the edge.
                shared.data[i].with_mut(|data| unsafe { *data = 1 });
                shared.cell.set(ready);
            })
        });
        let sets: Vec<_> = sets.collect();
        let task = Task::new();
        for (i, direction) in [Direction::Read, Direction::Write].into_iter().enumerate() {
            task.block_on(|cx| shared.cell.poll_ready(cx, direction));
            // SAFETY: the edge was after the write.
            assert_eq!(shared.data[i].with(|data| unsafe { *data }), 1);
        }
        for set in sets {
            set.join().unwrap();
        }
    });
}

/// A waiter between two others is dropped while it is woken.
#[test]
fn models_set_against_drop() {
    check(2, || {
        let source = Source::new();
        let [mut first, gone, mut last] = waiters(&source.cell, Ready::READABLE);
        let set = thread::spawn(|| source.cell.set(Ready::READABLE));
        drop(gone);
        set.join().unwrap();
        first.assert_woken();
        last.assert_woken();
    });
}

/// Waiters come, and one is dropped, before, while and after another is woken.
#[test]
fn models_set_against_a_short_wait() {
    check(2, || {
        let source = Source::new();
        let [mut stays] = waiters(&source.cell, Ready::READABLE);
        let set = thread::spawn(|| source.cell.set(Ready::READABLE));
        let mut short = Waiter::new(&source.cell, Ready::READABLE | Ready::WRITABLE);
        let _ = short.poll();
        drop(short);
        let mut comes = Waiter::new(&source.cell, Ready::READABLE);
        let pending = comes.poll().is_pending();
        set.join().unwrap();
        stays.assert_woken();
        if pending {
            comes.assert_woken();
        }
    });
}

/// Two tasks use the list, and one of them also sets. (Two spinning threads can starve the third, which has the lock,
/// in loom. So no model has a thread that sets while two others may spin for long.)
#[test]
fn models_waits_of_two_threads() {
    check(2, || {
        let source = Source::new();
        let [mut stays] = waiters(&source.cell, Ready::READABLE);
        let other = thread::spawn(|| {
            let mut short = Waiter::new(&source.cell, Ready::READABLE);
            let _ = short.poll();
            drop(short);
            let mut comes = Waiter::new(&source.cell, Ready::READABLE);
            let pending = comes.poll().is_pending();
            (comes, pending)
        });
        let mut comes = Waiter::new(&source.cell, Ready::READABLE);
        assert!(comes.poll().is_pending());
        source.cell.set(Ready::READABLE);
        let (mut others, pending) = other.join().unwrap();
        stays.assert_woken();
        comes.assert_woken();
        if pending {
            others.assert_woken();
        }
    });
}

/// Two edges of two bits, while the task registers for both: the holder of the lock wakes in place of the other.
#[test]
fn models_two_sets_and_a_registrant() {
    check(2, || {
        let source = Source::new();
        let sets = [Ready::READABLE, Ready::WRITABLE]
            .map(|ready| thread::spawn(move || source.cell.set(ready)));
        let tasks = [Direction::Read, Direction::Write].map(|direction| {
            let task = Task::new();
            let pending = task.poll(|cx| source.cell.poll_ready(cx, direction)).is_pending();
            (task, pending)
        });
        for set in sets {
            set.join().unwrap();
        }
        for (task, pending) in tasks {
            assert!(!pending || task.wakes() == 1, "{} wakes of a waiter", task.wakes());
        }
        assert_eq!(source.cell.get().ready, Ready::READABLE | Ready::WRITABLE);
    });
}

/// The task polls again with another waker: the last one is woken.
#[test]
fn models_set_against_a_new_waker() {
    check(2, || {
        let source = Source::new();
        let [mut waiter] = waiters(&source.cell, Ready::READABLE);
        let slot = [Task::new(), Task::new()];
        let poll = |task: &Arc<Task>| task.poll(|cx| source.cell.poll_ready(cx, Direction::Read));
        assert!(poll(&slot[0]).is_pending());
        let set = thread::spawn(|| source.cell.set(Ready::READABLE));
        waiter.task = Task::new();
        let pending = waiter.poll().is_pending();
        let slot_pending = poll(&slot[1]).is_pending();
        set.join().unwrap();
        assert!(!pending || waiter.task.wakes() == 1);
        assert!(!slot_pending || slot[1].wakes() == 1);
        assert!(waiter.poll().is_ready() && poll(&slot[1]).is_ready());
    });
}

/// More waiters than two batches hold, and two edges at once: each waiter is woken once.
#[test]
fn models_many_waiters() {
    check(2, || {
        let source = Source::new();
        let mut all: [_; 5] = waiters(&source.cell, Ready::READABLE);
        let sets: [_; 2] =
            core::array::from_fn(|_| thread::spawn(|| source.cell.set(Ready::READABLE)));
        for set in sets {
            set.join().unwrap();
        }
        for waiter in &mut all {
            assert_eq!(waiter.task.wakes(), 1);
            waiter.assert_woken();
        }
    });
}

/// Between two batches another context holds the lock, and a waiter that is left is dropped.
#[test]
fn models_many_waiters_and_a_late_one() {
    check(2, || {
        let source = Source::new();
        let [mut a, mut b, mut c, gone, mut d] = waiters(&source.cell, Ready::READABLE);
        let set = thread::spawn(|| source.cell.set(Ready::READABLE));
        let mut late = Waiter::new(&source.cell, Ready::WRITABLE);
        assert!(late.poll().is_pending());
        drop(gone);
        set.join().unwrap();
        for waiter in [&mut a, &mut b, &mut c, &mut d] {
            assert_eq!(waiter.task.wakes(), 1);
            waiter.assert_woken();
        }
        assert_eq!(late.task.wakes(), 0);
    });
}

/// The cell changes its source while a late edge of the old one comes: a task that polls is woken, and no old event
/// clears.
#[test]
fn models_reset_against_set() {
    check(2, || {
        let source = Source::new();
        source.cell.set(Ready::READABLE);
        let old = source.cell.get();
        let task = Task::new();
        let poll = || task.poll(|cx| source.cell.poll_ready(cx, Direction::Write));
        assert!(poll().is_pending());
        let late = thread::spawn(|| source.cell.set(Ready::WRITABLE));
        source.cell.reset();
        source.give();
        source.cell.clear(old);
        late.join().unwrap();
        assert_eq!(task.wakes(), 1);
        assert!(source.cell.get().ready.contains(Ready::READABLE));
    });
}
