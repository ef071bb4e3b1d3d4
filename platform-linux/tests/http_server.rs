//! A server in one line: a router on all workers, upgrades, an orderly end.

#[path = "tcp_common/mod.rs"]
mod common;

use core::net::SocketAddr;
use std::{io, thread};

use async_channel::{Receiver, Sender, bounded};
use axum::{Router, response::IntoResponse, routing::get};
use filch_linux::{
    JoinHandle,
    hyper::{Connector, Io, client_builder, serve, serve_until},
    net::TcpStream,
    spawn, timeout, yield_now,
};
use futures::{AsyncReadExt, AsyncWriteExt};
use http_body_util::{BodyExt, Empty};
use hyper::{
    Request, StatusCode,
    body::Bytes,
    header::{CONNECTION, UPGRADE},
};
use hyper_util::client::legacy::Client;

use common::{listen, run};

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
        let worker = spawn(async { thread::current().name().map(str::to_owned) }).await?.unwrap();
        let worker = worker.trim_end_matches(char::is_numeric);
        for http2 in [false, true] {
            let (status, thread) = ask(http2, addr, "/thread").await?;
            assert_eq!(status, StatusCode::OK);
            assert!(thread.starts_with(worker.as_bytes()), "{thread:?}, {worker}");
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
