//! Addresses, converted from the standard library's type to the system's, and errors that name
//! them.

#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt as _;
use std::{
    io,
    os::unix::net::{self, SocketAddr},
};

use rustix::{
    fd::OwnedFd,
    net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketType},
};

use crate::net::{failures::Failure, sys};

/// A new non-blocking socket.
pub(super) fn socket(kind: SocketType) -> io::Result<OwnedFd> {
    sys::socket(AddressFamily::UNIX, kind, None)
}

/// Converts it for the system. Unnamed addresses are an error.
pub(super) fn for_system(addr: &SocketAddr) -> io::Result<SocketAddrUnix> {
    if let Some(path) = addr.as_pathname() {
        return Ok(SocketAddrUnix::new(path)?);
    }
    #[cfg(target_os = "linux")]
    if let Some(name) = addr.as_abstract_name() {
        return Ok(SocketAddrUnix::new_abstract_name(name)?);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "this address has no name"))
}

/// The address of a socket that has none.
pub(super) fn unnamed() -> io::Result<SocketAddr> {
    SocketAddr::from_pathname("")
}

/// The address of the peer that a new connection came with. (rustix turns an address without a name into an abstract name, and
/// panics on a path of full length, which the system allows. The standard library reads both correctly.)
#[cfg(target_os = "linux")]
pub(super) fn of_peer(
    stream: &net::UnixStream,
    addr: Option<&SocketAddrAny>,
) -> io::Result<SocketAddr> {
    if is_unnamed(addr) { unnamed() } else { stream.peer_addr() }
}

/// The address of the peer of a new connection. It has none if the peer has gone.
#[cfg(not(target_os = "linux"))]
pub(super) fn of_peer(
    stream: &net::UnixStream,
    _: Option<&SocketAddrAny>,
) -> io::Result<SocketAddr> {
    stream.peer_addr().or_else(|_| unnamed())
}

#[cfg(target_os = "linux")]
fn is_unnamed(addr: Option<&SocketAddrAny>) -> bool {
    addr.is_none_or(|addr| addr.addr_len() as usize <= size_of::<libc::sa_family_t>())
}

/// Binds a socket to the address.
pub(super) fn bind(socket: &OwnedFd, addr: &SocketAddr) -> io::Result<()> {
    let result = rustix::net::bind(socket, &for_system(addr)?).map_err(io::Error::from);
    result.map_err(|error| {
        let hint = match addr.as_pathname() {
            Some(_) if error.kind() == io::ErrorKind::AddrInUse => {
                " (there is such a file; if no program listens there any more, remove it)"
            }
            _ => "",
        };
        Failure::new(format!("cannot bind to {}{hint}", Name(addr)), error).into()
    })
}

/// The error of a connection to this address.
pub(super) fn cannot_connect(addr: &SocketAddr, error: io::Error) -> io::Error {
    Failure::new(format!("cannot connect to {}", Name(addr)), error).into()
}

/// The error of a datagram to this address.
pub(super) fn cannot_send(addr: &SocketAddr, error: io::Error) -> io::Error {
    Failure::new(format!("cannot send to {}", Name(addr)), error).into()
}

/// An address in an error's text: a path as it is, an abstract name with an `@` before it.
struct Name<'a>(&'a SocketAddr);

impl core::fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if let Some(path) = self.0.as_pathname() {
            return path.display().fmt(f);
        }
        #[cfg(target_os = "linux")]
        if let Some(name) = self.0.as_abstract_name() {
            return write!(f, "@{}", name.escape_ascii());
        }
        f.write_str("no address")
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn addresses_stay_what_they_are() {
        for len in [1, 50, 106] {
            let path = "p".repeat(len);
            let addr = for_system(&SocketAddr::from_pathname(&path).unwrap()).unwrap();
            assert_eq!(addr.path_bytes(), Some(path.as_bytes()));
            assert!(!is_unnamed(Some(&addr.into())));
        }
        for name in [&b"name"[..], b"", b"\0with zeros\0", &[b'n'; 107]] {
            let addr = for_system(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
            assert_eq!(addr.abstract_name(), Some(name));
            assert!(!is_unnamed(Some(&addr.into())));
        }
        assert!(unnamed().unwrap().is_unnamed());
        assert!(for_system(&unnamed().unwrap()).is_err());
        assert!(is_unnamed(None));
        assert!(is_unnamed(Some(&SocketAddrUnix::new_unnamed().into())));
    }
}
