//! Unix sockets: streams, listeners, datagrams.
//!
//! No test here starts a process: until a child executes its program, its copies of the descriptors
//! would keep sockets open that a test has dropped.

mod os_common;

use core::{pin::pin, task::Poll};
use std::{
    io::{ErrorKind, IoSlice, IoSliceMut},
    net::Shutdown,
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{self, SocketAddr},
    },
    sync::Arc,
};

use filch_linux::net::{UnixDatagram, UnixListener, UnixStream};
use futures::io::{AsyncReadExt, AsyncWriteExt};
use os_common::{once, rng, run, scratch, until};

async fn write_all(stream: &UnixStream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let n = stream.write(bytes).await.unwrap();
        bytes = &bytes[n..];
    }
}

async fn read_to_end(stream: &UnixStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buf = [0; 4096];
    loop {
        match stream.read(&mut buf).await.unwrap() {
            0 => return all,
            n => all.extend(&buf[..n]),
        }
    }
}

#[test]
fn whole_buffers_are_read_and_written() {
    let mut rng = rng();
    run(2, async {
        let (one, other) = UnixStream::pair().unwrap();
        // More than a socket's buffer takes at once.
        let sent: Vec<u8> = (0..500_000).map(|_| rng.u8(..)).collect();
        let expected = sent.clone();
        let (_reader, mut writer) = one.into_split();
        let writing = filch_linux::spawn(async move { writer.write_all(&sent).await });
        let mut received = vec![0; expected.len()];
        other.read_exact(&mut received).await.unwrap();
        assert!(received == expected);
        writing.await.unwrap().unwrap();
        // The dropped half has ended the stream.
        let error = other.read_exact(&mut [0; 1]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        other.read_exact(&mut []).await.unwrap();
    });
}

#[test]
fn connections_by_path_carry_every_byte() {
    let mut rng = rng();
    let scratch = scratch("connections_by_path");
    let path = scratch.0.join("socket");
    run(2, async {
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(listener.local_addr().unwrap().as_pathname(), Some(&*path));
        let serving = filch_linux::spawn(async move {
            let mut incoming = listener.incoming();
            for _ in 0..200 {
                let (stream, from) = incoming.next().await.unwrap();
                assert!(from.is_unnamed());
                filch_linux::spawn(async move {
                    let mut buf = [0; 3_001];
                    loop {
                        match stream.read(&mut buf).await.unwrap() {
                            0 => break,
                            n => write_all(&stream, &buf[..n]).await,
                        }
                    }
                })
                .detach();
            }
        });
        let asking: Vec<_> = (0..200)
            .map(|_| {
                let (path, mut rng) = (path.clone(), rng.fork());
                filch_linux::spawn(async move {
                    let stream = UnixStream::connect(&path).await.unwrap();
                    assert_eq!(stream.peer_addr().unwrap().as_pathname(), Some(&*path));
                    let data: Arc<[u8]> = (0..rng.usize(..100_000)).map(|_| rng.u8(..)).collect();
                    let (mut reader, mut writer) = stream.into_split();
                    let given = Arc::clone(&data);
                    let writing = filch_linux::spawn(async move {
                        AsyncWriteExt::write_all(&mut writer, &given).await.unwrap();
                        // The writer's end is the end of the stream.
                    });
                    let mut all = Vec::new();
                    AsyncReadExt::read_to_end(&mut reader, &mut all).await.unwrap();
                    assert!(all == *data);
                    writing.await.unwrap();
                })
            })
            .collect();
        for asking in asking {
            asking.await.unwrap();
        }
        serving.await.unwrap();
    });
}

#[test]
fn a_file_that_is_in_the_way_is_said_so_and_left() {
    let scratch = scratch("a_file_in_the_way");
    let path = scratch.0.join("socket");
    run(1, async {
        let listener = UnixListener::bind(&path).unwrap();
        let taken = UnixListener::bind(&path).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        assert!(taken.to_string().contains(path.to_str().unwrap()), "{taken}");
        assert!(taken.to_string().contains("remove it"), "{taken}");
        drop(listener);
        // The file stays, without a listener.
        assert!(path.exists());
        let refused = UnixStream::connect(&path).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert!(refused.to_string().contains(path.to_str().unwrap()), "{refused}");
        assert_eq!(UnixListener::bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(UnixDatagram::bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        std::fs::remove_file(&path).unwrap();
        UnixListener::bind(&path).unwrap();
        let missing = UnixStream::connect(scratch.0.join("another")).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let long = UnixListener::bind("x".repeat(200)).unwrap_err();
        assert_eq!(long.kind(), ErrorKind::InvalidInput);
    });
    let error = UnixStream::pair().unwrap_err();
    assert!(error.to_string().contains("runtime"), "{error}");
}

#[test]
fn abstract_names_vanish_with_their_sockets() {
    let name = format!("filch-test-{}", std::process::id());
    let addr = SocketAddr::from_abstract_name(&name).unwrap();
    run(1, async {
        let listener = UnixListener::bind_addr(&addr).unwrap();
        let taken = UnixListener::bind_addr(&addr).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        assert!(taken.to_string().contains(&format!("@{name}:")), "{taken}");
        let client = UnixStream::connect_addr(&addr).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        assert_eq!(server.local_addr().unwrap().as_abstract_name(), Some(name.as_bytes()));
        write_all(&client, b"hello").await;
        drop(client);
        assert_eq!(read_to_end(&server).await, b"hello");
        drop((listener, server));
        let gone = UnixStream::connect_addr(&addr).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::ConnectionRefused);
        UnixListener::bind_addr(&addr).unwrap();
    });
}

#[test]
fn a_full_backlog_is_waited_out() {
    let name = format!("filch-test-backlog-{}", std::process::id());
    let addr = SocketAddr::from_abstract_name(&name).unwrap();
    run(2, async {
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            None,
        )
        .unwrap();
        let unix = rustix::net::SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        rustix::net::bind(&socket, &unix).unwrap();
        rustix::net::listen(&socket, 1).unwrap();
        let connecting: Vec<_> = (0..10)
            .map(|_| {
                let addr = addr.clone();
                filch_linux::spawn(async move { UnixStream::connect_addr(&addr).await.unwrap() })
            })
            .collect();
        until(|| connecting.iter().filter(|connecting| connecting.is_finished()).count() == 2)
            .await;
        assert!(connecting.iter().any(|connecting| !connecting.is_finished()));
        let listener = UnixListener::try_from(net::UnixListener::from(socket)).unwrap();
        for _ in 0..10 {
            listener.accept().await.unwrap();
        }
        for connecting in connecting {
            connecting.await.unwrap();
        }
    });
}

#[test]
fn who_is_at_the_other_end() {
    run(1, async {
        let (one, _other) = UnixStream::pair().unwrap();
        let cred = one.peer_cred().unwrap();
        assert_eq!(cred.pid, Some(std::process::id()));
        assert_eq!(cred.uid, rustix::process::geteuid().as_raw());
        assert_eq!(cred.gid, rustix::process::getegid().as_raw());
        let listener = UnixListener::bind_addr(
            &SocketAddr::from_abstract_name(format!("filch-test-cred-{}", std::process::id()))
                .unwrap(),
        );
        let addr = listener.as_ref().unwrap().local_addr().unwrap();
        let client = UnixStream::connect_addr(&addr).await.unwrap();
        assert_eq!(client.peer_cred().unwrap(), cred);
    });
}

/// A path may fill the address, without a zero at its end.
#[test]
fn peers_with_names_and_with_the_longest() {
    let scratch = scratch("longest");
    run(1, async {
        let addr = SocketAddr::from_abstract_name(format!("filch-test-l-{}", std::process::id()));
        let addr = addr.unwrap();
        let listener = UnixListener::bind_addr(&addr).unwrap();
        let mut path = scratch.0.join("x").into_os_string().into_string().unwrap();
        for len in [path.len(), 107, 108] {
            path.extend(core::iter::repeat_n('x', len - path.len()));
            let client = rustix::net::socket(
                rustix::net::AddressFamily::UNIX,
                rustix::net::SocketType::STREAM,
                None,
            )
            .unwrap();
            let unix = rustix::net::SocketAddrUnix::new(&*path).unwrap();
            rustix::net::bind(&client, &unix).unwrap();
            let to =
                rustix::net::SocketAddrUnix::new_abstract_name(addr.as_abstract_name().unwrap());
            rustix::net::connect(&client, &to.unwrap()).unwrap();
            let (server, from) = listener.accept().await.unwrap();
            assert_eq!(from.as_pathname().unwrap().to_str(), Some(&*path));
            assert!(format!("{server:?}").contains(&path));
        }
    });
}

#[test]
fn halves_end_each_for_itself() {
    run(2, async {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut reader, mut writer) = one.into_split();
        assert_eq!(writer.write(b"heard").await.unwrap(), 5);
        drop(writer);
        assert_eq!(read_to_end(&other).await, b"heard");
        write_all(&other, b"still heard").await;
        assert_eq!(reader.peek(&mut [0; 32]).await.unwrap(), 11);
        assert_eq!(reader.read(&mut [0; 32]).await.unwrap(), 11);

        let (one, mut other) = UnixStream::pair().unwrap();
        let (reader, writer) = one.into_split();
        let (strange, strangers) = UnixStream::pair().unwrap().0.into_split();
        let (reader, strangers) = {
            let error = reader.reunite(strangers).unwrap_err();
            assert_eq!(error.to_string(), "the halves are not of one connection");
            (error.0, error.1)
        };
        let one = writer.reunite(reader).unwrap();
        strange.reunite(strangers).unwrap();
        let (mut reader, mut writer) = other.halves();
        let ((), n) = futures::join!(write_all(&one, b"both at a time"), async {
            writer.write(b"and there").await.unwrap();
            reader.read(&mut [0; 32]).await.unwrap()
        });
        assert_eq!(n, 14);
        writer.shutdown().unwrap();
        assert_eq!(read_to_end(&one).await, b"and there");
        one.shutdown(Shutdown::Both).unwrap();
        drop(other);
        one.shutdown(Shutdown::Both).unwrap();
        let error = one.write(b"to nobody").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn vectors_and_dropped_operations() {
    let mut rng = rng();
    run(2, async {
        let (one, other) = UnixStream::pair().unwrap();
        let mut there = rng.fork();
        let writing = filch_linux::spawn(async move {
            let (mut next, mut sum) = (0_u8, 0);
            for _ in 0..3_000 {
                let piece: Vec<u8> =
                    (0..there.usize(2..3_000)).map(|i| next.wrapping_add(i as u8)).collect();
                let (a, b) = piece.split_at(there.usize(1..piece.len()));
                let parts = [IoSlice::new(a), IoSlice::new(b)];
                let first = once(pin!(one.write_vectored(&parts))).await;
                let n = match first {
                    Poll::Ready(n) => n,
                    Poll::Pending => one.write_vectored(&parts).await,
                };
                next = next.wrapping_add(n.unwrap() as u8);
                sum += 1;
            }
            (next, sum)
        });
        let mut next = 0_u8;
        loop {
            let mut buf = vec![0; rng.usize(2..3_000)];
            let at = rng.usize(1..buf.len());
            let (a, b) = buf.split_at_mut(at);
            let mut parts = [IoSliceMut::new(a), IoSliceMut::new(b)];
            let first = once(pin!(other.read_vectored(&mut parts))).await;
            let n = match first {
                Poll::Ready(n) => n,
                Poll::Pending => other.read_vectored(&mut parts).await,
            };
            let n = n.unwrap();
            if n == 0 {
                break;
            }
            for byte in &buf[..n] {
                assert_eq!(*byte, next);
                next = next.wrapping_add(1);
            }
        }
        assert_eq!(writing.await.unwrap(), (next, 3_000));
        assert_eq!(other.read(&mut []).await.unwrap(), 0);
        assert_eq!(other.read_vectored(&mut []).await.unwrap(), 0);
    });
}

/// Bytes that come with a file descriptor end a read, though more bytes follow.
#[test]
fn bytes_behind_a_file_are_read_too() {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    run(2, async {
        let (one, other) = UnixStream::pair().unwrap();
        let send_with_file = |bytes: &[u8]| {
            let mut space = [core::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let files = [rustix::fd::AsFd::as_fd(&one)];
            assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
            sendmsg(&one, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).unwrap();
        };
        for _ in 0..100 {
            write_all(&one, b"plain").await;
            send_with_file(b"with one");
            send_with_file(b"with another");
            let mut sum = 0;
            while sum < 25 {
                sum += other.read(&mut [0; 64]).await.unwrap();
            }
            assert_eq!(sum, 25);
        }
    });
}

#[test]
fn datagrams_arrive_in_order_and_none_is_lost() {
    run(2, async {
        let (one, other) = UnixDatagram::pair().unwrap();
        let sending = filch_linux::spawn(async move {
            for n in 0..20_000_u32 {
                let bytes = n.to_le_bytes();
                let first = once(pin!(one.send(&bytes))).await;
                let sent = match first {
                    Poll::Ready(sent) => sent,
                    Poll::Pending => one.send(&bytes).await,
                };
                assert_eq!(sent.unwrap(), 4);
            }
        });
        for n in 0..20_000_u32 {
            let mut buf = [0; 8];
            let first = once(pin!(other.recv(&mut buf))).await;
            let len = match first {
                Poll::Ready(len) => len,
                Poll::Pending => other.recv(&mut buf).await,
            };
            assert_eq!((len.unwrap(), &buf[..4]), (4, &n.to_le_bytes()[..]));
        }
        sending.await.unwrap();
    });
}

#[test]
fn datagrams_by_path() {
    let scratch = scratch("datagrams_by_path");
    let (here, there) = (scratch.0.join("here"), scratch.0.join("there"));
    run(2, async {
        let (one, other) =
            (UnixDatagram::bind(&here).unwrap(), UnixDatagram::bind(&there).unwrap());
        assert_eq!(one.send_to(b"hello", &there).await.unwrap(), 5);
        let mut buf = [0; 16];
        let (len, from) = other.recv_from(&mut buf).await.unwrap();
        assert_eq!((&buf[..len], from.as_pathname()), (&b"hello"[..], Some(&*here)));
        other.connect(&here).unwrap();
        assert_eq!(other.peer_addr().unwrap().as_pathname(), Some(&*here));
        other.send(b"and back").await.unwrap();
        assert_eq!(one.recv(&mut buf).await.unwrap(), 8);
        // A socket without a name, and errors.
        let unbound = UnixDatagram::unbound().unwrap();
        unbound.send_to(b"from nobody", &here).await.unwrap();
        assert!(one.recv_from(&mut buf).await.unwrap().1.is_unnamed());
        assert!(unbound.send(b"to whom?").await.is_err());
        drop(other);
        let error = one.send_to(b"x", &there).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(error.to_string().contains(there.to_str().unwrap()), "{error}");
        assert_eq!(one.connect("/no/such/socket").unwrap_err().kind(), ErrorKind::NotFound);
    });
}

/// The system does not report to unconnected senders when there is room again.
#[test]
fn many_senders_fill_a_slow_receiver() {
    let name = format!("filch-test-datagrams-{}", std::process::id());
    let addr = SocketAddr::from_abstract_name(&name).unwrap();
    run(2, async {
        let receiver = UnixDatagram::bind_addr(&addr).unwrap();
        let filler = UnixDatagram::unbound().unwrap();
        let mut filled = 0;
        while once(pin!(filler.send_to_addr(&[0], &addr))).await.is_ready() {
            filled += 1;
        }
        assert!(filled > 0);
        let senders: Vec<_> = (0..10)
            .map(|i| {
                let addr = addr.clone();
                filch_linux::spawn(async move {
                    let socket = UnixDatagram::unbound().unwrap();
                    if i % 2 == 0 {
                        socket.connect_addr(&addr).unwrap();
                    }
                    for _ in 0..50 {
                        if i % 2 == 0 {
                            socket.send(&[i + 1]).await.unwrap();
                        } else {
                            socket.send_to_addr(&[i + 1], &addr).await.unwrap();
                        }
                    }
                })
            })
            .collect();
        // For a while all sends fail, and nothing else runs.
        let handle = filch_linux::Handle::current().unwrap();
        let polls = || handle.metrics().workers().map(|(_, worker)| worker.polls).sum::<usize>();
        let before = polls();
        filch_linux::time::sleep(core::time::Duration::from_millis(200)).await;
        let busy = polls() - before;
        println!("{busy} polls");
        assert!(busy < 500, "{busy} polls of ten tasks that wait");
        let mut counts = [0; 11];
        for _ in 0..filled + 500 {
            let mut buf = [0; 8];
            assert_eq!(receiver.recv(&mut buf).await.unwrap(), 1);
            counts[usize::from(buf[0])] += 1;
        }
        for sender in senders {
            sender.await.unwrap();
        }
        assert_eq!(counts[1..], [50; 10]);
    });
}
