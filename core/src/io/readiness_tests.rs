//! The cell on one thread, with wakers that call back into it, that panic and that are foreign; and on several threads.

use core::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::{RawWaker, RawWakerVTable},
};
use std::{
    boxed::Box,
    panic::catch_unwind,
    sync::{Arc, Mutex},
    task::Wake,
    thread,
    vec::Vec,
};

use super::*;

/// Runs a closure when it is woken.
struct OnWake<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for OnWake<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn on_wake(f: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(OnWake(f)))
}

/// Counts wakes. Its wakers are counted by `Arc`.
#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn new() -> Arc<Self> {
        Arc::default()
    }
    fn wakes(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn poll(waiting: &mut Pin<Box<WaitReady<'_>>>, waker: &Waker) -> Poll<Ready> {
    let polled = waiting.as_mut().poll(&mut Context::from_waker(waker));
    polled.map(|event| event.ready)
}

fn poll_slot(cell: &Readiness, direction: Direction, waker: &Waker) -> Poll<Ready> {
    cell.poll_ready(&mut Context::from_waker(waker), direction).map(|event| event.ready)
}

/// A future that is already waiting.
fn waiting<'a>(cell: &'a Readiness, interest: Ready, waker: &Waker) -> Pin<Box<WaitReady<'a>>> {
    let mut waiting = Box::pin(cell.ready(interest));
    assert!(poll(&mut waiting, waker).is_pending());
    waiting
}

fn is_free(cell: &Readiness) -> bool {
    cell.word.load(SeqCst) & (LOCKED | MARKED) == 0
}

#[test]
fn a_cell_is_a_constant_of_a_few_words() {
    static CELL: Readiness = Readiness::new();
    assert_eq!(CELL.get().ready, Ready::EMPTY);
    // The word, two wakers, and the two ends of the list.
    assert!(size_of::<Readiness>() <= 8 + 6 * size_of::<usize>());
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Readiness>();
    is_shared::<WaitReady<'_>>();
    // If the future were `Unpin`, this would be ambiguous and would not compile.
    trait Ambiguous<A> {
        fn once() {}
    }
    impl<T> Ambiguous<()> for T {}
    impl<T: Unpin> Ambiguous<u8> for T {}
    <WaitReady<'_> as Ambiguous<_>>::once();
}

#[test]
fn clear_takes_what_was_seen_at_the_last_edge() {
    let cell = Readiness::new();
    cell.set(Ready::READABLE | Ready::PRIORITY);
    let event = cell.get();
    cell.clear(event.only(Ready::PRIORITY));
    assert_eq!(cell.get().ready, Ready::READABLE);
    // The same bit again is an edge.
    cell.set(Ready::READABLE);
    cell.clear(event);
    assert_eq!(cell.get().ready, Ready::READABLE);
    let event = cell.get();
    cell.clear(event);
    cell.clear(event);
    assert_eq!(cell.get().ready, Ready::EMPTY);
}

#[test]
fn ends_stay_and_errors_go() {
    let cell = Readiness::new();
    cell.set(Ready::READ_CLOSED | Ready::ERROR);
    assert_eq!(
        cell.get().ready,
        Ready::READ_CLOSED | Ready::ERROR | Ready::READABLE | Ready::WRITABLE
    );
    cell.clear(cell.get());
    assert_eq!(cell.get().ready, Ready::READ_CLOSED);
    let waker = Waker::noop();
    assert_eq!(poll_slot(&cell, Direction::Read, waker), Poll::Ready(Ready::READ_CLOSED));
    assert_eq!(poll_slot(&cell, Direction::Write, waker), Poll::Pending);
    cell.reset();
    assert_eq!(cell.get().ready, Ready::EMPTY);
}

#[test]
fn the_counter_of_edges_wraps_and_touches_nothing_else() {
    let cell = Readiness::new();
    cell.word.store(EDGE.set(0, EDGE.max()), SeqCst);
    cell.set(Ready::READABLE);
    let event = cell.get();
    assert_eq!((event.ready, event.edge), (Ready::READABLE, 0));
    assert!(is_free(&cell));
    cell.word.store(EDGE.set(0, EDGE.max()), SeqCst);
    cell.reset();
    assert_eq!(cell.get(), Event { ready: Ready::EMPTY, edge: 0 });
    assert!(is_free(&cell));
}

#[test]
fn each_is_woken_for_its_bits_and_once() {
    let cell = Readiness::new();
    let count: [_; 4] = core::array::from_fn(|_| Count::new());
    let wakers = count.clone().map(Waker::from);
    let wakes = || count.each_ref().map(|count| count.wakes());
    assert!(poll_slot(&cell, Direction::Read, &wakers[0]).is_pending());
    assert!(poll_slot(&cell, Direction::Write, &wakers[1]).is_pending());
    let mut priority = waiting(&cell, Ready::PRIORITY, &wakers[2]);
    let mut either = waiting(&cell, Ready::PRIORITY | Ready::READABLE, &wakers[3]);
    cell.set(Ready::READABLE);
    assert_eq!(wakes(), [1, 0, 0, 1]);
    cell.set(Ready::PRIORITY);
    cell.set(Ready::PRIORITY);
    assert_eq!(wakes(), [1, 0, 1, 1]);
    cell.set(Ready::ERROR);
    assert_eq!(wakes(), [1, 1, 1, 1]);
    assert_eq!(poll(&mut priority, &wakers[2]), Poll::Ready(Ready::PRIORITY));
    assert_eq!(poll(&mut either, &wakers[3]), Poll::Ready(Ready::PRIORITY | Ready::READABLE));
    drop((priority, either, wakers));
    assert!(count.iter().all(|count| Arc::strong_count(count) == 1), "a waker is left");
}

/// Another task has cleared the edge: a task that was woken for it waits again, and so does one that was ready once.
#[test]
fn who_is_too_late_waits_again() {
    let cell = Readiness::new();
    let count = Count::new();
    let waker = Waker::from(Arc::clone(&count));
    let mut late = waiting(&cell, Ready::READABLE, &waker);
    for round in 1..4 {
        cell.set(Ready::READABLE);
        cell.clear(cell.get());
        assert_eq!(count.wakes(), round);
        assert!(poll(&mut late, &waker).is_pending());
    }
    cell.set(Ready::READABLE);
    assert!(poll(&mut late, &waker).is_ready());
    cell.clear(cell.get());
    assert!(poll(&mut late, &waker).is_pending());
    cell.set(Ready::READABLE);
    assert!(poll(&mut late, &waker).is_ready());
    assert_eq!(count.wakes(), 5);
}

#[test]
fn the_last_waker_is_kept_and_the_one_before_dropped() {
    let cell = Readiness::new();
    let (first, last) = (Count::new(), Count::new());
    let (first_waker, last_waker) = (Waker::from(first.clone()), Waker::from(last.clone()));
    let mut listed = waiting(&cell, Ready::READABLE, &first_waker);
    assert!(poll_slot(&cell, Direction::Read, &first_waker).is_pending());
    assert_eq!(Arc::strong_count(&first), 4);
    // The same waker again takes no other place.
    assert!(poll(&mut listed, &first_waker).is_pending());
    assert!(poll_slot(&cell, Direction::Read, &first_waker).is_pending());
    assert_eq!(Arc::strong_count(&first), 4);
    assert!(poll(&mut listed, &last_waker).is_pending());
    assert!(poll_slot(&cell, Direction::Read, &last_waker).is_pending());
    assert_eq!((Arc::strong_count(&first), Arc::strong_count(&last)), (2, 4));
    cell.set(Ready::READABLE);
    assert_eq!((first.wakes(), last.wakes()), (0, 2));
}

/// Nodes come and go everywhere in the list, by a fixed sequence. The nodes that are left are woken, oldest first.
#[test]
fn waiters_leave_from_anywhere() {
    let cell = Readiness::new();
    let log = Arc::new(Mutex::new(Vec::new()));
    let mut state = 7_u32;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as usize % below
    };
    for round in 0..200 {
        let mut here = Vec::new();
        for i in 0..random(40) {
            let log = Arc::clone(&log);
            let waker = on_wake(move || log.lock().unwrap().push(i));
            here.push((i, waiting(&cell, Ready::READABLE, &waker)));
            if random(3) == 0 {
                drop(here.remove(random(here.len())));
            }
        }
        cell.set(Ready::READABLE);
        let woken = core::mem::take(&mut *log.lock().unwrap());
        let left: Vec<_> = here.iter().map(|(i, _)| *i).collect();
        assert_eq!(woken, left, "round {round}");
        cell.clear(cell.get());
    }
}

#[test]
fn reset_wakes_the_slots_and_leaves_the_list_to_the_new_source() {
    let cell = Readiness::new();
    let (slot, listed) = (Count::new(), Count::new());
    cell.set(Ready::READABLE);
    let old = cell.get();
    let listed_waker = Waker::from(listed.clone());
    let mut waiting = waiting(&cell, Ready::PRIORITY, &listed_waker);
    assert!(poll_slot(&cell, Direction::Write, &Waker::from(slot.clone())).is_pending());
    cell.reset();
    assert_eq!((slot.wakes(), listed.wakes()), (1, 0));
    cell.set(Ready::READABLE | Ready::PRIORITY);
    cell.clear(old);
    assert_eq!(cell.get().ready, Ready::READABLE | Ready::PRIORITY);
    assert_eq!((slot.wakes(), listed.wakes()), (1, 1));
    assert!(poll(&mut waiting, &listed_waker).is_ready());
}

/// What an interrupt handler does while the lock is held.
#[test]
fn an_edge_under_the_lock_is_delivered_by_its_holder() {
    let cell = Readiness::new();
    let count = Count::new();
    let waker = Waker::from(count.clone());
    let mut listed = waiting(&cell, Ready::READABLE, &waker);
    assert!(poll_slot(&cell, Direction::Write, &waker).is_pending());
    cell.lock();
    cell.set(Ready::READABLE);
    cell.set(Ready::WRITABLE);
    assert_eq!(count.wakes(), 0);
    cell.unlock();
    assert_eq!(count.wakes(), 2);
    assert!(is_free(&cell) && poll(&mut listed, &waker).is_ready());
}

#[test]
fn a_waker_that_panics_keeps_nobody_from_being_woken() {
    const WAITERS: usize = 30;
    let cell = Readiness::new();
    let count = Count::new();
    for bad in [0, 3, 7, 8, WAITERS - 1] {
        let before = count.wakes();
        let all: Vec<_> = (0..WAITERS)
            .map(|i| {
                let waker = match i {
                    _ if i == bad => on_wake(|| panic!("planned")),
                    _ => Waker::from(count.clone()),
                };
                waiting(&cell, Ready::READABLE, &waker)
            })
            .collect();
        assert!(catch_unwind(AssertUnwindSafe(|| cell.set(Ready::READABLE))).is_err());
        assert_eq!(count.wakes() - before, WAITERS - 1, "bad is {bad}");
        assert!(is_free(&cell));
        cell.clear(cell.get());
        drop(all);
    }
    // The same with another context that delivers: a task that registers, or a future that is dropped.
    let slot = Waker::from(count.clone());
    let bad = waiting(&cell, Ready::READABLE, &on_wake(|| panic!("planned")));
    assert!(poll_slot(&cell, Direction::Read, &slot).is_pending());
    let before = count.wakes();
    cell.lock();
    cell.set(Ready::READABLE);
    assert!(catch_unwind(AssertUnwindSafe(|| cell.unlock())).is_err());
    assert!(is_free(&cell));
    assert_eq!(count.wakes() - before, 1);
    drop(bad);
}

/// Everything that a waker runs may call back into the cell: clone, wake and drop are outside the lock.
#[test]
fn wakers_come_back_to_the_cell() {
    static CELL: Readiness = Readiness::new();
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    fn come_back() {
        assert!(is_free(&CELL), "user code under the lock");
        CALLS.fetch_add(1, SeqCst);
        CELL.set(Ready::PRIORITY);
        let other = waiting(&CELL, Ready::WRITABLE, Waker::noop());
        CELL.clear(CELL.get());
        drop(other);
    }
    static TABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            come_back();
            RawWaker::new(data, &TABLE)
        },
        |_| come_back(),
        |_| come_back(),
        |_| come_back(),
    );
    // SAFETY: the table uses no data.
    let waker = || unsafe { Waker::new((&raw const CALLS).cast(), &TABLE) };
    // SAFETY: as above. Its data differ, so that it is another waker.
    let other = unsafe { Waker::new((&raw const CELL).cast(), &TABLE) };
    for _ in 0..3 {
        let mut listed = waiting(&CELL, Ready::READABLE, &waker());
        assert!(poll(&mut listed, &waker()).is_pending());
        assert!(poll(&mut listed, &other).is_pending());
        for waker in [waker(), other.clone()] {
            assert!(poll_slot(&CELL, Direction::Read, &waker).is_pending());
        }
        CELL.set(Ready::READABLE);
        let _ = poll(&mut listed, &waker());
        CELL.clear(CELL.get());
        let dropped = waiting(&CELL, Ready::READABLE, &waker());
        drop(dropped);
        assert!(poll_slot(&CELL, Direction::Read, &waker()).is_pending());
        CELL.reset();
    }
    assert!(is_free(&CELL));
    assert!(CALLS.load(SeqCst) > 30);
}

/// A leaked future stays in the list, which still works for the others, even if the cell moves.
#[test]
fn a_leaked_future_does_no_harm() {
    static LEAKED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let cell = Readiness::new();
    let count = Count::new();
    let leaked = waiting(&cell, Ready::READABLE, &Waker::from(count.clone()));
    // SAFETY: the future is never moved. It is kept where leak checkers find it.
    LEAKED
        .lock()
        .unwrap()
        .push(Box::into_raw(unsafe { Pin::into_inner_unchecked(leaked) }) as usize);
    let cell = core::hint::black_box(cell);
    let waker = Waker::from(count.clone());
    let other = waiting(&cell, Ready::READABLE, &waker);
    cell.set(Ready::READABLE);
    assert_eq!(count.wakes(), 2);
    drop(other);
}

/// Runs a future on this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let me = thread::current();
    let waker = on_wake(move || me.unpark());
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Two sources produce and three readers consume. The end comes as `READ_CLOSED`. A lost edge is a hang.
#[test]
fn threads_lose_no_edge() {
    const EACH: usize = if cfg!(miri) { 50 } else { 20_000 };
    let (cell, data, given) = (&Readiness::new(), &AtomicUsize::new(0), &AtomicUsize::new(0));
    let take = |event| match data.swap(0, SeqCst) {
        0 => {
            cell.clear(event);
            0
        }
        n => n,
    };
    let listed = async {
        let mut got = 0;
        loop {
            let event = cell.ready(Ready::READABLE | Ready::READ_CLOSED).await;
            got += take(event);
            if event.ready.contains(Ready::READ_CLOSED) {
                return got + take(event);
            }
        }
    };
    let slot = async {
        let mut got = 0;
        loop {
            let event = core::future::poll_fn(|cx| cell.poll_ready(cx, Direction::Read)).await;
            got += take(event);
            if event.ready.contains(Ready::READ_CLOSED) {
                return got + take(event);
            }
        }
    };
    let total: usize = thread::scope(|scope| {
        let readers = [
            scope.spawn(|| block_on(listed)),
            scope.spawn(|| block_on(slot)),
            scope.spawn(|| {
                let mut noise = 0;
                while !cell.get().ready.contains(Ready::READ_CLOSED) {
                    let mut short = Box::pin(cell.ready(Ready::READABLE | Ready::PRIORITY));
                    if poll(&mut short, Waker::noop()).is_ready() {
                        noise += take(cell.get().only(Ready::READABLE));
                    }
                }
                noise
            }),
        ];
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..EACH {
                    data.fetch_add(1, SeqCst);
                    cell.set(Ready::READABLE);
                }
                if given.fetch_add(1, SeqCst) == 1 {
                    cell.set(Ready::READ_CLOSED);
                }
            });
        }
        readers.into_iter().map(|reader| reader.join().unwrap()).sum()
    });
    assert_eq!(total, 2 * EACH);
    assert!(is_free(cell));
}
