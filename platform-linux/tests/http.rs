//! hyper on the runtime: both versions of HTTP from client to server, an upgrade, timers, and an
//! axum router.

#[path = "tcp_common/mod.rs"]
mod common;

use core::{future::Future, net::SocketAddr, time::Duration};
use std::{io, os::unix::net};

use axum::{Router, extract::Query, routing};
use filch_linux::{
    Async, JoinHandle,
    hyper::{Executor, Io, Sleep, Timer},
    net::{TcpListener, TcpStream, UnixStream},
    spawn, time,
};
use futures::{AsyncReadExt, AsyncWriteExt, future::try_join_all};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client,
    header::{CONNECTION, UPGRADE},
    rt::Timer as _,
    server::conn::{http1, http2},
    service::service_fn,
};
use tower_service::Service;

use common::{run, run_pausable};

type Error = Box<dyn core::error::Error + Send + Sync>;

/// Sends the body back, after the path.
async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Error> {
    let mut answer = request.uri().path().as_bytes().to_vec();
    answer.extend(request.into_body().collect().await?.to_bytes());
    Ok(Response::new(Full::from(answer)))
}

/// Sends the request numbered `i`, and checks the answer.
async fn ask<F>(i: usize, send: impl FnOnce(Request<Full<Bytes>>) -> F) -> Result<(), Error>
where
    F: Future<Output = hyper::Result<Response<Incoming>>>,
{
    let body: Bytes = (0..i * 7_919 % 60_000).map(|at| (at * (i + 3) / 5) as u8).collect();
    let uri = format!("http://localhost/{i}");
    let request = Request::post(uri).header("host", "localhost").body(Full::new(body.clone()))?;
    let answer = send(request).await?.into_body().collect().await?.to_bytes();
    assert_eq!(answer, [format!("/{i}").as_bytes(), &body].concat());
    Ok(())
}

/// Serves every connection in a task of its own; returns the address.
async fn listen<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> io::Result<SocketAddr>
where
    F: Future<Output = hyper::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            spawn(serve(stream)).detach();
        }
    })
    .detach();
    Ok(addr)
}

async fn all(tasks: impl Iterator<Item = JoinHandle<Result<(), Error>>>) -> Result<(), Error> {
    try_join_all(tasks).await?.into_iter().collect()
}

#[test]
fn http1_keeps_connections_alive() -> Result<(), Error> {
    run(3, async {
        let timer = Timer::new();
        let addr = listen(move |stream| {
            http1::Builder::new().timer(timer).serve_connection(stream, service_fn(echo))
        })
        .await?;
        let clients = (0..32).map(|client| {
            spawn(async move {
                let stream = TcpStream::connect(addr).await?;
                let (mut sender, connection) = client::conn::http1::handshake(stream).await?;
                let connection = spawn(connection);
                for i in 0..10 {
                    sender.ready().await?;
                    ask(10 * client + i, |request| sender.send_request(request)).await?;
                }
                drop(sender);
                Ok::<_, Error>(connection.await??)
            })
        });
        all(clients).await
    })
}

#[test]
fn http2_runs_streams_side_by_side() -> Result<(), Error> {
    run(3, async {
        let (executor, timer) = (Executor::new(), Timer::new());
        let addr = listen(move |stream| {
            let mut http = http2::Builder::new(executor);
            http.timer(timer).keep_alive_interval(Duration::from_secs(1));
            http.serve_connection(stream, service_fn(echo))
        })
        .await?;
        let stream = TcpStream::connect(addr).await?;
        let mut http = client::conn::http2::Builder::new(executor);
        let handshake = http.timer(timer).handshake::<_, Full<Bytes>>(stream);
        let (sender, connection) = handshake.await?;
        let connection = spawn(connection);
        let streams = (0..200).map(|i| {
            let mut sender = sender.clone();
            spawn(async move { ask(i, |request| sender.send_request(request)).await })
        });
        all(streams).await?;
        drop(sender);
        Ok(connection.await??)
    })
}

#[test]
fn unix_sockets_serve_too() -> Result<(), Error> {
    run(2, async {
        let (here, there) = UnixStream::pair()?;
        let served = spawn(http1::Builder::new().serve_connection(there, service_fn(echo)));
        let (mut sender, connection) = client::conn::http1::handshake(here).await?;
        let connection = spawn(connection);
        for i in 0..20 {
            sender.ready().await?;
            ask(i, |request| sender.send_request(request)).await?;
        }
        drop(sender);
        connection.await??;
        Ok(served.await??)
    })
}

/// The wrapped streams do not implement hyper's traits; without timers nothing else of the runtime
/// is needed.
#[test]
fn other_streams_are_wrapped() -> Result<(), Error> {
    run(2, async {
        let (here, there) = net::UnixStream::pair()?;
        let (here, there) = (Io::new(Async::new(here)?), Io::new(Async::new(there)?));
        let served = spawn(http1::Builder::new().serve_connection(there, service_fn(echo)));
        let (mut sender, connection) = client::conn::http1::handshake(here).await?;
        let connection = spawn(connection);
        for i in 0..20 {
            sender.ready().await?;
            ask(i, |request| sender.send_request(request)).await?;
        }
        drop(sender);
        connection.await??;
        // `poll_close` does not shut a Unix stream down, but the client has dropped its end.
        Ok(served.await??)
    })
}

#[test]
fn an_upgraded_connection_is_a_stream() -> Result<(), Error> {
    async fn upgrade(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Error> {
        spawn(async move {
            let mut stream = Io::new(hyper::upgrade::on(request).await?);
            let mut word = [0; 5];
            stream.read_exact(&mut word).await?;
            word.reverse();
            stream.write_all(&word).await?;
            Ok::<_, Error>(stream.close().await?)
        })
        .detach();
        let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
        Ok(response.header(CONNECTION, "upgrade").header(UPGRADE, "mirror").body(Full::default())?)
    }

    run(2, async {
        let addr = listen(|stream| {
            http1::Builder::new().serve_connection(stream, service_fn(upgrade)).with_upgrades()
        })
        .await?;
        let stream = TcpStream::connect(addr).await?;
        let (mut sender, connection) = client::conn::http1::handshake(stream).await?;
        spawn(connection.with_upgrades()).detach();
        let request = Request::get("/").header(CONNECTION, "upgrade").header(UPGRADE, "mirror");
        let response = sender.send_request(request.body(Full::<Bytes>::default())?).await?;
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        let mut stream = Io::new(hyper::upgrade::on(response).await?);
        stream.write_all(b"hello").await?;
        let mut mirrored = String::new();
        stream.read_to_string(&mut mirrored).await?;
        assert_eq!(mirrored, "olleh");
        Ok(())
    })
}

/// On a stopped clock: nothing here takes real time.
#[test]
fn a_peer_that_stops_in_its_headers_is_cut_off() -> Result<(), Error> {
    run_pausable(2, async {
        time::pause();
        let begin = time::now();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let client = TcpStream::connect_addr(listener.local_addr()?).await?;
        client.write(b"GET / HTTP/1.1\r\nhost: loc").await?;
        let (stream, _) = listener.accept().await?;
        let mut http = http1::Builder::new();
        http.timer(Timer::new()).header_read_timeout(Duration::from_secs(7));
        let error = http.serve_connection(stream, service_fn(echo)).await.unwrap_err();
        assert!(error.is_timeout(), "{error:?}");
        assert_eq!(time::now() - begin, Duration::from_secs(7));
        Ok(())
    })
}

#[test]
fn the_timer_follows_the_clock_of_the_runtime() {
    run_pausable(1, async {
        time::pause();
        let (begin, timer) = (time::now(), Timer::new());
        let hypers = timer.now();
        timer.sleep(Duration::from_secs(2)).await;
        assert_eq!(timer.now() - hypers, Duration::from_secs(2));

        let mut sleep = timer.sleep_until(hypers + Duration::from_secs(5));
        assert!(futures::poll!(&mut sleep).is_pending());
        timer.reset(&mut sleep, hypers + Duration::from_secs(60));
        assert!(sleep.is::<Sleep>(), "the same one");
        sleep.as_mut().await;
        assert_eq!(time::now() - begin, Duration::from_secs(60));
        // After it has ended, to a time in the past.
        timer.reset(&mut sleep, hypers);
        sleep.await;
        assert_eq!(time::now() - begin, Duration::from_secs(60));
    });
}

#[test]
fn a_stream_by_reference_reads_and_writes() -> Result<(), Error> {
    run(2, async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let client = TcpStream::connect_addr(listener.local_addr()?).await?;
        let (server, _) = listener.accept().await?;
        let serve = async {
            let http = http1::Builder::new();
            http.serve_connection(&server, service_fn(echo)).await?;
            // hyper has shut the stream down; it is not closed.
            assert_eq!(server.read(&mut [0]).await?, 0);
            Ok::<_, Error>(())
        };
        let ask = async {
            let (mut sender, connection) = client::conn::http1::handshake(client).await?;
            let connection = spawn(connection);
            ask(9, |request| sender.send_request(request)).await?;
            drop(sender);
            Ok::<_, Error>(connection.await??)
        };
        futures::try_join!(serve, ask)?;
        Ok(())
    })
}

#[test]
fn a_router_of_axum_is_served() -> Result<(), Error> {
    #[derive(serde::Deserialize)]
    struct Sum {
        a: u64,
        b: u64,
    }

    run(2, async {
        let router = Router::new()
            .route("/sum", routing::get(|Query(Sum { a, b })| async move { (a + b).to_string() }))
            .route(
                "/slow",
                routing::post(|body: String| async move {
                    time::sleep(Duration::from_millis(1)).await;
                    body.to_uppercase()
                }),
            );
        let addr = listen(move |stream| {
            let router = router.clone();
            let service = service_fn(move |request| router.clone().call(request));
            http1::Builder::new().serve_connection(stream, service)
        })
        .await?;
        let stream = TcpStream::connect(addr).await?;
        let (mut sender, connection) =
            client::conn::http1::handshake::<_, Full<Bytes>>(stream).await?;
        spawn(connection).detach();
        let cases = [
            (Request::get("/sum?a=40&b=2"), "", StatusCode::OK, "42"),
            (Request::post("/slow"), "loud", StatusCode::OK, "LOUD"),
            (Request::get("/nowhere"), "", StatusCode::NOT_FOUND, ""),
            (Request::get("/slow"), "", StatusCode::METHOD_NOT_ALLOWED, ""),
        ];
        for (request, body, status, answer) in cases {
            sender.ready().await?;
            let response = sender.send_request(request.body(Full::from(body))?).await?;
            assert_eq!(response.status(), status);
            assert_eq!(response.into_body().collect().await?.to_bytes(), answer);
        }
        Ok(())
    })
}
