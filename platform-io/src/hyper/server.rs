//! A server in one line, by `hyper-util`.

use core::{
    error::Error,
    future::{Future, pending},
    pin::pin,
    time::Duration,
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
use tower_service::Service;

use super::{Executor, Opening, Timer};
use crate::net::TcpListener;

/// The limits of a server: [`serve_with`].
///
/// ```
/// use core::time::Duration;
/// use filch_io::hyper::ServeOptions;
/// const STRICT: ServeOptions = ServeOptions::new().head_timeout(Some(Duration::from_secs(5)));
/// assert_ne!(STRICT, ServeOptions::default());
/// ```
#[must_use = "a server has to be given them"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServeOptions {
    head_timeout: Option<Duration>,
    http2_keep_alive: Option<Duration>,
}

impl ServeOptions {
    /// The defaults: a head within 30 seconds, which is hyper's own default; a client of HTTP/2 that is silent for 30 seconds is asked
    /// whether it is there.
    pub const fn new() -> Self {
        const LIMIT: Option<Duration> = Some(Duration::from_secs(30));
        Self { head_timeout: LIMIT, http2_keep_alive: LIMIT }
    }

    /// How long a client may take to show which version of HTTP it speaks ([`Opening`]), and then for the head of each HTTP/1 request, the
    /// time between two requests included (default: 30 seconds for each). A connection whose client takes longer is closed. `None`: for
    /// ever.
    pub const fn head_timeout(mut self, limit: Option<Duration>) -> Self {
        self.head_timeout = limit;
        self
    }

    /// How long a client of HTTP/2 may be silent until the server sends it a ping (default: 30 seconds). A connection whose client does not
    /// answer within [`HTTP2_PING_TIMEOUT`] is closed: the client has died, or its network has, and TCP has not said so. `None`: such a
    /// connection stays, and [`serve_until`] waits for it.
    pub const fn http2_keep_alive(mut self, silence: Option<Duration>) -> Self {
        self.http2_keep_alive = silence;
        self
    }
}

/// How long a client of HTTP/2 may take to answer a ping, which is hyper's own default:
/// [`http2_keep_alive`](ServeOptions::http2_keep_alive).
///
/// ```
/// use core::time::Duration;
/// use filch_io::hyper::{HTTP2_PING_TIMEOUT, ServeOptions};
/// // A client that is gone is known to be within half a minute.
/// const SILENCE: Duration = Duration::from_secs(10);
/// const WATCHFUL: ServeOptions = ServeOptions::new().http2_keep_alive(Some(SILENCE));
/// assert_eq!(SILENCE + HTTP2_PING_TIMEOUT, Duration::from_secs(30));
/// # assert_ne!(WATCHFUL, ServeOptions::default());
/// ```
pub const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(20);

impl Default for ServeOptions {
    fn default() -> Self {
        Self::new()
    }
}

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
/// ended. For a limit to that, put it into [`timeout`](crate::time::timeout()).
///
/// Each connection is a task of the current runtime, and so is each request of HTTP/2. A connection sends small writes at once
/// (`TCP_NODELAY`), and may be upgraded (WebSockets). It is closed if its client has not shown within 30 seconds which version of HTTP it
/// speaks, if the head of its next HTTP/1 request is not complete within 30 seconds, and if a client of HTTP/2 is silent for 30 seconds and
/// then does not answer a ping: [`serve_with`] sets other limits.
///
/// At the end a connection whose client has shown no version, and an idle one of HTTP/1, is closed at once; a client's request that is
/// under way to it is then lost, and clients repeat it. `examples/httpd` waits for it.
///
/// ```
/// use axum::{Router, routing::get};
/// use filch_io::{hyper::serve_until, net::TcpListener};
/// use futures::channel::oneshot;
///
/// # filch_io::Builder::new().workers(2).build().unwrap().block_on(async {
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
    serve_with(ServeOptions::new(), listener, service, stop).await
}

/// As [`serve_until`], with other limits.
///
/// ```
/// use core::{future::ready, time::Duration};
/// use axum::{Router, routing::get};
/// use filch_io::{hyper::{ServeOptions, serve_with}, net::TcpListener};
///
/// # filch_io::Builder::new().workers(1).build().unwrap().block_on(async {
/// let options = ServeOptions::new().head_timeout(Some(Duration::from_secs(5)));
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let app = Router::new().route("/", get(async || "hello"));
/// serve_with(options, listener, app, ready("until the process gets a signal")).await
/// # }).unwrap();
/// ```
///
/// # Errors
/// As [`serve_until`].
///
/// # Panics
/// As [`serve_until`].
///
/// # Cancel safety
/// As [`serve_until`].
pub async fn serve_with<S, B>(
    options: ServeOptions,
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
    // It may be over at once.
    filch_std::task::consume_budget().await;
    let service = TowerToHyperService::new(service);
    let mut http = auto::Builder::new(Executor::new());
    http.http1().timer(Timer::new()).header_read_timeout(options.head_timeout);
    http.http2()
        .timer(Timer::new())
        .keep_alive_interval(options.http2_keep_alive)
        .keep_alive_timeout(HTTP2_PING_TIMEOUT);
    let connections = GracefulShutdown::new();
    let mut stop = pin!(stop);
    let mut incoming = listener.incoming();
    while let Either::Right((accepted, _)) = select(stop.as_mut(), pin!(incoming.next())).await {
        let (stream, _) = accepted?;
        // By the listener it would not be that of connections which came before. A client that has gone is seen by its connection.
        let _ = stream.set_nodelay(true);
        let stream = match options.head_timeout {
            Some(limit) => Opening::new(stream, limit),
            None => Opening::unlimited(stream),
        };
        let connection = http.serve_connection_with_upgrades(stream, service.clone());
        filch_std::spawn(connections.watch(connection.into_owned())).detach();
    }
    drop(listener);
    connections.shutdown().await;
    Ok(())
}
