//! UDP: datagrams arrive whole; a receive that is dropped loses
//! none.

mod os_common;

use core::{
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    task::Poll,
};
use std::{io::ErrorKind, net, sync::Arc};

use filch_linux::net::UdpSocket;
use os_common::{once, rng, run};

async fn bind() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let addr = socket.local_addr().unwrap();
    (socket, addr)
}

async fn pair() -> (UdpSocket, UdpSocket) {
    let ((one, at_one), (other, at_other)) = (bind().await, bind().await);
    one.connect(at_other).await.unwrap();
    other.connect(at_one).await.unwrap();
    (one, other)
}

#[test]
fn datagrams_arrive_whole() {
    let mut rng = rng();
    run(2, async {
        let (one, other) = pair().await;
        assert_eq!(one.peer_addr().unwrap(), other.local_addr().unwrap());
        let echo = filch_linux::spawn(async move {
            let mut buf = [0; 2_000];
            loop {
                match other.recv(&mut buf).await.unwrap() {
                    0 => return,
                    n => assert_eq!(other.send(&buf[..n]).await.unwrap(), n),
                }
            }
        });
        for _ in 0..5_000 {
            let data: Vec<u8> = (0..rng.usize(1..1_500)).map(|_| rng.u8(..)).collect();
            assert_eq!(one.send(&data).await.unwrap(), data.len());
            let mut buf = [0; 1_500];
            let n = one.recv(&mut buf).await.unwrap();
            assert_eq!(&buf[..n], &data[..]);
        }
        // An empty datagram is a datagram, and not an end.
        assert_eq!(one.send(b"").await.unwrap(), 0);
        echo.await.unwrap();
    });
}

#[test]
fn any_peer_if_there_is_none() {
    run(2, async {
        let (server, at) = bind().await;
        let server = Arc::new(server);
        // Several tasks serve one socket.
        let serving: Vec<_> = (0..3)
            .map(|_| {
                let server = Arc::clone(&server);
                filch_linux::spawn(async move {
                    let mut served = 0_usize;
                    loop {
                        let mut buf = [0; 64];
                        let (n, from) = server.recv_from(&mut buf).await.unwrap();
                        if &buf[..n] == b"stop" {
                            return served;
                        }
                        server.send_to(&buf[..n], from).await.unwrap();
                        served += 1;
                    }
                })
            })
            .collect();
        let asking: Vec<_> = (0..20_u8)
            .map(|client| {
                filch_linux::spawn(async move {
                    let (socket, _) = bind().await;
                    for n in 0..100 {
                        socket.send_to(&[client, n], at).await.unwrap();
                        let mut buf = [0; 64];
                        assert_eq!(socket.peek_from(&mut buf).await.unwrap(), (2, at));
                        assert_eq!(socket.recv_from(&mut buf).await.unwrap(), (2, at));
                        assert_eq!(buf[..2], [client, n]);
                    }
                })
            })
            .collect();
        for asking in asking {
            asking.await.unwrap();
        }
        let (client, _) = bind().await;
        let mut served = 0;
        for _ in &serving {
            client.send_to(b"stop", at).await.unwrap();
        }
        for serving in serving {
            served += serving.await.unwrap();
        }
        assert_eq!(served, 2_000);
    });
}

#[test]
fn dropped_receives_lose_nothing() {
    run(2, async {
        let (one, other) = pair().await;
        let sending = filch_linux::spawn(async move {
            let mut buf = [0; 8];
            for n in 0..20_000_u32 {
                one.send(&n.to_le_bytes()).await.unwrap();
                // One at a time, so that none is lost for lack of room.
                one.recv(&mut buf).await.unwrap();
            }
        });
        for n in 0..20_000_u32 {
            let mut buf = [0; 8];
            let first = once(pin!(other.recv(&mut buf))).await;
            let len = match first {
                Poll::Ready(len) => len,
                Poll::Pending => other.recv(&mut buf).await,
            };
            assert_eq!(len.unwrap(), 4);
            assert_eq!(buf[..4], n.to_le_bytes());
            other.send(b"ok").await.unwrap();
        }
        sending.await.unwrap();
    });
}

#[test]
fn errors_say_what_is_wrong() {
    run(1, async {
        let (socket, at) = bind().await;
        let error = UdpSocket::bind(at).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&at.to_string()), "{error}");
        assert!(socket.send(b"to whom?").await.is_err());
        // The first address that can be bound.
        let other = UdpSocket::bind([at, ([127, 0, 0, 1], 0).into()]).await.unwrap();
        assert_ne!(other.local_addr().unwrap(), at);
        // No socket is bound there any more.
        other.connect(at).await.unwrap();
        drop(socket);
        other.send(b"anybody there?").await.unwrap();
        let refused = other.recv(&mut [0; 8]).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert!(other.take_error().unwrap().is_none());
    });
    let std = net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = UdpSocket::try_from(std).unwrap_err();
    assert!(error.to_string().contains("runtime"), "{error}");
}

#[test]
fn options_are_kept() {
    run(1, async {
        let (socket, at) = bind().await;
        assert!(!socket.broadcast().unwrap());
        socket.set_broadcast(true).unwrap();
        assert!(socket.broadcast().unwrap());
        socket.set_ttl(7).unwrap();
        socket.set_multicast_ttl_v4(8).unwrap();
        assert_eq!((socket.ttl().unwrap(), socket.multicast_ttl_v4().unwrap()), (7, 8));
        socket.set_multicast_loop_v4(false).unwrap();
        assert!(!socket.multicast_loop_v4().unwrap());
        socket.set_traffic_class(0xb8).unwrap();
        assert_eq!(socket.traffic_class().unwrap(), 0xb8);
        assert!(socket.set_traffic_class(256).is_err());
        socket.set_recv_buffer_size(30_000).unwrap();
        socket.set_send_buffer_size(20_000).unwrap();
        assert!(socket.recv_buffer_size().unwrap() >= 30_000);
        assert!((20_000..100_000).contains(&socket.send_buffer_size().unwrap()));
        assert!(socket.bind_device(Some("no such device")).is_err());
        // IPv6, if the machine has it.
        if let Ok(six) = UdpSocket::bind("[::1]:0").await {
            six.set_ttl(9).unwrap();
            assert_eq!(six.ttl().unwrap(), 9);
            assert!(six.set_ttl(256).is_err());
        }
        socket.bind_device(Some("lo")).unwrap();
        let text = format!("{socket:?}");
        assert!(text.contains(&at.to_string()), "{text}");
        let std = socket.into_std().unwrap();
        assert_eq!(std.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(UdpSocket::try_from(std).unwrap().local_addr().unwrap(), at);
    });
}

#[test]
fn groups_are_joined_and_left() {
    run(1, async {
        let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        let group = Ipv4Addr::new(239, 255, 70, 71);
        socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
        // On the loopback interface too, so that no network is needed.
        let sender = net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let interface = libc::in_addr { s_addr: u32::from(Ipv4Addr::LOCALHOST).to_be() };
        // SAFETY: an option of this test's own socket, of the option's type.
        let set = unsafe {
            libc::setsockopt(
                std::os::fd::AsRawFd::as_raw_fd(&sender),
                libc::IPPROTO_IP,
                libc::IP_MULTICAST_IF,
                (&raw const interface).cast(),
                size_of::<libc::in_addr>() as libc::socklen_t,
            )
        };
        assert_eq!(set, 0);
        let to = (group, socket.local_addr().unwrap().port());
        sender.send_to(b"all of you", to).unwrap();
        let mut buf = [0; 16];
        assert_eq!(socket.recv(&mut buf).await.unwrap(), 10);
        socket.leave_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
        assert!(socket.leave_multicast_v4(&group, &Ipv4Addr::LOCALHOST).is_err());
    });
}

#[test]
fn poll_style_callers() {
    run(2, async {
        let ((one, _), (other, at)) = (bind().await, bind().await);
        let receiving = filch_linux::spawn(async move {
            let mut buf = [0; 8];
            core::future::poll_fn(|cx| other.poll_recv_from(cx, &mut buf)).await.unwrap()
        });
        filch_linux::task::yield_now().await;
        core::future::poll_fn(|cx| one.poll_send_to(cx, b"polled", at)).await.unwrap();
        assert_eq!(receiving.await.unwrap(), (6, one.local_addr().unwrap()));
    });
}
