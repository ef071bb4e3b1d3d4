//! The reply of the HTTP servers.

use core::convert::Infallible;

use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
};

pub(crate) async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"Hello, world!"))))
}
