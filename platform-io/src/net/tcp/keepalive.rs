//! Keep-alive probes.

use core::time::Duration;
use std::io;

use rustix::{fd::BorrowedFd, net::sockopt};

/// When an idle connection is probed, and when it is closed. Times are whole seconds, rounded up. A
/// value that is not set stays as it was (a new socket has the system's defaults,
/// `net.ipv4.tcp_keepalive_*`).
///
/// ```
/// use core::time::Duration;
/// use filch_io::net::Keepalive;
/// let keepalive = Keepalive::new().idle(Duration::from_secs(60)).count(3);
/// assert_eq!(keepalive, keepalive.clone());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keepalive {
    idle: Option<Duration>,
    interval: Option<Duration>,
    count: Option<u32>,
}

impl Keepalive {
    /// Changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The idle time before the first probe, 1 s to 32,767 s.
    pub fn idle(mut self, time: Duration) -> Self {
        self.idle = Some(time);
        self
    }

    /// The time between probes, 1 s to 32,767 s.
    pub fn interval(mut self, time: Duration) -> Self {
        self.interval = Some(time);
        self
    }

    /// How many probes may stay unanswered before the connection is closed, 1 to 127.
    pub fn count(mut self, probes: u32) -> Self {
        self.count = Some(probes);
        self
    }
}

/// Switches probes on, with these values, or off.
pub(super) fn set(fd: BorrowedFd<'_>, keepalive: Option<&Keepalive>) -> io::Result<()> {
    let Some(Keepalive { idle, interval, count }) = keepalive else {
        return Ok(sockopt::set_socket_keepalive(fd, false)?);
    };
    if let Some(time) = idle {
        sockopt::set_tcp_keepidle(fd, *time)?;
    }
    if let Some(time) = interval {
        sockopt::set_tcp_keepintvl(fd, *time)?;
    }
    if let Some(probes) = count {
        sockopt::set_tcp_keepcnt(fd, *probes)?;
    }
    Ok(sockopt::set_socket_keepalive(fd, true)?)
}

/// The values in force, all three; `None` if probes are off.
pub(super) fn get(fd: BorrowedFd<'_>) -> io::Result<Option<Keepalive>> {
    if !sockopt::socket_keepalive(fd)? {
        return Ok(None);
    }
    Ok(Some(Keepalive {
        idle: Some(sockopt::tcp_keepidle(fd)?),
        interval: Some(sockopt::tcp_keepintvl(fd)?),
        count: Some(sockopt::tcp_keepcnt(fd)?),
    }))
}
