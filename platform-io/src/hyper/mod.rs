//! [hyper](https://docs.rs/hyper) on this runtime (feature `hyper`): its traits of I/O, tasks and time.
//!
//! - [`TcpStream`](crate::net::TcpStream) and [`UnixStream`](crate::net::UnixStream), owned or by
//!   reference, implement hyper's traits directly: reads go straight into hyper's buffer, writes
//!   are vectored, and no wrapper is needed. [`Io`] is for other streams, of TLS for instance.
//! - [`Executor`] spawns hyper's tasks, which HTTP/2 needs; [`Timer`] is for its timeouts.
//!
//! A server, and a client that talks to it:
//!
//! ```
//! use core::convert::Infallible;
//! use filch_io::{hyper::{Executor, Timer}, net::{TcpListener, TcpStream}};
//! use http_body_util::{BodyExt, Empty, Full};
//! use hyper::{Request, Response, body::{Bytes, Incoming}, client, server, service::service_fn};
//!
//! async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
//!     Ok(Response::new(Full::from("hello")))
//! }
//!
//! # fn main() -> Result<(), Box<dyn core::error::Error + Send + Sync>> {
//! let runtime = filch_io::Builder::new().workers(2).build()?;
//! let body = runtime.block_on(async {
//!     let listener = TcpListener::bind("127.0.0.1:0").await?;
//!     let addr = listener.local_addr()?;
//!     filch_io::spawn(async move {
//!         let (stream, _from) = listener.accept().await?;
//!         let mut http = server::conn::http1::Builder::new();
//!         let connection = http.timer(Timer::new()).serve_connection(stream, service_fn(hello));
//!         connection.await.map_err(std::io::Error::other)
//!     })
//!     .detach();
//!
//!     let stream = TcpStream::connect(addr).await?;
//!     let (mut sender, connection) = client::conn::http1::handshake(stream).await?;
//!     filch_io::spawn(connection).detach();
//!     let request = Request::get("/").header("host", "localhost").body(Empty::<Bytes>::new())?;
//!     let response = sender.send_request(request).await?;
//!     Ok::<_, Box<dyn core::error::Error + Send + Sync>>(response.into_body().collect().await?.to_bytes())
//! })?;
//! assert_eq!(body, "hello");
//! # Ok(()) }
//! ```
//!
//! With HTTP/2 the builders take [`Executor::new()`](Executor::new):
//! `server::conn::http2::Builder::new(Executor::new())`, and the same for the client.
//!
//! # hyper-util
//!
//! [hyper-util](https://docs.rs/hyper-util) takes these types too, without its feature `tokio`. Its `server::conn::auto` detects
//! the version of HTTP, its `server::graceful` ends connections in an orderly way. Its pooled client is `filch_io::hyper::client()`.
//!
//! ```
//! use filch_io::{hyper::{Executor, Timer}, net::TcpListener, spawn};
//! use http_body_util::{BodyExt, Empty, Full};
//! use hyper::{Request, Response, body::{Bytes, Incoming}, service::service_fn};
//! use hyper_util::server::{conn::auto, graceful::GracefulShutdown};
//!
//! type Error = Box<dyn core::error::Error + Send + Sync>;
//!
//! async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Error> {
//!     Ok(Response::new(Full::from("hello")))
//! }
//!
//! # fn main() -> Result<(), Error> {
//! # filch_io::Builder::new().workers(2).build()?.block_on(async {
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let uri = format!("http://{}/", listener.local_addr()?).parse()?;
//! let answer = spawn(async move {
//!     let client = filch_io::hyper::client::<Empty<Bytes>>();
//!     Ok::<_, Error>(client.get(uri).await?.into_body().collect().await?.to_bytes())
//! });
//!
//! let connections = GracefulShutdown::new();
//! let mut http = auto::Builder::new(Executor::new());
//! http.http1().timer(Timer::new());
//! http.http2().timer(Timer::new());
//! let (stream, _from) = listener.accept().await?;
//! let connection = http.serve_connection(stream, service_fn(hello)).into_owned();
//! spawn(connections.watch(connection)).detach();
//! assert_eq!(answer.await??, "hello");
//!
//! drop(listener);
//! connections.shutdown().await;
//! # Ok(()) }) }
//! ```
//!
//! # axum
//!
//! `filch_linux::hyper::serve(listener, router)` serves a `Router` by tasks on all workers. So does hyper alone, as
//! `service_fn(move |request| router.clone().call(request))` (`call` is of the trait `tower_service::Service`).
//! `axum::serve`, of axum's feature `tokio`, needs this crate's feature `tokio` too, and runs all connections on tokio's one thread:
//! `filch_linux::tokio` says more. The program `examples/httpd` has timeouts, and a shutdown that loses no request.

mod connector;
mod executor;
mod io;
mod opening;
mod server;
mod timer;

pub use self::{
    connector::{ConnectInfo, Connector, client, client_builder},
    executor::Executor,
    io::Io,
    opening::Opening,
    server::{HTTP2_PING_TIMEOUT, ServeOptions, serve, serve_until, serve_with},
    timer::{Sleep, Timer},
};
