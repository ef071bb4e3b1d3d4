//! Models of the alarm, and of two parts of `filch-std`, the hook of a runtime of one thread and the queue of the blocking pool: the real code,
//! with a cell for what they reach.
//!
//! ```sh
//! RUSTFLAGS="--cfg filch_loom" cargo test -p filch-linux-models --release --target-dir target/loom
//! ```
//!
//! Which worker listens is the core's business, and so are its models (`core/src/scheduler/models_listen.rs`).

#![cfg(all(test, filch_loom))]

#[path = "../../src/alarm.rs"]
mod alarm;

#[path = "../../../platform-std/src/wake_hook.rs"]
mod wake_hook;

mod blocking;

use alarm::Alarm;
use filch::atomic::{AtomicU32, Ordering, UnsafeCell};
use loom::{sync::Arc, thread};
use wake_hook::WakeHook;

/// What the descriptor stands for.
struct File(UnsafeCell<()>);

// SAFETY: INV-ALARM, which the model checks.
unsafe impl Send for File {}
// SAFETY: as above.
unsafe impl Sync for File {}

/// The alarm is taken away while a thread is about to ring it.
///
/// Seen to catch: `take` without its fence, `ring` without its fence, and a `ring` that counts down relaxed.
#[test]
fn models_an_alarm_is_not_rung_when_it_has_gone() {
    loom::model(|| {
        let shared = Arc::new((Alarm::closed(), File(UnsafeCell::new(()))));
        shared.0.set(7);
        let ringer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let (alarm, file) = &*shared;
                alarm.ring(|fd| {
                    assert_eq!(fd, 7);
                    file.0.with(|_| ());
                });
            }
        });
        let (alarm, file) = &*shared;
        assert_eq!(alarm.take(thread::yield_now), Some(7));
        file.0.with_mut(|_| ());
        assert_eq!(alarm.take(thread::yield_now), None);
        ringer.join().unwrap();
    });
}

/// What the hook leads to: `visit` reads it, and its drop writes.
struct Cause(Arc<File>);

impl Drop for Cause {
    fn drop(&mut self) {
        self.0.0.with_mut(|_| ());
    }
}

/// The hook is taken away while a thread is about to visit it.
///
/// Seen to catch: `set` without its fence, `visit` without its fence, and a `visit` that counts down relaxed.
#[test]
fn models_a_hook_is_not_visited_when_it_has_gone() {
    loom::model(|| {
        let hook = Arc::new(WakeHook::none());
        let file = Arc::new(File(UnsafeCell::new(())));
        assert!(hook.set(Some(Cause(Arc::clone(&file))), thread::yield_now).is_none());
        let visitor = thread::spawn({
            let hook = Arc::clone(&hook);
            move || hook.visit(|cause: &Cause| cause.0.0.with(|_| ()))
        });
        assert!(hook.set(None, thread::yield_now).is_some());
        visitor.join().unwrap();
    });
}

/// A thread that finds the worker at rest sees the hook that was set before the rest.
///
/// Seen to catch: `set` without its fence, and `visit` without its fence.
#[test]
fn models_a_wake_of_a_worker_at_rest_sees_the_hook() {
    loom::model(|| {
        let shared = Arc::new((WakeHook::none(), AtomicU32::new(0)));
        let waker = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                // As the core does it: nothing is acquired by the swap.
                let at_rest = shared.1.swap(2, Ordering::Relaxed) == 1;
                let mut seen = false;
                shared.0.visit(|()| seen = true);
                assert!(seen || !at_rest);
            }
        });
        assert!(shared.0.set(Some(()), thread::yield_now).is_none());
        let _ = shared.1.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
        waker.join().unwrap();
        assert!(shared.0.set(None, thread::yield_now).is_some());
    });
}
