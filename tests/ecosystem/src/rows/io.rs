//! Crates of files, processes and sockets that bring threads of their own, or work on any stream.

use std::{env, fs, process};

use filch_linux::{net::TcpStream, spawn, spawn_blocking};
use futures::{AsyncReadExt, AsyncWriteExt, SinkExt, StreamExt};
use tokio_util::compat::FuturesAsyncReadCompatExt;

use super::row;
use crate::{Done, Row, equal, servers};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row!("async-compression", "gzip over futures' traits", async_compression, ""),
        row!(
            "async-fs",
            "files",
            async_fs,
            "has threads of its own; `spawn_blocking` uses the runtime's"
        ),
        row!(
            "async-io",
            "timer and socket",
            async_io,
            "has a thread of its own; `filch_linux::net` has none"
        ),
        row!("async-net", "TCP", async_net, "has a thread of its own; `filch_linux::net` has none"),
        row!(
            "async-process",
            "output of a child",
            async_process,
            "`filch_linux::process` has no threads"
        ),
        row!(
            "notify",
            "changes of a folder",
            notify,
            "has a thread of its own; a channel leads to tasks"
        ),
        row!(
            "object_store",
            "files of a local folder",
            object_store,
            "without `tokio`: blocks the worker"
        ),
        row!(
            "tokio-util",
            "codec over this crate's TCP",
            tokio_util_codec,
            "`compat()`; by the feature without it"
        ),
        row!("tokio-util", "`CancellationToken`", tokio_util_token, ""),
        row!("tokio-util", "`TaskTracker::track_future`", tokio_util_tracker, ""),
        row!(
            "tokio-util",
            "`TaskTracker::spawn`",
            tokio_util_tracker_spawn,
            "`filch_linux::spawn(tracker.track_future(f))`, on the workers"
        ),
    ]
}

/// A folder that is removed when this is dropped.
struct Folder(std::path::PathBuf);

fn folder() -> std::io::Result<Folder> {
    let path = env::temp_dir().join(format!("filch-ecosystem-{}", process::id()));
    fs::create_dir_all(&path)?;
    Ok(Folder(path))
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn async_compression() -> Done {
    use async_compression::futures::{bufread::GzipDecoder, write::GzipEncoder};
    let packed = spawn(async {
        let mut encoder = GzipEncoder::new(Vec::new());
        encoder.write_all(&[7; 10_000]).await?;
        encoder.close().await?;
        Ok::<_, std::io::Error>(encoder.into_inner())
    });
    let packed = packed.await??;
    let mut all = Vec::new();
    GzipDecoder::new(&packed[..]).read_to_end(&mut all).await?;
    equal((packed.len() < 1_000, all == [7; 10_000]), (true, true))
}

async fn async_fs() -> Done {
    let folder = folder()?;
    let path = folder.0.join("file");
    async_fs::write(&path, "written").await?;
    let read = spawn(async move { async_fs::read_to_string(path).await });
    equal(read.await??, "written".to_owned())
}

async fn async_io() -> Done {
    let listener = async_io::Async::<std::net::TcpListener>::bind(([127, 0, 0, 1], 0))?;
    let addr = listener.get_ref().local_addr()?;
    let sends = spawn(async move {
        async_io::Timer::after(core::time::Duration::from_millis(2)).await;
        let mut stream = async_io::Async::<std::net::TcpStream>::connect(addr).await?;
        stream.write_all(b"hello").await
    });
    let (mut peer, _) = listener.accept().await?;
    let mut all = String::new();
    peer.read_to_string(&mut all).await?;
    sends.await??;
    equal(all, "hello".to_owned())
}

async fn async_net() -> Done {
    let listener = async_net::TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let sends = spawn(async move {
        let mut stream = async_net::TcpStream::connect(addr).await?;
        stream.write_all(b"hello").await
    });
    let (mut peer, _) = listener.accept().await?;
    let mut all = String::new();
    peer.read_to_string(&mut all).await?;
    sends.await??;
    equal(all, "hello".to_owned())
}

async fn async_process() -> Done {
    let output = spawn(async_process::Command::new("echo").arg("child").output()).await??;
    equal(output.stdout, b"child\n".to_vec())
}

async fn notify() -> Done {
    use notify::Watcher;
    let folder = folder()?;
    let (sender, receiver) = async_channel::unbounded();
    let tell = move |event: notify::Result<notify::Event>| {
        let _ = sender.send_blocking(event.map(|event| event.kind.is_create()));
    };
    let mut watcher = notify::recommended_watcher(tell)?;
    watcher.watch(&folder.0, notify::RecursiveMode::NonRecursive)?;
    let path = folder.0.join("new");
    let writes = spawn_blocking(move || fs::write(path, "new"));
    let seen = spawn(async move { receiver.recv().await });
    let seen = seen.await???;
    writes.await??;
    equal(seen, true)
}

async fn object_store() -> Done {
    use object_store::{ObjectStoreExt, local::LocalFileSystem, path::Path};
    let folder = folder()?;
    let store = LocalFileSystem::new_with_prefix(&folder.0)?;
    let path = Path::from("some/object");
    store.put(&path, "content".into()).await?;
    let got = spawn(async move { store.get(&path).await?.bytes().await });
    equal(&got.await??[..], b"content")
}

async fn tokio_util_codec() -> Done {
    use tokio_util::codec::{Framed, LinesCodec};
    let addr = servers::echo().await?;
    let stream = TcpStream::connect_addr(addr).await?;
    let mut lines = Framed::new(stream.compat(), LinesCodec::new());
    let answers = spawn(async move {
        lines.send("one").await?;
        lines.send("two").await?;
        let first = lines.next().await.transpose()?;
        Ok::<_, tokio_util::codec::LinesCodecError>((first, lines.next().await.transpose()?))
    });
    equal(answers.await??, (Some("one".to_owned()), Some("two".to_owned())))
}

async fn tokio_util_token() -> Done {
    let token = tokio_util::sync::CancellationToken::new();
    let child = token.child_token();
    let waits = spawn(async move { child.cancelled().await });
    token.cancel();
    waits.await?;
    Ok(())
}

async fn tokio_util_tracker() -> Done {
    let tracker = tokio_util::task::TaskTracker::new();
    let tasks: Vec<_> = (0..10).map(|i| spawn(tracker.track_future(async move { i }))).collect();
    tracker.close();
    tracker.wait().await;
    let mut sum = 0;
    for task in tasks {
        sum += task.await?;
    }
    equal((sum, tracker.is_empty()), (45, true))
}

async fn tokio_util_tracker_spawn() -> Done {
    let tracker = tokio_util::task::TaskTracker::new();
    let task = tracker.spawn(async { 7 });
    tracker.close();
    tracker.wait().await;
    equal(task.await?, 7)
}
