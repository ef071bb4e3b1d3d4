//! What the tests of TCP share.
#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

#[path = "../common/mod.rs"]
mod all;

use core::net::SocketAddr;
use std::{collections::HashSet, net, thread};

pub(crate) use all::{rng, run, run_pausable, watchdog};

use filch_linux::net::{TcpListener, TcpStream};
use rustix::net::{AddressFamily, SocketType};

pub(crate) fn local() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

pub(crate) async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(local()).await.unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

/// Both ends of a connection.
pub(crate) async fn pair() -> (TcpStream, TcpStream) {
    let (listener, addr) = listen().await;
    let one = TcpStream::connect(addr).await.unwrap();
    let (other, from) = listener.accept().await.unwrap();
    assert_eq!(from, one.local_addr().unwrap());
    (one, other)
}

/// One end of a connection, and the other end outside of any runtime.
pub(crate) async fn foreign_pair() -> (TcpStream, net::TcpStream) {
    let (one, other) = pair().await;
    let other = other.into_std().unwrap();
    other.set_nonblocking(false).unwrap();
    (one, other)
}

pub(crate) async fn write_all(stream: &TcpStream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let n = stream.write(bytes).await.unwrap();
        bytes = &bytes[n..];
    }
}

pub(crate) async fn read_to_end(stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buf = [0; 4096];
    loop {
        match stream.read(&mut buf).await.unwrap() {
            0 => return all,
            n => all.extend(&buf[..n]),
        }
    }
}

/// A listener that never answers: one connection fills its backlog, and the system drops later
/// ones.
pub(crate) struct Blackhole {
    pub(crate) addr: SocketAddr,
    listener: net::TcpListener,
    _in_the_way: net::TcpStream,
}

pub(crate) fn blackhole(at: SocketAddr) -> Blackhole {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let listener = rustix::net::socket(family, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &at).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let listener = net::TcpListener::from(listener);
    let addr = listener.local_addr().unwrap();
    let _in_the_way = net::TcpStream::connect(addr).unwrap();
    Blackhole { addr, listener, _in_the_way }
}

impl Blackhole {
    /// Accepts after all: the connection that fills the backlog, and one more.
    pub(crate) fn accept_two(self) -> thread::JoinHandle<()> {
        thread::spawn(move || {
            drop(self.listener.accept().unwrap());
            drop(self.listener.accept().unwrap());
        })
    }
}

/// The number of sockets that are connecting to this address (IPv4). The kernel repeats a line if a socket comes into being
/// elsewhere while it is read: a socket is counted once, by its own address.
pub(crate) fn under_way_to(addr: SocketAddr) -> usize {
    let to = format!(":{:04X}", addr.port());
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let connecting = table.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (own, peer, state) = (fields.next()?, fields.next()?, fields.next()?);
        // State 02 is SYN_SENT.
        (peer.ends_with(&to) && state == "02").then_some(own)
    });
    connecting.collect::<HashSet<_>>().len()
}

/// An address without a listener. The socket keeps it reserved.
pub(crate) fn refusing() -> (SocketAddr, rustix::fd::OwnedFd) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &local()).unwrap();
    (rustix::net::getsockname(&socket).unwrap().try_into().unwrap(), socket)
}
