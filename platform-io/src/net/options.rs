//! The options of sockets.

use core::{net::SocketAddr, time::Duration};
use std::io;

use socket2::{SockAddr, SockRef, Socket};

use super::{
    TcpSocket, TcpStream, UdpSocket,
    tcp::keepalive::{self, Keepalive},
};

/// Options of TCP and UDP.
macro_rules! internet {
    ($($socket:ident)*) => {$(
        /// Options of TCP and of UDP. Connections inherit those of the socket that accepts them.
        impl $socket {
            /// How many hops packets live: `IP_TTL`, or `IPV6_UNICAST_HOPS`.
            ///
            /// # Errors
            /// Errors of the operating system; not 1 to 255; on Windows, a socket that is not bound yet.
            pub fn set_ttl(&self, hops: u32) -> io::Result<()> {
                set_ttl(&SockRef::from(self), hops)
            }

            /// How many hops packets live.
            ///
            /// # Errors
            /// Errors of the operating system.
            pub fn ttl(&self) -> io::Result<u32> {
                ttl(&SockRef::from(self))
            }

            /// `SO_RCVBUF` in bytes; the system doubles it, limits it (net.core.rmem_max), and no longer tunes the buffer itself. Before the
            /// connection it also determines TCP's window scale; datagrams that there is no room for are lost.
            ///
            /// # Errors
            /// Errors of the operating system.
            pub fn set_recv_buffer_size(&self, bytes: usize) -> io::Result<()> {
                SockRef::from(self).set_recv_buffer_size(bytes)
            }

            /// `SO_RCVBUF` in bytes, as the system counts.
            ///
            /// # Errors
            /// Errors of the operating system.
            pub fn recv_buffer_size(&self) -> io::Result<usize> {
                SockRef::from(self).recv_buffer_size()
            }

            /// `SO_SNDBUF` in bytes; the system doubles it, limits it (net.core.wmem_max), and no longer tunes the buffer itself.
            ///
            /// # Errors
            /// Errors of the operating system.
            pub fn set_send_buffer_size(&self, bytes: usize) -> io::Result<()> {
                SockRef::from(self).set_send_buffer_size(bytes)
            }

            /// `SO_SNDBUF` in bytes, as the system counts.
            ///
            /// # Errors
            /// Errors of the operating system.
            pub fn send_buffer_size(&self) -> io::Result<usize> {
                SockRef::from(self).send_buffer_size()
            }

            /// The traffic class of packets (not on Windows), 0 to 255: `IP_TOS`, or `IPV6_TCLASS`. The upper six bits are the DSCP, the
            /// lower two are for congestion (ECN), and TCP keeps these for itself.
            ///
            /// # Errors
            /// Errors of the operating system; more than 255.
            #[cfg(not(windows))]
            pub fn set_traffic_class(&self, class: u32) -> io::Result<()> {
                set_traffic_class(&SockRef::from(self), class)
            }

            /// The traffic class of packets.
            ///
            /// # Errors
            /// Errors of the operating system.
            #[cfg(not(windows))]
            pub fn traffic_class(&self) -> io::Result<u32> {
                traffic_class(&SockRef::from(self))
            }

            /// `SO_BINDTODEVICE` (Linux alone): packets go and come through the interface of this name alone, such as "eth0"; `None`: through any.
            ///
            /// # Errors
            /// There is no such interface; the socket is bound to another, and the process lacks the capability to change that.
            #[cfg(target_os = "linux")]
            pub fn bind_device(&self, name: Option<&str>) -> io::Result<()> {
                SockRef::from(self).bind_device(name.map(str::as_bytes))
            }
        }
    )*};
}

/// Options of TCP.
macro_rules! tcp {
    ($($socket:ident)*) => {$(
        /// Options of TCP. Connections inherit those of the socket that accepts them.
        impl $socket {
            /// `TCP_NODELAY`: small writes are sent at once, and are not held back while earlier ones are
            /// unacknowledged.
            ///
            /// # Errors
            /// Errors of the operating system.
            pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
                SockRef::from(self).set_tcp_nodelay(on)
            }

            /// Whether small writes are sent at once.
            ///
            /// # Errors
            /// Errors of the operating system.
            pub fn nodelay(&self) -> io::Result<bool> {
                SockRef::from(self).tcp_nodelay()
            }

            /// Probes a silent connection, as given; `None` switches the probes off.
            ///
            /// # Errors
            /// Errors of the operating system, also for values out of range; probes may be on then.
            pub fn set_keepalive(&self, keepalive: Option<&Keepalive>) -> io::Result<()> {
                keepalive::set(SockRef::from(self), keepalive)
            }

            /// How a silent connection is probed, all values filled in; `None` if it is not.
            ///
            /// # Errors
            /// Errors of the operating system.
            pub fn keepalive(&self) -> io::Result<Option<Keepalive>> {
                keepalive::get(SockRef::from(self))
            }

            /// `SO_LINGER`: what closing does with bytes that the peer has not acknowledged. `None`: they
            /// are sent in the background. Zero: they are discarded, and the peer sees a reset. More: **the
            /// thread that drops the connection is blocked** for at most this time, in whole seconds; do
            /// not use this on a worker.
            ///
            /// # Errors
            /// Errors of the operating system.
            pub fn set_linger(&self, time: Option<Duration>) -> io::Result<()> {
                SockRef::from(self).set_linger(time.map(linger_seconds))
            }

            /// What closing does, see [`set_linger`](Self::set_linger).
            ///
            /// # Errors
            /// Errors of the operating system.
            pub fn linger(&self) -> io::Result<Option<Duration>> {
                SockRef::from(self).linger()
            }

            /// `TCP_USER_TIMEOUT` (Linux alone), in milliseconds, rounded up: sent bytes that stay unacknowledged for this time end the connection. `None`: the system
            /// chooses, usually about a quarter of an hour.
            ///
            /// # Errors
            /// Errors of the operating system.
            #[cfg(target_os = "linux")]
            pub fn set_user_timeout(&self, time: Option<Duration>) -> io::Result<()> {
                set_user_timeout(SockRef::from(self), time)
            }

            /// How long sent bytes may stay unacknowledged.
            ///
            /// # Errors
            /// Errors of the operating system.
            #[cfg(target_os = "linux")]
            pub fn user_timeout(&self) -> io::Result<Option<Duration>> {
                SockRef::from(self).tcp_user_timeout()
            }
        }
    )*};
}

internet!(TcpStream TcpSocket UdpSocket);
tcp!(TcpStream TcpSocket);

/// The system counts in seconds, and socket2 rounds down: half a second of linger would be a reset.
pub(super) fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)))
}

/// As whole seconds, as many as the system's number of them holds.
fn linger_seconds(time: Duration) -> Duration {
    let most = if cfg!(windows) { u64::from(u16::MAX) } else { i32::MAX as u64 };
    whole_seconds(time).min(Duration::from_secs(most))
}

/// In milliseconds; zero stands for the system's choice, so a time is never rounded to it.
#[cfg(target_os = "linux")]
fn set_user_timeout(socket: SockRef<'_>, time: Option<Duration>) -> io::Result<()> {
    let rounded_up = |time: Duration| {
        let millis = time.as_nanos().div_ceil(1_000_000).max(1);
        Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
    };
    socket.set_tcp_user_timeout(time.map(rounded_up))
}

/// Whether the socket's family is IPv4. On Windows only a socket with an address has one.
fn is_v4(socket: &Socket) -> io::Result<bool> {
    Ok(socket.local_addr()?.is_ipv4())
}

/// Each family has its own option.
fn set_ttl(socket: &Socket, hops: u32) -> io::Result<()> {
    if is_v4(socket)? {
        return socket.set_ttl_v4(hops);
    }
    // There -1 would be the default.
    let hops = u8::try_from(hops).map_err(|_| io::ErrorKind::InvalidInput)?;
    socket.set_unicast_hops_v6(hops.into())
}

fn ttl(socket: &Socket) -> io::Result<u32> {
    if is_v4(socket)? { socket.ttl_v4() } else { socket.unicast_hops_v6() }
}

#[cfg(not(windows))]
fn set_traffic_class(socket: &Socket, class: u32) -> io::Result<()> {
    // The system takes the lower eight bits for IPv4, and -1 as the default for IPv6.
    let class = u32::from(u8::try_from(class).map_err(|_| io::ErrorKind::InvalidInput)?);
    if is_v4(socket)? {
        return socket.set_tos_v4(class);
    }
    socket.set_tclass_v6(class)
}

#[cfg(not(windows))]
fn traffic_class(socket: &Socket) -> io::Result<u32> {
    if is_v4(socket)? { socket.tos_v4() } else { socket.tclass_v6() }
}

pub(super) fn inet(addr: SockAddr) -> io::Result<SocketAddr> {
    addr.as_socket().ok_or_else(|| io::ErrorKind::InvalidInput.into())
}
