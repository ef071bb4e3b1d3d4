//! Connecting: to one address, and to the first that answers of several.

use core::{
    future::poll_fn,
    net::SocketAddr,
    task::{Context, Poll},
    time::Duration,
};
use std::{io, net};

use rustix::{io::Errno, net::sockopt};

use super::{socket::TcpSocket, stream::TcpStream};
use crate::{
    async_fd::Async,
    net::{failures::Failures, pause},
};

/// How long an address is tried before the next is tried as well: RFC 8305, section 5.
const HEAD_START: Duration = Duration::from_millis(250);

/// Connects to the first address that answers, as in RFC 8305 ("happy eyeballs"): the families take
/// turns, each attempt has a head start of 250 ms, and a failure starts the next at once. The other
/// attempts are closed.
pub(super) async fn connect_first(addrs: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut left = take_turns(addrs).into_iter();
    let mut under_way = Vec::new();
    let mut failures = Failures::default();
    loop {
        match left.next() {
            Some(addr) => match TcpSocket::for_addr(&addr).and_then(|socket| socket.start(addr)) {
                Ok(attempt) => under_way.push(attempt),
                Err(error) => {
                    failures.push(addr, error);
                    continue;
                }
            },
            None if under_way.is_empty() => return Err(failures.into_error("cannot connect to")),
            None => {}
        }
        let finished = first_of(&mut under_way);
        let finished = match left.len() {
            0 => Some(finished.await),
            _ => pause::within(HEAD_START, finished).await?,
        };
        match finished {
            Some((attempt, Ok(()))) => return Ok(TcpStream { io: attempt.io }),
            Some((attempt, Err(error))) => failures.push(attempt.addr, error),
            None => {}
        }
    }
}

/// The first attempt that ends, in success or failure.
async fn first_of(under_way: &mut Vec<Connecting>) -> (Connecting, io::Result<()>) {
    poll_fn(|cx| {
        for at in 0..under_way.len() {
            if let Poll::Ready(result) = under_way[at].poll(cx) {
                return Poll::Ready((under_way.swap_remove(at), result));
            }
        }
        Poll::Pending
    })
    .await
}

/// Orders the addresses so that the families take turns, beginning with that of the first address.
/// The order within a family stays.
fn take_turns(addrs: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = addrs.first().map(SocketAddr::is_ipv4) else { return addrs };
    let mut ones = addrs.iter().filter(|addr| addr.is_ipv4() == first);
    let mut others = addrs.iter().filter(|addr| addr.is_ipv4() != first);
    let mut turns = Vec::with_capacity(addrs.len());
    while turns.len() < addrs.len() {
        turns.extend(ones.next());
        turns.extend(others.next());
    }
    turns
}

/// A socket that is connecting to an address.
pub(super) struct Connecting {
    io: Async<net::TcpStream>,
    addr: SocketAddr,
}

impl Connecting {
    /// The socket must not block.
    pub(super) fn start(socket: net::TcpStream, addr: SocketAddr) -> io::Result<Self> {
        match rustix::net::connect(&socket, &addr) {
            // A connect that a signal interrupts goes on.
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            #[cfg(windows)]
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(error.into()),
        }
        // Not before `connect`: until then a socket counts as hung up, and that would stay.
        Ok(Self { io: Async::new_nonblocking(socket)?, addr })
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_write_with(cx, has_connected)
    }

    pub(super) async fn connected(self) -> io::Result<TcpStream> {
        self.io.write_with(has_connected).await?;
        Ok(TcpStream { io: self.io })
    }
}

/// `WouldBlock` if it is still connecting.
fn has_connected(socket: &net::TcpStream) -> io::Result<()> {
    // Read before the check below: an error that comes in between makes another edge.
    sockopt::socket_error(socket)??;
    match rustix::net::getpeername(socket) {
        Ok(_) => Ok(()),
        Err(Errno::NOTCONN) => Err(io::ErrorKind::WouldBlock.into()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let v4 = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let v6 = |port| SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], port));
        let mixed = vec![v6(1), v6(2), v6(3), v4(4), v4(5)];
        assert_eq!(take_turns(mixed), [v6(1), v4(4), v6(2), v4(5), v6(3)]);
        assert_eq!(take_turns(vec![v4(1), v4(2), v6(3)]), [v4(1), v6(3), v4(2)]);
        assert_eq!(take_turns(vec![v4(1), v4(2)]), [v4(1), v4(2)]);
        assert_eq!(take_turns(vec![]), []);
    }
}
