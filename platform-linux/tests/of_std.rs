//! Sockets and pipes come from the standard library and go back: what waits in them is kept, and so is what they are connected to. They do
//! not block while they are here, nor afterwards, unless that is said.

mod os_common;

use std::{
    io::{ErrorKind, Read, Write},
    net,
    os::{fd::AsFd, linux::net::SocketAddrExt, unix::net as unix},
};

use filch_linux::{
    net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream},
    pipe::{Receiver, Sender},
};
use os_common::{run, watchdog};
use rustix::{fs::OFlags, pipe::PipeFlags};

fn blocks(fd: impl AsFd) -> bool {
    !rustix::fs::fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK)
}

fn tcp_pair() -> (net::TcpStream, net::TcpStream) {
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

fn udp_pair() -> (net::UdpSocket, net::UdpSocket) {
    let bind = || net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (one, other) = (bind(), bind());
    one.connect(other.local_addr().unwrap()).unwrap();
    other.connect(one.local_addr().unwrap()).unwrap();
    (one, other)
}

macro_rules! streams {
    ($($name:ident: $stream:ident, $pair:expr;)*) => {$(
        #[test]
        fn $name() {
            run(1, async {
                let (socket, mut peer) = $pair;
                peer.write_all(b"first, second").unwrap();
                assert!(blocks(&socket));
                let addrs = format!("{:?}", (socket.local_addr(), socket.peer_addr()));

                let stream = $stream::from_std(socket).unwrap();
                assert!(!blocks(&stream));
                assert_eq!(format!("{:?}", (stream.local_addr(), stream.peer_addr())), addrs);
                let mut buf = [0; 5];
                stream.read_exact(&mut buf).await.unwrap();
                assert_eq!(&buf, b"first");

                let mut socket = stream.into_std().unwrap();
                assert!(!blocks(&socket));
                let mut rest = [0; 16];
                assert_eq!(socket.read(&mut rest).unwrap(), 8);
                assert_eq!(&rest[..8], b", second");
                assert_eq!(socket.read(&mut rest).unwrap_err().kind(), ErrorKind::WouldBlock);

                // Here again: nothing of the first stay is left, and it waits.
                socket.set_nonblocking(false).unwrap();
                let stream = $stream::from_std(socket).unwrap();
                assert!(!blocks(&stream));
                let writing = filch_linux::spawn_blocking(move || {
                    peer.write_all(b"third").unwrap();
                    let mut end = Vec::new();
                    peer.read_to_end(&mut end).unwrap();
                    end
                });
                stream.read_exact(&mut buf).await.unwrap();
                assert_eq!(&buf, b"third");
                stream.write_all(b"end").await.unwrap();
                drop(stream);
                assert_eq!(writing.await.unwrap(), b"end");
            });
        }
    )*};
}

streams! {
    tcp_streams: TcpStream, tcp_pair();
    unix_streams: UnixStream, unix::UnixStream::pair().unwrap();
}

macro_rules! datagrams {
    ($($name:ident: $datagrams:ident, $pair:expr;)*) => {$(
        #[test]
        fn $name() {
            run(1, async {
                let (socket, peer) = $pair;
                peer.send(b"first").unwrap();
                peer.send(b"second").unwrap();
                let addrs = format!("{:?}", (socket.local_addr(), socket.peer_addr()));

                let here = $datagrams::from_std(socket).unwrap();
                assert!(!blocks(&here));
                assert_eq!(format!("{:?}", (here.local_addr(), here.peer_addr())), addrs);
                let mut buf = [0; 16];
                assert_eq!(here.recv(&mut buf).await.unwrap(), 5);
                assert_eq!(&buf[..5], b"first");

                let socket = here.into_std().unwrap();
                assert!(!blocks(&socket));
                assert_eq!(socket.recv(&mut buf).unwrap(), 6);
                assert_eq!(&buf[..6], b"second");
                assert_eq!(socket.recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);

                socket.set_nonblocking(false).unwrap();
                let here = $datagrams::from_std(socket).unwrap();
                assert!(!blocks(&here));
                here.send(b"third").await.unwrap();
                assert_eq!(peer.recv(&mut buf).unwrap(), 5);
                assert_eq!(&buf[..5], b"third");
            });
        }
    )*};
}

datagrams! {
    udp: UdpSocket, udp_pair();
    unix_datagrams: UnixDatagram, unix::UnixDatagram::pair().unwrap();
}

macro_rules! listeners {
    ($($name:ident: $listener:ident, $bound:expr, $connect:expr;)*) => {$(
        #[test]
        fn $name() {
            run(1, async {
                let socket = $bound;
                let addr = socket.local_addr().unwrap();
                let connect = || $connect(&addr).unwrap();
                let (mut first, _second) = (connect(), connect());
                first.write_all(b"first").unwrap();

                let listener = $listener::from_std(socket).unwrap();
                assert!(!blocks(&listener));
                assert_eq!(format!("{:?}", listener.local_addr().unwrap()), format!("{addr:?}"));
                let (stream, _) = listener.accept().await.unwrap();
                assert!(!blocks(&stream));
                let mut buf = [0; 5];
                stream.read_exact(&mut buf).await.unwrap();
                assert_eq!(&buf, b"first");

                let socket = listener.into_std().unwrap();
                assert!(!blocks(&socket));
                socket.accept().unwrap();
                assert_eq!(socket.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
                socket.set_nonblocking(false).unwrap();
                let listener = $listener::from_std(socket).unwrap();
                let _third = connect();
                listener.accept().await.unwrap();
            });
        }
    )*};
}

fn abstract_listener() -> unix::UnixListener {
    let name = format!("filch-test-of-std-{}", std::process::id());
    unix::UnixListener::bind_addr(&unix::SocketAddr::from_abstract_name(name).unwrap()).unwrap()
}

listeners! {
    tcp_listeners: TcpListener, net::TcpListener::bind("127.0.0.1:0").unwrap(), net::TcpStream::connect;
    unix_listeners: UnixListener, abstract_listener(), unix::UnixStream::connect_addr;
}

#[test]
fn pipes() {
    run(1, async {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
        assert!(blocks(&reader) && blocks(&writer));
        rustix::io::write(&writer, b"first, second").unwrap();

        let receiver = Receiver::from_owned_fd(reader).unwrap();
        let sender = Sender::from_owned_fd(writer).unwrap();
        assert!(!blocks(&receiver) && !blocks(&sender));
        let mut buf = [0; 5];
        receiver.read_exact(&mut buf).await.unwrap();
        assert_eq!(&buf, b"first");

        let reader = receiver.into_nonblocking_fd().unwrap();
        assert!(!blocks(&reader));
        let mut rest = [0; 16];
        assert_eq!(rustix::io::read(&reader, &mut rest[..]).unwrap(), 8);
        let none = rustix::io::read(&reader, &mut rest[..]).unwrap_err();
        assert_eq!(none, rustix::io::Errno::AGAIN);
        let writer = sender.into_blocking_fd().unwrap();
        assert!(blocks(&writer));

        // Each is an end of its own.
        let (reader, writer) = (
            Sender::from_owned_fd(reader).unwrap_err(),
            Receiver::from_owned_fd(writer).unwrap_err(),
        );
        assert_eq!([reader.kind(), writer.kind()], [ErrorKind::InvalidInput; 2]);
    });
}

#[test]
fn outside_of_a_runtime_a_socket_is_refused_and_closed() {
    let _watchdog = watchdog();
    let (socket, mut peer) = tcp_pair();
    assert!(TcpStream::from_std(socket).unwrap_err().to_string().contains("runtime"));
    assert_eq!(peer.read(&mut [0; 8]).unwrap(), 0);
    let (socket, mut peer) = unix::UnixStream::pair().unwrap();
    assert!(UnixStream::from_std(socket).unwrap_err().to_string().contains("runtime"));
    assert_eq!(peer.read(&mut [0; 8]).unwrap(), 0);
}
