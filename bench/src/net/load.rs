//! The load: connections that each send a request, wait for the reply, and send the next. One thread, one epoll.

use core::{net::SocketAddr, time::Duration};
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::Instant,
};

/// The request, and the length of the reply in bytes.
pub(crate) struct Exchange {
    request: Vec<u8>,
    reply: usize,
}

/// 64 bytes each way.
pub(crate) fn echo() -> Exchange {
    Exchange { request: vec![b'x'; 64], reply: 64 }
}

/// A GET; a first request finds the length of the reply.
pub(crate) fn http(addr: SocketAddr) -> io::Result<Exchange> {
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
    let mut stream = TcpStream::connect(addr)?;
    stream.write_all(&request)?;
    let mut reply = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let n = stream.read(&mut buffer)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        reply.extend_from_slice(&buffer[..n]);
        if let Some(length) = length(&reply) {
            return Ok(Exchange { request, reply: length });
        }
    }
}

/// The length of a reply with `content-length`, once its head is there.
fn length(reply: &[u8]) -> Option<usize> {
    let head = reply.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let text = core::str::from_utf8(&reply[..head]).ok()?.to_ascii_lowercase();
    let (_, rest) = text.split_once("content-length:")?;
    let body: usize = rest.lines().next()?.trim().parse().ok()?;
    Some(head + body)
}

/// Open connections.
pub(crate) struct Load<'a> {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    exchange: &'a Exchange,
}

struct Connection {
    stream: TcpStream,
    sent: Instant,
    /// The bytes of the reply that are still to come.
    left: usize,
}

impl<'a> Load<'a> {
    pub(crate) fn new(
        addr: SocketAddr,
        connections: usize,
        exchange: &'a Exchange,
    ) -> io::Result<Self> {
        // SAFETY: a new descriptor with no other owner, or an error.
        let epoll = unsafe {
            match libc::epoll_create1(libc::EPOLL_CLOEXEC) {
                -1 => return Err(io::Error::last_os_error()),
                fd => OwnedFd::from_raw_fd(fd),
            }
        };
        let mut load = Self { epoll, connections: Vec::new(), exchange };
        for _ in 0..connections {
            load.connect(addr)?;
        }
        Ok(load)
    }

    fn connect(&mut self, addr: SocketAddr) -> io::Result<()> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
        let mut event = libc::epoll_event { events, u64: self.connections.len() as u64 };
        let (epoll, fd) = (self.epoll.as_raw_fd(), stream.as_raw_fd());
        // SAFETY: both descriptors are open, and the event is only read.
        if unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event) } == -1 {
            return Err(io::Error::last_os_error());
        }
        self.connections.push(Connection { stream, sent: Instant::now(), left: 0 });
        Ok(())
    }

    /// Loads the server for this time, and returns the time of each exchange in nanoseconds. All
    /// replies have come at the return.
    pub(crate) fn run(&mut self, time: Duration) -> io::Result<Vec<f64>> {
        let mut delays = Vec::with_capacity(1 << 20);
        let end = Instant::now() + time;
        for connection in &mut self.connections {
            connection.send(self.exchange)?;
        }
        let mut open = self.connections.len();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
        while open > 0 {
            for event in wait(&self.epoll, &mut events)? {
                let connection = &mut self.connections[event.u64 as usize];
                if !connection.receive()? {
                    continue;
                }
                delays.push(connection.sent.elapsed().as_nanos() as f64);
                if Instant::now() < end {
                    connection.send(self.exchange)?;
                } else {
                    open -= 1;
                }
            }
        }
        Ok(delays)
    }
}

impl Connection {
    fn send(&mut self, exchange: &Exchange) -> io::Result<()> {
        self.sent = Instant::now();
        self.left = exchange.reply;
        // The buffer of the socket is empty and larger than a request.
        self.stream.write_all(&exchange.request)
    }

    /// Whether the reply is complete.
    fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        while self.left > 0 {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.left = self.left.saturating_sub(n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Waits for events, and returns them.
pub(crate) fn wait<'a>(
    epoll: &OwnedFd,
    events: &'a mut [libc::epoll_event],
) -> io::Result<&'a [libc::epoll_event]> {
    // SAFETY: the kernel writes as many events as there is room for.
    let n = unsafe {
        libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, -1)
    };
    if n >= 0 {
        return Ok(&events[..n as usize]);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::Interrupted => Ok(&[]),
        error => Err(error),
    }
}
