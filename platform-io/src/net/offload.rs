//! UDP for protocols such as QUIC: segmentation offload, congestion marks, own addresses.
//!
//! The control messages are written and read by the crate quinn-udp.

use core::{
    array, fmt,
    net::{IpAddr, SocketAddr},
    task::{Context, Poll},
};
use std::{
    io::{self, ErrorKind, IoSliceMut},
    net,
};

use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, UdpSockRef, UdpSocketState};

use super::udp::UdpSocket;
use crate::{Async, nothing, shown::shows_file};

/// The most bytes that the system takes with one call.
const MOST_BYTES: usize = 65_507;

/// A mark of explicit congestion notification (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// The sender understands marks.
    Ect0,
    /// The same, as L4S uses it (RFC 9331).
    Ect1,
    /// A router was congested.
    Ce,
}

impl Ecn {
    fn read(mark: EcnCodepoint) -> Self {
        match mark {
            EcnCodepoint::Ect0 => Self::Ect0,
            EcnCodepoint::Ect1 => Self::Ect1,
            EcnCodepoint::Ce => Self::Ce,
        }
    }

    fn write(self) -> EcnCodepoint {
        match self {
            Self::Ect0 => EcnCodepoint::Ect0,
            Self::Ect1 => EcnCodepoint::Ect1,
            Self::Ce => EcnCodepoint::Ce,
        }
    }
}

/// Datagrams to send to one address: [`UdpOffload::send`].
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    payload: &'a [u8],
    to: SocketAddr,
    segment: Option<usize>,
    ecn: Option<Ecn>,
    from: Option<IpAddr>,
}

impl<'a> Transmit<'a> {
    /// One datagram.
    pub fn new(payload: &'a [u8], to: SocketAddr) -> Self {
        Self { payload, to, segment: None, ecn: None, from: None }
    }

    /// As many datagrams of this size as the payload has, 1 byte to 65,507; the last may be shorter.
    pub fn segment_size(mut self, size: usize) -> Self {
        self.segment = Some(size);
        self
    }

    /// With this mark.
    pub fn ecn(mut self, mark: Ecn) -> Self {
        self.ecn = Some(mark);
        self
    }

    /// From this address of the host, if the socket is bound to all.
    pub fn src_ip(mut self, addr: IpAddr) -> Self {
        self.from = Some(addr);
        self
    }

    /// The size of a datagram, if it is one that can be sent.
    fn segment(&self) -> io::Result<usize> {
        match self.segment.unwrap_or(self.payload.len().max(1)) {
            size @ 1..=MOST_BYTES => Ok(size),
            _ => Err(ErrorKind::InvalidInput.into()),
        }
    }

    /// A part of its payload, in one call.
    fn part(&self, payload: &'a [u8], segment: usize) -> quinn_udp::Transmit<'a> {
        quinn_udp::Transmit {
            destination: self.to,
            ecn: self.ecn.map(Ecn::write),
            contents: payload,
            segment_size: Some(segment).filter(|size| *size < payload.len()),
            src_ip: self.from,
        }
    }
}

/// A buffer, and the datagrams of one sender that were received into it: [`UdpOffload::recv`].
#[derive(Debug)]
pub struct Received<'a> {
    buffer: &'a mut [u8],
    meta: RecvMeta,
}

impl<'a> Received<'a> {
    /// A buffer. The system puts up to 64 datagrams, of 65,507 bytes together, into one; bytes that there is no room for are lost.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, meta: RecvMeta::default() }
    }

    /// The datagrams, one after the other; none before any was received.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        let all = &self.buffer[..self.meta.len.min(self.buffer.len())];
        // A datagram may be empty; a sender's port is not 0.
        let empty = (all.is_empty() && self.meta.addr.port() != 0).then_some(all);
        empty.into_iter().chain(all.chunks(self.meta.stride.max(1)))
    }

    /// The sender's address; `None` before a datagram was received.
    pub fn addr(&self) -> Option<SocketAddr> {
        Some(self.meta.addr).filter(|addr| addr.port() != 0)
    }

    /// The address of this host that the datagrams were sent to.
    pub fn dst_ip(&self) -> Option<IpAddr> {
        self.meta.dst_ip
    }

    /// The mark that the datagrams came with.
    pub fn ecn(&self) -> Option<Ecn> {
        self.meta.ecn.map(Ecn::read)
    }
}

/// A UDP socket that sends many datagrams to an address with one system call (GSO), receives many of a sender in one buffer (GRO), and has
/// congestion marks and the host's own addresses. It does not fragment: a datagram that is too long for the network is an error or is lost.
///
/// Several thousand datagrams a second of one peer cost a fraction of the time. Each peer that is sent to costs a system call.
///
/// ```
/// # filch_io::Builder::new().workers(1).build().unwrap().block_on(async {
/// use filch_io::net::{Ecn, Received, Transmit, UdpOffload, UdpSocket};
/// # let (a, b) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
/// let (a, b) = (UdpOffload::try_from(a)?, UdpOffload::try_from(b)?);
/// let here = a.local_addr()?.ip();
/// a.send(&Transmit::new(&[7; 3_000], b.local_addr()?).segment_size(1_200).ecn(Ecn::Ect0).src_ip(here)).await?;
/// assert!(a.max_gso_segments() >= 1 && b.gro_segments() >= 1);
/// println!("datagrams {} fragmented", if a.may_fragment() { "may be" } else { "are not" });
///
/// let mut buffers = [vec![0; 65_536], vec![0; 65_536]];
/// let mut received = buffers.each_mut().map(|buffer| Received::new(buffer));
/// # let mut sizes = Vec::new();
/// # while sizes.len() < 3 {
/// let n = b.recv(&mut received).await?;
/// for one in &received[..n] {
///     for datagram in one.datagrams() {
///         println!("{} bytes from {:?} to {:?}, {:?}", datagram.len(), one.addr(), one.dst_ip(), one.ecn());
/// #       sizes.push(datagram.len());
///     }
/// }
/// # }
/// # assert_eq!(sizes, [1_200, 1_200, 600]);
///
/// // Without a wait, and in a `poll` of one's own:
/// a.writable().await?;
/// a.try_send(&Transmit::new(b"one", b.local_addr()?))?;
/// assert_eq!(core::future::poll_fn(|cx| b.poll_recv(cx, &mut received)).await?, 1);
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
pub struct UdpOffload {
    io: Async<net::UdpSocket>,
    state: UdpSocketState,
}

impl UdpOffload {
    /// Sends the datagrams in order, as many with one system call as the system takes.
    ///
    /// # Errors
    /// `InvalidInput` for a size that no datagram has. Errors of the operating system, of which the datagrams before are not told: too long for the network, no
    /// such address of this host.
    ///
    /// # Cancel safety
    /// If it is dropped, the first datagrams may have been sent.
    pub async fn send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        filch_std::task::consume_budget().await;
        let segment = transmit.segment()?;
        let mut rest = transmit.payload;
        loop {
            let most = segment * self.max_gso_segments().min(MOST_BYTES / segment);
            let (now, later) = rest.split_at(rest.len().min(most));
            let part = transmit.part(now, segment);
            let sent = self.io.write_with(|socket| self.state.try_send(socket.into(), &part));
            match sent.await {
                Ok(()) if later.is_empty() => return Ok(()),
                Ok(()) => rest = later,
                // A network card that cannot do it after all; the state has seen that.
                Err(_) if now.len() > segment && self.max_gso_segments() == 1 => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends the datagrams if that does not wait: with one system call, at most [`max_gso_segments`](Self::max_gso_segments) of them.
    ///
    /// # Errors
    /// `WouldBlock`: then [`writable`](Self::writable) waits. `InvalidInput` also for too many. Others as of [`send`](Self::send).
    pub fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let segment = transmit.segment()?;
        let payload = transmit.payload;
        if payload.len().div_ceil(segment) > self.max_gso_segments() || payload.len() > MOST_BYTES {
            return Err(ErrorKind::InvalidInput.into());
        }
        let part = transmit.part(payload, segment);
        self.io.try_write_with(|socket| self.state.try_send(socket.into(), &part))
    }

    /// Waits until there may be room to send.
    ///
    /// # Errors
    /// If the runtime has ended.
    ///
    /// # Cancel safety
    /// Loses nothing.
    pub async fn writable(&self) -> io::Result<()> {
        self.io.writable().await
    }

    /// Receives into as many of the buffers as there is something for, at least one and at most 32, with one system call; returns how many.
    /// (0 if there are none.)
    ///
    /// # Errors
    /// Errors of the operating system.
    ///
    /// # Cancel safety
    /// Loses no datagram.
    pub async fn recv(&self, received: &mut [Received<'_>]) -> io::Result<usize> {
        if received.is_empty() {
            return nothing::moved().await;
        }
        self.io.read_with(|socket| receive(&self.state, socket.into(), received)).await
    }

    /// As [`recv`](Self::recv), for one caller at a time: a later caller replaces an earlier one.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        received: &mut [Received<'_>],
    ) -> Poll<io::Result<usize>> {
        if received.is_empty() {
            return nothing::poll_moved(cx);
        }
        self.io.poll_read_with(cx, |socket| receive(&self.state, socket.into(), received))
    }

    /// How many datagrams one system call sends; 1 if the system has no offload.
    pub fn max_gso_segments(&self) -> usize {
        self.state.max_gso_segments().max(1)
    }

    /// How many datagrams a buffer may get; 1 if the system has no offload.
    pub fn gro_segments(&self) -> usize {
        self.state.gro_segments()
    }

    /// Whether the system may fragment all the same.
    pub fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    /// The socket's own address.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().local_addr()
    }
}

/// Receives into the first buffers, at least one; returns how many.
fn receive(
    state: &UdpSocketState,
    socket: UdpSockRef<'_>,
    received: &mut [Received<'_>],
) -> io::Result<usize> {
    let count = received.len().min(BATCH_SIZE);
    let mut metas = [RecvMeta::default(); BATCH_SIZE];
    let mut places = received.iter_mut().map(|one| &mut *one.buffer);
    let mut bufs: [_; BATCH_SIZE] =
        array::from_fn(|_| IoSliceMut::new(places.next().unwrap_or_default()));
    let n = state.recv(socket, &mut bufs[..count], &mut metas[..count])?;
    for (one, meta) in received.iter_mut().zip(metas).take(n) {
        one.meta = meta;
    }
    Ok(n)
}

/// It stays as the system has made it: it merges datagrams, and does not fragment. So there is no way back.
impl TryFrom<UdpSocket> for UdpOffload {
    type Error = io::Error;

    fn try_from(socket: UdpSocket) -> io::Result<Self> {
        let io = socket.io;
        let state = UdpSocketState::new(io.get_ref().into())?;
        Ok(Self { io, state })
    }
}

shows_file!([] UdpOffload, io);

impl fmt::Debug for UdpOffload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io.get_ref().fmt(f)
    }
}
