//! TCP.

pub(crate) mod listener;
pub(crate) mod socket;
mod split;
pub(crate) mod stream;

pub use self::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub(crate) use self::split::{into_split, split};
