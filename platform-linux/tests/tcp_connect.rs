//! Connecting: refused, unanswered, and to the first of several addresses that answers.

mod tcp_common;

use core::{error::Error as _, net::SocketAddr, time::Duration};
use std::{
    io::{self, ErrorKind},
    net, thread,
};

use filch_linux::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use filch_std::time;
use futures::poll;
use tcp_common::{blackhole, listen, local, refusing, run, run_pausable, under_way_to, watchdog};

#[test]
fn a_refusal_says_who() {
    run(1, async {
        let (dead, _socket) = refusing();
        let error = TcpStream::connect(dead).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(error.to_string().contains(&dead.to_string()), "{error}");
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), Some(libc::ECONNREFUSED));

        let error = TcpStream::connect_addr(dead).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED), "the system's own");
        let error = TcpSocket::new_v4().unwrap().connect(dead).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn all_refusals_are_told() {
    run(1, async {
        let ((dead1, _socket1), (dead2, _socket2)) = (refusing(), refusing());
        let error = TcpStream::connect([dead1, dead2]).await.unwrap_err().to_string();
        assert!(error.contains(&dead1.to_string()), "{error}");
        assert!(error.contains(&dead2.to_string()), "{error}");
        let error = TcpStream::connect(Vec::<SocketAddr>::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_dead_address_is_passed_over() {
    run(1, async {
        let (dead, _socket) = refusing();
        let (listener, alive) = listen().await;
        let stream = TcpStream::connect([dead, alive]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), alive);
        assert_eq!(listener.accept().await.unwrap().1, stream.local_addr().unwrap());
    });
}

/// How long it takes by the runtime's clock, which is stopped while there is work.
async fn elapsed<T>(future: impl Future<Output = T>) -> (T, Duration) {
    time::pause();
    let begin = time::now();
    let output = future.await;
    let took = time::now() - begin;
    time::resume();
    (output, took)
}

#[test]
fn a_silent_address_does_not_hold_up_the_next() {
    run_pausable(1, async {
        let silent = blackhole(local());
        let (dead, _socket) = refusing();
        let (_listener, alive) = listen().await;
        let connecting = TcpStream::connect([silent.addr, silent.addr, dead, alive]);
        let (stream, took) = elapsed(connecting).await;
        assert_eq!(stream.unwrap().peer_addr().unwrap(), alive);
        assert_eq!(took, Duration::from_millis(500), "a head start for each that is silent");
        assert_eq!(under_way_to(silent.addr), 0, "the loser is closed");
    });
}

#[test]
fn the_first_keeps_its_head_start() {
    run(1, async {
        let (first, addr1) = listen().await;
        let (second, addr2) = listen().await;
        let stream = TcpStream::connect([addr1, addr2]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), addr1);
        drop(first.accept().await.unwrap());
        let mut accepting = Box::pin(second.accept());
        assert!(poll!(&mut accepting).is_pending(), "the second was not tried");
    });
}

#[test]
fn families_take_turns() {
    let _watchdog = watchdog();
    let v6 = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 0));
    if net::TcpListener::bind(v6).is_err() {
        // This machine has no IPv6.
        return;
    }
    run_pausable(1, async {
        let silent = [blackhole(v6), blackhole(v6), blackhole(v6)].map(|hole| (hole.addr, hole));
        let (_listener, alive) = listen().await;
        let addrs = [silent[0].0, silent[1].0, silent[2].0, alive];
        let (stream, took) = elapsed(TcpStream::connect(addrs)).await;
        assert_eq!(stream.unwrap().peer_addr().unwrap(), alive);
        assert_eq!(took, Duration::from_millis(250), "it was the second");
    });
}

#[test]
fn giving_up_closes_the_sockets() {
    run(1, async {
        let silent = blackhole(local());
        let mut connecting = Box::pin(TcpStream::connect([silent.addr; 3]));
        assert!(poll!(&mut connecting).is_pending());
        assert_eq!(under_way_to(silent.addr), 1, "it has begun");
        drop(connecting);
        assert_eq!(under_way_to(silent.addr), 0);

        let mut connecting = Box::pin(TcpStream::connect_addr(silent.addr));
        assert!(poll!(&mut connecting).is_pending());
        assert_eq!(under_way_to(silent.addr), 1);
        drop(connecting);
        assert_eq!(under_way_to(silent.addr), 0);
    });
}

#[test]
fn a_late_answer_connects() {
    run_pausable(1, async {
        let silent = blackhole(local());
        let addr = silent.addr;
        let (dead, _socket) = refusing();
        let mut connecting = Box::pin(TcpStream::connect([addr, dead]));
        let (waited, _) = elapsed(time::timeout(Duration::from_secs(1), &mut connecting)).await;
        assert!(waited.is_err(), "the refusal is not the end of it");
        // There is room in the backlog now: the system tries again by itself, perhaps a second
        // later.
        let accepting = silent.accept_two();
        let stream = connecting.await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), addr);
        accepting.join().unwrap();
    });
}

#[test]
fn peers_that_close_at_once() {
    const CLIENTS: usize = 500;
    let _watchdog = watchdog();
    let listener = net::TcpListener::bind(local()).unwrap();
    let addr = listener.local_addr().unwrap();
    let closer = thread::spawn(move || {
        for n in 0..CLIENTS {
            let (stream, _) = listener.accept().unwrap();
            if n % 2 == 0 {
                rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
            }
        }
    });
    run(2, async {
        for _ in 0..CLIENTS {
            let ended = match TcpStream::connect_addr(addr).await {
                Ok(stream) => stream.read(&mut [0; 8]).await.map(|n| assert_eq!(n, 0)),
                Err(error) => Err(error),
            };
            if let Err(error) = ended {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
            }
        }
    });
    closer.join().unwrap();
}

#[test]
fn listeners_that_go_with_connections_in_their_backlog() {
    run(2, async {
        for _ in 0..100 {
            let listener = TcpListener::bind(local()).await.unwrap();
            let addr = listener.local_addr().unwrap();
            let client = filch_linux::spawn(async move {
                match TcpStream::connect_addr(addr).await {
                    Ok(stream) => stream.read(&mut [0; 8]).await,
                    Err(error) => Err(error),
                }
            });
            filch_linux::task::yield_now().await;
            drop(listener);
            let kind = client.await.unwrap().unwrap_err().kind();
            let fair = [ErrorKind::ConnectionRefused, ErrorKind::ConnectionReset];
            assert!(fair.contains(&kind), "{kind:?}");
        }
    });
}

#[test]
fn an_address_without_a_socket_is_passed_over() {
    filch_test_support::alone("an_address_without_a_socket_is_passed_over", || {
        filch_test_support::without_ipv6();
        let after_ipv6 =
            |addr: SocketAddr| [SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], addr.port())), addr];
        run(1, async {
            let listener = TcpListener::bind(after_ipv6(local())).await.unwrap();
            let addr = listener.local_addr().unwrap();
            let stream = TcpStream::connect(after_ipv6(addr)).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), addr);
            let one = UdpSocket::bind(after_ipv6(local())).await.unwrap();
            let other = UdpSocket::bind(after_ipv6(local())).await.unwrap();
            one.connect(after_ipv6(other.local_addr().unwrap())).await.unwrap();
            one.send(b"!").await.unwrap();
            assert_eq!(other.recv(&mut [0; 8]).await.unwrap(), 1);
        });
    });
}
