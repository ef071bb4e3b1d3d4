//! Tasks that are not like all others: urgent ones, background ones, pinned ones, and those that are held to a set of workers.

pub(crate) mod dispatch;
pub(crate) mod find;
#[cfg(feature = "classes")]
pub(crate) mod give_way;
pub(crate) mod held;
pub(crate) mod look;
