//! gRPC, with messages and a service that are written by hand.

use core::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::http::{Request, Response, uri::PathAndQuery};
use filch_linux::spawn;
use tonic::{
    Status,
    body::Body,
    server::{NamedService, UnaryService},
    transport::{Endpoint, Server, server::TcpIncoming},
};
use tonic_prost::ProstCodec;

use super::row;
use crate::{Done, Row, equal};

pub(super) fn rows() -> Vec<Row> {
    vec![row!("tonic", "client and server", tonic, "on tokio's thread: spawn what is heavy")]
}

#[derive(Clone, PartialEq, prost::Message)]
struct Number {
    #[prost(int64, tag = "1")]
    value: i64,
}

#[derive(Clone)]
struct Doubles;

impl NamedService for Doubles {
    const NAME: &'static str = "test.Doubles";
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl UnaryService<Number> for Doubles {
    type Response = Number;
    type Future = Boxed<Result<tonic::Response<Number>, Status>>;

    fn call(&mut self, request: tonic::Request<Number>) -> Self::Future {
        let value = request.into_inner().value;
        Box::pin(async move {
            let doubled = spawn(async move { 2 * value }).await;
            let value = doubled.map_err(|error| Status::internal(error.to_string()))?;
            Ok(tonic::Response::new(Number { value }))
        })
    }
}

impl tower::Service<Request<Body>> for Doubles {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Boxed<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(async {
            let mut grpc = tonic::server::Grpc::new(ProstCodec::<Number, Number>::default());
            Ok(grpc.unary(Doubles, request).await)
        })
    }
}

async fn tonic() -> Done {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?;
    let addr = incoming.local_addr()?;
    let server = Server::builder().add_service(Doubles).serve_with_incoming(incoming);
    let serves = spawn(server);
    let channel = Endpoint::from_shared(format!("http://{addr}"))?.connect().await?;
    let mut client = tonic::client::Grpc::new(channel);
    let answer = spawn(async move {
        client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let path = PathAndQuery::from_static("/test.Doubles/Double");
        let codec = ProstCodec::<Number, Number>::default();
        client.unary(tonic::Request::new(Number { value: 21 }), path, codec).await
    });
    equal(answer.await??.into_inner().value, 42)?;
    serves.abort();
    Ok(())
}
