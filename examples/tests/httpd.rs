//! Runs the example `httpd`: its answers, and the connections that it refuses.
#![cfg(target_os = "linux")]

mod servers;

use core::future::Future;
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener},
    process::{Command, Stdio},
};

use filch_linux::{
    hyper::{Executor, Timer},
    net::TcpStream,
    spawn,
};
use futures_util::future::try_join_all;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, Version, body::Bytes, body::Incoming, client::conn};

use servers::{Answer, Server, output, watchdog};

type Error = Box<dyn core::error::Error + Send + Sync>;

#[test]
fn it_answers() {
    let _watchdog = watchdog();
    let server = Server::start("httpd", &["--workers", "2"]);
    let mut client = server.connect();
    for (path, status, body) in [
        ("/", 200, "hello, world\n"),
        ("/sleep/0", 200, "slept 0 ms\n"),
        ("/sleep/20", 200, "slept 20 ms\n"),
        ("/sleep/60001", 400, "not longer than 60000 ms\n"),
        ("/nowhere", 404, ""),
        ("/echo", 405, ""),
    ] {
        let response = client.expect(path);
        assert_eq!((response.status, &*response.body), (status, body), "{path}");
        assert!(!response.is_last, "{path}");
    }
    drop(client);
    server.end();
}

#[test]
fn curl_is_served() {
    let _watchdog = watchdog();
    if Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("left out: there is no curl");
        return;
    }
    let server = Server::start("httpd", &["--workers=2"]);
    let body = "0123456789".repeat(50_000);
    for version in ["--http1.0", "--http1.1", "--http2-prior-knowledge"] {
        for expect in ["Expect: 100-continue", "Expect:"] {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--show-error", "--fail", version, "--header", expect]);
            curl.args(["--data-binary", "@-", &format!("http://{}/echo", server.addr)]);
            let mut curl =
                curl.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it is there");
            curl.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
            let echoed = curl.wait_with_output().unwrap();
            assert!(echoed.status.success(), "{version}, {expect}: {}", echoed.status);
            assert!(echoed.stdout == body.as_bytes(), "{version}, {expect}");
        }
    }
    server.end();
}

/// Sends each of some requests with its own body, one after the other, and checks that the body
/// comes back.
async fn ask<F>(
    client: usize,
    version: Version,
    mut send: impl FnMut(Request<Full<Bytes>>) -> F,
) -> Result<(), Error>
where
    F: Future<Output = hyper::Result<Response<Incoming>>>,
{
    for i in 0..10 {
        let body: Bytes = (0..client * i * 997).map(|at| (at * (i + 3) / 7) as u8).collect();
        let request = Request::post("http://localhost/echo").header("host", "localhost");
        let response = send(request.body(Full::new(body.clone()))?).await?;
        assert_eq!((response.status().as_u16(), response.version()), (200, version));
        assert!(response.into_body().collect().await?.to_bytes() == body);
    }
    Ok(())
}

#[test]
fn hypers_client_is_served() -> Result<(), Error> {
    let _watchdog = watchdog();
    let server = Server::start("httpd", &["--workers", "2"]);
    let addr = server.addr;
    filch_linux::Builder::new().workers(2).build()?.block_on(async {
        let clients = (0..20).map(|client| {
            spawn(async move {
                let stream = TcpStream::connect_addr(addr).await?;
                let (mut sender, connection) = conn::http1::handshake(stream).await?;
                let connection = spawn(connection);
                ask(client, Version::HTTP_11, |request| sender.send_request(request)).await?;
                drop(sender);
                Ok::<_, Error>(connection.await??)
            })
        });
        try_join_all(clients.collect::<Vec<_>>()).await?.into_iter().collect::<Result<(), _>>()?;

        let stream = TcpStream::connect_addr(addr).await?;
        let mut http = conn::http2::Builder::new(Executor::new());
        let (sender, connection) = http.timer(Timer::new()).handshake(stream).await?;
        let connection = spawn(connection);
        let streams = (0..20).map(|client| {
            let mut sender = sender.clone();
            spawn(async move {
                ask(client, Version::HTTP_2, |request| sender.send_request(request)).await
            })
        });
        try_join_all(streams.collect::<Vec<_>>()).await?.into_iter().collect::<Result<(), _>>()?;
        drop(sender);
        Ok::<_, Error>(connection.await??)
    })?;
    server.end();
    Ok(())
}

/// The library's tests check the format; this test checks that the figures are those of the server.
#[test]
fn metrics_are_those_of_the_server() {
    let _watchdog = watchdog();
    let server = Server::start("httpd", &["--workers", "2"]);
    let mut client = server.connect();
    let mut find = |name: &str| -> Option<f64> {
        let text = client.expect("/metrics").body;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map(|value| value.parse().unwrap())
    };
    // The threads start at their own time.
    while find("filch_worker_online{worker=\"0\"}") != Some(1.0) {}
    while find("filch_worker_online{worker=\"1\"}") != Some(1.0) {}
    let mut figure = |name: &str| find(name).unwrap_or_else(|| panic!("no {name}"));
    let before = figure("filch_tasks_spawned_total");
    let polls = figure("filch_worker_polls_total{worker=\"0\"}");
    let polls = polls + figure("filch_worker_polls_total{worker=\"1\"}");
    assert!(polls > 0.0);
    for _ in 0..10 {
        server.connect().expect("/sleep/1");
    }
    assert_eq!(figure("filch_tasks_spawned_total"), before + 10.0);
    let timers = figure("filch_worker_timers_total{worker=\"0\"}");
    assert!(timers + figure("filch_worker_timers_total{worker=\"1\"}") >= 10.0);
    // The task that accepts, and that of this connection.
    assert!(figure("filch_tasks_live") >= 2.0);
    // The listener and this connection; a request at least is an event of each connection.
    assert!(figure("filch_io_sources") >= 2.0);
    assert!(figure("filch_io_events_total") >= 11.0);
    drop(client);
    server.end();
}

#[test]
fn half_open_peers_are_cut_off() {
    let _watchdog = watchdog();
    let server = Server::start("httpd", &["--workers", "2", "--header-timeout", "0.2"]);
    let mut starts =
        vec!["", "G", "GET / HTTP/1.1\r\nhost: loc", "PRI * HT", "PRI * HTTP/2.0\r\n\r"];
    // The stream ends in the middle of something, and after nothing.
    starts.extend(starts.clone());
    let mut clients = Vec::new();
    for (i, start) in starts.iter().enumerate() {
        let mut client = server.connect();
        client.stream.write_all(start.as_bytes()).unwrap();
        if i >= starts.len() / 2 {
            client.stream.shutdown(Shutdown::Write).unwrap();
        }
        clients.push(client);
    }
    // A connection that has been served, and falls silent.
    let mut served = server.connect();
    assert_eq!(served.expect("/").status, 200);
    served.stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    clients.push(served);
    for mut client in clients {
        // The server may send an error first, as long as it closes the connection.
        let mut said = Vec::new();
        drop(client.stream.read_to_end(&mut said));
        let said = String::from_utf8(said).unwrap();
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
    }
    assert_eq!(server.connect().expect("/").status, 200);
    server.end();
}

/// The limit is for heads of requests, not for answers.
#[test]
fn a_slow_answer_is_waited_for() {
    let _watchdog = watchdog();
    let server = Server::start("httpd", &["--workers", "2", "--header-timeout", "0.2"]);
    let mut client = server.connect();
    for _ in 0..2 {
        assert_eq!(client.expect("/sleep/500").body, "slept 500 ms\n");
    }
    drop(client);
    server.end();
}

#[test]
fn running_out_of_descriptors_is_no_end() {
    let _watchdog = watchdog();
    const CLIENTS: usize = 60;
    let server = Server::start_short("httpd", 32, &["--workers", "2"]);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("/").unwrap();
    }
    // The first clients are served; each that leaves makes room for another.
    for (i, client) in clients.iter_mut().enumerate() {
        assert!(matches!(client.answer(), Answer::Full(_)), "client {i}");
        client.stream.shutdown(Shutdown::Both).unwrap();
    }
    server.terminate();
    let ended = server.wait();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("httpd: ran out of file descriptors or memory"), "{said}");
}

#[test]
fn wrong_arguments_are_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    for (args, status) in [
        (&["--addr", "here"][..], 2),
        (&["--workers", "0"], 2),
        (&["--workers", "99999999"], 2),
        (&["--grace", "-1"], 2),
        (&["--header-timeout=soon"], 2),
        (&["--addr"], 2),
        (&["here"], 2),
        (&["--addr", &addr], 1),
    ] {
        let refused = output("httpd", args);
        assert_eq!(refused.status.code(), Some(status), "{args:?}: {refused:?}");
        assert!(refused.stdout.is_empty(), "{args:?}: {refused:?}");
        assert!(refused.stderr.starts_with(b"httpd: "), "{args:?}: {refused:?}");
    }
    let help = output("httpd", &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(help.stdout.starts_with(b"Usage: httpd "));
}
