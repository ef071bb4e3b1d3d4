//! A connection, from its first byte to an orderly shutdown.

use core::{convert::Infallible, future::Future, pin::pin, time::Duration};
use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Request, Response, Version, header::CONNECTION},
};
use filch_examples::server::Closing;
use filch_linux::{
    hyper::{Executor, Timer},
    net::TcpStream,
    time,
};
use futures_util::future::{Either, select};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::server::conn::auto;
use tower_service::Service;

use crate::tracked::{Track, Tracked};

/// How long a connection must be idle before it is closed at shutdown, unless it is one of HTTP/2.
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
        let stream = Tracked::new(stream);
        let track = stream.track();
        let service = service_fn({
            let (http, closing, track) = (Arc::clone(&self), closing.clone(), stream.track());
            move |request: Request<Incoming>| {
                track.asked(request.version());
                respond(http.router.clone(), closing.clone(), request)
            }
        });
        let mut http = auto::Builder::new(Executor::new());
        http.http1().timer(Timer::new()).header_read_timeout(self.header_timeout);
        // A client may shut down its direction after its last request, and still wait for the
        // answer.
        http.http1().half_close(true);
        http.http2().timer(Timer::new()).keep_alive_interval(PING).keep_alive_timeout(PING);
        let mut connection = pin!(http.serve_connection(stream, service));
        if !ends_by_itself(self.first(connection.as_mut(), &track), &closing, &track).await {
            connection.as_mut().graceful_shutdown();
            drop(connection.await);
        }
    }

    /// Serves, if there is a request in time: hyper has a limit for the heads of HTTP/1 alone.
    async fn first(&self, mut connection: impl Future + Unpin, track: &Track) {
        let in_time = time::timeout(self.header_timeout, &mut connection).await;
        if in_time.is_err() && track.version().is_some() {
            connection.await;
        }
    }
}

/// Waits for the end of a connection, or until the server is closing and has to end it.
async fn ends_by_itself(served: impl Future, closing: &Closing, track: &Track) -> bool {
    let mut served = pin!(served);
    if let Either::Left(_) = select(served.as_mut(), pin!(closing.begun())).await {
        return true;
    }
    // HTTP/2 has an orderly shutdown of its own: the server tells the client the last request that
    // it serves. If another connection is not idle, there are two cases. A response in progress is
    // the last one, see `respond`. Or the head of a request is incomplete, for which there is the
    // timeout.
    while track.version() != Some(Version::HTTP_2) {
        match time::timeout(QUIET, served.as_mut()).await {
            Ok(_) => return true,
            Err(_) if track.is_idle() => return false,
            Err(_) => {}
        }
    }
    false
}

async fn respond(
    mut router: Router,
    closing: Closing,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let can_be_told = request.version() < Version::HTTP_2;
    let mut response = router.call(request).await?;
    if can_be_told && closing.has_begun() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}
