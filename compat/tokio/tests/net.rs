//! Sockets.

use core::net::SocketAddr;

use filch_test_support::{alone, without_ipv6};
use filch_tokio::{
    net::{TcpListener, TcpStream, UdpSocket},
    runtime::Builder,
};

/// An address for which no socket can be made, and one of this machine.
fn after_ipv6(addr: SocketAddr) -> [SocketAddr; 2] {
    [([0, 0, 0, 0, 0, 0, 0, 1], addr.port()).into(), addr]
}

#[test]
fn an_address_without_a_socket_is_passed_over() {
    alone("an_address_without_a_socket_is_passed_over", || {
        without_ipv6();
        let any = after_ipv6(([127, 0, 0, 1], 0).into());
        Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let listener = TcpListener::bind(&any[..]).await.unwrap();
            let addr = listener.local_addr().unwrap();
            let stream = TcpStream::connect(&after_ipv6(addr)[..]).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), addr);

            let (one, other) = (UdpSocket::bind(&any[..]).await, UdpSocket::bind(&any[..]).await);
            let (one, other) = (one.unwrap(), other.unwrap());
            one.connect(&after_ipv6(other.local_addr().unwrap())[..]).await.unwrap();
            one.send(b"!").await.unwrap();
            assert_eq!(other.recv(&mut [0; 8]).await.unwrap(), 1);

            // The error of the last one.
            for failed in [
                TcpListener::bind(any[0]).await.map(drop),
                TcpStream::connect(any[0]).await.map(drop),
                UdpSocket::bind(any[0]).await.map(drop),
            ] {
                assert_eq!(failed.unwrap_err().raw_os_error(), Some(libc::EAFNOSUPPORT));
            }
        });
    });
}
