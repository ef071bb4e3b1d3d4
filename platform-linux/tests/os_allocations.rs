//! Sockets, pipes and signals in use never call the global allocator; new ones do not either, once
//! there have been as many before.
//!
//! One test in a process of its own: the count is for the whole process.

mod os_common;

use std::os::{linux::net::SocketAddrExt as _, unix::net::SocketAddr};

use filch_linux::{
    net::{UdpSocket, UnixDatagram, UnixListener, UnixStream},
    pipe::pipe,
    signal::{SignalKind, signal},
};
use filch_test_support::counting::{Counting, steady};
use os_common::run;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn nothing_is_allocated() {
    run(2, async {
        let mut buf = [0; 64];
        let (sender, receiver) = pipe().unwrap();
        let (back_sender, back_receiver) = pipe().unwrap();
        let echo = filch_linux::spawn(async move {
            let mut buf = [0; 64];
            loop {
                match receiver.read(&mut buf).await.unwrap() {
                    0 => return,
                    n => assert_eq!(back_sender.write(&buf[..n]).await.unwrap(), n),
                }
            }
        });
        steady("pipes", async || {
            for _ in 0..1_000 {
                sender.write(b"hello").await.unwrap();
                assert_eq!(back_receiver.read(&mut buf).await.unwrap(), 5);
            }
        })
        .await;
        drop(sender);
        echo.await.unwrap();

        let (one, other) = UnixStream::pair().unwrap();
        let (mut reader, mut writer) = other.into_split();
        steady("streams", async || {
            for _ in 0..1_000 {
                one.write(b"hello").await.unwrap();
                let n = reader.read(&mut buf).await.unwrap();
                writer.write(&buf[..n]).await.unwrap();
                assert_eq!(one.read(&mut buf).await.unwrap(), 5);
            }
        })
        .await;

        let name = format!("filch-test-allocations-{}", std::process::id());
        let addr = SocketAddr::from_abstract_name(name).unwrap();
        let listener = UnixListener::bind_addr(&addr).unwrap();
        steady("connections", async || {
            for _ in 0..50 {
                drop(UnixStream::connect_addr(&addr).await.unwrap());
                drop(listener.accept().await.unwrap());
            }
        })
        .await;

        let (one, other) = UnixDatagram::pair().unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let at = udp.local_addr().unwrap();
        steady("datagrams", async || {
            for _ in 0..1_000 {
                one.send(b"hello").await.unwrap();
                assert_eq!(other.recv(&mut buf).await.unwrap(), 5);
                udp.send_to(b"hello", at).await.unwrap();
                assert_eq!(udp.recv_from(&mut buf).await.unwrap(), (5, at));
            }
        })
        .await;
        #[cfg(feature = "udp-offload")]
        {
            use filch_linux::net::{Received, Transmit, UdpOffload};
            let udp = UdpOffload::try_from(udp).unwrap();
            let mut buffers = [[0; 64]; 8];
            let mut room = buffers.each_mut().map(|buffer| Received::new(buffer));
            steady("many datagrams", async || {
                for _ in 0..1_000 {
                    udp.send(&Transmit::new(&[7; 40], at).segment_size(5)).await.unwrap();
                    let mut received = 0;
                    while received < 8 {
                        let n = udp.recv(&mut room).await.unwrap();
                        received += room[..n].iter().flat_map(Received::datagrams).count();
                    }
                }
            })
            .await;
        }

        let kind = SignalKind::window_change();
        let mut listener = signal(kind).unwrap();
        steady("signals", async || {
            for _ in 0..1_000 {
                // SAFETY: to this process, which ignores it except for the listener.
                assert_eq!(unsafe { libc::raise(kind.as_raw_value()) }, 0);
                listener.recv().await.unwrap();
            }
        })
        .await;
    });
}
