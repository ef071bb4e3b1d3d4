//! Runs the examples `echo` and `proxy`: every byte arrives, in order, however the connections end.
#![cfg(target_os = "linux")]

mod servers;

use core::{net::SocketAddr, time::Duration};
use std::{
    fs,
    io::{self, ErrorKind, Read, Write},
    net::{self, Shutdown},
    thread,
};

use filch_linux::{
    Runtime,
    net::{TcpListener, TcpStream},
    task::{JoinSet, yield_now},
    time,
};
use filch_test_support::rng;
use futures_util::future::join;
use rustix::net::{AddressFamily, SocketType};

use servers::{Server, output, watchdog};

/// The byte at a position of the stream with this number.
fn byte(stream: u64, at: u64) -> u8 {
    ((at ^ stream.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
}

fn runtime() -> Runtime {
    filch_linux::Builder::new().workers(2).build().unwrap()
}

/// Writes so many bytes of a stream, in chunks of random sizes, with pauses.
async fn send(to: &TcpStream, stream: u64, end: u64, rng: &mut fastrand::Rng) -> io::Result<()> {
    let mut from = 0;
    while from < end {
        let most = if rng.u8(..) == 0 { 100_000 } else { 3_000 };
        let len = rng.u64(1..=most).min(end - from);
        let chunk: Vec<u8> = (from..from + len).map(|at| byte(stream, at)).collect();
        to.write_all(&chunk).await?;
        from += len;
        match rng.u8(..) {
            0..8 => time::sleep(Duration::from_micros(rng.u64(..3_000))).await,
            8..64 => yield_now().await,
            _ => {}
        }
    }
    Ok(())
}

/// How many bytes were received, and how the stream ended.
type Received = (u64, io::Result<()>);

/// Reads to the end or an error, and compares each byte.
async fn receive(from: &TcpStream, stream: u64, rng: &mut fastrand::Rng) -> Received {
    let mut at = 0;
    let mut buffer = vec![0; rng.usize(1..40_000)];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) => return (at, Ok(())),
            Ok(n) => {
                for got in &buffer[..n] {
                    assert_eq!(*got, byte(stream, at), "stream {stream}, byte {at}");
                    at += 1;
                }
            }
            Err(error) => return (at, Err(error)),
        }
    }
}

/// Sends and receives at the same time, and shuts its direction down after the last byte.
async fn whole(stream: &TcpStream, out: (u64, u64), back: (u64, u64), mut rng: fastrand::Rng) {
    let mut other = rng.fork();
    let sending = async {
        send(stream, out.0, out.1, &mut rng).await.unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
    };
    let ((), (received, end)) = join(sending, receive(stream, back.0, &mut other)).await;
    end.unwrap();
    assert_eq!(received, back.1);
}

/// Hundreds of connections at once.
fn conserves_through(addr: SocketAddr) {
    let mut rng = rng();
    runtime().block_on(async {
        let mut clients = JoinSet::new();
        for id in 0..300 {
            let mut rng = rng.fork();
            clients.spawn(async move {
                let stream = TcpStream::connect_addr(addr).await.unwrap();
                // Sometimes no bytes at all.
                let len = if id % 10 == 0 { rng.u64(..2) } else { rng.u64(..100_000) };
                whole(&stream, (id, len), (id, len), rng).await;
            });
        }
        while let Some(client) = clients.join_next().await {
            client.unwrap();
        }
    });
}

#[test]
fn echo_conserves() {
    let _watchdog = watchdog();
    let echo = Server::start("echo", &["--workers", "2"]);
    conserves_through(echo.addr);
    echo.end();
}

#[test]
fn echo_survives_resets() {
    let _watchdog = watchdog();
    let echo = Server::start("echo", &["--workers", "2"]);
    for _ in 0..100 {
        let mut stream = net::TcpStream::connect(echo.addr).unwrap();
        stream.write_all(&[7; 1_000]).unwrap();
        // With unread bytes the drop is a reset.
        stream.read_exact(&mut [0]).unwrap();
    }
    conserves_through(echo.addr);
    echo.end();
}

fn proxy_to(addr: SocketAddr, args: &[&str]) -> Server {
    let to = addr.to_string();
    Server::start("proxy", &[&["--workers", "2", "--to", &to], args].concat())
}

#[test]
fn proxy_conserves() {
    let _watchdog = watchdog();
    let echo = Server::start("echo", &["--workers", "1"]);
    let proxy = proxy_to(echo.addr, &[]);
    conserves_through(proxy.addr);
    proxy.end();
    echo.end();
}

/// How a connection of the next test ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Each side shuts its direction down after its last byte, the client first or the server.
    Whole,
    /// The client drops it halfway with an error, or the server does.
    ClientResets,
    ServerResets,
}

/// The first bytes of a connection: its number, how it ends, and how much each side sends.
struct Plan {
    id: u64,
    end: End,
    up: u64,
    down: u64,
}

const HEAD: u64 = 32;

impl Plan {
    fn head(&self) -> Vec<u8> {
        [self.id, self.end as u64, self.up, self.down]
            .iter()
            .flat_map(|n| n.to_le_bytes())
            .collect()
    }

    async fn read(stream: &TcpStream) -> Self {
        let mut head = [0; HEAD as usize];
        let mut len = 0;
        while len < head.len() {
            match stream.read(&mut head[len..]).await.unwrap() {
                0 => panic!("no plan"),
                n => len += n,
            }
        }
        let mut words = head.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let mut next = || words.next().unwrap();
        let (id, end) =
            (next(), [End::Whole, End::ClientResets, End::ServerResets][next() as usize]);
        Self { id, end, up: next(), down: next() }
    }

    async fn client(self, addr: SocketAddr, mut rng: fastrand::Rng) {
        let stream = TcpStream::connect_addr(addr).await.unwrap();
        stream.write_all(&self.head()).await.unwrap();
        let (up, down) = (2 * self.id, 2 * self.id + 1);
        match self.end {
            End::Whole => whole(&stream, (up, self.up), (down, self.down), rng).await,
            End::ClientResets => resets(stream, up, self.up, rng).await,
            End::ServerResets => {
                let (received, end) = receive(&stream, down, &mut rng).await;
                assert!(received <= self.down);
                assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset, "{}", self.id);
            }
        }
    }

    async fn server(self, stream: TcpStream, mut rng: fastrand::Rng) {
        let (up, down) = (2 * self.id, 2 * self.id + 1);
        match self.end {
            End::Whole => whole(&stream, (down, self.down), (up, self.up), rng).await,
            End::ServerResets => resets(stream, down, self.down, rng).await,
            End::ClientResets => {
                let (received, end) = receive(&stream, up, &mut rng).await;
                assert!(received <= self.up);
                assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset, "{}", self.id);
            }
        }
    }
}

/// Sends a part, and drops the connection with an error.
async fn resets(stream: TcpStream, id: u64, len: u64, mut rng: fastrand::Rng) {
    let part = rng.u64(..=len);
    send(&stream, id, part, &mut rng).await.unwrap();
    stream.set_linger(Some(Duration::ZERO)).unwrap();
}

/// A reset arrives as a reset, never as an end, and the bytes before it are right; the other
/// connections lose nothing.
#[test]
fn proxy_passes_on_ends_and_resets() {
    let _watchdog = watchdog();
    const CONNECTIONS: u64 = 300;
    let mut rng = rng();
    let runtime = runtime();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let proxy = proxy_to(listener.local_addr().unwrap(), &[]);
    let addr = proxy.addr;
    runtime.block_on(async {
        let mut sides = JoinSet::new();
        for id in 0..CONNECTIONS {
            let end = [End::Whole, End::ClientResets, End::ServerResets][rng.usize(..3)];
            let plan = Plan { id, end, up: rng.u64(..100_000), down: rng.u64(..100_000) };
            sides.spawn(plan.client(addr, rng.fork()));
        }
        for _ in 0..CONNECTIONS {
            let (stream, _) = listener.accept().await.unwrap();
            let rng = rng.fork();
            sides.spawn(async move { Plan::read(&stream).await.server(stream, rng).await });
        }
        while let Some(side) = sides.join_next().await {
            side.unwrap();
        }
    });
    proxy.end();
}

/// A server for one connection at a time, with blocking calls.
fn server_behind(args: &[&str]) -> (net::TcpListener, Server) {
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = proxy_to(listener.local_addr().unwrap(), args);
    (listener, proxy)
}

/// The memory of a process, in bytes.
fn resident(server: &Server) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id().as_raw_pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1_024
}

#[test]
fn a_slow_reader_makes_the_writer_wait() {
    let _watchdog = watchdog();
    const CONNECTIONS: usize = 8;
    const MIB: usize = 1 << 20;
    let (listener, proxy) = server_behind(&[]);
    let mut pairs: Vec<_> = (0..CONNECTIONS)
        .map(|_| (net::TcpStream::connect(proxy.addr).unwrap(), listener.accept().unwrap().0))
        .collect();
    let before = resident(&proxy);
    let chunk: Vec<u8> = (0..MIB).map(|at| byte(1, at as u64)).collect();
    let mut sent = Vec::new();
    for (writer, _) in &mut pairs {
        writer.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut len = 0;
        let blocked = loop {
            match writer.write(&chunk[len % MIB..]) {
                Ok(n) => len += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break error,
            }
            // The system's buffers have a limit.
            assert!(len < 64 * MIB, "the proxy takes everything");
        };
        assert_eq!(blocked.kind(), ErrorKind::WouldBlock, "{blocked}");
        sent.push(len);
    }
    let total: usize = sent.iter().sum();
    let grown = resident(&proxy).saturating_sub(before);
    println!("{} KiB on the way, of which {} KiB in the proxy", total / 1_024, grown / 1_024);
    // The buffers, and the allocator's overhead.
    assert!(grown < CONNECTIONS * 2 * 16 * 1_024 + 2 * MIB, "{grown} of {total}");

    for ((writer, mut reader), sent) in pairs.into_iter().zip(sent) {
        drop(writer);
        let mut received = Vec::new();
        reader.read_to_end(&mut received).unwrap();
        assert_eq!(received.len(), sent);
        assert!(received.chunks(MIB).all(|part| part == &chunk[..part.len()]));
    }
    proxy.end();
}

#[test]
fn either_side_may_end_first() {
    let _watchdog = watchdog();
    let (listener, proxy) = server_behind(&[]);
    for client_first in [true, false] {
        let client = net::TcpStream::connect(proxy.addr).unwrap();
        let (server, _) = listener.accept().unwrap();
        let (mut first, mut second) =
            if client_first { (client, server) } else { (server, client) };
        let mut said = String::new();
        first.write_all(b"all").unwrap();
        first.shutdown(Shutdown::Write).unwrap();
        second.read_to_string(&mut said).unwrap();
        assert_eq!(said, "all");
        // After the end of the other direction.
        second.write_all(b"thanks").unwrap();
        second.shutdown(Shutdown::Write).unwrap();
        said.clear();
        first.read_to_string(&mut said).unwrap();
        assert_eq!(said, "thanks");
    }
    proxy.end();
}

/// An HTTP server that refuses an upload answers, and closes with bytes unread.
#[test]
fn last_words_are_passed_on_before_a_reset() {
    let _watchdog = watchdog();
    let (listener, proxy) = server_behind(&[]);
    let mut client = net::TcpStream::connect(proxy.addr).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(&[1; 100_000]).unwrap();
    server.read_exact(&mut [0; 10]).unwrap();
    server.write_all(b"too large").unwrap();
    // The bytes have arrived before the reset, which would otherwise discard them.
    let mut said = [0; 9];
    client.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"too large");
    drop(server);
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    proxy.end();
}

#[test]
fn a_server_that_cannot_be_reached_resets_the_client() {
    let _watchdog = watchdog();
    // A backlog of one, which one connection fills: the system drops later ones.
    let silent = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&silent, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&silent, 0).unwrap();
    let silent = net::TcpListener::from(silent);
    let _in_the_way = net::TcpStream::connect(silent.local_addr().unwrap()).unwrap();
    // An address without a listener.
    let gone = net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (addr, why) in
        [(silent.local_addr().unwrap(), "no answer within 300ms"), (gone, "Connection refused")]
    {
        let proxy = proxy_to(addr, &["--connect-timeout", "0.3"]);
        let mut client = net::TcpStream::connect(proxy.addr).unwrap();
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        proxy.terminate();
        let said = String::from_utf8(proxy.wait().stderr).unwrap();
        assert!(said.starts_with(&format!("proxy: cannot connect to {addr}: {why}")), "{said}");
    }
}

#[test]
fn silence_ends_a_connection_and_a_trickle_does_not() {
    let _watchdog = watchdog();
    let (listener, proxy) = server_behind(&["--idle-timeout", "1.5"]);
    let connect = || {
        let client = net::TcpStream::connect(proxy.addr).unwrap();
        (client, listener.accept().unwrap().0)
    };
    let (mut silent_client, mut silent_server) = connect();
    let (mut client, mut server) = connect();
    // Traffic in one direction keeps both alive.
    for i in 0..25 {
        server.write_all(&[i]).unwrap();
        let mut got = [0];
        client.read_exact(&mut got).unwrap();
        assert_eq!(got, [i]);
        thread::sleep(Duration::from_millis(100));
    }
    client.write_all(&[25]).unwrap();
    server.read_exact(&mut [0]).unwrap();
    for side in [&mut silent_client, &mut silent_server] {
        assert_eq!(side.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    drop((client, server));
    proxy.end();
}

#[test]
fn connections_end_by_themselves_after_a_signal() {
    let _watchdog = watchdog();
    let echo = Server::start("echo", &["--workers", "1", "--grace", "60"]);
    let proxy = proxy_to(echo.addr, &["--grace", "60"]);
    let mut client = net::TcpStream::connect(proxy.addr).unwrap();
    client.write_all(b"before").unwrap();
    client.read_exact(&mut [0; 6]).unwrap();
    echo.terminate();
    proxy.terminate();
    while net::TcpStream::connect(proxy.addr).is_ok() {
        thread::yield_now();
    }
    client.write_all(b"after").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut said = String::new();
    client.read_to_string(&mut said).unwrap();
    assert_eq!(said, "after");
    for server in [proxy, echo] {
        let ended = server.wait();
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    }
}

#[test]
fn wrong_arguments_are_refused() {
    for (name, args) in [
        ("echo", &["--addr", "::1"][..]),
        ("echo", &["--to", "here:1"]),
        ("echo", &["--workers=none"]),
        ("proxy", &[]),
        ("proxy", &["--to", "here"]),
        ("proxy", &["--to", "here:1", "--idle-timeout", "0"]),
    ] {
        let refused = output(name, args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {refused:?}");
        assert!(refused.stdout.is_empty(), "{args:?}: {refused:?}");
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.starts_with(&format!("{name}: ")), "{said}");
        assert!(said.ends_with(&format!("\nTry '{name} --help'.\n")), "{said}");
    }
    for name in ["echo", "proxy"] {
        let help = output(name, &["--help"]);
        assert_eq!(help.status.code(), Some(0));
        assert!(help.stdout.starts_with(format!("Usage: {name} ").as_bytes()));
    }
}
