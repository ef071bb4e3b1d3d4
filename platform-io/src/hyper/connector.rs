//! Connections for the pooled client of `hyper-util`.

use core::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::io;

use filch_std::Handle;
use hyper::{Uri, body::Body};
use hyper_util::client::legacy::{
    Builder, Client,
    connect::{Connected, Connection},
};
use tower_service::Service;

use super::{Executor, Io, Timer};
use crate::net::{TcpStream, lookup_host};

/// A client of HTTP that keeps its connections for the next request. The same as
/// `client_builder().build(Connector::new())`.
///
/// ```no_run
/// use http_body_util::{BodyExt, Empty};
/// use hyper::body::Bytes;
///
/// # #[filch_io::main]
/// # async fn main() -> Result<(), Box<dyn core::error::Error + Send + Sync>> {
/// let client = filch_io::hyper::client::<Empty<Bytes>>();
/// let response = client.get("http://example.org/".parse()?).await?;
/// println!("{}: {:?}", response.status(), response.into_body().collect().await?.to_bytes());
/// # Ok(()) }
/// ```
///
/// # Panics
/// If the calling thread is in no runtime.
#[track_caller]
pub fn client<B>() -> Client<Connector, B>
where
    B: Body + Send,
    B::Data: Send,
{
    client_builder().build(Connector::new())
}

/// The settings of a client, with the executor and the timers of the current runtime.
///
/// Its tasks (one a connection) run in that runtime. The pool closes a connection that was idle for 90 seconds,
/// or as the builder is told, and for that a runtime with idle connections wakes as often.
///
/// ```no_run
/// use core::time::Duration;
/// use filch_io::hyper::{Connector, client_builder};
/// use http_body_util::Full;
/// use hyper::body::Bytes;
///
/// # #[filch_io::main]
/// # async fn main() -> std::io::Result<()> {
/// // HTTP/2 with prior knowledge, and an end to waiting for a server that does not answer.
/// let connector = Connector::new().connect_timeout(Duration::from_secs(3)).enforce_http(true);
/// let client = client_builder().http2_only(true).build::<_, Full<Bytes>>(connector);
/// # let _ = client;
/// # Ok(()) }
/// ```
///
/// # Panics
/// If the calling thread is in no runtime.
#[track_caller]
pub fn client_builder() -> Builder {
    let timer = Timer::new();
    let mut builder = Client::builder(Executor::new());
    builder.timer(timer).pool_timer(timer);
    builder
}

/// Connects to the host and port of a URI by TCP: the service that `hyper-util`'s client calls for a new connection.
///
/// A name is looked up on the blocking pool, and its addresses are tried as by [`TcpStream::connect`]: the families in
/// turns, with a head start of 250 ms each. The connection sends small writes at once (`TCP_NODELAY`), or the part of a
/// request in a second packet would wait until the first one is acknowledged.
///
/// # Errors
/// The future's, which are the source of the client's error:
/// - errors of [`TcpStream::connect`], such as `ConnectionRefused`, or a name that cannot be looked up;
/// - `TimedOut`, if it takes longer than [`connect_timeout`](Self::connect_timeout);
/// - `InvalidInput`, if the URI has no host, or a scheme other than `http` ([`enforce_http`](Self::enforce_http));
/// - the thread that polls it is in no runtime.
///
/// # Cancel safety
/// Dropping the future closes every socket that it has opened. A look-up that has begun runs to its end on its thread.
#[derive(Clone, Copy, Debug)]
pub struct Connector {
    timeout: Option<Duration>,
    any_scheme: bool,
}

impl Connector {
    /// Connects to URIs with the scheme `http`, without a limit of time: then the system's applies, perhaps minutes.
    #[expect(clippy::new_without_default, reason = "as the others here")]
    pub const fn new() -> Self {
        Self { timeout: None, any_scheme: false }
    }

    /// How long a connection may take, from the look-up of the name to the last address.
    pub const fn connect_timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Whether `http` is the only scheme that it accepts, which is the default. A connector for TLS, which calls this one
    /// and encrypts what it returns, turns it off. The port is 443 then, if the URI has none and its scheme is https.
    pub const fn enforce_http(self, enforce: bool) -> Self {
        Self { any_scheme: !enforce, ..self }
    }

    async fn connect(self, uri: Uri) -> io::Result<TcpStream> {
        let (host, port) = self.target(&uri)?;
        let connecting = async {
            let stream = TcpStream::connect(lookup_host((host, port)).await?).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let Some(timeout) = self.timeout else { return connecting.await };
        let timers = Handle::current().map_err(io::Error::other)?.timers();
        timers.timeout(timeout, connecting).await.unwrap_or_else(|_| {
            let what = format!("no connection to {host}:{port} within {timeout:?}");
            Err(io::Error::new(io::ErrorKind::TimedOut, what))
        })
    }

    /// The host, an IPv6 address without its brackets, and the port.
    fn target(self, uri: &Uri) -> io::Result<(&str, u16)> {
        let refuse =
            |why| Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{why}: {uri}")));
        let scheme = uri.scheme_str();
        if !self.any_scheme && scheme != Some("http") {
            return refuse("the scheme is not http");
        }
        let Some(host) = uri.host().filter(|host| !host.is_empty()) else {
            return refuse("there is no host");
        };
        let host = host.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(host);
        let default = if scheme == Some("https") { 443 } else { 80 };
        Ok((host, uri.port_u16().unwrap_or(default)))
    }
}

impl Service<Uri> for Connector {
    type Response = TcpStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = *self;
        Box::pin(async move { connector.connect(uri).await })
    }
}

/// The two ends of the connection by which a response came; the client puts it into the response's extensions.
///
/// ```
/// # fn example(response: hyper::Response<()>) {
/// use filch_io::hyper::ConnectInfo;
/// if let Some(info) = response.extensions().get::<ConnectInfo>() {
///     println!("{} answered", info.remote_addr);
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ConnectInfo {
    /// The address of the server.
    pub remote_addr: SocketAddr,
    /// The address at this end.
    pub local_addr: SocketAddr,
}

/// Responses carry a [`ConnectInfo`], unless the connection has ended already.
impl Connection for TcpStream {
    fn connected(&self) -> Connected {
        match (self.peer_addr(), self.local_addr()) {
            (Ok(remote_addr), Ok(local_addr)) => {
                Connected::new().extra(ConnectInfo { remote_addr, local_addr })
            }
            _ => Connected::new(),
        }
    }
}

/// For connectors to a server on the same machine.
#[cfg(unix)]
impl Connection for crate::net::UnixStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// What the stream inside says. A stream of TLS that negotiated HTTP/2 has to say so, see [`Connected`].
impl<S: Connection> Connection for Io<S> {
    fn connected(&self) -> Connected {
        self.get_ref().connected()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        let any = Connector::new().enforce_http(false);
        for (uri, target) in [
            ("http://example.org/a", ("example.org", 80)),
            ("http://example.org:8080", ("example.org", 8_080)),
            ("http://[::1]:81/", ("::1", 81)),
            ("http://user@127.0.0.1/", ("127.0.0.1", 80)),
        ] {
            let uri = uri.parse().unwrap();
            assert_eq!(Connector::new().target(&uri).unwrap(), target);
            assert_eq!(any.target(&uri).unwrap(), target);
        }
        assert_eq!(
            any.target(&"https://example.org".parse().unwrap()).unwrap(),
            ("example.org", 443)
        );
        for uri in ["https://example.org", "example.org:80", "/path"] {
            let error = Connector::new().target(&uri.parse().unwrap()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{uri}");
            assert!(error.to_string().contains(uri), "{error}");
        }
        assert_eq!(
            any.target(&"/path".parse().unwrap()).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}
