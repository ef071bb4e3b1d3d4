//! The options of a connection.

use core::time::Duration;
use std::{io, os::fd::AsFd};

use rustix::net::sockopt;

use super::{
    keepalive::{self, Keepalive},
    socket,
    stream::TcpStream,
};

impl TcpStream {
    /// `TCP_NODELAY`: small writes leave at once, and are not gathered while earlier ones are unacknowledged.
    ///
    /// # Errors
    /// The system's.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(self, on)?)
    }

    /// Whether small writes leave at once.
    ///
    /// # Errors
    /// The system's.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(sockopt::tcp_nodelay(self)?)
    }

    /// Probes a silent connection, as given; `None` switches the probes off.
    ///
    /// # Errors
    /// The system's, for values out of range.
    pub fn set_keepalive(&self, keepalive: Option<&Keepalive>) -> io::Result<()> {
        keepalive::set(self.as_fd(), keepalive)
    }

    /// How a silent connection is probed, all values filled in; `None` if it is not.
    ///
    /// # Errors
    /// The system's.
    pub fn keepalive(&self) -> io::Result<Option<Keepalive>> {
        keepalive::get(self.as_fd())
    }

    /// `SO_LINGER`: what closing does with bytes that the peer has not acknowledged. `None`: they are sent in the background.
    /// Zero: they are thrown away and the peer sees a reset. More: **the thread that drops the connection is blocked** so long
    /// at most, in whole seconds; not for a worker.
    ///
    /// # Errors
    /// The system's.
    pub fn set_linger(&self, time: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_linger(self, time)?)
    }

    /// What closing does, see [`set_linger`](Self::set_linger).
    ///
    /// # Errors
    /// The system's.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(sockopt::socket_linger(self)?)
    }

    /// How many hops packets live: `IP_TTL`, or `IPV6_UNICAST_HOPS`.
    ///
    /// # Errors
    /// The system's; not 1 to 255.
    pub fn set_ttl(&self, hops: u32) -> io::Result<()> {
        socket::set_ttl(self.as_fd(), hops)
    }

    /// How many hops packets live.
    ///
    /// # Errors
    /// The system's.
    pub fn ttl(&self) -> io::Result<u32> {
        socket::ttl(self.as_fd())
    }

    /// `SO_RCVBUF` in bytes; the system doubles it, has a limit, and no longer tunes the buffer by itself.
    ///
    /// # Errors
    /// The system's.
    pub fn set_recv_buffer_size(&self, bytes: usize) -> io::Result<()> {
        Ok(sockopt::set_socket_recv_buffer_size(self, bytes)?)
    }

    /// `SO_RCVBUF` in bytes, as the system counts.
    ///
    /// # Errors
    /// The system's.
    pub fn recv_buffer_size(&self) -> io::Result<usize> {
        Ok(sockopt::socket_recv_buffer_size(self)?)
    }

    /// `SO_SNDBUF` in bytes; the system doubles it, has a limit, and no longer tunes the buffer by itself.
    ///
    /// # Errors
    /// The system's.
    pub fn set_send_buffer_size(&self, bytes: usize) -> io::Result<()> {
        Ok(sockopt::set_socket_send_buffer_size(self, bytes)?)
    }

    /// `SO_SNDBUF` in bytes, as the system counts.
    ///
    /// # Errors
    /// The system's.
    pub fn send_buffer_size(&self) -> io::Result<usize> {
        Ok(sockopt::socket_send_buffer_size(self)?)
    }
}
