//! axum, and what is around it.

use core::time::Duration;

use axum::{
    Router,
    extract::ws::{WebSocket, WebSocketUpgrade},
    routing::get,
};
use filch_linux::{
    net::{TcpListener, TcpStream},
    spawn,
};
use futures::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, body::Bytes, service::service_fn};

use super::row;
use crate::{Done, Row, equal};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row!(
            "axum",
            "`Router`, served by hyper",
            served_by_hyper,
            "feature `hyper`; all workers serve"
        ),
        row!("axum", "`axum::serve`", served_by_axum, "a `Router` served by hyper"),
        row!("axum", "WebSocket; client: tokio-tungstenite", web_socket, "async-tungstenite"),
        row!("axum-server", "`bind`, `serve`", axum_server, "a `Router` served by hyper"),
        row!(
            "tower-http",
            "`TimeoutLayer`",
            tower_http,
            "`filch_linux::time::timeout` in the handler"
        ),
    ]
}

fn router() -> Router {
    // What is heavy goes to the workers, whatever thread serves.
    Router::new().route("/", get(async || spawn(async { "hello" }).await.unwrap_or("cancelled")))
}

/// Gets a page by hyper, over this runtime's sockets.
async fn body(
    addr: std::net::SocketAddr,
) -> Result<(u16, Bytes), Box<dyn core::error::Error + Send + Sync>> {
    let stream = TcpStream::connect_addr(addr).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    spawn(connection).detach();
    let request = Request::get("/").header("host", "localhost").body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    Ok((status, response.into_body().collect().await?.to_bytes()))
}

/// Serves connections by hyper, as tasks of this runtime.
async fn serve(router: Router) -> std::io::Result<std::net::SocketAddr> {
    use tower::Service;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let router = router.clone();
            let service = service_fn(move |request| router.clone().call(request));
            let http = hyper::server::conn::http1::Builder::new();
            spawn(http.serve_connection(stream, service)).detach();
        }
    })
    .detach();
    Ok(addr)
}

async fn served_by_hyper() -> Done {
    equal(body(serve(router()).await?).await?, (200, Bytes::from("hello")))
}

async fn served_by_axum() -> Done {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    spawn(async move { axum::serve(listener, router()).await }).detach();
    equal(body(addr).await?, (200, Bytes::from("hello")))
}

async fn web_socket() -> Done {
    use tokio_tungstenite::tungstenite::Message;
    async fn echo(mut socket: WebSocket) {
        while let Some(Ok(message)) = socket.recv().await {
            if socket.send(message).await.is_err() {
                return;
            }
        }
    }
    let upgrade = get(async |upgrade: WebSocketUpgrade| upgrade.on_upgrade(echo));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("ws://{}/", listener.local_addr()?);
    spawn(async move { axum::serve(listener, Router::new().route("/", upgrade)).await }).detach();
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await?;
    let answer = spawn(async move {
        socket.send(Message::text("hello")).await?;
        let answer = socket.next().await.transpose()?;
        socket.close(None).await?;
        Ok::<_, tokio_tungstenite::tungstenite::Error>(answer)
    });
    equal(answer.await??, Some(Message::text("hello")))
}

async fn axum_server() -> Done {
    let handle = axum_server::Handle::new();
    let server = axum_server::bind("127.0.0.1:0".parse::<std::net::SocketAddr>()?);
    let served = spawn(server.handle(handle.clone()).serve(router().into_make_service()));
    let addr = handle.listening().await.ok_or("it does not listen")?;
    equal(body(addr).await?, (200, Bytes::from("hello")))?;
    handle.shutdown();
    Ok(served.await??)
}

async fn tower_http() -> Done {
    use tower_http::timeout::TimeoutLayer;
    let never = get(async || core::future::pending::<&str>().await);
    let limit = TimeoutLayer::with_status_code(
        axum::http::StatusCode::REQUEST_TIMEOUT,
        Duration::from_millis(5),
    );
    let addr = serve(Router::new().route("/", never).layer(limit)).await?;
    equal(body(addr).await?.0, 408)
}
