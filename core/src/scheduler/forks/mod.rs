//! Fork-join jobs and broadcasts.

pub(crate) mod broadcast;
pub(crate) mod jobs;
mod off_loop;
