//! `GET /orders/ID` and `GET /cities/CITY`, as urgent tasks.

use core::convert::Infallible;
use std::{net::SocketAddr, sync::Arc};

use filch_linux::{TaskOptions, net::TcpListener, spawn, spawn_with, task::Class};
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};

use crate::{Failure, table::Store};

/// Listens, and returns the address.
pub(crate) async fn start(store: Arc<Store>) -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let urgent = TaskOptions::new().name("accept").class(Class::Urgent);
    // Connections are urgent too: a task has the class of the one that spawns it.
    let accept = async move {
        while let Ok((stream, _)) = listener.accept().await {
            let store = Arc::clone(&store);
            let answer = service_fn(move |request| answer(Arc::clone(&store), request));
            let connection = http1::Builder::new().serve_connection(stream, answer);
            spawn(async move { drop(connection.await) }).detach();
        }
    };
    spawn_with(urgent, accept)?.detach();
    Ok(addr)
}

async fn answer(
    store: Arc<Store>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let table = store.table();
    let text = match request.uri().path().split('/').collect::<Vec<_>>()[..] {
        ["", "orders", id] => id.parse().ok().and_then(|id| table.order(id)).map(|order| {
            format!("{{\"id\":{},\"city\":{},\"cents\":{}}}\n", order.id, order.city, order.cents)
        }),
        ["", "cities", city] => {
            let total = city.parse().ok().and_then(|city| table.total(city));
            total.map(|cents| format!("{{\"city\":{city},\"cents\":{cents}}}\n"))
        }
        _ => None,
    };
    let mut response = Response::new(Full::default());
    match text {
        Some(text) => *response.body_mut() = Full::from(text),
        None => *response.status_mut() = StatusCode::NOT_FOUND,
    }
    Ok(response)
}
