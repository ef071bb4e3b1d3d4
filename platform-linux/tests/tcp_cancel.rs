//! Futures that are dropped before they are ready lose nothing.

mod tcp_common;

use core::{future::Future, pin::pin, task::Poll};
use std::{
    io::{Read as _, Write as _},
    thread,
};

use filch_linux::{
    net::TcpStream,
    task::{unconstrained, yield_now},
};
use futures::poll;
use tcp_common::{foreign_pair, listen, rng, run, watchdog};

/// Makes new futures, polls each once and drops it, until one is ready at its first poll.
async fn by_first_polls<F: Future>(mut make: impl FnMut() -> F) -> F::Output {
    loop {
        if let Poll::Ready(output) = poll!(pin!(unconstrained(make()))) {
            return output;
        }
        yield_now().await;
    }
}

#[test]
fn reads() {
    const LEN: usize = 300_000;
    let mut rng = rng();
    run(2, async {
        let (one, mut other) = foreign_pair().await;
        let mut pieces = rng.fork();
        let writer = thread::spawn(move || {
            let bytes: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8).collect();
            let mut left = &bytes[..];
            while !left.is_empty() {
                let (piece, rest) = left.split_at(pieces.usize(1..=1_000).min(left.len()));
                other.write_all(piece).unwrap();
                left = rest;
            }
        });
        let mut at = 0;
        loop {
            let room = rng.usize(1..=2_000);
            let read = by_first_polls(|| async {
                let mut buf = vec![0; room];
                let n = one.read(&mut buf).await.unwrap();
                buf.truncate(n);
                buf
            });
            let read = read.await;
            if read.is_empty() {
                break;
            }
            for byte in read {
                assert_eq!(usize::from(byte), at % 251, "at {at}");
                at += 1;
            }
        }
        assert_eq!(at, LEN);
        writer.join().unwrap();
    });
}

#[test]
fn writes() {
    let mut rng = rng();
    run(2, async {
        let (one, mut other) = foreign_pair().await;
        one.set_send_buffer_size(10_000).unwrap();
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            other.read_to_end(&mut all).map(|_| all)
        });
        let mut at = 0;
        while at < 1_000_000 {
            let len = rng.usize(1..=100_000);
            let bytes: Vec<u8> = (at..at + len).map(|at| (at % 251) as u8).collect();
            at += by_first_polls(|| one.write(&bytes)).await.unwrap();
        }
        drop(one);
        let all = reader.join().unwrap().unwrap();
        assert_eq!(all.len(), at, "dropped writes have written nothing");
        assert!(all.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251));
    });
}

#[test]
fn a_dropped_wait_leaves_the_next_one_whole() {
    run(2, async {
        let (one, mut other) = foreign_pair().await;
        for round in 0..200_u8 {
            let mut buf = [0; 4];
            let mut waits: Vec<_> = (0..5).map(|_| Box::pin(one.peek_one())).collect();
            for wait in &mut waits {
                assert!(poll!(wait).is_pending());
            }
            drop(waits.remove(usize::from(round % 5)));
            other.write_all(&[round]).unwrap();
            // All tasks that are left see the byte; then it is read.
            for wait in waits {
                assert_eq!(wait.await, round);
            }
            assert_eq!(one.read(&mut buf).await.unwrap(), 1);
            assert_eq!(buf[0], round);
        }
    });
}

trait PeekOne {
    fn peek_one(&self) -> impl Future<Output = u8>;
}

impl PeekOne for TcpStream {
    async fn peek_one(&self) -> u8 {
        let mut byte = [0];
        assert_eq!(self.peek(&mut byte).await.unwrap(), 1);
        byte[0]
    }
}

#[test]
fn accepts() {
    const CLIENTS: usize = 300;
    let _watchdog = watchdog();
    run(2, async {
        let (listener, addr) = listen().await;
        let clients = thread::spawn(move || {
            for _ in 0..CLIENTS {
                let mut stream = std::net::TcpStream::connect(addr).unwrap();
                let mut buf = [0; 1];
                stream.read_exact(&mut buf).unwrap();
            }
        });
        for _ in 0..CLIENTS {
            let (stream, _) = by_first_polls(|| listener.accept()).await.unwrap();
            stream.write(b"x").await.unwrap();
        }
        clients.join().unwrap();
    });
}

#[test]
fn connects() {
    run(2, async {
        let (listener, addr) = listen().await;
        let server = filch_linux::spawn(async move {
            let mut served = 0;
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                served += 1;
                // An abandoned connection is gone: an end or a reset, never a hang.
                let mut buf = [0; 4];
                if stream.read(&mut buf).await.is_ok_and(|n| n == 4) {
                    return served;
                }
            }
        });
        for _ in 0..200 {
            let mut connecting = pin!(TcpStream::connect_addr(addr));
            drop(poll!(connecting.as_mut()));
        }
        let stream = TcpStream::connect_addr(addr).await.unwrap();
        stream.write(b"last").await.unwrap();
        assert!((1..=201).contains(&server.await.unwrap()));
    });
}
