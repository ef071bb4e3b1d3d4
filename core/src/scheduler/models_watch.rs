//! Models of the sentry's role: who leaves it, and who has it then.

use core::time::Duration;

use loom::thread;

use super::models_whole::Model;
use crate::{
    Config, WorkerId,
    atomic::{Ordering, model::check},
};

const MS: Duration = Duration::from_millis(1);

/// Worker 0 keeps watch, and wakes; worker 1 goes to sleep at some time meanwhile, as the reserve or as the sentry, and may wake
/// too. What the role's word is then.
fn watch(wakes: bool) -> u32 {
    let model = Model::<2>::with(|config: Config| config.sentry(Some((MS, MS))));
    let executor = model.executor;
    let first = executor.worker(WorkerId::new(0)).unwrap();
    assert!(first.keep_watch().is_some(), "it is the only one, and awake");
    let second = thread::spawn(move || {
        let second = executor.worker(WorkerId::new(1)).unwrap();
        second.slot().local.brief.set(true);
        let timed = second.keep_watch().is_some();
        if wakes {
            second.leave_watch(true);
        }
        core::mem::forget(second);
        timed
    });
    first.leave_watch(true);
    assert!(second.join().unwrap(), "a sleep without a timeout");
    core::mem::forget(first);
    executor.sentry.load(Ordering::Relaxed)
}

/// Seen to catch: `watch_stale`.
#[test]
fn models_watch_is_left_by_both() {
    check(3, || assert_eq!(watch(true), 0, "somebody who is awake has the role"));
}

/// Seen to catch: `watch_lost`.
#[test]
fn models_watch_goes_to_the_reserve() {
    check(3, || assert_eq!(watch(false), 2, "who sleeps has the role"));
}
