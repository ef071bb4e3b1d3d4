//! Well-known crates on tokio, with one tokio for all of them: filch's.

use std::{fs, net::SocketAddr, time::Duration};

use axum::{Router, extract::ws::WebSocketUpgrade, routing::get};
use futures_util::{SinkExt, StreamExt};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    task::{JoinSet, spawn_blocking},
    time::{interval, sleep, timeout},
};
use tokio_stream::wrappers::{IntervalStream, ReceiverStream, TcpListenerStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::{
    codec::{Framed, LinesCodec},
    sync::CancellationToken,
    task::TaskTracker,
};

const MS: Duration = Duration::from_millis(1);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    timeout(Duration::from_secs(60), all()).await.expect("the checks end in a minute");
    println!("all passed");
}

async fn all() {
    runs_on_workers().await;
    streams().await;
    frames().await;
    let (addr, server, stop) = serve().await;
    asks_by_reqwest(addr).await;
    asks_by_hyper(addr).await;
    talks_by_websocket(addr).await;
    layers().await;
    stop.cancel();
    server.await.unwrap().unwrap();
    has_one_runtime();
}

/// Whether the caller is polled by a worker of filch's.
fn on_a_worker() -> bool {
    filch_linux::Handle::current().is_ok_and(|handle| handle.current_worker().is_some())
}

/// What crates spawn runs on filch's workers.
async fn runs_on_workers() {
    let tracker = TaskTracker::new();
    let worker = tracker.spawn(async { on_a_worker() }).await.unwrap();
    assert!(worker, "a task of a `TaskTracker` runs on a worker");
    tracker.close();
    tracker.wait().await;

    let mut set = JoinSet::new();
    (0..10).for_each(|n| drop(set.spawn(async move { (n, on_a_worker()) })));
    let mut all = set.join_all().await;
    all.sort_unstable();
    assert_eq!(all, (0..10).map(|n| (n, true)).collect::<Vec<_>>());
    println!("tasks run on workers");
}

async fn streams() {
    let ticks = IntervalStream::new(interval(MS)).take(3).count().await;
    assert_eq!(ticks, 3);
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        for n in 0..5 {
            sender.send_timeout(n, Duration::from_secs(30)).await.unwrap();
        }
    });
    assert_eq!(ReceiverStream::new(receiver).collect::<Vec<_>>().await, [0, 1, 2, 3, 4]);
    println!("streams of intervals and channels");
}

async fn frames() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let echo = tokio::spawn(async move {
        let stream = TcpListenerStream::new(listener).next().await.unwrap().unwrap();
        let mut lines = Framed::new(stream, LinesCodec::new());
        while let Some(line) = lines.next().await {
            lines.send(line.unwrap()).await.unwrap();
        }
    });
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(b"hello\n").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "hello\n");
    echo.await.unwrap();
    println!("frames of tokio-util");
}

type Served = tokio::task::JoinHandle<std::io::Result<()>>;

/// A server of axum's own, on this crate's listener.
async fn serve() -> (SocketAddr, Served, CancellationToken) {
    async fn echo(upgrade: WebSocketUpgrade) -> axum::response::Response {
        upgrade.on_upgrade(|mut socket| async move {
            while let Some(Ok(message)) = socket.recv().await {
                if socket.send(message).await.is_err() {
                    break;
                }
            }
        })
    }
    async fn place() -> String {
        sleep(MS).await;
        on_a_worker().to_string()
    }
    let app = Router::new().route("/place", get(place)).route("/echo", get(echo));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let stopped = stop.clone().cancelled_owned();
    let server = axum::serve(listener, app).with_graceful_shutdown(stopped);
    (addr, tokio::spawn(server.into_future()), stop)
}

async fn asks_by_reqwest(addr: SocketAddr) {
    let client = reqwest::Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
    for _ in 0..10 {
        let text = client.get(format!("http://{addr}/place")).send().await.unwrap().text().await;
        assert_eq!(text.unwrap(), "true", "a handler of axum runs on a worker");
    }
    println!("reqwest asks axum");
}

async fn asks_by_hyper(addr: SocketAddr) {
    use hyper_util::{
        client::legacy::{Client, connect::HttpConnector},
        rt::TokioExecutor,
    };
    let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
    let uri = format!("http://{addr}/place").parse().unwrap();
    let client: Client<_, axum::body::Body> = client;
    assert_eq!(client.get(uri).await.unwrap().status(), 200);
    println!("hyper-util asks axum");
}

async fn talks_by_websocket(addr: SocketAddr) {
    let (mut socket, _) =
        tokio_tungstenite::connect_async(format!("ws://{addr}/echo")).await.unwrap();
    socket.send(Message::text("hello")).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::text("hello"));
    socket.close(None).await.unwrap();
    println!("tokio-tungstenite talks to axum");
}

/// Limits and timeouts of tower, which ask for timers and semaphores; what blocks.
async fn layers() {
    use tower::{ServiceBuilder, ServiceExt, service_fn};
    let service = ServiceBuilder::new().concurrency_limit(1).timeout(MS).service(service_fn(
        |n: u64| async move {
            sleep(Duration::from_secs(n)).await;
            Ok::<_, std::io::Error>(n)
        },
    ));
    let error = service.oneshot(3600).await.unwrap_err();
    assert!(error.is::<tower::timeout::error::Elapsed>());

    let (sender, receiver) = oneshot::channel();
    let waits = spawn_blocking(|| receiver.blocking_recv());
    sender.send(5).unwrap();
    assert_eq!(waits.await.unwrap(), Ok(5));
    println!("layers of tower; a closure that blocks");
}

/// No thread of a second runtime: the main thread, two workers, and the threads for closures that block.
fn has_one_runtime() {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm"));
    let names: Vec<_> = tasks.filter_map(|task| name(task.unwrap()).ok()).collect();
    let other = |name: &&String| !matches!(name.trim(), "one-tokio" | "tokio-runtime-w");
    println!("threads: {names:?}");
    assert_eq!(names.iter().filter(other).collect::<Vec<_>>(), Vec::<&String>::new());
}
