//! UDP.

use core::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    task::{Context, Poll},
};
use std::{io, net};

use super::{addrs::ToSocketAddrs, failures::Failures};
use crate::Async;

/// A UDP socket. Dropping it closes it.
///
/// The methods take `&self`, so that tasks may share one socket: any number of them may wait to
/// send and to receive. An operation that is ready at once spends the task's budget, see
/// [`filch_std::task::consume_budget`].
///
/// A datagram is received whole: bytes that there is no room for are lost. If a connected socket
/// sends to an address without a listener, its next operation fails with `ConnectionRefused`.
///
/// Options that have no method here have one in the crate `socket2`, by its `SockRef`. Those that must be set before the socket is bound,
/// such as `SO_REUSEPORT`, are set on its `Socket`, which [`from_std`](Self::from_std) then takes as the standard library's socket.
///
/// ```
/// # filch_io::Builder::new().workers(1).build().unwrap().block_on(async {
/// use filch_io::net::UdpSocket;
/// let (a, b) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
/// a.send_to(b"hello", b.local_addr()?).await?;
/// let mut buffer = [0; 1500];
/// let (len, from) = b.recv_from(&mut buffer).await?;
/// assert_eq!((&buffer[..len], from), (&b"hello"[..], a.local_addr()?));
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
///
/// A peer, and options:
///
/// ```
/// # filch_io::Builder::new().build().unwrap().block_on(async {
/// use core::future::poll_fn;
/// use filch_io::net::UdpSocket;
/// let (a, b) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
/// let (from, to) = (a.local_addr()?, b.local_addr()?);
/// a.connect(to).await?;
/// assert_eq!(a.peer_addr()?, to);
/// a.send(b"one").await?;
/// poll_fn(|cx| a.poll_send_to(cx, b"two", to)).await?;
/// let mut buffer = [0; 1500];
/// assert_eq!(b.peek_from(&mut buffer).await?, (3, from));
/// assert_eq!(poll_fn(|cx| b.poll_recv_from(cx, &mut buffer)).await?, (3, from));
/// assert_eq!(b.recv(&mut buffer).await?, 3);
/// assert_eq!(&buffer[..3], b"two");
///
/// a.set_broadcast(true)?;
/// a.set_ttl(9)?;
/// assert_eq!((a.broadcast()?, a.ttl()?), (true, 9));
/// a.set_recv_buffer_size(1 << 16)?;
/// a.set_send_buffer_size(1 << 16)?;
/// assert!(a.recv_buffer_size()? > 0 && a.send_buffer_size()? > 0);
/// # #[cfg(not(windows))]
/// a.set_traffic_class(0b10_1110 << 2)?;
/// # #[cfg(not(windows))]
/// assert_eq!(a.traffic_class()?, 0xB8);
/// assert!(a.take_error()?.is_none());
/// let a: std::net::UdpSocket = a.into_std()?;
/// let a = UdpSocket::from_std(a)?;
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
///
/// Groups, and an interface:
///
/// ```no_run
/// # filch_io::Builder::new().build().unwrap().block_on(async {
/// use std::net::{Ipv4Addr, Ipv6Addr};
/// use filch_io::net::UdpSocket;
/// let (group, any) = (Ipv4Addr::new(239, 0, 0, 7), Ipv4Addr::UNSPECIFIED);
/// let socket = UdpSocket::bind("0.0.0.0:7000").await?;
/// # #[cfg(target_os = "linux")]
/// socket.bind_device(Some("eth0"))?;
/// socket.join_multicast_v4(&group, &any)?;
/// socket.set_multicast_ttl_v4(2)?;
/// socket.set_multicast_loop_v4(false)?;
/// assert_eq!((socket.multicast_ttl_v4()?, socket.multicast_loop_v4()?), (2, false));
/// socket.send_to(b"to all", (group, 7000).into()).await?;
/// socket.leave_multicast_v4(&group, &any)?;
///
/// let (group, socket) = (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 7), UdpSocket::bind("[::]:7000").await?);
/// socket.join_multicast_v6(&group, 0)?;
/// socket.set_multicast_loop_v6(false)?;
/// assert!(!socket.multicast_loop_v6()?);
/// socket.leave_multicast_v6(&group, 0)?;
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub struct UdpSocket {
    pub(super) io: Async<net::UdpSocket>,
}

impl UdpSocket {
    /// Binds a socket to the first of the addresses that can be bound.
    ///
    /// # Errors
    /// `AddrInUse` and other errors of the operating system, with each address in the text; a name
    /// that cannot be looked up; the calling thread is in no runtime.
    ///
    /// # Cancel safety
    /// Dropping it closes what it has opened.
    pub async fn bind(addrs: impl ToSocketAddrs) -> io::Result<Self> {
        let mut failures = Failures::default();
        for addr in addrs.to_addrs().resolve().await? {
            match net::UdpSocket::bind(addr).and_then(Self::from_std) {
                Ok(socket) => return Ok(socket),
                Err(error) => failures.push(addr, error),
            }
        }
        Err(failures.into_error("cannot bind to"))
    }

    /// From now on the socket sends to this peer, and receives only from it. Uses the first of the
    /// addresses that the system has a route to. Sends nothing, so it does not check that a peer
    /// exists.
    ///
    /// # Errors
    /// The system's, with each address in the text; a name that cannot be looked up.
    ///
    /// # Cancel safety
    /// Dropping it leaves the socket as it was.
    pub async fn connect(&self, addrs: impl ToSocketAddrs) -> io::Result<()> {
        let mut failures = Failures::default();
        for addr in addrs.to_addrs().resolve().await? {
            match self.io.get_ref().connect(addr) {
                Ok(()) => return Ok(()),
                Err(error) => failures.push(addr, error),
            }
        }
        Err(failures.into_error("cannot connect to"))
    }

    /// Sends a datagram to the peer that it is connected to; returns its length. Cost: one system
    /// call.
    ///
    /// # Errors
    /// Errors of the operating system: the datagram is too long, the peer refuses, there is no
    /// peer.
    ///
    /// # Cancel safety
    /// If it is dropped before it is ready, it has sent nothing.
    pub async fn send(&self, payload: &[u8]) -> io::Result<usize> {
        self.io.write_with(|socket| socket.send(payload)).await
    }

    /// Receives a datagram from the peer that it is connected to; returns its length. Cost: one
    /// system call.
    ///
    /// # Errors
    /// Errors of the operating system: the peer refuses.
    ///
    /// # Cancel safety
    /// Loses no datagram.
    pub async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.read_with(|socket| socket.recv(buf)).await
    }

    /// Sends a datagram to an address; returns its length. Cost: one system call.
    ///
    /// # Errors
    /// Errors of the operating system.
    ///
    /// # Cancel safety
    /// As [`send`](Self::send).
    pub async fn send_to(&self, payload: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.io.write_with(|socket| socket.send_to(payload, to)).await
    }

    /// Receives a datagram; returns its length and the sender's address. Cost: one system call.
    ///
    /// # Errors
    /// Errors of the operating system.
    ///
    /// # Cancel safety
    /// Loses no datagram.
    pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io.read_with(|socket| socket.recv_from(buf)).await
    }

    /// As [`recv_from`](Self::recv_from), but leaves the datagram in the queue.
    ///
    /// # Errors
    /// Errors of the operating system.
    ///
    /// # Cancel safety
    /// Loses no datagram.
    pub async fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io.read_with(|socket| socket.peek_from(buf)).await
    }

    /// As [`send_to`](Self::send_to), for one caller at a time: a later caller replaces an earlier
    /// one.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        payload: &[u8],
        to: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.io.poll_write_with(cx, |socket| socket.send_to(payload, to))
    }

    /// As [`recv_from`](Self::recv_from), for one caller at a time: a later caller replaces an
    /// earlier one.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.io.poll_read_with(cx, |socket| socket.recv_from(buf))
    }
}

/// Methods of the standard library's socket, under the same names.
macro_rules! options {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) -> $out:ty;)+) => {
        impl UdpSocket {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// Errors of the operating system.
                pub fn $name(&self, $($arg: $type),*) -> io::Result<$out> {
                    self.io.get_ref().$name($($arg),*)
                }
            )+
        }
    };
}

options! {
    /// The address of the peer that it is connected to.
    peer_addr() -> SocketAddr;
    /// Whether it may send to broadcast addresses (`SO_BROADCAST`).
    broadcast() -> bool;
    /// Lets it send to broadcast addresses, or not.
    set_broadcast(on: bool) -> ();
    /// Joins this group, on the interface with that address (`0.0.0.0`: one that the system
    /// chooses).
    join_multicast_v4(group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
    /// As `join_multicast_v4`, for IPv6, by the interface's index (0: one that the system chooses).
    join_multicast_v6(group: &Ipv6Addr, interface: u32) -> ();
    /// Undoes `join_multicast_v4`.
    leave_multicast_v4(group: &Ipv4Addr, interface: &Ipv4Addr) -> ();
    /// Undoes `join_multicast_v6`.
    leave_multicast_v6(group: &Ipv6Addr, interface: u32) -> ();
    /// Whether this host receives what it sends to a group (`IP_MULTICAST_LOOP`).
    multicast_loop_v4() -> bool;
    /// Sets whether this host receives what it sends to a group.
    set_multicast_loop_v4(on: bool) -> ();
    /// Whether this host receives what it sends to an IPv6 group (`IPV6_MULTICAST_LOOP`).
    multicast_loop_v6() -> bool;
    /// Sets whether this host receives what it sends to an IPv6 group.
    set_multicast_loop_v6(on: bool) -> ();
    /// The most routers that a datagram to a group passes (`IP_MULTICAST_TTL`).
    multicast_ttl_v4() -> u32;
    /// Sets the most routers that a datagram to a group passes.
    set_multicast_ttl_v4(hops: u32) -> ();
}
