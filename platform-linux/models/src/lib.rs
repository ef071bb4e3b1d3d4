//! A model of the alarm: the real code, with a cell for what it rings.
//!
//! ```sh
//! RUSTFLAGS="--cfg filch_loom" cargo test -p filch-linux-models --release --target-dir target/loom
//! ```
//!
//! Which worker listens is the core's business, and so are its models (`core/src/scheduler/models_listen.rs`).

#![cfg(all(test, filch_loom))]

#[path = "../../src/alarm.rs"]
mod alarm;

use alarm::Alarm;
use filch::atomic::UnsafeCell;
use loom::{sync::Arc, thread};

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
