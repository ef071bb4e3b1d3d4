//! Datagrams.

use core::{
    task::{Context, Poll},
    time::Duration,
};
use std::{
    io,
    net::Shutdown,
    os::unix::net::{self, SocketAddr},
    path::Path,
};

use filch_std::task::consume_budget;
use rustix::{
    io::Errno,
    net::{RecvFlags, SocketType},
};

use super::addr;
use crate::{
    Async,
    net::{
        pause,
        sys::{self, NO_SIGNAL},
    },
};

/// A Unix socket for datagrams. Dropping it closes it; the file of its path, if it has one, stays: see [the module](super).
///
/// Unlike UDP it is reliable: a sender waits while the receiver's queue is full (on macOS and the BSDs [`send`](Self::send) fails instead,
/// as no event would end the wait), and datagrams arrive in order. But a datagram is received whole: bytes that there is no room for are
/// lost.
///
/// The methods take `&self`, so that tasks may share one socket: any number of them may wait to
/// send and to receive. An operation that is ready at once spends the task's budget, see
/// [`filch_std::task::consume_budget`].
///
/// ```
/// # filch_io::Builder::new().workers(1).build().unwrap().block_on(async {
/// let (a, b) = filch_io::net::UnixDatagram::pair()?;
/// a.send(b"one").await?;
/// a.send(b"two").await?;
/// let mut buffer = [0; 16];
/// assert_eq!(b.recv(&mut buffer).await?, 3);
/// assert_eq!(&buffer[..3], b"one");
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
///
/// Names:
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("filch-doc-datagram-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// # filch_io::Builder::new().workers(1).build().unwrap().block_on(async {
/// use core::future::poll_fn;
/// use std::{net::Shutdown, os::unix::net::SocketAddr};
/// use filch_io::net::UnixDatagram;
/// # let (server, client) = (dir.join("server"), dir.join("client"));
/// let addr = SocketAddr::from_pathname(&client)?;
/// let (a, b) = (UnixDatagram::bind(&server)?, UnixDatagram::bind_addr(&addr)?);
/// assert_eq!(a.local_addr()?.as_pathname(), Some(&*server));
/// let mut buffer = [0; 16];
/// b.send_to(b"one", &server).await?;
/// let (n, from) = a.recv_from(&mut buffer).await?;
/// assert_eq!((n, from.as_pathname()), (3, Some(&*client)));
/// a.send_to_addr(b"answer", &from).await?;
/// assert_eq!(b.recv(&mut buffer).await?, 6);
///
/// // One that is connected, in a `poll` of one's own:
/// let c = UnixDatagram::unbound()?;
/// c.connect_addr(&addr)?;
/// c.connect(&server)?;
/// assert_eq!(c.peer_addr()?.as_pathname(), Some(&*server));
/// poll_fn(|cx| c.poll_send(cx, b"two")).await?;
/// assert_eq!(poll_fn(|cx| a.poll_recv(cx, &mut buffer)).await?, 3);
/// a.shutdown(Shutdown::Read)?;
/// assert!(c.send(b"three").await.is_err());
/// assert!(c.take_error()?.is_none());
/// let c: std::os::unix::net::UnixDatagram = c.into_std()?;
/// let c = UnixDatagram::from_std(c)?;
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// # std::fs::remove_dir_all(dir)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct UnixDatagram {
    pub(in crate::net) io: Async<net::UnixDatagram>,
}

impl UnixDatagram {
    /// Binds a socket to this path, and creates the file.
    ///
    /// # Errors
    /// `AddrInUse` if the file exists, even if its socket is closed: see [the module](super). Other
    /// errors of the operating system, with the path in the text; the calling thread is in no
    /// runtime.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::bind_addr(&SocketAddr::from_pathname(path)?)
    }

    /// As [`bind`](Self::bind), also to abstract names.
    ///
    /// # Errors
    /// `AddrInUse` if there is such a file or name, and other errors of the operating system, with the name in the text; the calling thread is in no runtime.
    pub fn bind_addr(addr: &SocketAddr) -> io::Result<Self> {
        let socket = addr::socket(SocketType::DGRAM)?;
        addr::bind(&socket, addr)?;
        Ok(Self { io: Async::new_nonblocking(socket.into())? })
    }

    /// A socket without a name. It can send, but receivers cannot reply to it.
    ///
    /// # Errors
    /// Errors of the operating system; the calling thread is in no runtime.
    pub fn unbound() -> io::Result<Self> {
        Ok(Self { io: Async::new_nonblocking(addr::socket(SocketType::DGRAM)?.into())? })
    }

    /// Two sockets that are connected to each other.
    ///
    /// # Errors
    /// Errors of the operating system; the calling thread is in no runtime.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = sys::pair(SocketType::DGRAM)?;
        let watched = |fd: rustix::fd::OwnedFd| Async::new_nonblocking(fd.into());
        Ok((Self { io: watched(one)? }, Self { io: watched(other)? }))
    }

    /// From now on the socket sends to this path, and receives only from it. Sends nothing.
    ///
    /// # Errors
    /// `NotFound` if there is no such file, `ConnectionRefused` if its socket is closed, and other
    /// errors of the operating system, with the path in the text.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.connect_addr(&SocketAddr::from_pathname(path)?)
    }

    /// As [`connect`](Self::connect), also to abstract names.
    ///
    /// # Errors
    /// `NotFound` or `ConnectionRefused` if there is no such socket, and other errors of the operating system, with the name in the text.
    pub fn connect_addr(&self, addr: &SocketAddr) -> io::Result<()> {
        let to = addr::for_system(addr)?;
        rustix::net::connect(self.io.get_ref(), &to)
            .map_err(|error| addr::cannot_connect(addr, error.into()))
    }

    /// Sends a datagram to the socket that it is connected to; returns its length. Waits until
    /// there is room. Cost: one system call.
    ///
    /// # Errors
    /// Errors of the operating system: the datagram is too long, the peer is closed
    /// (`ConnectionRefused`, `ConnectionReset`), there is no peer.
    ///
    /// # Cancel safety
    /// If it is dropped before it is ready, it has sent nothing.
    pub async fn send(&self, payload: &[u8]) -> io::Result<usize> {
        self.io.write_with(|socket| send(socket, payload)).await
    }

    /// Sends a datagram to the socket at this path; returns its length. Waits until there is room.
    /// Cost: one system call.
    ///
    /// The system does not report when there is room at a socket that this one is not connected to.
    /// So the send is tried again after 1 ms, then after 2, up to 100. Use
    /// [`connect`](Self::connect) if that is too slow.
    ///
    /// # Errors
    /// As [`send`](Self::send), and as [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// As [`send`](Self::send).
    pub async fn send_to(&self, payload: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        consume_budget().await;
        self.send_on(payload, &SocketAddr::from_pathname(path)?).await
    }

    /// As [`send_to`](Self::send_to), also to abstract names.
    ///
    /// # Errors
    /// As [`send`](Self::send), and as [`connect_addr`](Self::connect_addr).
    ///
    /// # Cancel safety
    /// If it is dropped before it is ready, it has sent nothing.
    pub async fn send_to_addr(&self, payload: &[u8], addr: &SocketAddr) -> io::Result<usize> {
        consume_budget().await;
        self.send_on(payload, addr).await
    }

    /// After a unit of budget: once it has sent there must be no wait at which the future could be dropped.
    async fn send_on(&self, payload: &[u8], addr: &SocketAddr) -> io::Result<usize> {
        let to = addr::for_system(addr)?;
        let mut rest = Duration::from_millis(1);
        loop {
            match rustix::net::sendto(&self.io, payload, NO_SIGNAL, &to) {
                // Epoll does not help: it reports only this socket's own buffer, and every failed
                // attempt is an edge of it.
                Err(error) if is_full(error) => {
                    pause::sleep(rest).await?;
                    rest = (rest * 2).min(Duration::from_millis(100));
                }
                Err(Errno::INTR) => {}
                result => return result.map_err(|error| addr::cannot_send(addr, error.into())),
            }
        }
    }

    /// Receives a datagram; returns its length. Cost: one system call.
    ///
    /// # Errors
    /// Errors of the operating system.
    ///
    /// # Cancel safety
    /// Loses no datagram.
    pub async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.read_with(|socket| receive(socket, buf)).await
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

    /// As [`send`](Self::send), for one caller at a time: a later caller replaces an earlier one.
    ///
    /// # Errors
    /// Errors of the operating system: the datagram is too long, the peer is closed, there is no peer.
    pub fn poll_send(&self, cx: &mut Context<'_>, payload: &[u8]) -> Poll<io::Result<usize>> {
        self.io.poll_write_with(cx, |socket| send(socket, payload))
    }

    /// As [`recv`](Self::recv), for one caller at a time: a later caller replaces an earlier one.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.io.poll_read_with(cx, |socket| receive(socket, buf))
    }

    /// The address that it is connected to.
    ///
    /// # Errors
    /// Errors of the operating system; it is not connected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().peer_addr()
    }

    /// Shuts one direction down, or both. After `Read` a receive returns 0 when the queue is empty;
    /// senders get an error.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.get_ref().shutdown(how)
    }
}

/// The receiver's queue is full, as the system says it.
fn is_full(error: Errno) -> bool {
    error == Errno::AGAIN || cfg!(not(target_os = "linux")) && error == Errno::NOBUFS
}

fn send(socket: &net::UnixDatagram, payload: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, payload, NO_SIGNAL)?)
}

fn receive(socket: &net::UnixDatagram, buf: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, buf, RecvFlags::empty())?.0)
}
