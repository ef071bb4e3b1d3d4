//! UDP.

use core::{
    future,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    task::{Context, Poll},
};
use std::{io, net};

use filch_linux::io::Direction;

use crate::{
    io::{Interest, ReadBuf, source::Source},
    net::{
        addr::{ToSocketAddrs, addrs, first},
        datagram::datagram,
        macros::of_std,
        options::{internet_options, option},
    },
};

/// A UDP socket.
pub struct UdpSocket {
    io: Source<net::UdpSocket>,
}

of_std!(UdpSocket, net::UdpSocket, SocketAddr);

impl UdpSocket {
    datagram!(SocketAddr);
    internet_options!();

    option! {
        /// Whether datagrams to all may be sent.
        broadcast, set_broadcast: bool, broadcast, set_broadcast
    }

    option! {
        /// Whether datagrams to an IPv4 group come back.
        multicast_loop_v4, set_multicast_loop_v4: bool, multicast_loop_v4, set_multicast_loop_v4
    }

    option! {
        /// How many hops datagrams to an IPv4 group may make.
        multicast_ttl_v4, set_multicast_ttl_v4: u32, multicast_ttl_v4, set_multicast_ttl_v4
    }

    option! {
        /// Whether datagrams to an IPv6 group come back.
        multicast_loop_v6, set_multicast_loop_v6: bool, multicast_loop_v6, set_multicast_loop_v6
    }

    option! {
        /// How many hops datagrams may make.
        ttl, set_ttl: u32, ttl_v4, set_ttl_v4
    }

    /// A socket at the first address that can be bound.
    ///
    /// # Errors
    /// The last one, if none can be bound.
    pub async fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<Self> {
        let bind = |addr: SocketAddr| {
            let socket = net::UdpSocket::bind(addr)?;
            socket.set_nonblocking(true)?;
            Self::over(socket)
        };
        first(addr, |addr| future::ready(bind(addr))).await
    }

    /// Sets the peer, to the first address that is possible.
    ///
    /// # Errors
    /// The last one, if none is.
    pub async fn connect<A: ToSocketAddrs>(&self, addr: A) -> io::Result<()> {
        first(addr, |addr| future::ready(self.io.connect(addr))).await
    }

    /// Sends a datagram to the first address.
    ///
    /// # Errors
    /// Those of the operating system; if the runtime has ended.
    pub async fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], addr: A) -> io::Result<usize> {
        let Some(target) = addrs(addr).await?.next() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no addresses to send data to",
            ));
        };
        self.io.async_io(Interest::WRITABLE, |io| io.send_to(buf, target)).await
    }

    /// As `send_to`, for use in a `poll` function; it wakes the task that called last.
    ///
    /// # Errors
    /// As there.
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.io.poll_io(cx, Direction::Write, |io| io.send_to(buf, target))
    }

    /// As `send_to`, if that does not block.
    ///
    /// # Errors
    /// `WouldBlock`; those of the operating system.
    pub fn try_send_to(&self, buf: &[u8], target: SocketAddr) -> io::Result<usize> {
        self.io.try_io(Interest::WRITABLE, |io| io.send_to(buf, target))
    }

    /// As `recv`, and leaves the datagram there.
    ///
    /// # Errors
    /// As there.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.async_io(Interest::READABLE, |io| io.peek(buf)).await
    }

    /// As `peek`, for use in a `poll` function; it wakes the task that called last.
    ///
    /// # Errors
    /// As there.
    pub fn poll_peek(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.io.poll_fill(cx, buf, |io, room| Ok((io.peek(room)?, ())))
    }

    /// As `peek`, if that does not block.
    ///
    /// # Errors
    /// `WouldBlock`; those of the operating system.
    pub fn try_peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.try_io(Interest::READABLE, |io| io.peek(buf))
    }

    /// As `recv_from`, and leaves the datagram there.
    ///
    /// # Errors
    /// As there.
    pub async fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io.async_io(Interest::READABLE, |io| io.peek_from(buf)).await
    }

    /// As `peek_from`, for use in a `poll` function; it wakes the task that called last.
    ///
    /// # Errors
    /// As there.
    pub fn poll_peek_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        self.io.poll_fill(cx, buf, |io, room| io.peek_from(room))
    }

    /// As `peek_from`, if that does not block.
    ///
    /// # Errors
    /// `WouldBlock`; those of the operating system.
    pub fn try_peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io.try_io(Interest::READABLE, |io| io.peek_from(buf))
    }

    /// The sender of the next datagram, which stays there.
    ///
    /// # Errors
    /// As `peek_from`.
    pub async fn peek_sender(&self) -> io::Result<SocketAddr> {
        self.io.async_io(Interest::READABLE, sender).await
    }

    /// As `peek_sender`, for use in a `poll` function; it wakes the task that called last.
    ///
    /// # Errors
    /// As there.
    pub fn poll_peek_sender(&self, cx: &mut Context<'_>) -> Poll<io::Result<SocketAddr>> {
        self.io.poll_io(cx, Direction::Read, sender)
    }

    /// As `peek_sender`, if that does not block.
    ///
    /// # Errors
    /// `WouldBlock`; those of the operating system.
    pub fn try_peek_sender(&self) -> io::Result<SocketAddr> {
        self.io.try_io(Interest::READABLE, sender)
    }

    /// Joins an IPv4 group.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn join_multicast_v4(&self, multiaddr: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.io.join_multicast_v4(&multiaddr, &interface)
    }

    /// Joins an IPv6 group.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn join_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io.join_multicast_v6(multiaddr, interface)
    }

    /// Leaves an IPv4 group.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn leave_multicast_v4(&self, multiaddr: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.io.leave_multicast_v4(&multiaddr, &interface)
    }

    /// Leaves an IPv6 group.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn leave_multicast_v6(&self, multiaddr: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io.leave_multicast_v6(multiaddr, interface)
    }
}

fn sender(io: &net::UdpSocket) -> io::Result<SocketAddr> {
    io.peek_from(&mut []).map(|(_, from)| from)
}
