//! A socket that TCP streams come from.

use core::{
    future,
    net::SocketAddr,
    task::{Context, Poll, ready},
};
use std::{io, net};

use filch_linux::io::Direction;
use socket2::{Domain, Protocol, Socket, Type};

use super::stream::TcpStream;
use crate::{
    io::{Interest, source::Source},
    net::{
        addr::{ToSocketAddrs, first},
        macros::of_std,
    },
};

/// A socket that TCP streams come from.
pub struct TcpListener {
    io: Source<net::TcpListener>,
}

of_std!(TcpListener, net::TcpListener, SocketAddr);

/// How many streams wait to be accepted.
const BACKLOG: i32 = 1_024;

impl TcpListener {
    /// A listener at the first address that can be bound.
    ///
    /// # Errors
    /// The last one, if none can be bound.
    pub async fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<Self> {
        first(addr, |addr| future::ready(listen(addr).and_then(Self::over))).await
    }

    /// The next stream, and its address.
    ///
    /// # Errors
    /// Those of the operating system; if the runtime has ended.
    ///
    /// # Cancel safety
    /// Dropping it loses no stream.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, addr) = self.io.async_io(Interest::READABLE, accept).await?;
        Ok((TcpStream::accepted(stream)?, addr))
    }

    /// As [`accept`](Self::accept), for use in a `poll` function; it wakes the task that called last.
    ///
    /// # Errors
    /// As there.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let (stream, addr) = ready!(self.io.poll_io(cx, Direction::Read, accept))?;
        Poll::Ready(Ok((TcpStream::accepted(stream)?, addr)))
    }

    /// How many hops packets may make.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn ttl(&self) -> io::Result<u32> {
        self.io.ttl()
    }

    /// How many hops packets may make.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.io.set_ttl(ttl)
    }
}

/// One stream, which does not block.
fn accept(listener: &net::TcpListener) -> io::Result<(net::TcpStream, SocketAddr)> {
    // By `accept4`, which sets the flag.
    let flags = rustix::net::SocketFlags::NONBLOCK | rustix::net::SocketFlags::CLOEXEC;
    let (stream, addr) = rustix::net::acceptfrom_with(listener, flags)?;
    let addr = addr.and_then(|addr| SocketAddr::try_from(addr).ok());
    let stream = net::TcpStream::from(stream);
    let addr = addr.map_or_else(|| stream.peer_addr(), Ok)?;
    Ok((stream, addr))
}

fn listen(addr: SocketAddr) -> io::Result<net::TcpListener> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new_raw(Domain::for_address(addr), kind, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
