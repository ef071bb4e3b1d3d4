//! What a transition of the state word leaves to its caller.

/// What the caller of a wake, an abort or a dropped reference must do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing.
    None,
    /// Schedule the task: the caller now owns its `Ready`, and one reference with it.
    Schedule,
    /// Free the slot: that was the last reference, and the task is complete.
    Free,
}

/// What the holder of the `Ready` must do after a poll that returned `Pending`.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterPending {
    /// Nothing: the task is idle, and the `Ready` and its reference are consumed.
    Idle,
    /// Schedule the task again: it was woken during the poll.
    Again,
    /// Drop the future now: the task is cancelled, or it is unreachable and is to end then. The `Ready` stays.
    Cancel,
}

/// What the holder of the `Ready` must do after completion.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterComplete {
    /// Nothing: the handle takes the output, and the `Ready`'s reference is consumed.
    Released,
    /// Take the registered waker, drop the reference, then wake the waker.
    WakeJoiner,
    /// Drop the output, then the reference: there is no join interest.
    DropOutput,
}

/// Why `upgrade` gave no reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upgrade {
    /// There is no live task.
    Vacant,
    /// The reference count is at its limit.
    Limit,
}

/// The transition was refused, because the task is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completed;
