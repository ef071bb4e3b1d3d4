//! A server in one line: a router on all workers, upgrades, an orderly end.

#[path = "tcp_common/mod.rs"]
mod common;

use core::{future::pending, net::SocketAddr, time::Duration};
use std::{io, thread};

use async_channel::{Receiver, Sender, bounded};
use axum::{Router, response::IntoResponse, routing::get};
use filch_linux::{
    JoinHandle,
    hyper::{
        Connector, Executor, HTTP2_PING_TIMEOUT, Io, ServeOptions, client_builder, serve,
        serve_until, serve_with,
    },
    net::TcpStream,
    spawn,
    task::yield_now,
    time::{self, sleep, timeout},
};
use futures::{AsyncReadExt, AsyncWriteExt};
use http_body_util::{BodyExt, Empty};
use hyper::{
    Request, StatusCode,
    body::Bytes,
    client::conn::http2,
    header::{CONNECTION, UPGRADE},
};
use hyper_util::client::legacy::Client;

use common::{listen, read_to_end, run, run_pausable, write_all};

type Error = Box<dyn core::error::Error + Send + Sync>;

fn client(http2: bool) -> Client<Connector, Empty<Bytes>> {
    client_builder().http2_only(http2).build(Connector::new())
}

async fn ask(http2: bool, addr: SocketAddr, path: &str) -> Result<(StatusCode, Bytes), Error> {
    let response = client(http2).get(format!("http://{addr}{path}").parse()?).await?;
    Ok((response.status(), response.into_body().collect().await?.to_bytes()))
}

fn asked(
    http2: bool,
    addr: SocketAddr,
    path: &'static str,
) -> JoinHandle<Result<(StatusCode, Bytes), Error>> {
    spawn(async move { ask(http2, addr, path).await })
}

/// A router, with a resource that tells when it has begun, and answers when the gate is open.
fn router(begun: Sender<()>, gate: Receiver<()>) -> Router {
    let late = async move || {
        begun.send(()).await.map_err(|_| StatusCode::GONE)?;
        gate.recv().await.map_err(|_| StatusCode::GONE)
    };
    let thread = async || thread::current().name().unwrap_or_default().to_owned();
    Router::new().route("/late", get(late)).route("/thread", get(thread))
}

#[test]
fn a_router_runs_on_the_workers() -> Result<(), Error> {
    run(2, async {
        let ((begun, _), (_, gate)) = (bounded(1), bounded(1));
        let (listener, addr) = listen().await;
        let serving = spawn(serve(listener, router(begun, gate)));
        // The thread of `block_on` is one of the two workers.
        let here = thread::current().name().unwrap().to_owned();
        let is_worker = |name: &[u8]| name == here.as_bytes() || name.starts_with(b"filch-");
        for http2 in [false, true] {
            let (status, thread) = ask(http2, addr, "/thread").await?;
            assert_eq!(status, StatusCode::OK);
            assert!(is_worker(&thread), "{thread:?}");
            assert_eq!(ask(http2, addr, "/nowhere").await?.0, StatusCode::NOT_FOUND);
        }
        assert!(!serving.is_finished());
        serving.abort();
        Ok(())
    })
}

#[test]
fn what_is_under_way_is_answered() -> Result<(), Error> {
    for http2 in [false, true] {
        run(2, async {
            let ((begun, begins), (open, gate)) = (bounded(1), bounded(1));
            let (stop, stopped) = bounded::<()>(1);
            let (listener, addr) = listen().await;
            let stopped = async move { stopped.recv().await };
            let mut serving = spawn(serve_until(listener, router(begun, gate), stopped));
            let late = asked(http2, addr, "/late");
            begins.recv().await?;
            drop(stop);
            while TcpStream::connect_addr(addr).await.is_ok() {
                yield_now().await;
            }
            assert!(!late.is_finished());
            let ended = timeout(core::time::Duration::ZERO, &mut serving).await;
            assert!(ended.is_err(), "a request is under way");
            open.send(()).await?;
            assert_eq!(late.await??.0, StatusCode::OK);
            Ok::<_, Error>(serving.await??)
        })?;
    }
    Ok(())
}

#[test]
fn a_connection_may_be_upgraded() -> Result<(), Error> {
    async fn upgrade(request: axum::extract::Request) -> impl IntoResponse {
        spawn(async move {
            let mut stream = Io::new(hyper::upgrade::on(request).await.map_err(io::Error::other)?);
            let mut word = [0; 5];
            stream.read_exact(&mut word).await?;
            word.reverse();
            stream.write_all(&word).await?;
            stream.close().await
        })
        .detach();
        (StatusCode::SWITCHING_PROTOCOLS, [(CONNECTION, "upgrade"), (UPGRADE, "mirror")])
    }

    run(2, async {
        let (listener, addr) = listen().await;
        let serving = spawn(serve(listener, Router::new().route("/", get(upgrade))));
        let request = Request::get(format!("http://{addr}/")).header(CONNECTION, "upgrade");
        let request = request.header(UPGRADE, "mirror").body(Empty::<Bytes>::new())?;
        let response = client(false).request(request).await?;
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        let mut stream = Io::new(hyper::upgrade::on(response).await?);
        stream.write_all(b"hello").await?;
        let mut mirrored = String::new();
        stream.read_to_string(&mut mirrored).await?;
        assert_eq!(mirrored, "olleh");
        serving.abort();
        Ok(())
    })
}

/// What a connection of HTTP/2 begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SECOND: Duration = Duration::from_secs(1);

fn hello() -> Router {
    Router::new().route("/", get(async || "hello"))
}

/// On a stopped clock: nothing here takes real time.
#[test]
fn a_client_that_shows_no_version_is_closed() {
    for (options, limit) in [
        (ServeOptions::new(), 30 * SECOND),
        (ServeOptions::new().head_timeout(Some(7 * SECOND)), 7 * SECOND),
    ] {
        run_pausable(2, async {
            time::pause();
            let (listener, addr) = listen().await;
            let serving = spawn(serve_with(options, listener, hello(), pending::<()>()));
            for sent in [&PREFACE[..0], &PREFACE[..1], &PREFACE[..23]] {
                let begin = time::now();
                let client = TcpStream::connect_addr(addr).await.unwrap();
                write_all(&client, sent).await;
                assert_eq!(read_to_end(&client).await, b"", "closed, without an answer");
                assert_eq!(time::now() - begin, limit, "{sent:?}");
            }
            assert!(!serving.is_finished(), "the server goes on");
            assert_eq!(ask(false, addr, "/").await.unwrap().0, StatusCode::OK);
            serving.abort();
        });
    }
}

/// The bytes of each client come one by one, in 24 seconds: each but the last is one that HTTP/2 begins with, too.
#[test]
fn a_client_that_is_slow_to_show_its_version_is_served() {
    const POST: &[u8] = b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    const PRINT: &[u8] = b"PRINT / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    run_pausable(2, async {
        time::pause();
        let (listener, addr) = listen().await;
        let serving = spawn(serve(listener, hello()));
        for (request, shared) in [(POST, 1), (PRINT, 3)] {
            let client = TcpStream::connect_addr(addr).await.unwrap();
            for byte in &request[..shared] {
                sleep(8 * SECOND).await;
                write_all(&client, &[*byte]).await;
            }
            sleep(5 * SECOND).await;
            write_all(&client, &request[shared..]).await;
            let answer = read_to_end(&client).await;
            assert!(answer.starts_with(b"HTTP/1.1 405 Method Not Allowed"), "{answer:?}");
        }
        serving.abort();
    });
}

/// The limit ends with the version: an hour later a connection of HTTP/2 has its answers.
#[test]
fn a_connection_of_known_version_has_no_such_limit() {
    run_pausable(2, async {
        time::pause();
        let (listener, addr) = listen().await;
        let serving = spawn(serve(listener, hello()));
        let mut builder = client_builder();
        let client = builder.http2_only(true).pool_idle_timeout(None).build(Connector::new());
        let uri: hyper::Uri = format!("http://{addr}/").parse().unwrap();
        let mut ends = Vec::new();
        for _ in 0..2 {
            let request = Request::get(uri.clone()).body(Empty::<Bytes>::new()).unwrap();
            let response = client.request(request).await.unwrap();
            let info = response.extensions().get::<filch_linux::hyper::ConnectInfo>().cloned();
            ends.push(info.map(|info| format!("{info:?}")));
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hello");
            sleep(3_600 * SECOND).await;
        }
        assert!(ends[0].is_some() && ends[0] == ends[1], "the same connection: {ends:?}");
        serving.abort();
    });
}

/// A client of HTTP/2 that has shown its version, and then dies without a word; also one that an orderly end waits for.
#[test]
fn a_client_that_answers_no_ping_is_closed() {
    // An empty SETTINGS frame.
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    let impatient = ServeOptions::new().http2_keep_alive(Some(5 * SECOND));
    for (options, silence) in [(ServeOptions::new(), 30 * SECOND), (impatient, 5 * SECOND)] {
        for settings in [&SETTINGS[..0], SETTINGS] {
            run_pausable(2, async {
                time::pause();
                let (stop, stopped) = bounded::<()>(1);
                let (listener, addr) = listen().await;
                let stopped = async move { stopped.recv().await };
                let serving = spawn(serve_with(options, listener, hello(), stopped));
                let begin = time::now();
                let client = TcpStream::connect_addr(addr).await.unwrap();
                write_all(&client, &[PREFACE, settings].concat()).await;
                sleep(SECOND).await;
                drop(stop);
                serving.await.unwrap().unwrap();
                assert_eq!(time::now() - begin, silence + HTTP2_PING_TIMEOUT);
            });
        }
    }
}

/// A client that was there before the server. Its connection sends at once, too: a ping that waits for the acknowledgement of the answer
/// before it, which takes real time, is one that nobody answers.
#[test]
fn a_client_that_answers_pings_stays() -> Result<(), Error> {
    run_pausable(2, async {
        time::pause();
        let (listener, addr) = listen().await;
        let stream = Io::new(TcpStream::connect_addr(addr).await?);
        let serving = spawn(serve(listener, hello()));
        let (mut client, connection) = http2::handshake(Executor::new(), stream).await?;
        let connection = spawn(connection);
        for _ in 0..2 {
            let request = Request::get(format!("http://{addr}/")).body(Empty::<Bytes>::new())?;
            let response = client.send_request(request).await?;
            assert_eq!(response.into_body().collect().await?.to_bytes(), "hello");
            sleep(3_600 * SECOND).await;
        }
        assert!(!connection.is_finished());
        serving.abort();
        Ok(())
    })
}

/// Without waiting: the clock of the test is stopped, and does not move.
#[test]
fn the_end_waits_for_no_client_that_shows_no_version() {
    run_pausable(2, async {
        time::pause();
        let (stop, stopped) = bounded::<()>(1);
        let (listener, addr) = listen().await;
        let stopped = async move { stopped.recv().await };
        let serving = spawn(serve_until(listener, hello(), stopped));
        let mut clients = Vec::new();
        for sent in [&PREFACE[..0], &PREFACE[..1], &PREFACE[..23]] {
            let client = TcpStream::connect_addr(addr).await.unwrap();
            write_all(&client, sent).await;
            clients.push(client);
        }
        // Connections are accepted in their order.
        assert_eq!(ask(false, addr, "/").await.unwrap().0, StatusCode::OK);
        let begin = time::now();
        drop(stop);
        serving.await.unwrap().unwrap();
        assert_eq!(time::now(), begin);
    });
}
