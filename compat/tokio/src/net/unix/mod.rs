//! Unix sockets and pipes.

mod addr;
pub(crate) mod cred;
pub(crate) mod datagram;
pub(crate) mod listener;
pub mod pipe;
pub(crate) mod socket;
mod split;
pub(crate) mod stream;

pub(crate) use self::split::{into_split, split};
pub use self::{
    addr::SocketAddr,
    cred::UCred,
    split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf},
};

/// The number of a user.
#[allow(non_camel_case_types)]
pub type uid_t = u32;
/// The number of a group.
#[allow(non_camel_case_types)]
pub type gid_t = u32;
/// The number of a process.
#[allow(non_camel_case_types)]
pub type pid_t = i32;
