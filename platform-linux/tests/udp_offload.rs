//! UDP with offload: every datagram arrives whole, with its mark and its addresses, however many go with one call.

mod os_common;

use core::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::pin,
};
use std::{collections::BTreeMap, io::ErrorKind, net};

use filch_linux::net::{Ecn, Received, Transmit, UdpOffload, UdpSocket};
use os_common::{once, rng, run};

fn bind(ip: impl Into<IpAddr>) -> (UdpOffload, SocketAddr) {
    let socket = net::UdpSocket::bind((ip.into(), 0)).unwrap();
    let addr = socket.local_addr().unwrap();
    (UdpOffload::try_from(UdpSocket::try_from(socket).unwrap()).unwrap(), addr)
}

/// The next so many datagrams, each with its mark.
async fn take(socket: &UdpOffload, count: usize) -> Vec<(Vec<u8>, Option<Ecn>)> {
    let mut buffers = vec![vec![0; 65_536]; 4];
    let mut all = Vec::new();
    while all.len() < count {
        let mut received: Vec<_> = buffers.iter_mut().map(|buffer| Received::new(buffer)).collect();
        let n = socket.recv(&mut received).await.unwrap();
        assert!((1..=4).contains(&n));
        for one in &received[..n] {
            all.extend(one.datagrams().map(|datagram| (datagram.to_vec(), one.ecn())));
        }
        assert!(received[n..].iter().all(|one| one.datagrams().count() == 0));
    }
    all
}

#[test]
fn segments_arrive_as_datagrams_in_order() {
    let mut rng = rng();
    run(2, async {
        let ((a, _), (b, to)) = (bind(Ipv4Addr::LOCALHOST), bind(Ipv4Addr::LOCALHOST));
        for _ in 0..200 {
            let size = rng.usize(1..1_400);
            let payload: Vec<u8> = (0..rng.usize(1..60_000)).map(|_| rng.u8(..)).collect();
            // As many as the receiver's buffer holds, small ones have overhead.
            let payload = &payload[..payload.len().min(size * 60)];
            a.send(&Transmit::new(payload, to).segment_size(size)).await.unwrap();
            let got = take(&b, payload.len().div_ceil(size)).await;
            let got: Vec<_> = got.iter().map(|(datagram, _)| &datagram[..]).collect();
            assert_eq!(got, payload.chunks(size).collect::<Vec<_>>());
        }
    });
}

#[test]
fn more_than_one_call_takes_are_sent_with_several() {
    run(2, async {
        let ((a, _), (b, to)) = (bind(Ipv4Addr::LOCALHOST), bind(Ipv4Addr::LOCALHOST));
        let payload: Vec<u8> = (0..100_u8).flat_map(|n| [n; 1_000]).collect();
        let transmit = Transmit::new(&payload, to).segment_size(1_000);
        assert_eq!(a.try_send(&transmit).unwrap_err().kind(), ErrorKind::InvalidInput);
        a.send(&transmit).await.unwrap();
        for (n, (datagram, _)) in take(&b, 100).await.into_iter().enumerate() {
            assert_eq!(datagram, [n as u8; 1_000]);
        }
    });
}

#[test]
fn datagrams_of_several_senders_are_told_apart() {
    run(2, async {
        let (b, to) = bind(Ipv4Addr::LOCALHOST);
        let senders = [bind(Ipv4Addr::LOCALHOST), bind(Ipv4Addr::LOCALHOST)];
        for round in 0..200_u32 {
            // Some are merged, some are not.
            let (one, other) =
                ([round.to_le_bytes(); 5].concat(), [(!round).to_le_bytes(); 3].concat());
            let mut left = BTreeMap::new();
            for ((socket, from), payload) in senders.iter().zip([&one, &other]) {
                socket.send(&Transmit::new(payload, to).segment_size(4)).await.unwrap();
                left.insert(*from, payload.chunks(4).collect::<Vec<_>>());
            }
            while !left.is_empty() {
                let mut buffers = [[0; 256]; 3];
                let mut received = buffers.each_mut().map(|buffer| Received::new(buffer));
                let n = b.recv(&mut received).await.unwrap();
                for one in &received[..n] {
                    let from = one.addr().unwrap();
                    let expected = left.get_mut(&from).unwrap();
                    for datagram in one.datagrams() {
                        assert_eq!(datagram, expected.remove(0));
                    }
                    left.retain(|_, datagrams| !datagrams.is_empty());
                }
            }
        }
    });
}

#[test]
fn marks_and_addresses_arrive() {
    run(1, async {
        let mut places = vec![(IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from([127, 0, 0, 9]))];
        if net::UdpSocket::bind("[::1]:0").is_ok() {
            places.push((Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()));
        }
        for (to, from) in places {
            let any = IpAddr::from(Ipv4Addr::UNSPECIFIED);
            let any = if to.is_ipv4() { any } else { Ipv6Addr::UNSPECIFIED.into() };
            let ((a, at), (b, there)) = (bind(any), bind(any));
            let there = SocketAddr::new(to, there.port());
            for mark in [None, Some(Ecn::Ect0), Some(Ecn::Ect1), Some(Ecn::Ce)] {
                let mut transmit = Transmit::new(b"hello", there).src_ip(from);
                if let Some(mark) = mark {
                    transmit = transmit.ecn(mark);
                }
                a.try_send(&transmit).unwrap();
                let mut buffer = [0; 16];
                let mut received = [Received::new(&mut buffer)];
                assert_eq!((received[0].addr(), received[0].dst_ip()), (None, None));
                assert_eq!(b.recv(&mut received).await.unwrap(), 1);
                assert_eq!(received[0].ecn(), mark);
                assert_eq!(received[0].addr(), Some(SocketAddr::new(from, at.port())));
                assert_eq!(received[0].dst_ip(), Some(to));
                assert!(received[0].datagrams().eq([b"hello"]));
            }
        }
    });
}

#[test]
fn odd_ones() {
    run(1, async {
        let ((a, _), (b, to)) = (bind(Ipv4Addr::LOCALHOST), bind(Ipv4Addr::LOCALHOST));
        let offload = (a.max_gso_segments(), a.gro_segments(), a.may_fragment());
        for size in [0, 65_508, 70_000] {
            let wrong = Transmit::new(b"hello", to).segment_size(size);
            assert_eq!(a.send(&wrong).await.unwrap_err().kind(), ErrorKind::InvalidInput);
            assert_eq!(a.try_send(&wrong).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        let long = vec![0; 65_508];
        assert!(a.send(&Transmit::new(&long, to)).await.is_err());
        // None of these has switched the offload off.
        assert_eq!((a.max_gso_segments(), a.gro_segments(), a.may_fragment()), offload);
        // An empty datagram is a datagram, and one segment is as none.
        a.send(&Transmit::new(b"", to)).await.unwrap();
        a.send(&Transmit::new(b"one", to).segment_size(3)).await.unwrap();
        a.send(&Transmit::new(b"two", to).segment_size(9)).await.unwrap();
        let got = take(&b, 3).await;
        let got: Vec<_> = got.iter().map(|(datagram, _)| &datagram[..]).collect();
        assert_eq!(got, [&b""[..], b"one", b"two"]);
        assert_eq!(b.recv(&mut []).await.unwrap(), 0);
        // A receive that is dropped loses nothing, and one that waits is woken.
        let mut buffer = [0; 16];
        let mut received = [Received::new(&mut buffer)];
        assert!(once(pin!(b.recv(&mut received))).await.is_pending());
        let late = filch_linux::spawn(async move { take(&b, 1).await });
        filch_linux::task::yield_now().await;
        a.writable().await.unwrap();
        a.send(&Transmit::new(b"late", to)).await.unwrap();
        assert_eq!(late.await.unwrap()[0].0, b"late");
    });
}
