//! Addresses of Unix sockets.

use core::fmt;
use std::{
    os::{linux::net::SocketAddrExt, unix::net},
    path::Path,
};

/// The address of a Unix socket.
#[derive(Clone)]
pub struct SocketAddr(pub(crate) net::SocketAddr);

impl SocketAddr {
    /// Whether the socket is bound to nothing.
    pub fn is_unnamed(&self) -> bool {
        self.0.is_unnamed()
    }

    /// The path, if the socket is bound to one.
    pub fn as_pathname(&self) -> Option<&Path> {
        self.0.as_pathname()
    }

    /// The abstract name, if the socket is bound to one.
    pub fn as_abstract_name(&self) -> Option<&[u8]> {
        self.0.as_abstract_name()
    }
}

impl fmt::Debug for SocketAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<net::SocketAddr> for SocketAddr {
    fn from(addr: net::SocketAddr) -> Self {
        Self(addr)
    }
}

impl From<SocketAddr> for net::SocketAddr {
    fn from(addr: SocketAddr) -> Self {
        addr.0
    }
}
