//! How to wait for a file that other processes share.

use core::{
    fmt,
    task::{Context, Poll},
};
use std::{
    io::{self, IsTerminal},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use filch_io::nothing;
use filch_std::Handle;
use rustix::{
    fs::{FileType, Mode, OFlags},
    net::{RecvFlags, SendFlags},
};

use super::pooled::{Reader, Writer};
use crate::Async;

/// A file to read from.
pub(super) struct Input(Way<Reader>);

/// A file to write to.
pub(super) struct Output(Way<Writer>);

enum Way<T> {
    /// The same file, opened anew.
    Reopened(Async<OwnedFd>),
    /// Another descriptor of the same socket, which blocks unless the call asks it not to.
    Socket(Async<OwnedFd>),
    Pool(T),
}

impl Input {
    pub(super) fn open(file: impl AsFd + IsTerminal) -> io::Result<Self> {
        Way::open(file, OFlags::RDONLY, Reader::new).map(Self)
    }

    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            _ if buf.is_empty() => nothing::poll_moved(cx),
            Way::Reopened(io) => io.poll_read_with(cx, |fd| Ok(rustix::io::read(fd, &mut *buf)?)),
            Way::Socket(io) => io.poll_read_with(cx, |fd| {
                Ok(rustix::net::recv(fd, &mut *buf, RecvFlags::DONTWAIT)?.0)
            }),
            Way::Pool(reader) => reader.poll_read(cx, buf),
        }
    }
}

impl Output {
    pub(super) fn open(file: impl AsFd + IsTerminal) -> io::Result<Self> {
        Way::open(file, OFlags::WRONLY, Writer::new).map(Self)
    }

    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match &mut self.0 {
            Way::Reopened(io) => io.poll_write_with(cx, |fd| Ok(rustix::io::write(fd, buf)?)),
            Way::Socket(io) => io.poll_write_with(cx, |fd| Ok(rustix::net::send(fd, buf, flags)?)),
            Way::Pool(writer) => writer.poll_write(cx, buf),
        }
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Way::Pool(writer) => writer.poll_flush(cx),
            _ => nothing::poll_moved(cx),
        }
    }
}

impl<T> Way<T> {
    fn open(
        file: impl AsFd + IsTerminal,
        access: OFlags,
        pool: impl FnOnce(OwnedFd, Handle) -> T,
    ) -> io::Result<Self> {
        let handle = Handle::current().map_err(io::Error::other)?;
        let fd = file.as_fd();
        let stat = rustix::fs::fstat(fd)?;
        let watched = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Socket => watch(fd.try_clone_to_owned()?).map(Self::Socket),
            FileType::Fifo => reopen(fd, access).and_then(watch).map(Self::Reopened),
            FileType::CharacterDevice if file.is_terminal() && !is_master(stat.st_rdev) => {
                reopen(fd, access).and_then(watch).map(Self::Reopened)
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        };
        // Whatever failed, a thread works.
        watched.or_else(|_| Ok(Self::Pool(pool(fd.try_clone_to_owned()?, handle))))
    }
}

/// Each opens its own file: it is non-blocking only for this process, and one epoll may watch both.
fn reopen(fd: BorrowedFd<'_>, access: OFlags) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn watch(fd: OwnedFd) -> io::Result<Async<OwnedFd>> {
    Async::new_nonblocking(fd)
}

/// The master of a pseudo-terminal: opening it anew would make another one.
fn is_master(device: u64) -> bool {
    (rustix::fs::major(device), rustix::fs::minor(device)) == (5, 2)
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> fmt::Debug for Way<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reopened(_) => "Reopened",
            Self::Socket(_) => "Socket",
            Self::Pool(_) => "Pool",
        })
    }
}
