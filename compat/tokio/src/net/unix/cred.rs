//! Which process is at the other end.

use std::{io, os::fd::AsFd};

use super::{gid_t, pid_t, uid_t};

/// The user, the group and the process at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UCred {
    pid: Option<pid_t>,
    uid: uid_t,
    gid: gid_t,
}

impl UCred {
    /// The user.
    pub fn uid(&self) -> uid_t {
        self.uid
    }

    /// The group.
    pub fn gid(&self) -> gid_t {
        self.gid
    }

    /// The process.
    pub fn pid(&self) -> Option<pid_t> {
        self.pid
    }
}

pub(crate) fn peer(socket: impl AsFd) -> io::Result<UCred> {
    let cred = rustix::net::sockopt::socket_peercred(socket)?;
    Ok(UCred {
        pid: Some(cred.pid.as_raw_nonzero().get()),
        uid: cred.uid.as_raw(),
        gid: cred.gid.as_raw(),
    })
}
