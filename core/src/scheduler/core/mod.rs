//! The path of a task, from the wake to the poll. It calls the rooms beside it only by their faces (`faces`).

pub(crate) mod context;
pub(crate) mod dispatch;
pub(crate) mod duties;
pub(crate) mod executor;
pub(crate) mod faces;
pub(crate) mod find;
pub(crate) mod leave_loop;
pub(crate) mod look;
pub(crate) mod nested;
pub(crate) mod parking;
pub(crate) mod slot;
pub(crate) mod steal;
pub(crate) mod wake;
pub(crate) mod worker;
