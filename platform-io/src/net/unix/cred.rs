//! The credentials of the peer.

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

/// The process that connected or listens at the other end, as the kernel recorded it then:
/// [`UnixStream::peer_cred`](super::UnixStream::peer_cred).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct UCred {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Process; `None` on other systems than Linux, and if it is in a namespace that this process does not see. The process may have
    /// ended, and the number may be reused: do not base permissions on it.
    pub pid: Option<u32>,
}

/// `SO_PEERCRED`. Not by rustix, which assumes that there is a process id, nor by socket2, which has no such option.
#[cfg(target_os = "linux")]
pub(super) fn peer_cred(socket: impl AsFd) -> io::Result<UCred> {
    let mut cred = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: a place on this stack, and its length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut cred).cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let pid = u32::try_from(cred.pid).ok().filter(|pid| *pid != 0);
    Ok(UCred { uid: cred.uid, gid: cred.gid, pid })
}

#[cfg(not(target_os = "linux"))]
pub(super) fn peer_cred(socket: impl AsFd) -> io::Result<UCred> {
    let (mut uid, mut gid) = (0, 0);
    // SAFETY: two places on this stack.
    let result = unsafe { libc::getpeereid(socket.as_fd().as_raw_fd(), &mut uid, &mut gid) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(UCred { uid, gid, pid: None })
}
