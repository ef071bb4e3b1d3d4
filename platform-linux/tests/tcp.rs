//! TCP: what each method does.

mod tcp_common;

use core::{
    error::Error,
    future::poll_fn,
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use std::{
    io::{self, ErrorKind, IoSlice, IoSliceMut, Write as _},
    net::{self, Shutdown},
    os::fd::{AsRawFd, OwnedFd},
    sync::Arc,
};

use filch_linux::net::{Keepalive, TcpListener, TcpSocket, TcpStream, lookup_host};
use futures::{AsyncReadExt as _, AsyncWriteExt as _, join, poll};
use tcp_common::{foreign_pair, listen, local, pair, read_to_end, run, write_all};

#[test]
fn an_attempt_does_not_wait() {
    run(1, async {
        let (one, other) = pair().await;
        let mut buf = [0; 16];
        let would_block = |result: io::Result<usize>| {
            result.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        };
        assert!(would_block(one.try_read(&mut buf)));
        assert_eq!(one.try_read(&mut []).unwrap(), 0);
        assert!(poll!(core::pin::pin!(one.readable())).is_pending());
        other.writable().await.unwrap();
        assert_eq!(other.try_write(b"ping").unwrap(), 4);
        one.readable().await.unwrap();
        assert_eq!(one.try_read(&mut buf).unwrap(), 4);
        assert!(would_block(one.try_read(&mut buf)));
        // Full, and empty again.
        let block = vec![1; 1 << 20];
        let mut written = 0;
        while let Ok(n) = other.try_write(&block) {
            written += n;
        }
        assert!(poll!(core::pin::pin!(other.writable())).is_pending());
        let mut read = 0;
        while read < written {
            one.readable().await.unwrap();
            match one.try_read(&mut vec![0; 1 << 20]) {
                Ok(n) => read += n,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        other.writable().await.unwrap();
        drop(other);
        one.readable().await.unwrap();
        assert_eq!(one.try_read(&mut buf).unwrap(), 0);
    });
}

#[test]
fn connections_are_a_stream() {
    run(1, async {
        let (listener, addr) = listen().await;
        let accepts = filch_linux::spawn(async move {
            let three = futures::StreamExt::take(listener.incoming().into_stream(), 3);
            futures::TryStreamExt::try_collect::<Vec<_>>(three).await.unwrap().len()
        });
        for _ in 0..3 {
            TcpStream::connect(addr).await.unwrap();
        }
        assert_eq!(accepts.await.unwrap(), 3);
    });
}

#[test]
fn bytes_go_both_ways() {
    run(2, async {
        let (one, other) = pair().await;
        assert_eq!(one.write(b"ping").await.unwrap(), 4);
        let mut buf = [0; 16];
        assert_eq!(other.read(&mut buf).await.unwrap(), 4);
        assert_eq!(&buf[..4], b"ping");
        assert_eq!(other.write(b"pong!").await.unwrap(), 5);
        assert_eq!(one.peek(&mut buf[..2]).await.unwrap(), 2);
        assert_eq!(one.read(&mut buf).await.unwrap(), 5);
        assert_eq!(&buf[..5], b"pong!");
        drop(other);
        assert_eq!(one.read(&mut buf).await.unwrap(), 0);
        assert_eq!(one.read(&mut buf).await.unwrap(), 0, "the end stays");
    });
}

#[test]
fn what_fits_no_buffer_stays() {
    run(1, async {
        let (one, other) = pair().await;
        write_all(&one, b"abcdef").await;
        let mut buf = [0; 4];
        assert_eq!(other.read(&mut []).await.unwrap(), 0);
        assert_eq!(other.read_vectored(&mut []).await.unwrap(), 0);
        assert_eq!(other.read(&mut buf).await.unwrap(), 4);
        assert_eq!(other.read(&mut buf).await.unwrap(), 2);
        assert_eq!(&buf[..2], b"ef");
        assert_eq!(other.read(&mut []).await.unwrap(), 0, "no room is no wait");
        assert_eq!(one.write(b"").await.unwrap(), 0);
    });
}

#[test]
fn vectored() {
    run(1, async {
        let (one, other) = pair().await;
        let bufs = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")];
        assert_eq!(one.write_vectored(&bufs).await.unwrap(), 5);
        let (mut a, mut b) = ([0; 1], [0; 9]);
        let mut bufs = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
        assert_eq!(other.read_vectored(&mut bufs).await.unwrap(), 5);
        assert_eq!((&a[..], &b[..4]), (&b"a"[..], &b"bcde"[..]));

        // More buffers than the system takes at once are a short write.
        let many = vec![IoSlice::new(b"x"); 3_000];
        let n = one.write_vectored(&many).await.unwrap();
        assert!((1..=1_024).contains(&n), "{n}");
        assert_eq!(one.write_vectored(&many[..2]).await.unwrap(), 2);
        drop(one);
        assert_eq!(read_to_end(&other).await, vec![b'x'; n + 2]);
    });
}

#[test]
fn each_direction_is_shut_by_itself() {
    run(2, async {
        let (one, other) = pair().await;
        one.shutdown(Shutdown::Write).unwrap();
        assert_eq!(other.read(&mut [0; 8]).await.unwrap(), 0);
        assert_eq!(one.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        write_all(&other, b"still open").await;
        drop(other);
        assert_eq!(read_to_end(&one).await, b"still open");
    });
}

#[test]
fn closing_through_the_trait_is_half_a_close() {
    run(1, async {
        let (mut one, other) = pair().await;
        one.close().await.unwrap();
        one.close().await.unwrap();
        assert_eq!(other.read(&mut [0; 8]).await.unwrap(), 0);
        write_all(&other, b"x").await;
        assert_eq!(one.read(&mut [0; 8]).await.unwrap(), 1);
        // A reset works like a close.
        other.set_linger(Some(Duration::ZERO)).unwrap();
        drop(other);
        assert_eq!(one.read(&mut [0; 8]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        one.close().await.unwrap();
    });
}

#[test]
fn borrowed_halves() {
    run(2, async {
        let (mut one, other) = pair().await;
        let (mut reader, mut writer) = one.halves();
        let echo = async {
            let mut buf = [0; 8];
            let n = other.read(&mut buf).await.unwrap();
            write_all(&other, &buf[..n]).await;
        };
        let mut buf = [0; 8];
        let (read, wrote, ()) = join!(reader.read(&mut buf), writer.write(b"hello"), echo);
        assert_eq!(wrote.unwrap(), 5);
        assert_eq!(read.unwrap(), 5);
        writer.close().await.unwrap();
        assert_eq!(reader.as_ref().local_addr().unwrap(), other.peer_addr().unwrap());
        assert_eq!(other.read(&mut buf).await.unwrap(), 0);
        // With the traits of `futures` in scope too, the halves were borrowed.
        assert_eq!(one.peer_addr().unwrap(), other.local_addr().unwrap());
    });
}

#[test]
fn owned_halves() {
    run(2, async {
        let (one, other) = pair().await;
        let (mut reader, mut writer) = one.into_split();
        let reading = filch_linux::spawn(async move {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).await.unwrap();
            (reader, all)
        });
        writer.write_all(b"to the other").await.unwrap();
        let mut buf = [0; 32];
        assert_eq!(other.read(&mut buf).await.unwrap(), 12);
        drop(writer);
        assert_eq!(other.read(&mut buf).await.unwrap(), 0, "the dropped half has shut down");
        write_all(&other, b"to the one").await;
        drop(other);
        assert_eq!(reading.await.unwrap().1, b"to the one");
    });
}

#[test]
fn halves_find_together() {
    run(1, async {
        let (one, other) = pair().await;
        let addr = one.local_addr().unwrap();
        let ((reader1, writer1), (reader2, writer2)) = (one.into_split(), other.into_split());
        let error = reader1.reunite(writer2).unwrap_err();
        assert_eq!(error.to_string(), "the halves are not of one connection");
        let one = error.0.reunite(writer1).unwrap();
        let other = error.1.reunite(reader2).unwrap();
        assert_eq!(one.local_addr().unwrap(), addr);
        // Nothing was shut down.
        write_all(&one, b"x").await;
        write_all(&other, b"y").await;
        assert_eq!(other.read(&mut [0; 2]).await.unwrap(), 1);

        let (mut reader, writer) = one.into_split();
        writer.forget();
        assert_eq!(reader.read(&mut [0; 2]).await.unwrap(), 1);
        let mut buf = [0; 2];
        let mut reading = Box::pin(other.read(&mut buf));
        assert!(poll!(&mut reading).is_pending(), "still open");
    });
}

#[test]
fn bytes_behind_urgent_ones_are_read() {
    use rustix::net::SendFlags;
    run(1, async {
        let (one, other) = pair().await;
        write_all(&one, b"abc").await;
        rustix::net::send(&one, b"!", SendFlags::OOB).unwrap();
        write_all(&one, b"def").await;
        drop(one);
        // A read ends before the urgent byte, which is left out, though more bytes follow.
        assert_eq!(read_to_end(&other).await, b"abcdef");
    });
}

#[test]
fn outside_of_a_runtime_is_an_error() {
    use futures::executor::block_on;
    let server = net::TcpListener::bind(local()).unwrap();
    let addr = server.local_addr().unwrap();
    assert!(block_on(TcpListener::bind(local())).is_err());
    assert!(block_on(TcpStream::connect(addr)).is_err());
    assert!(block_on(TcpStream::connect_addr(addr)).is_err());
    assert!(block_on(lookup_host("localhost:80")).is_err());
    assert!(TcpStream::try_from(net::TcpStream::connect(addr).unwrap()).is_err());
    assert!(TcpListener::try_from(server).is_err());
}

#[test]
fn an_address_in_use_is_named() {
    run(1, async {
        let (_listener, addr) = listen().await;
        let error = TcpListener::bind(addr).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&addr.to_string()), "{error}");
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert!(source.is_some_and(|source| source.raw_os_error().is_some()), "{source:?}");

        // A listener does.
        let listener = TcpListener::bind([addr, local()]).await.unwrap();
        assert_ne!(listener.local_addr().unwrap(), addr);
        let error = TcpListener::bind([addr, addr]).await.unwrap_err().to_string();
        assert_eq!(error.matches(&addr.to_string()).count(), 2, "{error}");
        let error = TcpListener::bind(&[][..]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn an_address_can_be_taken_again_at_once() {
    run(1, async {
        let (listener, addr) = listen().await;
        let client = TcpStream::connect_addr(addr).await.unwrap();
        let (served, _) = listener.accept().await.unwrap();
        // The side that closes first keeps the address in TIME_WAIT.
        drop((served, listener));
        assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
        drop(client);
        TcpListener::bind(addr).await.unwrap();
    });
}

#[test]
fn ports_are_shared_if_both_say_so() {
    run(1, async {
        let share = |addr| {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_reuseport(true).unwrap();
            socket.bind(addr)?;
            socket.listen(16)
        };
        let first = share(local()).unwrap();
        let addr = first.local_addr().unwrap();
        let second = share(addr).unwrap();
        assert_eq!(second.local_addr().unwrap(), addr);
        assert_eq!(TcpListener::bind(addr).await.unwrap_err().kind(), ErrorKind::AddrInUse);
    });
}

#[test]
fn names_are_looked_up() {
    run(1, async {
        let (listener, addr) = listen().await;
        let named = ("localhost", addr.port());
        assert!(lookup_host(named).await.unwrap().contains(&addr));
        let stream = TcpStream::connect(format!("localhost:{}", addr.port())).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), addr);
        drop(listener.accept().await.unwrap());
        let error = TcpStream::connect("no port").await.unwrap_err();
        assert!(error.to_string().starts_with("cannot look up no port: "), "{error}");
    });
}

#[test]
fn accepting_by_polling() {
    run(1, async {
        let (listener, addr) = listen().await;
        let mut accepting = Box::pin(poll_fn(|cx| listener.poll_accept(cx)));
        assert!(poll!(&mut accepting).is_pending());
        let stream = TcpStream::connect(addr).await.unwrap();
        let (_, from) = accepting.await.unwrap();
        assert_eq!(from, stream.local_addr().unwrap());
    });
}

#[test]
fn many_tasks_accept() {
    const CLIENTS: usize = 200;
    run(2, async {
        let (listener, addr) = listen().await;
        let listener = Arc::new(listener);
        let servers: Vec<_> = (0..4)
            .map(|_| {
                let listener = Arc::clone(&listener);
                filch_linux::spawn(async move {
                    let mut incoming = listener.incoming();
                    for served in 0.. {
                        let (stream, _) = incoming.next().await.unwrap();
                        if stream.write(b"x").await.is_err() || read_to_end(&stream).await == b"end"
                        {
                            return served;
                        }
                    }
                    0
                })
            })
            .collect();
        for _ in 0..CLIENTS {
            let stream = TcpStream::connect(addr).await.unwrap();
            assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 1);
        }
        for _ in &servers {
            let stream = TcpStream::connect(addr).await.unwrap();
            write_all(&stream, b"end").await;
            stream.shutdown(Shutdown::Write).unwrap();
            // Unread bytes would turn the close into a reset.
            assert_eq!(read_to_end(&stream).await, b"x");
        }
        let mut sum = 0;
        for server in servers {
            sum += server.await.unwrap();
        }
        assert_eq!(sum, CLIENTS);
    });
}

#[test]
fn options_are_kept() {
    run(1, async {
        let (one, other) = pair().await;
        for on in [true, false] {
            one.set_nodelay(on).unwrap();
            assert_eq!(one.nodelay().unwrap(), on);
        }
        assert_eq!(one.keepalive().unwrap(), None);
        let keepalive = Keepalive::new()
            .idle(Duration::from_secs(60))
            .interval(Duration::from_secs(7))
            .count(3);
        one.set_keepalive(Some(&keepalive)).unwrap();
        assert_eq!(one.keepalive().unwrap(), Some(keepalive.clone()));
        one.set_keepalive(Some(&Keepalive::new().count(5))).unwrap();
        assert_eq!(one.keepalive().unwrap(), Some(keepalive.count(5)), "the rest as it was");
        one.set_keepalive(None).unwrap();
        assert_eq!(one.keepalive().unwrap(), None);
        let out_of_range = Keepalive::new().count(1_000);
        assert!(one.set_keepalive(Some(&out_of_range)).is_err());
        let short = Keepalive::new().idle(Duration::from_millis(1_001));
        one.set_keepalive(Some(&short)).unwrap();
        let rounded = one.keepalive().unwrap().unwrap();
        assert_eq!(rounded.clone().idle(Duration::from_secs(2)), rounded, "rounded up");

        one.set_linger(Some(Duration::ZERO)).unwrap();
        assert_eq!(one.linger().unwrap(), Some(Duration::ZERO));
        // A time that is too long for the system is not one of zero, which would be a reset.
        for long in
            [1 << 31, 1 << 32, u64::MAX].map(Duration::from_secs).into_iter().chain([Duration::MAX])
        {
            one.set_linger(Some(long)).unwrap();
            assert!(
                one.linger().unwrap() >= Some(Duration::from_secs(i32::MAX as u64)),
                "{long:?}"
            );
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_linger(Some(long)).unwrap();
            one.set_user_timeout(Some(long)).unwrap_err();
            assert!(one.set_keepalive(Some(&Keepalive::new().idle(long).interval(long))).is_err());
        }
        one.set_user_timeout(None).unwrap();
        one.set_keepalive(None).unwrap();
        one.set_linger(Some(Duration::from_millis(1))).unwrap();
        assert_eq!(one.linger().unwrap(), Some(Duration::from_secs(1)), "zero would be a reset");
        one.set_linger(None).unwrap();
        assert_eq!(one.linger().unwrap(), None);
        one.set_ttl(33).unwrap();
        assert_eq!(one.ttl().unwrap(), 33);
        assert!(one.set_ttl(0).is_err());
        one.set_traffic_class(0x88).unwrap();
        assert_eq!(one.traffic_class().unwrap(), 0x88);
        assert_eq!(one.set_traffic_class(256).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(one.user_timeout().unwrap(), None);
        for (set, kept) in [(Duration::from_nanos(1), 1), (Duration::from_micros(1_500), 2)] {
            one.set_user_timeout(Some(set)).unwrap();
            assert_eq!(one.user_timeout().unwrap(), Some(Duration::from_millis(kept)));
        }
        one.set_user_timeout(None).unwrap();
        assert_eq!(one.user_timeout().unwrap(), None);
        one.set_recv_buffer_size(10_000).unwrap();
        assert!(one.recv_buffer_size().unwrap() >= 10_000);
        one.set_send_buffer_size(20_000).unwrap();
        assert!(one.send_buffer_size().unwrap() >= 20_000);
        assert!(one.take_error().unwrap().is_none());
        assert_eq!(one.local_addr().unwrap(), other.peer_addr().unwrap());
    });
}

#[test]
fn options_before_the_connection() {
    run(1, async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_ttl(44).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_keepalive(Some(&Keepalive::new().idle(Duration::from_secs(9)))).unwrap();
        socket.set_recv_buffer_size(30_000).unwrap();
        socket.set_send_buffer_size(30_000).unwrap();
        socket.set_linger(Some(Duration::ZERO)).unwrap();
        socket.set_user_timeout(Some(Duration::from_secs(8))).unwrap();
        socket.set_traffic_class(0x20).unwrap();
        assert!(socket.bind_device(Some("no such device")).is_err());
        assert!(socket.set_only_v6(true).is_err(), "not a socket for IPv6");
        socket.bind(local()).unwrap();
        let addr = socket.local_addr().unwrap();
        let listener = socket.listen(8).unwrap();

        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(local()).unwrap();
        let from = socket.local_addr().unwrap();
        let client = socket.connect(addr).await.unwrap();
        assert_eq!(client.local_addr().unwrap(), from);

        let (served, _) = listener.accept().await.unwrap();
        assert_eq!(served.ttl().unwrap(), 44);
        assert!(served.nodelay().unwrap());
        assert!(served.keepalive().unwrap().is_some());
        assert!((30_000..).contains(&served.recv_buffer_size().unwrap()));
        assert_eq!(served.linger().unwrap(), Some(Duration::ZERO));
        assert_eq!(served.user_timeout().unwrap(), Some(Duration::from_secs(8)));
        assert_eq!(served.traffic_class().unwrap(), 0x20);
    });
}

#[test]
fn sockets_of_socket2_become_ours() {
    use socket2::{Domain, SockRef, Socket, Type};
    run(1, async {
        let new = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        // One that is new, one that listens, one that is connected.
        let listening = new();
        listening.bind(&local().into()).unwrap();
        listening.listen(8).unwrap();
        let listener = TcpListener::try_from(net::TcpListener::from(listening)).unwrap();
        SockRef::from(&listener).set_ttl_v4(9).unwrap();
        let addr = listener.local_addr().unwrap();

        let ours = TcpSocket::try_from(OwnedFd::from(new())).unwrap();
        let first = ours.connect(addr).await.unwrap();
        let connected = new();
        connected.connect(&addr.into()).unwrap();
        let second = TcpStream::try_from(net::TcpStream::from(connected)).unwrap();
        for client in [first, second] {
            let (served, _) = listener.accept().await.unwrap();
            assert_eq!(served.ttl().unwrap(), 9);
            assert_eq!(served.write(b"hello").await.unwrap(), 5);
            assert_eq!(client.read(&mut [0; 9]).await.unwrap(), 5);
        }
    });
}

#[test]
fn ipv6() {
    run(1, async {
        let addr = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 0));
        let socket = match TcpSocket::new_v6() {
            // This machine has none.
            Err(error) if error.kind() == ErrorKind::Unsupported => return,
            socket => socket.unwrap(),
        };
        socket.set_only_v6(true).unwrap();
        socket.set_ttl(55).unwrap();
        assert!(socket.set_ttl(256).is_err());
        assert!(socket.set_ttl(u32::MAX).is_err(), "it would be the default");
        socket.set_traffic_class(0x28).unwrap();
        assert!(socket.set_traffic_class(u32::MAX).is_err());
        if socket.bind(addr).is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable) {
            return;
        }
        let listener = socket.listen(8).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        assert!(client.peer_addr().unwrap().is_ipv6());
        let served = listener.accept().await.unwrap().0;
        assert_eq!((served.ttl().unwrap(), served.traffic_class().unwrap()), (55, 0x28));
        client.set_ttl(66).unwrap();
        assert_eq!(client.ttl().unwrap(), 66);
    });
}

#[test]
fn debug_tells_the_addresses() {
    run(1, async {
        let (listener, addr) = listen().await;
        assert!(format!("{listener:?}").contains(&addr.to_string()));
        let stream = TcpStream::connect(addr).await.unwrap();
        let text = format!("{stream:?}");
        assert!(text.contains(&addr.to_string()), "{text}");
        assert!(text.contains(&stream.local_addr().unwrap().to_string()), "{text}");
        let socket = TcpSocket::new_v4().unwrap();
        assert_eq!(format!("{socket:?}"), format!("TcpSocket {{ fd: {} }}", socket.as_raw_fd()));
    });
}

#[test]
fn accepted_descriptors_are_not_inherited_and_do_not_block() {
    use rustix::{
        fs::{OFlags, fcntl_getfl},
        io::{FdFlags, fcntl_getfd},
    };
    run(1, async {
        let (one, other) = pair().await;
        for stream in [one, other] {
            assert!(fcntl_getfd(&stream).unwrap().contains(FdFlags::CLOEXEC));
            assert!(fcntl_getfl(&stream).unwrap().contains(OFlags::NONBLOCK));
        }
    });
}

#[test]
fn ready_operations_give_way() {
    run(1, async {
        let (one, mut other) = foreign_pair().await;
        other.write_all(b"always there").unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let peeks = filch_linux::spawn({
            let stop = Arc::clone(&stop);
            async move {
                let mut peeks = 0_u64;
                // One worker: without a budget no other task would ever run.
                while !stop.load(Ordering::Relaxed) {
                    one.peek(&mut [0; 4]).await.unwrap();
                    peeks += 1;
                }
                peeks
            }
        });
        let stopper = filch_linux::spawn(async move { stop.store(true, Ordering::Relaxed) });
        stopper.await.unwrap();
        peeks.await.unwrap();
    });
}
