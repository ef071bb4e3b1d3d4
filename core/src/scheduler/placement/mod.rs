//! Tasks that are not like all others: urgent ones, background ones, pinned ones, and those with an affinity.

pub(crate) mod affine;
pub(crate) mod dispatch;
pub(crate) mod find;
#[cfg(feature = "classes")]
pub(crate) mod give_way;
pub(crate) mod own;
