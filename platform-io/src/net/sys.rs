//! New sockets: they do not block, are not inherited by child processes, and raise no signal.

#[cfg(not(windows))]
use rustix::net::SocketFlags;
use rustix::{
    fd::{AsFd, OwnedFd},
    io::Errno,
    net::{AddressFamily, Protocol, SendFlags, SocketAddrAny, SocketType},
};

/// A write to a connection that has ended is an error and no signal. On Apple's systems the socket itself is told so, and Windows
/// has no signals.
#[cfg(not(any(windows, target_vendor = "apple")))]
pub(super) const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
#[cfg(any(windows, target_vendor = "apple"))]
pub(super) const NO_SIGNAL: SendFlags = SendFlags::empty();

/// What the system sets at once.
#[cfg(not(any(windows, target_vendor = "apple")))]
const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);
#[cfg(target_vendor = "apple")]
const FLAGS: SocketFlags = SocketFlags::empty();

/// Sets what `FLAGS` has not set.
#[cfg(not(any(windows, target_vendor = "apple")))]
#[inline(always)]
fn prepared(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    Ok(fd)
}

#[cfg(target_vendor = "apple")]
fn prepared(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&fd, true)?;
    rustix::net::sockopt::set_socket_nosigpipe(&fd, true)?;
    Ok(fd)
}

#[cfg(windows)]
fn prepared(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    Ok(fd)
}

#[cfg(not(windows))]
pub(super) fn socket(
    family: AddressFamily,
    kind: SocketType,
    protocol: Option<Protocol>,
) -> std::io::Result<OwnedFd> {
    Ok(prepared(rustix::net::socket_with(family, kind, FLAGS, protocol)?)?)
}

/// socket2 starts the system's library of sockets, and makes a socket that is not inherited.
#[cfg(windows)]
pub(super) fn socket(
    family: AddressFamily,
    kind: SocketType,
    protocol: Option<Protocol>,
) -> std::io::Result<OwnedFd> {
    let protocol = protocol.map(|protocol| socket2::Protocol::from(protocol.as_raw().get() as i32));
    let (domain, kind) = (i32::from(family.as_raw()).into(), (kind.as_raw() as i32).into());
    Ok(prepared(socket2::Socket::new(domain, kind, protocol)?.into())?)
}

/// Two sockets that are connected to each other.
#[cfg(not(windows))]
pub(super) fn pair(kind: SocketType) -> Result<(OwnedFd, OwnedFd), Errno> {
    let (one, other) = rustix::net::socketpair(AddressFamily::UNIX, kind, FLAGS, None)?;
    Ok((prepared(one)?, prepared(other)?))
}

/// The next connection of a listener, and the peer's address if the system tells it.
#[cfg(not(any(windows, target_vendor = "apple")))]
pub(super) fn accept(listener: impl AsFd) -> Result<(OwnedFd, Option<SocketAddrAny>), Errno> {
    rustix::net::acceptfrom_with(listener, FLAGS)
}

#[cfg(any(windows, target_vendor = "apple"))]
pub(super) fn accept(listener: impl AsFd) -> Result<(OwnedFd, Option<SocketAddrAny>), Errno> {
    let (fd, peer) = rustix::net::acceptfrom(listener)?;
    Ok((prepared(fd)?, peer))
}
