//! No runtime at all: one thread, epoll, a buffer.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    thread,
};

use super::load::wait;

const LISTENER: u64 = u64::MAX;

pub(crate) fn echo(listener: TcpListener) {
    thread::spawn(move || serve(&listener).expect("epoll works"));
}

fn serve(listener: &TcpListener) -> io::Result<()> {
    // SAFETY: a new descriptor with no other owner, or an error.
    let epoll = unsafe {
        match libc::epoll_create1(libc::EPOLL_CLOEXEC) {
            -1 => return Err(io::Error::last_os_error()),
            fd => OwnedFd::from_raw_fd(fd),
        }
    };
    add(&epoll, listener.as_raw_fd(), LISTENER)?;
    let mut streams: Vec<TcpStream> = Vec::new();
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
    loop {
        for event in wait(&epoll, &mut events)? {
            if event.u64 == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                add(&epoll, stream.as_raw_fd(), streams.len() as u64)?;
                streams.push(stream);
            } else if back(&mut streams[event.u64 as usize]).is_err() {
                return Ok(());
            }
        }
    }
}

/// Level-triggered, so that one read is enough.
fn add(epoll: &OwnedFd, fd: RawFd, token: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
    // SAFETY: both descriptors are open, and the event is only read.
    match unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The clients close all connections at once at the end.
fn back(stream: &mut TcpStream) -> io::Result<()> {
    let mut buffer = [0; 1024];
    match stream.read(&mut buffer)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        n => stream.write_all(&buffer[..n]),
    }
}
