//! Connections in use never call the global allocator; new ones do not either, once there have been
//! as many before.
//!
//! One test in a process of its own: the count is for the whole process.

mod tcp_common;

use core::net::SocketAddr;

use filch_linux::net::{TcpListener, TcpStream};
use filch_test_support::counting::{Counting, steady};
use futures::{AsyncReadExt, AsyncWriteExt};
use tcp_common::{listen, pair, run};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The other end of a connection, in a task.
async fn echo(stream: TcpStream) {
    let mut buf = [0; 64];
    loop {
        match stream.read(&mut buf).await.unwrap() {
            0 => return,
            n => assert_eq!(stream.write(&buf[..n]).await.unwrap(), n),
        }
    }
}

async fn connect(listener: &TcpListener, addr: SocketAddr) {
    let stream = TcpStream::connect_addr(addr).await.unwrap();
    let (served, _) = listener.accept().await.unwrap();
    drop((stream, served));
}

#[test]
fn nothing_is_allocated() {
    run(2, async {
        let (one, other) = pair().await;
        let other = filch_linux::spawn(echo(other));
        let mut buf = [0; 64];
        steady("reads and writes", async || {
            for _ in 0..1_000 {
                one.write(b"hello").await.unwrap();
                assert_eq!(one.read(&mut buf).await.unwrap(), 5);
            }
        })
        .await;
        let mut by_trait = &one;
        steady("the traits of futures-io", async || {
            for _ in 0..1_000 {
                AsyncWriteExt::write_all(&mut by_trait, b"hello").await.unwrap();
                AsyncReadExt::read_exact(&mut by_trait, &mut buf[..5]).await.unwrap();
            }
        })
        .await;
        drop(one);
        other.await.unwrap();

        let (listener, addr) = listen().await;
        steady("connections", async || {
            for _ in 0..50 {
                connect(&listener, addr).await;
            }
        })
        .await;
    });
}
