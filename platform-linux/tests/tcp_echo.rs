//! Many connections at once: every byte arrives, once, in its place.

mod tcp_common;

use core::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
    task::Poll,
};
use std::{net::Shutdown, sync::Arc};

use fastrand::Rng;
use filch_linux::net::{TcpListener, TcpStream};
use tcp_common::{foreign_pair, listen, pair, read_to_end, rng, run, write_all};

/// A byte of a stream, from its position: lost, doubled and reordered bytes show.
fn byte(seed: u64, at: u64) -> u8 {
    (seed ^ at).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[0]
}

/// Writes a stream in pieces of random size.
async fn write_stream(stream: &TcpStream, seed: u64, len: u64, mut rng: Rng) {
    let mut at = 0;
    while at < len {
        let piece = rng.u64(1..=8_192).min(len - at);
        let bytes: Vec<u8> = (at..at + piece).map(|at| byte(seed, at)).collect();
        at += stream.write(&bytes).await.unwrap() as u64;
        if rng.u8(..) < 16 {
            filch_linux::task::yield_now().await;
        }
    }
}

/// Reads a stream in pieces of random size, to its end; returns its length.
async fn read_stream(stream: &TcpStream, seed: u64, mut rng: Rng) -> u64 {
    let mut at = 0;
    let mut buf = [0; 8_192];
    loop {
        let room = rng.usize(1..=buf.len());
        let n = stream.read(&mut buf[..room]).await.unwrap();
        if n == 0 {
            return at;
        }
        for &got in &buf[..n] {
            assert_eq!(got, byte(seed, at), "at {at}");
            at += 1;
        }
    }
}

async fn echo(stream: TcpStream, mut rng: Rng) -> u64 {
    let mut sum = 0;
    let mut buf = [0; 4_096];
    loop {
        let room = rng.usize(1..=buf.len());
        let n = stream.read(&mut buf[..room]).await.unwrap();
        if n == 0 {
            return sum;
        }
        write_all(&stream, &buf[..n]).await;
        sum += n as u64;
    }
}

async fn serve(listener: TcpListener, connections: u64, mut rng: Rng) -> u64 {
    let mut incoming = listener.incoming();
    let mut echoes = Vec::new();
    for _ in 0..connections {
        let (stream, _) = incoming.next().await.unwrap();
        echoes.push(filch_linux::spawn(echo(stream, rng.fork())));
    }
    let mut sum = 0;
    for echo in echoes {
        sum += echo.await.unwrap();
    }
    sum
}

/// One client: writes and reads at the same time, in two tasks on one stream.
async fn client(addr: SocketAddr, mut rng: Rng) -> u64 {
    // Few are long: all of them together take seconds.
    let len = if rng.u8(..) < 8 { rng.u64(..=200_000) } else { rng.u64(..=3_000) };
    let seed = rng.u64(..);
    let stream = Arc::new(TcpStream::connect(addr).await.unwrap());
    let writing = filch_linux::spawn({
        let (stream, rng) = (Arc::clone(&stream), rng.fork());
        async move {
            write_stream(&stream, seed, len, rng).await;
            stream.shutdown(Shutdown::Write).unwrap();
        }
    });
    assert_eq!(read_stream(&stream, seed, rng.fork()).await, len);
    writing.await.unwrap();
    len
}

fn thousands(workers: usize, connections: u64, at_once: u64) {
    let mut rng = rng();
    run(workers, async {
        let (listener, addr) = listen().await;
        let server = filch_linux::spawn(serve(listener, connections, rng.fork()));
        let left = Arc::new(AtomicU64::new(connections));
        let clients: Vec<_> = (0..at_once)
            .map(|_| {
                let (left, mut rng) = (Arc::clone(&left), rng.fork());
                filch_linux::spawn(async move {
                    let take = |left: u64| left.checked_sub(1);
                    let mut sum = 0;
                    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                        sum += client(addr, rng.fork()).await;
                    }
                    sum
                })
            })
            .collect();
        let mut sum = 0;
        for client in clients {
            sum += client.await.unwrap();
        }
        assert_eq!(server.await.unwrap(), sum);
    });
}

#[test]
fn thousands_of_connections_on_two_workers() {
    thousands(2, 3_000, 200);
}

#[test]
fn thousands_of_connections_on_one_worker() {
    thousands(1, 1_000, 1_000);
}

#[test]
fn one_long_stream_in_both_directions() {
    const LEN: u64 = 3_000_000;
    let mut rng = rng();
    run(2, async {
        let (one, other) = pair().await;
        let ends = [(one, 1, 2), (other, 2, 1)].map(|(stream, own, peers)| {
            let stream = Arc::new(stream);
            let writing = filch_linux::spawn({
                let (stream, rng) = (Arc::clone(&stream), rng.fork());
                async move {
                    write_stream(&stream, own, LEN, rng).await;
                    stream.shutdown(Shutdown::Write).unwrap();
                }
            });
            let rng = rng.fork();
            (writing, filch_linux::spawn(async move { read_stream(&stream, peers, rng).await }))
        });
        for (writing, reading) in ends {
            writing.await.unwrap();
            assert_eq!(reading.await.unwrap(), LEN);
        }
    });
}

#[test]
fn many_tasks_share_a_stream() {
    const WRITERS: u64 = 4;
    const EACH: u64 = 100_000;
    let mut rng = rng();
    run(2, async {
        let (one, other) = pair().await;
        let (one, other) = (Arc::new(one), Arc::new(other));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (one, rng) = (Arc::clone(&one), rng.fork());
                filch_linux::spawn(async move { write_stream(&one, writer, EACH, rng).await })
            })
            .collect();
        let readers: Vec<_> = (0..4)
            .map(|_| {
                let other = Arc::clone(&other);
                filch_linux::spawn(async move { read_to_end(&other).await })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        one.shutdown(Shutdown::Write).unwrap();
        let mut counts = [0_u64; 256];
        for reader in readers {
            reader.await.unwrap().iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        }
        // Which task read which byte is unknown, but every byte was read once.
        let mut expected = [0_u64; 256];
        for (writer, at) in (0..WRITERS).flat_map(|w| (0..EACH).map(move |at| (w, at))) {
            expected[usize::from(byte(writer, at))] += 1;
        }
        assert_eq!(counts, expected);
    });
}

#[test]
fn a_slow_reader_holds_the_writer_back() {
    use std::io::Read as _;
    run(1, async {
        let (one, mut other) = foreign_pair().await;
        one.set_send_buffer_size(64 * 1024).unwrap();
        let bytes = [7; 10_000];
        let mut sum = 0;
        // Until it has to wait because its peer has read nothing, and not because its budget is
        // spent.
        let wait = loop {
            let mut writing = Box::pin(filch_linux::task::unconstrained(one.write(&bytes)));
            match futures::poll!(&mut writing) {
                Poll::Ready(n) => sum += n.unwrap(),
                Poll::Pending => break writing,
            }
            assert!(sum < 100_000_000, "somebody buffers without bounds");
        };
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            other.read_to_end(&mut all).map(|_| all)
        });
        sum += wait.await.unwrap();
        drop(one);
        let all = reader.join().unwrap().unwrap();
        assert_eq!(all.len(), sum);
        assert!(all.iter().all(|byte| *byte == 7));
    });
}
