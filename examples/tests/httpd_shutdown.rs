//! Shuts the example `httpd` down under load: no request is lost.
#![cfg(target_os = "linux")]

mod servers;

use core::{
    error::Error,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use std::{
    io::Write,
    net::Shutdown,
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use filch_linux::{
    hyper::{Executor, Timer},
    net::TcpStream,
    spawn,
};
use futures_util::future::join_all;
use http_body_util::{BodyExt, Empty};
use hyper::{Request, body::Bytes, client::conn::http2};
use rustix::process::Signal;

use servers::{Answer, Client, Server, head, watchdog};

/// After the signal, the server closes connections only when they have been idle for so long.
const QUIET: Duration = Duration::from_millis(250);

/// The outcomes of the requests of all clients.
#[derive(Default)]
struct Count {
    answered: AtomicUsize,
    last: AtomicUsize,
    /// On a connection that was used before.
    refused: AtomicUsize,
    /// On a new connection.
    reset: AtomicUsize,
}

impl Count {
    fn add(to: &AtomicUsize) {
        to.fetch_add(1, Ordering::Relaxed);
    }
}

/// Clients that send the next request as soon as they have their answer, and reconnect after the
/// last one.
///
/// The check is strict: an answer is complete, or there is none. There may be none in two cases, in
/// which the server has not read a byte of the request, and the client can know it:
/// - on a connection that was idle for at least [`QUIET`] after the signal, and that the server
///   closed with no unread bytes in it: so the request must have been sent later than that;
/// - on a new connection that was made at the moment when the listener was closed: so it must have
///   been made after the signal.
#[test]
fn sigterm_under_load_loses_no_request() {
    const CLIENTS: usize = 64;
    let _watchdog = watchdog();
    for round in 0..3 {
        let server = Server::start("httpd", &["--workers", "2", "--grace", "60"]);
        let (addr, count, signalled) = (server.addr, Count::default(), Mutex::new(None));
        thread::scope(|scope| {
            for i in 0..CLIENTS {
                let (count, signalled) = (&count, &signalled);
                scope.spawn(move || {
                    let since_signal = |then: Instant| {
                        let signalled = signalled.lock().unwrap_or_else(PoisonError::into_inner);
                        signalled.and_then(|signal| then.checked_duration_since(signal))
                    };
                    while let Ok(mut client) = Client::connect(addr) {
                        let connected = Instant::now();
                        for request in 0.. {
                            let path =
                                ["/", "/sleep/1", "/sleep/20", "/metrics"][(i + request) % 4];
                            drop(client.send(path));
                            let sent = Instant::now();
                            match client.answer() {
                                Answer::Full(response) => {
                                    assert_eq!(response.status, 200);
                                    Count::add(&count.answered);
                                    if response.is_last {
                                        Count::add(&count.last);
                                        assert!(client.has_ended(), "it was not the last");
                                        break;
                                    }
                                }
                                Answer::Nothing if request > 0 => {
                                    let since = since_signal(sent);
                                    assert!(since >= Some(QUIET), "lost, sent at {since:?}");
                                    Count::add(&count.refused);
                                    break;
                                }
                                Answer::Nothing => {
                                    assert!(since_signal(connected).is_some(), "lost before");
                                    Count::add(&count.reset);
                                    break;
                                }
                                Answer::Broken(why) => panic!("{path}: {why}"),
                            }
                        }
                    }
                });
            }
            let enough = CLIENTS * 20 * (round + 1);
            while count.answered.load(Ordering::Relaxed) < enough {
                thread::yield_now();
            }
            // Before it is sent, so that no client sees its effect earlier.
            *signalled.lock().unwrap() = Some(Instant::now());
            server.terminate();
        });
        let ended = server.wait();
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        let Count { answered, last, refused, reset } = count;
        println!("{answered:?} answered, {last:?} the last; {refused:?} refused, {reset:?} reset");
        // A client that had a connection then was told that it ends, unless the connection was idle
        // for too long.
        assert!(last.into_inner() + refused.into_inner() + reset.into_inner() >= CLIENTS);
    }
}

/// The server is stopped in a state with all hard cases: connections wait in the queue, with a
/// request or without one; requests wait in connections that had been idle; and the signal waits
/// too.
#[test]
fn what_came_before_the_signal_is_served() {
    let _watchdog = watchdog();
    let server = Server::start("httpd", &["--workers", "2", "--grace", "60"]);
    let mut idle: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for client in &mut idle {
        assert!(!client.expect("/").is_last);
    }
    let mut silent = idle.split_off(40);
    // Received in part; the rest comes when the connection would have been idle for long.
    let mut halves = idle.split_off(30);
    let request = head("/sleep/1");
    let (begin, rest) = request.split_at(20);
    for client in &mut halves {
        client.stream.write_all(begin.as_bytes()).unwrap();
    }

    server.signal(Signal::STOP);
    let mut queued: Vec<_> = (0..100).map(|_| server.connect()).collect();
    // A queued connection need only be made.
    let mut late = queued.split_off(90);
    for client in idle.iter_mut().chain(&mut queued) {
        client.send("/sleep/1").unwrap();
    }
    server.terminate();
    let begin = Instant::now();
    server.signal(Signal::CONT);
    for client in &mut late {
        drop(client.send("/sleep/1"));
    }
    // On a machine too slow for this, they may have been idle for too long.
    let in_time = begin.elapsed() < QUIET;
    thread::sleep(3 * QUIET);
    for client in &mut halves {
        client.stream.write_all(rest.as_bytes()).unwrap();
    }

    for (what, clients) in
        [("idle", idle), ("queued", queued), ("late", late), ("in two halves", halves)]
    {
        for mut client in clients {
            match client.answer() {
                // If it was answered before the server got the signal, it is not marked as the last
                // one.
                Answer::Full(response) => assert_eq!(response.status, 200, "{what}"),
                Answer::Nothing if what == "late" && !in_time => {}
                other => panic!("{what}: {other:?}"),
            }
            assert!(client.has_ended(), "{what}");
        }
    }
    for client in &mut silent {
        assert!(client.has_ended());
    }
    let ended = server.wait();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

#[test]
fn a_request_under_way_is_answered() {
    let _watchdog = watchdog();
    let server = Server::start("httpd", &["--workers", "1", "--grace", "60"]);
    let mut client = server.connect();
    client.send("/sleep/600").unwrap();
    // It is being processed once a later request has been answered.
    assert_eq!(server.connect().expect("/").status, 200);
    // As Ctrl-C does.
    server.signal(Signal::INT);
    match client.answer() {
        Answer::Full(response) => {
            assert_eq!((&*response.body, response.is_last), ("slept 600 ms\n", true));
        }
        other => panic!("{other:?}"),
    }
    let (addr, ended) = (server.addr, server.wait());
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(Client::connect(addr).is_err(), "it still listens");
}

#[test]
fn a_request_that_takes_too_long_is_cut_off() {
    let _watchdog = watchdog();
    let server = Server::start("httpd", &["--workers", "2", "--grace", "0.3"]);
    let mut client = server.connect();
    client.send("/sleep/60000").unwrap();
    assert_eq!(server.connect().expect("/").status, 200);
    server.terminate();
    assert_eq!(client.answer(), Answer::Nothing);
    let ended = server.wait();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.ends_with("httpd: time is up: 1 connections cut off\n"), "{said}");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    use std::os::unix::process::ExitStatusExt;
    let _watchdog = watchdog();
    let server = Server::start("httpd", &["--workers", "2", "--grace", "1000"]);
    let mut client = server.connect();
    client.send("/sleep/60000").unwrap();
    assert_eq!(server.connect().expect("/").status, 200);
    server.terminate();
    // The listener is closed after the server has handled the first signal.
    while Client::connect(server.addr).is_ok() {
        thread::yield_now();
    }
    server.terminate();
    assert_eq!(client.answer(), Answer::Nothing);
    let ended = server.wait();
    assert_eq!(ended.status.signal(), Some(Signal::TERM.as_raw()), "{ended:?}");
}

/// Each stream that the server has accepted is answered; the others were never sent, or the server
/// refuses them.
#[test]
fn http2_ends_in_peace() {
    const STREAMS: usize = 16;
    let _watchdog = watchdog();
    let server = Server::start("httpd", &["--workers", "2", "--grace", "60"]);
    let (addr, answered) = (server.addr, AtomicUsize::new(0));
    let answered: &'static AtomicUsize = Box::leak(Box::new(answered));
    let runtime = filch_linux::Builder::new().workers(2).build().unwrap();
    let clients: Vec<_> = (0..4)
        .map(|_| {
            runtime.spawn(async move {
                let stream = TcpStream::connect_addr(addr).await.unwrap();
                let mut http = http2::Builder::new(Executor::new());
                let (sender, connection) =
                    http.timer(Timer::new()).handshake(stream).await.unwrap();
                let connection = spawn(connection);
                let streams = (0..STREAMS).map(|i| {
                    let mut sender = sender.clone();
                    spawn(async move {
                        loop {
                            let path = ["/", "/sleep/1", "/sleep/20", "/metrics"][i % 4];
                            let request = Request::get(format!("http://localhost{path}"));
                            let request = request.body(Empty::<Bytes>::new()).unwrap();
                            match sender.send_request(request).await {
                                Ok(response) => {
                                    assert_eq!(response.status(), 200);
                                    response.into_body().collect().await.expect("a whole body");
                                    answered.fetch_add(1, Ordering::Relaxed);
                                }
                                Err(error) => break error,
                            }
                        }
                    })
                });
                let mut errors = Vec::new();
                for error in join_all(streams.collect::<Vec<_>>()).await {
                    errors.push(error.expect("no panic"));
                }
                drop(sender);
                connection.await.expect("no panic").expect("an orderly end");
                errors
            })
        })
        .collect();
    while answered.load(Ordering::Relaxed) < 1_000 {
        thread::yield_now();
    }
    server.terminate();
    for client in clients {
        for error in runtime.block_on(client).expect("no panic") {
            assert!(error.is_canceled() || is_refusal(&error), "{error:?}");
        }
    }
    let ended = server.wait();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

/// The server has named the last stream that it accepted, and this one is later. (h2 has another
/// error for accepted streams that did not complete.)
fn is_refusal(error: &hyper::Error) -> bool {
    let h2 = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    h2.is_some_and(|h2| {
        h2.is_go_away() && h2.is_remote() && h2.reason() == Some(h2::Reason::NO_ERROR)
    })
}

/// Idle connections of every kind end within the grace period, those that are half shut down too.
#[test]
fn idle_connections_are_closed() {
    let _watchdog = watchdog();
    let server = Server::start("httpd", &["--workers", "2", "--grace", "60"]);
    let mut fresh = server.connect();
    let mut used = server.connect();
    assert_eq!(used.expect("/").status, 200);
    let mut served = server.connect();
    served.send("/").unwrap();
    served.stream.shutdown(Shutdown::Write).unwrap();
    assert!(matches!(served.answer(), Answer::Full(_)));
    server.terminate();
    assert!(fresh.has_ended());
    assert!(used.has_ended());
    assert!(served.has_ended());
    let ended = server.wait();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}
