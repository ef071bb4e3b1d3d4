//! A connection, from its first byte to an orderly shutdown.

use core::{convert::Infallible, pin::pin, time::Duration};
use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Request, Response, Version as HttpVersion, header::CONNECTION},
};
use filch_examples::server::Closing;
use filch_linux::{
    hyper::{Executor, Timer},
    net::TcpStream,
    time,
};
use futures_util::future::{Either, select};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use tower_service::Service;

use crate::tracked::{Tracked, Version};

/// How long an HTTP/1 connection must be idle before it is closed at shutdown.
///
/// The client's next request may be in transit, and the server cannot know. So the server does not
/// close the connection at once: it answers requests that come in this time with `connection:
/// close`, and then closes. A request is lost only if it is sent later than this, and before the
/// client has seen the end of the connection. The server has not read any of it, and the client may
/// retry.
const QUIET: Duration = Duration::from_millis(250);

/// An HTTP/2 peer that is silent for this long gets a ping, and has as long to answer.
const PING: Duration = Duration::from_secs(20);

/// The state that all connections share.
pub(crate) struct Http {
    pub(crate) router: Router,
    pub(crate) header_timeout: Duration,
}

impl Http {
    /// Serves until the client or the server ends the connection. Errors of the connection are
    /// ignored.
    pub(crate) async fn serve(self: Arc<Self>, stream: TcpStream, closing: Closing) {
        let mut stream = Tracked::new(stream);
        match self.version(&mut stream, &closing).await {
            Some(Version::Http1) => self.serve_http1(stream, closing).await,
            Some(Version::Http2) => self.serve_http2(stream, closing).await,
            None => {}
        }
    }

    /// The version, if the client sends something in time.
    async fn version(&self, stream: &mut Tracked, closing: &Closing) -> Option<Version> {
        let track = stream.track();
        let mut sniff = pin!(time::timeout(self.header_timeout, stream.sniff()));
        let sniffed = match select(sniff.as_mut(), pin!(closing.begun())).await {
            Either::Left((sniffed, _)) => sniffed,
            Either::Right(_) => loop {
                match time::timeout(QUIET, sniff.as_mut()).await {
                    Ok(sniffed) => break sniffed,
                    Err(_) if track.is_idle() => return None,
                    Err(_) => {}
                }
            },
        };
        sniffed.ok()?.ok()?
    }

    async fn serve_http1(&self, stream: Tracked, closing: Closing) {
        let track = stream.track();
        let service = service_fn(|request| respond(self.router.clone(), &closing, request));
        let mut http = http1::Builder::new();
        http.timer(Timer::new()).header_read_timeout(self.header_timeout);
        // A client may shut down its direction after its last request, and still wait for the
        // answer.
        http.half_close(true);
        let mut connection = pin!(http.serve_connection(stream, service));
        if let Either::Left(_) = select(connection.as_mut(), pin!(closing.begun())).await {
            return;
        }
        // If the connection is not idle, there are two cases. A response in progress is the last
        // one, see `respond`. Or the head of a request is incomplete, for which there is the
        // timeout.
        while time::timeout(QUIET, connection.as_mut()).await.is_err() {
            if track.is_idle() {
                connection.as_mut().graceful_shutdown();
                drop(connection.await);
                return;
            }
        }
    }

    /// HTTP/2 has an orderly shutdown of its own: the server tells the client the last request that
    /// it serves.
    async fn serve_http2(&self, stream: Tracked, closing: Closing) {
        let service = service_fn({
            let (router, closing) = (self.router.clone(), closing.clone());
            move |request| {
                let (router, closing) = (router.clone(), closing.clone());
                async move { respond(router, &closing, request).await }
            }
        });
        let mut http = http2::Builder::new(Executor::new());
        http.timer(Timer::new()).keep_alive_interval(PING).keep_alive_timeout(PING);
        let mut connection = pin!(http.serve_connection(stream, service));
        if let Either::Right(_) = select(connection.as_mut(), pin!(closing.begun())).await {
            connection.as_mut().graceful_shutdown();
            drop(connection.await);
        }
    }
}

async fn respond(
    mut router: Router,
    closing: &Closing,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let can_be_told = request.version() < HttpVersion::HTTP_2;
    let mut response = router.call(request).await?;
    if can_be_told && closing.has_begun() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}
