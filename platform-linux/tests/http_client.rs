//! hyper-util's pooled client on the runtime, and its servers: reuse of connections, errors, orderly shutdown.

#[path = "tcp_common/mod.rs"]
mod common;

use core::{
    error::Error as _,
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use std::{io, sync::Arc};

use filch_linux::{
    JoinHandle,
    hyper::{ConnectInfo, Connector, Executor, Timer, client, client_builder},
    net::{TcpListener, TcpStream},
    spawn,
    task::yield_now,
    time,
};
use futures::{future::try_join_all, poll};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, Version,
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::{
    client::legacy::{self, Client},
    server::{conn::auto, graceful::GracefulShutdown},
};
use tower_service::Service as _;

use common::{blackhole, listen, local, refusing, run, run_pausable, under_way_to};

type Error = Box<dyn core::error::Error + Send + Sync>;
type Body = Full<Bytes>;

/// Answers with the path; the one of `/late` when the gate is open.
struct Server {
    listener: TcpListener,
    connections: GracefulShutdown,
    accepted: Arc<AtomicUsize>,
    late: async_channel::Receiver<()>,
}

impl Server {
    async fn start(late: async_channel::Receiver<()>) -> (Self, SocketAddr) {
        let (listener, addr) = listen().await;
        let (connections, accepted) = Default::default();
        (Self { listener, connections, accepted, late }, addr)
    }

    /// A task that accepts until it is dropped with the listener.
    fn spawn(self) -> Arc<AtomicUsize> {
        let accepted = Arc::clone(&self.accepted);
        spawn(async move { while self.accept().await.is_ok() {} }).detach();
        accepted
    }

    async fn accept(&self) -> io::Result<()> {
        let (stream, _) = self.listener.accept().await?;
        self.accepted.fetch_add(1, Ordering::SeqCst);
        let late = self.late.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let late = late.clone();
            async move {
                if request.uri().path() == "/late" {
                    late.recv().await?;
                }
                echo_path(request).await
            }
        });
        let mut http = auto::Builder::new(Executor::new());
        http.http1().timer(Timer::new());
        http.http2().timer(Timer::new());
        let connection = http.serve_connection(stream, service).into_owned();
        spawn(self.connections.watch(connection)).detach();
        Ok(())
    }
}

/// A server that has started, what opens the gate, its address, and how many connections it has accepted.
async fn server() -> (async_channel::Sender<()>, SocketAddr, Arc<AtomicUsize>) {
    let (open, late) = async_channel::unbounded();
    let (server, addr) = Server::start(late).await;
    (open, addr, server.spawn())
}

async fn echo_path(request: Request<Incoming>) -> Result<Response<Body>, Error> {
    Ok(Response::new(Body::from(request.uri().path().to_owned())))
}

async fn get(
    client: &Client<Connector, Body>,
    addr: SocketAddr,
    path: &str,
) -> Result<Response<Bytes>, Error> {
    let (head, body) = client.get(format!("http://{addr}{path}").parse()?).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    assert_eq!(body, path);
    Ok(Response::from_parts(head, body))
}

/// A request in a task of its own, so that it is sent although it is not awaited.
fn ask(
    client: &Client<Connector, Body>,
    addr: SocketAddr,
    path: &'static str,
) -> JoinHandle<Result<Version, Error>> {
    let client = client.clone();
    spawn(async move { Ok(get(&client, addr, path).await?.version()) })
}

/// A connection goes back to the pool in a task of the client's, after the answer. On a stopped clock: it goes on when all tasks
/// have nothing left to do.
async fn settle() {
    time::sleep(Duration::from_millis(1)).await;
}

#[test]
fn a_connection_is_used_again() -> Result<(), Error> {
    run_pausable(2, async {
        time::pause();
        let (_open, addr, accepted) = server().await;
        let client = client();
        for _ in 0..20 {
            let response = get(&client, addr, "/one").await?;
            let info = response.extensions().get::<ConnectInfo>().expect("the ends");
            assert_eq!((info.remote_addr, info.local_addr.ip()), (addr, addr.ip()));
            assert_eq!(response.version(), Version::HTTP_11);
            settle().await;
        }
        assert_eq!(accepted.load(Ordering::SeqCst), 1);
        Ok(())
    })
}

#[test]
fn an_idle_connection_is_closed() -> Result<(), Error> {
    run_pausable(2, async {
        time::pause();
        let (listener, addr) = listen().await;
        let client = client();
        for _ in 0..2 {
            let asked = ask(&client, addr, "/");
            let (stream, _) = listener.accept().await?;
            let begin = time::now();
            // Until the client closes it.
            auto::Builder::new(Executor::new())
                .serve_connection(stream, service_fn(echo_path))
                .await?;
            asked.await??;
            let idle = time::now() - begin;
            assert!(
                idle >= Duration::from_secs(90) && idle <= Duration::from_secs(180),
                "{idle:?}"
            );
        }
        Ok(())
    })
}

/// Requests at the same time need a connection each, and later ones use those.
#[test]
fn connections_stay_in_the_pool() -> Result<(), Error> {
    const AT_A_TIME: usize = 5;
    run_pausable(2, async {
        time::pause();
        let (open, addr, accepted) = server().await;
        let client = client();
        for _ in 0..3 {
            let asked: Vec<_> = (0..AT_A_TIME).map(|_| ask(&client, addr, "/late")).collect();
            // Until each connection has one: the pool loses a connection that it gives to a request whose own one comes at this moment.
            while open.receiver_count() < 1 + AT_A_TIME + AT_A_TIME {
                yield_now().await;
            }
            for _ in 0..AT_A_TIME {
                open.send(()).await?;
            }
            for answer in try_join_all(asked).await? {
                answer?;
            }
            settle().await;
        }
        assert_eq!(accepted.load(Ordering::SeqCst), AT_A_TIME);
        Ok(())
    })
}

#[test]
fn http2_shares_one_connection() -> Result<(), Error> {
    run(2, async {
        let (open, addr, accepted) = server().await;
        let client = client_builder().http2_only(true).build(Connector::new());
        let asked: Vec<_> = (0..50).map(|_| ask(&client, addr, "/late")).collect();
        for _ in 0..50 {
            open.send(()).await?;
        }
        for answer in try_join_all(asked).await? {
            assert_eq!(answer?, Version::HTTP_2);
        }
        // hyper-util's pool begins another one for a request that comes as the first is being put there.
        let connections = accepted.load(Ordering::SeqCst);
        assert!((1..5).contains(&connections), "{connections} connections for 50 requests");
        Ok(())
    })
}

/// The connector's own error, in that of the client.
fn cause(error: &legacy::Error) -> &io::Error {
    assert!(error.is_connect(), "{error:?}");
    error.source().and_then(|source| source.downcast_ref()).expect("an error of I/O")
}

#[test]
fn what_cannot_connect_says_why() {
    run(2, async {
        let (dead, _socket) = refusing();
        let client = client::<Body>();
        let error = client.get(format!("http://{dead}/").parse().unwrap()).await.unwrap_err();
        assert_eq!(cause(&error).kind(), io::ErrorKind::ConnectionRefused);
        assert!(cause(&error).to_string().contains(&dead.to_string()), "{error:?}");

        // Too long for a name, so that no resolver is asked.
        let host = "x".repeat(64);
        let error = client.get(format!("http://{host}/").parse().unwrap()).await.unwrap_err();
        assert!(cause(&error).to_string().contains(&host), "{error:?}");

        let error = client.get("https://127.0.0.1/".parse().unwrap()).await.unwrap_err();
        assert_eq!(cause(&error).kind(), io::ErrorKind::InvalidInput);
    });
}

/// On a stopped clock.
#[test]
fn a_silent_server_is_given_up() {
    run_pausable(2, async {
        let silent = blackhole(local());
        time::pause();
        let begin = time::now();
        let connector = Connector::new().connect_timeout(Duration::from_secs(3));
        let client = client_builder().build::<_, Body>(connector);
        let error =
            client.get(format!("http://{}/", silent.addr).parse().unwrap()).await.unwrap_err();
        assert_eq!(cause(&error).kind(), io::ErrorKind::TimedOut);
        assert!(cause(&error).to_string().contains(&silent.addr.to_string()), "{error:?}");
        assert_eq!(time::now() - begin, Duration::from_secs(3));
        assert_eq!(under_way_to(silent.addr), 0);
    });
}

#[test]
fn a_request_that_is_given_up_closes_its_socket() {
    run(1, async {
        let silent = blackhole(local());
        let uri: hyper::Uri = format!("http://{}/", silent.addr).parse().unwrap();
        let mut connecting = Connector::new().call(uri.clone());
        assert!(poll!(&mut connecting).is_pending());
        assert_eq!(under_way_to(silent.addr), 1, "it has begun");
        drop(connecting);
        assert_eq!(under_way_to(silent.addr), 0);

        let mut request = client::<Body>().get(uri);
        assert!(poll!(&mut request).is_pending());
        assert_eq!(under_way_to(silent.addr), 1, "it has begun");
        drop(request);
        assert_eq!(under_way_to(silent.addr), 0);
    });
}

#[test]
fn outside_of_a_runtime_it_is_an_error() {
    for connector in [Connector::new(), Connector::new().connect_timeout(Duration::from_secs(1))] {
        let connecting = connector.clone().call("http://127.0.0.1:1/".parse().unwrap());
        let error = futures::executor::block_on(connecting).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Other, "{error}");
    }
}

/// A request under way is answered; the listener is gone, and a connection that was kept alive takes no other.
#[test]
fn an_orderly_shutdown() -> Result<(), Error> {
    for http2 in [false, true] {
        run(2, async {
            let (open, late) = async_channel::unbounded();
            let (server, addr) = Server::start(late).await;
            let client = client_builder().http2_only(http2).build(Connector::new());
            let asked = ask(&client, addr, "/late");
            server.accept().await?;
            // It waits for the gate.
            while server.late.receiver_count() == 2 {
                yield_now().await;
            }
            let idle =
                ask(&client_builder().http2_only(http2).build(Connector::new()), addr, "/idle");
            server.accept().await?;
            idle.await??;

            let Server { listener, connections, accepted, .. } = server;
            drop(listener);
            let mut ending = Box::pin(connections.shutdown());
            assert!(poll!(&mut ending).is_pending());
            let refused = TcpStream::connect_addr(addr).await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            assert!(!asked.is_finished());
            open.send(()).await?;
            asked.await??;
            ending.await;
            let error = get(&client, addr, "/again").await.unwrap_err();
            let error = error.downcast_ref::<legacy::Error>().expect("the client's");
            assert_eq!(cause(error).kind(), io::ErrorKind::ConnectionRefused);
            assert_eq!(accepted.load(Ordering::SeqCst), 2);
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}
