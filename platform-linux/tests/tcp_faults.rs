//! TCP when things go wrong: resets, no more descriptors, writes without a reader.

mod tcp_common;

use core::{future::Future as _, pin::pin, task::Poll, time::Duration};
use std::{
    env,
    io::{BufRead as _, BufReader, ErrorKind, IoSlice, Read as _, Write as _},
    net,
    process::{Child, Command, Stdio},
};

use filch_linux::net::TcpStream;
use filch_std::time;
use rustix::process::{Resource, Rlimit};
use tcp_common::{listen, pair, rng, run, run_pausable, watchdog};

/// Names the part that a child process plays.
const PART: &str = "FILCH_TEST_PART";

fn part() -> Option<String> {
    env::var(PART).ok()
}

/// Starts this test program again, with one test only, which plays its part.
fn play(test: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(PART, test)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads until the end or an error; returns how many bytes it was.
async fn read_all(stream: &TcpStream) -> (u64, Option<ErrorKind>) {
    let (mut sum, mut buf) = (0, [0; 1_000]);
    loop {
        match stream.read(&mut buf).await {
            Ok(0) => return (sum, None),
            Ok(n) => sum += n as u64,
            Err(error) => return (sum, Some(error.kind())),
        }
    }
}

#[test]
fn a_reset_at_any_byte_ends_reads() {
    let mut rng = rng();
    run(2, async {
        for _ in 0..500 {
            let (one, other) = pair().await;
            let len = rng.u64(..=20_000);
            let reading = filch_linux::spawn(async move { read_all(&other).await });
            let mut left = len;
            while left > 0 {
                let piece = vec![1; left.min(rng.u64(1..=5_000)) as usize];
                left -= one.write(&piece).await.unwrap() as u64;
            }
            one.set_linger(Some(Duration::ZERO)).unwrap();
            drop(one);
            let (sum, end) = reading.await.unwrap();
            assert!(sum <= len);
            assert!(matches!(end, None | Some(ErrorKind::ConnectionReset)), "{end:?}");
            if end.is_none() {
                assert_eq!(sum, len, "an end is no reset");
            }
        }
    });
}

#[test]
fn a_reset_at_any_byte_ends_writes() {
    let mut rng = rng();
    run(2, async {
        for _ in 0..500 {
            let (one, other) = pair().await;
            let writing = filch_linux::spawn(async move {
                loop {
                    if let Err(error) = one.write(&[2; 3_000]).await {
                        return error.kind();
                    }
                }
            });
            let mut left = rng.usize(..=50_000);
            while left > 0 {
                let mut piece = vec![0; left.min(4_000)];
                left -= other.read(&mut piece).await.unwrap();
            }
            other.set_linger(Some(Duration::ZERO)).unwrap();
            drop(other);
            let kind = writing.await.unwrap();
            assert!(
                [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&kind),
                "{kind:?}"
            );
        }
    });
}

#[test]
fn both_directions_see_a_reset() {
    run(2, async {
        for _ in 0..100 {
            let (one, other) = pair().await;
            let (mut reader, mut writer) = other.into_split();
            let reading = filch_linux::spawn(async move { reader.read(&mut [0; 8]).await });
            let writing = filch_linux::spawn(async move {
                loop {
                    if let Err(error) = writer.write(&[3; 10_000]).await {
                        return error.kind();
                    }
                }
            });
            one.set_linger(Some(Duration::ZERO)).unwrap();
            drop(one);
            // The first to ask gets the reset, the other one its consequence.
            let read = reading.await.unwrap().map_err(|error| error.kind());
            assert!(matches!(read, Ok(0) | Err(ErrorKind::ConnectionReset)), "{read:?}");
            let kind = writing.await.unwrap();
            assert!(
                [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&kind),
                "{kind:?}"
            );
        }
    });
}

/// Clients of the server that runs short of descriptors.
const CLIENTS: usize = 100;

#[test]
fn a_server_without_descriptors_goes_on() {
    if part().is_some() {
        return serve_with_few_descriptors();
    }
    let _watchdog = watchdog();
    let mut child = play("a_server_without_descriptors_goes_on");
    let mut orders = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut told = |what: &str| {
        lines.find_map(|line| line.split_once(what).map(|(_, rest)| rest.to_owned())).unwrap()
    };

    let addr: core::net::SocketAddr = told("listens on ").parse().unwrap();
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut stream = net::TcpStream::connect(addr).unwrap();
            stream.write_all(b"x").unwrap();
            stream
        })
        .collect();
    // All wait in the backlog by now, and hold what they get until the server has no descriptor
    // left.
    writeln!(orders, "go").unwrap();
    told("has none left");
    for mut client in clients.drain(..) {
        let mut echo = [0];
        client.read_exact(&mut echo).unwrap();
        assert_eq!(&echo, b"x");
    }
    told("has served all");
    assert!(child.wait().unwrap().success());
}

fn serve_with_few_descriptors() {
    run_pausable(2, async {
        let (listener, addr) = listen().await;
        println!("listens on {addr}");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        let few = Rlimit { current: Some(50), maximum: Some(50) };
        rustix::process::setrlimit(Resource::Nofile, few).unwrap();

        let echo = |stream: TcpStream| {
            filch_linux::spawn(async move {
                let mut buf = [0; 1];
                assert_eq!(stream.read(&mut buf).await.unwrap(), 1);
                stream.write(&buf).await.unwrap();
                assert_eq!(stream.read(&mut buf).await.unwrap(), 0);
            })
        };
        let mut echoes = Vec::new();
        let error = loop {
            match listener.accept().await {
                Ok((stream, _)) => echoes.push(echo(stream)),
                Err(error) => break error,
            }
        };
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE));

        let mut incoming = listener.incoming();
        // On a stopped clock. The pause is 10 ms, then twice the one before, but at most 1 s: it
        // finds the shortage after 0, 10, 30, 70, 150, 310, 630, 1270, 2270 and 3270 ms.
        time::pause();
        let waited = time::timeout(Duration::from_millis(3_500), incoming.next()).await;
        time::resume();
        assert!(waited.is_err());
        assert_eq!(incoming.shortages(), 10);
        {
            let mut next = pin!(filch_linux::task::unconstrained(incoming.next()));
            let polled = core::future::poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await;
            assert!(polled.is_pending(), "it rests");
            println!("has none left");
            echoes.push(echo(next.await.unwrap().0));
        }
        while echoes.len() < CLIENTS {
            echoes.push(echo(incoming.next().await.unwrap().0));
        }
        assert!(incoming.shortages() > 10);
        for echo in echoes {
            echo.await.unwrap();
        }
        println!("has served all");
    });
}

#[test]
fn writes_to_nobody_raise_no_signal() {
    if part().is_none() {
        let _watchdog = watchdog();
        let mut child = play("writes_to_nobody_raise_no_signal");
        drop(child.stdin.take());
        let status = child.wait().unwrap();
        assert!(status.success(), "{status}");
        return;
    }
    // SAFETY: the default action is valid for this signal.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    run(1, async {
        let (one, other) = pair().await;
        one.shutdown(net::Shutdown::Write).unwrap();
        assert_eq!(one.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        let bufs = [IoSlice::new(b"x"), IoSlice::new(b"y")];
        assert_eq!(one.write_vectored(&bufs).await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        drop(other);
    });
}

#[test]
fn a_listener_that_is_shut_down_says_so() {
    run(1, async {
        let (listener, _) = listen().await;
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
        assert_eq!(listener.accept().await.unwrap_err().kind(), ErrorKind::InvalidInput);
        let error = listener.incoming().next().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "no rest helps");
    });
}
