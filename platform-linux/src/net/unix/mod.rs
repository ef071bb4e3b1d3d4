//! Unix sockets: streams and datagrams between processes of one machine.
//!
//! An address is a path in the file system, or an abstract name, which vanishes with its socket. A path is made by binding, and
//! stays when the socket is closed: nobody but the program knows whether another one has taken its place in the meantime. So a
//! server that starts again finds the file in its way (`AddrInUse`), and removes it if it knows that no other instance is running:
//! for instance because it holds a lock on a file beside it.

mod addr;
mod cred;
mod datagram;
#[cfg(feature = "hyper")]
mod hyper;
mod incoming;
mod listener;
mod stream;

pub use self::{
    cred::PeerCred, datagram::UnixDatagram, incoming::Incoming, listener::UnixListener,
    stream::UnixStream,
};
pub use super::halves::unix::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
