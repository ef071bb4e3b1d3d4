//! Tokio's sockets.

use core::future::pending;
use std::{io, net, thread};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Handle},
    task::JoinHandle,
};

use super::hello;
#[cfg(any(feature = "console", feature = "dial9"))]
use crate::peers::observed;
use crate::peers::tokio::forever;

fn builder(workers: usize) -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).enable_all();
    builder
}

pub(crate) fn multi_thread(workers: usize) -> Handle {
    forever(builder(workers).build().expect("the runtime starts"))
}

#[cfg(feature = "console")]
pub(crate) fn console(workers: usize) -> Handle {
    forever(observed::console(&mut builder(workers)))
}

#[cfg(feature = "dial9")]
pub(crate) fn echo_dial9(workers: usize, listener: net::TcpListener) {
    serve(
        forever(observed::dial9(builder(workers))),
        listener,
        answer,
        dial9_tokio_telemetry::spawn,
    );
}

pub(crate) fn current_thread() -> Handle {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("the runtime starts");
    let handle = runtime.handle().clone();
    thread::spawn(move || runtime.block_on(pending::<()>()));
    handle
}

pub(crate) fn echo(runtime: Handle, listener: net::TcpListener) {
    serve(runtime, listener, answer, tokio::spawn);
}

async fn answer(stream: TcpStream) {
    // A broken connection is reported by the client.
    drop(back(stream).await);
}

async fn back(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            n => stream.write_all(&buffer[..n]).await?,
        }
    }
}

pub(crate) fn hello(runtime: Handle, listener: net::TcpListener) {
    let greet = |stream| async move {
        let http = http1::Builder::new();
        let stream = TokioIo::new(stream);
        drop(http.serve_connection(stream, service_fn(hello::hello)).await);
    };
    serve(runtime, listener, greet, tokio::spawn);
}

fn serve<F>(
    runtime: Handle,
    listener: net::TcpListener,
    serve: fn(TcpStream) -> F,
    spawn: fn(F) -> JoinHandle<()>,
) where
    F: Future<Output = ()> + Send + 'static,
{
    drop(runtime.spawn(async move {
        listener.set_nonblocking(true).expect("it is a socket");
        let listener = TcpListener::from_std(listener).expect("it is a listener");
        while let Ok((stream, _)) = listener.accept().await {
            drop(spawn(serve(stream)));
        }
    }));
}
