//! Keep-alive probes.

use core::time::Duration;
use std::io;

use rustix::net::sockopt;
use socket2::{SockRef, TcpKeepalive};

use crate::net::options::whole_seconds;

/// When an idle connection is probed, and when it is closed. Times are whole seconds, rounded up. A
/// value that is not set stays as it was (a new socket has the system's defaults,
/// `net.ipv4.tcp_keepalive_*`).
///
/// ```
/// use core::time::Duration;
/// use filch_io::net::Keepalive;
/// let keepalive = Keepalive::new().idle(Duration::from_secs(60)).interval(Duration::from_secs(10)).count(3);
/// assert_eq!(keepalive, keepalive.clone());
/// ```
#[must_use = "a connection has to be given it"]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
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

/// Switches probes on, with these values, or off. If it fails, probes may be on.
pub(in crate::net) fn set(socket: SockRef<'_>, keepalive: Option<&Keepalive>) -> io::Result<()> {
    let Some(Keepalive { idle, interval, count }) = keepalive else {
        return socket.set_keepalive(false);
    };
    let mut params = TcpKeepalive::new();
    if let Some(time) = idle {
        params = params.with_time(whole_seconds(*time));
    }
    if let Some(time) = interval {
        params = params.with_interval(whole_seconds(*time));
    }
    if let Some(probes) = count {
        params = params.with_retries(*probes);
    }
    socket.set_tcp_keepalive(&params)
}

/// The values in force, all three; `None` if probes are off. By rustix, as socket2 reads them on some systems alone.
pub(in crate::net) fn get(socket: SockRef<'_>) -> io::Result<Option<Keepalive>> {
    if !socket.keepalive()? {
        return Ok(None);
    }
    Ok(Some(Keepalive {
        idle: Some(sockopt::tcp_keepidle(&*socket)?),
        interval: Some(sockopt::tcp_keepintvl(&*socket)?),
        count: Some(sockopt::tcp_keepcnt(&*socket)?),
    }))
}
