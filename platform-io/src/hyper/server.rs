//! A server in one line, by `hyper-util`.

use core::{
    error::Error,
    future::{Future, pending},
    pin::pin,
};
use std::io;

use futures_util::future::{Either, select};
use hyper::{
    Request, Response,
    body::{Body, Incoming},
};
use hyper_util::{
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use rustix::net::sockopt::set_tcp_nodelay;
use tower_service::Service;

use super::{Executor, Timer};
use crate::net::TcpListener;

/// Serves HTTP/1 and HTTP/2 (with prior knowledge) on all workers: [`serve_until`] without an end.
///
/// It takes the place of `axum::serve`, which needs tokio and runs all connections on one thread of it: a `Router` of axum is
/// such a service, also a server that tonic generates.
///
/// ```no_run
/// use axum::{Router, routing::get};
/// use filch_io::{hyper::serve, net::TcpListener};
///
/// #[filch_io::main]
/// async fn main() -> std::io::Result<()> {
///     let app = Router::new().route("/", get(async || "hello"));
///     serve(TcpListener::bind("127.0.0.1:8080").await?, app).await
/// }
/// ```
///
/// # Errors
/// As [`serve_until`].
///
/// # Cancel safety
/// Dropping it closes the listener; connections go on.
pub async fn serve<S, B>(listener: TcpListener, service: S) -> io::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    serve_until(listener, service, pending::<()>()).await
}

/// Serves until `stop` is ready, and then ends in an orderly way: it accepts no more connections, answers the requests under way
/// and those that come on connections of HTTP/2 before the client has heard of the end, and returns when all connections have
/// ended. For a limit to that, put it into [`timeout`](crate::timeout()).
///
/// Each connection is a task of the current runtime, and so is each request of HTTP/2. A connection sends small writes at once
/// (`TCP_NODELAY`), may be upgraded (WebSockets), and is closed if the head of its next HTTP/1 request is not complete within
/// 30 seconds. But hyper-util finds out the version first, without a limit of time: a client that connects and sends nothing, or
/// a part of what HTTP/2 begins with, stays until it goes or the server ends. An idle connection of HTTP/1 is closed at once at the end; a client's request that is under way to it is then
/// lost, and clients repeat it. `examples/httpd` waits for it.
///
/// ```
/// use axum::{Router, routing::get};
/// use filch_io::{hyper::serve_until, net::TcpListener};
/// use futures::channel::oneshot;
///
/// # filch_io::builder().workers(2).build().unwrap().block_on(async {
/// // Or a signal, by `filch_linux::signal`.
/// let (stop, stopped) = oneshot::channel::<()>();
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let app = Router::new().route("/", get(async || "hello"));
/// filch_io::spawn(async move { stop.send(()) }).detach();
/// serve_until(listener, app, stopped).await
/// # }).unwrap();
/// ```
///
/// # Errors
/// The listener's: those of [`Incoming::next`](crate::net::Incoming::next), which does not return when descriptors are short.
/// Errors of a connection end it alone, and are ignored.
///
/// # Panics
/// If the calling thread is in no runtime.
///
/// # Cancel safety
/// Dropping it closes the listener; connections go on.
pub async fn serve_until<S, B>(
    listener: TcpListener,
    service: S,
    stop: impl Future,
) -> io::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // Its connections inherit it.
    set_tcp_nodelay(&listener, true)?;
    let service = TowerToHyperService::new(service);
    let mut http = auto::Builder::new(Executor::new());
    http.http1().timer(Timer::new());
    http.http2().timer(Timer::new());
    let connections = GracefulShutdown::new();
    let mut stop = pin!(stop);
    let mut incoming = listener.incoming();
    while let Either::Right((accepted, _)) = select(stop.as_mut(), pin!(incoming.next())).await {
        let (stream, _) = accepted?;
        let connection = http.serve_connection_with_upgrades(stream, service.clone());
        filch_std::spawn(connections.watch(connection.into_owned())).detach();
    }
    drop(listener);
    connections.shutdown().await;
    Ok(())
}
