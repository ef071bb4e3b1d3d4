//! The options of a connection.

use core::time::Duration;
use std::io;

use rustix::{fd::AsFd, net::sockopt};

use super::{
    keepalive::{self, Keepalive},
    socket,
    stream::TcpStream,
};

impl TcpStream {
    /// `TCP_NODELAY`: small writes are sent at once, and are not held back while earlier ones are
    /// unacknowledged.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(self, on)?)
    }

    /// Whether small writes are sent at once.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(sockopt::tcp_nodelay(self)?)
    }

    /// Probes a silent connection, as given; `None` switches the probes off.
    ///
    /// # Errors
    /// Errors of the operating system, also for values out of range.
    pub fn set_keepalive(&self, keepalive: Option<&Keepalive>) -> io::Result<()> {
        keepalive::set(self.as_fd(), keepalive)
    }

    /// How a silent connection is probed, all values filled in; `None` if it is not.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn keepalive(&self) -> io::Result<Option<Keepalive>> {
        keepalive::get(self.as_fd())
    }

    /// `SO_LINGER`: what closing does with bytes that the peer has not acknowledged. `None`: they
    /// are sent in the background. Zero: they are discarded, and the peer sees a reset. More: **the
    /// thread that drops the connection is blocked** for at most this time, in whole seconds; do
    /// not use this on a worker.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn set_linger(&self, time: Option<Duration>) -> io::Result<()> {
        Ok(sockopt::set_socket_linger(self, time)?)
    }

    /// What closing does, see [`set_linger`](Self::set_linger).
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(sockopt::socket_linger(self)?)
    }

    /// How many hops packets live: `IP_TTL`, or `IPV6_UNICAST_HOPS`.
    ///
    /// # Errors
    /// Errors of the operating system; not 1 to 255.
    pub fn set_ttl(&self, hops: u32) -> io::Result<()> {
        socket::set_ttl(self.as_fd(), hops)
    }

    /// How many hops packets live.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn ttl(&self) -> io::Result<u32> {
        socket::ttl(self.as_fd())
    }

    /// `SO_RCVBUF` in bytes; the system doubles it, limits it, and no longer tunes the buffer
    /// itself.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn set_recv_buffer_size(&self, bytes: usize) -> io::Result<()> {
        Ok(sockopt::set_socket_recv_buffer_size(self, bytes)?)
    }

    /// `SO_RCVBUF` in bytes, as the system counts.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn recv_buffer_size(&self) -> io::Result<usize> {
        Ok(sockopt::socket_recv_buffer_size(self)?)
    }

    /// `SO_SNDBUF` in bytes; the system doubles it, limits it, and no longer tunes the buffer
    /// itself.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn set_send_buffer_size(&self, bytes: usize) -> io::Result<()> {
        Ok(sockopt::set_socket_send_buffer_size(self, bytes)?)
    }

    /// `SO_SNDBUF` in bytes, as the system counts.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn send_buffer_size(&self) -> io::Result<usize> {
        Ok(sockopt::socket_send_buffer_size(self)?)
    }
}
