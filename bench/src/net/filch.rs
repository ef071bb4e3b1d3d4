//! filch's sockets.

use std::{io, net};

use filch_linux::{
    Runtime,
    net::{TcpListener, TcpStream},
};
use hyper::{server::conn::http1, service::service_fn};

use super::hello;

pub(crate) fn echo(listener: net::TcpListener, runtime: Runtime) {
    serve(listener, runtime, |stream| async move {
        // A broken connection is reported by the client.
        drop(back(stream).await);
    });
}

async fn back(stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            n => stream.write_all(&buffer[..n]).await?,
        }
    }
}

/// Accepts for ever. The tasks that serve have the class of the task that this is.
pub(super) async fn accept_echo(listener: net::TcpListener) {
    accept(listener, |stream| async move { drop(back(stream).await) }).await;
}

pub(crate) fn hello(listener: net::TcpListener, runtime: Runtime) {
    serve(listener, runtime, |stream| async move {
        let http = http1::Builder::new();
        drop(http.serve_connection(stream, service_fn(hello::hello)).await);
    });
}

fn serve<F>(listener: net::TcpListener, runtime: Runtime, serve: fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    runtime.spawn(accept(listener, serve)).detach();
    // It serves until the process ends.
    core::mem::forget::<Runtime>(runtime);
}

async fn accept<F>(listener: net::TcpListener, serve: fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::try_from(listener).expect("it is a listener");
    while let Ok((stream, _)) = listener.accept().await {
        filch_linux::spawn(serve(stream)).detach();
    }
}
