//! Models of a timer's life: fired by a worker, dropped, reset and polled again by its owner on another thread.

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};
use std::{boxed::Box, sync::Arc, task::Wake};

use loom::{
    sync::{Arc as LoomArc, Notify, atomic::AtomicUsize},
    thread,
};

use super::{
    driver::{Timers, Wheels},
    sleep::Sleep,
    wheel::{Batch, Wheel},
};
use crate::{
    atomic::{
        Ordering,
        model::{check, leak},
    },
    instant::Instant,
    parts::On,
};

/// An executor that consists of one wheel.
struct Board {
    wheel: Wheel,
    told: AtomicUsize,
}

impl Wheels for Board {
    type Many = On;

    fn now(&self) -> Instant {
        Instant::ZERO
    }
    fn wheel_slot_log2(&self) -> u32 {
        0
    }
    fn place(&self) -> Option<(u16, &Wheel, bool)> {
        Some((0, &self.wheel, false))
    }
    fn wheel(&self, _: u16) -> Option<&Wheel> {
        Some(&self.wheel)
    }
    fn tell(&self, _: u16) {
        self.told.fetch_add(1, Ordering::Relaxed);
    }
    #[cfg(feature = "task-dump")]
    fn note_sleep(&self, _: &Waker, _: Instant) {}

    fn spend(&'static self, _: &Waker) -> bool {
        true
    }

    fn force_yield(&'static self, _: &Waker) {}
}

impl Board {
    fn new() -> &'static Self {
        leak(Self { wheel: Wheel::new(), told: AtomicUsize::new(0) })
    }

    fn sleep(&'static self, until: u64) -> Pin<Box<Sleep>> {
        Box::pin(Timers(self).sleep_until(Instant::from_nanos(until)))
    }

    /// Fires timers as a worker does at that time. Returns how many it woke.
    fn expire(&self, now: u64) -> usize {
        let mut batch = Batch::default();
        assert!(!self.wheel.expire(Instant::from_nanos(now), 0, &mut batch, |_| true));
        batch.wake();
        batch.len()
    }
}

/// A waker that wakes a thread.
struct Thread(LoomArc<Notify>);

impl Wake for Thread {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

fn poll(sleep: &mut Pin<Box<Sleep>>, waker: &Waker) -> Poll<()> {
    sleep.as_mut().poll(&mut Context::from_waker(waker))
}

fn waker() -> (Waker, LoomArc<Notify>) {
    let notify = LoomArc::new(Notify::new());
    (Waker::from(Arc::new(Thread(LoomArc::clone(&notify)))), notify)
}

/// The waiting thread is woken and finds the sleep ended; then the sleep's memory is freed.
///
/// Seen to catch: `spin_release`.
#[test]
fn models_timer_fires_against_a_waiter() {
    check(3, || {
        let board = Board::new();
        let mut sleep = board.sleep(1);
        let (waker, notify) = waker();
        assert!(poll(&mut sleep, &waker).is_pending());
        let worker = thread::spawn(move || board.expire(1));
        while poll(&mut sleep, &waker).is_pending() {
            notify.wait();
        }
        drop(sleep);
        assert_eq!(worker.join().unwrap(), 1);
    });
}

/// A thread that finds the sleep ended by polling, not by a wake, may free it as well.
///
/// Seen to catch: `timer_fired`.
#[test]
fn models_timer_fires_against_a_look() {
    check(3, || {
        let board = Board::new();
        let mut sleep = board.sleep(1);
        assert!(poll(&mut sleep, Waker::noop()).is_pending());
        let worker = thread::spawn(move || board.expire(1));
        if poll(&mut sleep, Waker::noop()).is_ready() {
            drop(sleep);
        }
        worker.join().unwrap();
    });
}

/// Seen to catch: `spin_release`.
#[test]
fn models_timer_fires_against_its_drop() {
    check(3, || {
        let board = Board::new();
        let (mut sleep, mut other) = (board.sleep(1), board.sleep(1));
        let (waker, _notify) = waker();
        assert!(poll(&mut sleep, &waker).is_pending());
        assert!(poll(&mut other, &waker).is_pending());
        let worker = thread::spawn(move || board.expire(1));
        drop(sleep);
        let fired = worker.join().unwrap();
        assert!(other.is_elapsed() && (1..=2).contains(&fired));
        assert!(!board.wheel.is_armed());
    });
}

/// A reset comes before the deadline, which then passes; or after it, and the sleep begins anew.
///
/// Seen to catch: `spin_release`.
#[test]
fn models_timer_fires_against_reset() {
    check(3, || {
        let board = Board::new();
        let mut sleep = board.sleep(1);
        let (waker, _notify) = waker();
        assert!(poll(&mut sleep, &waker).is_pending());
        let worker = thread::spawn(move || board.expire(1));
        sleep.as_mut().reset(Instant::from_nanos(5));
        assert!(poll(&mut sleep, &waker).is_pending());
        worker.join().unwrap();
        assert_eq!(board.expire(4), 0, "early");
        assert_eq!(board.expire(5), 1);
        assert!(poll(&mut sleep, &waker).is_ready());
    });
}

/// The waker is replaced: the new one is woken, or the poll that brought it sees the end.
///
/// Seen to catch: `timer_unheard`.
#[test]
fn models_timer_fires_against_another_waker() {
    check(3, || {
        let board = Board::new();
        let mut sleep = board.sleep(1);
        let (first, _notify) = waker();
        assert!(poll(&mut sleep, &first).is_pending());
        let worker = thread::spawn(move || board.expire(1));
        let (second, notify) = waker();
        while poll(&mut sleep, &second).is_pending() {
            notify.wait();
        }
        worker.join().unwrap();
    });
}

/// Two workers fire the timers of one wheel: each timer is fired once.
#[test]
fn models_timer_two_workers_at_one_wheel() {
    check(2, || {
        let board = Board::new();
        let (waker, _notify) = waker();
        let mut sleeps = [board.sleep(1), board.sleep(2)];
        for sleep in &mut sleeps {
            assert!(poll(sleep, &waker).is_pending());
        }
        let worker = thread::spawn(move || board.expire(2));
        let fired = board.expire(1) + worker.join().unwrap();
        assert_eq!(fired, 2);
        assert!(sleeps.iter().all(|sleep| sleep.is_elapsed()));
    });
}
