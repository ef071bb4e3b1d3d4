//! Numbers of tasks.

use crate::runtime::context;

crate::util::id! {
    /// A number that is unique among all tasks of the program, in whatever runtime.
    Id
}

/// The task that calls.
///
/// # Panics
/// Outside of tasks.
#[track_caller]
pub fn id() -> Id {
    match context::task() {
        Some(id) => id,
        None => panic!("Can't get a task id when not inside a task"),
    }
}

/// The task that calls, if a task does.
pub fn try_id() -> Option<Id> {
    context::task()
}
