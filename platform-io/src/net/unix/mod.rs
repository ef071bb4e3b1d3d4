//! Unix sockets: streams and datagrams between processes of one machine.
//!
//! An address is a path in the file system, or an abstract name, which vanishes with its socket (on Linux alone).
//! Binding creates the file of a path, and the file stays when the socket is closed: this crate
//! cannot know whether another socket has taken its place. So a server that starts again finds the
//! file (`AddrInUse`), and removes it if it knows that no other instance is running: for instance
//! because it holds a lock on a file beside it.

mod addr;
mod cred;
mod datagram;
mod listener;
mod stream;

pub(super) use self::listener::accept_on;
pub use self::{cred::UCred, datagram::UnixDatagram, listener::UnixListener, stream::UnixStream};
pub use super::{
    halves::unix::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf},
    listener::unix::Incoming,
};
