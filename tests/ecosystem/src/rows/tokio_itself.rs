//! The parts of tokio.

use core::time::Duration;
use std::sync::Arc;

use filch_linux::spawn;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::row;
use crate::{Done, Row, equal};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row!("tokio", "`sync`", sync, ""),
        row!("tokio", "`select!`, `join!`", macros, ""),
        row!("tokio", "`time`", time, "`filch_linux::time`"),
        row!("tokio", "`net`", net, "`filch_linux::net`"),
        row!("tokio", "`fs`", files, "`filch_linux::spawn_blocking`"),
        row!("tokio", "`process`", process, "`filch_linux::process`"),
        row!("tokio", "`signal`", signal, "`filch_linux::signal`"),
        row!(
            "tokio",
            "`spawn`, `spawn_blocking`",
            tasks,
            "`filch_linux::spawn`: tokio's tasks have one thread"
        ),
        row!("tokio", "`task::LocalSet`", local_set, "`filch_linux::spawn_local`"),
        row!(
            "tokio",
            "`task::block_in_place`, in a task of tokio",
            block_in_place,
            "`filch_linux::spawn_blocking`; in this runtime's tasks it works",
            refuses "can call blocking only when running on the multi-threaded runtime"
        ),
        row!("tokio-stream", "stream of a channel", stream, ""),
        row!(
            "tokio-stream",
            "`timeout`, `IntervalStream`",
            stream_of_time,
            "`filch_linux::time::timeout` around `next`"
        ),
        row!(
            "actix-rt",
            "a `System`, in the blocking pool",
            actix_system,
            "it takes a thread for itself"
        ),
        row!(
            "actix-rt",
            "`spawn`, so actix-web",
            actix,
            "axum; or a `System`",
            refuses "called from outside of a `task::LocalSet`"
        ),
    ]
}

async fn sync() -> Done {
    use tokio::sync::{Mutex, Semaphore, broadcast, mpsc, oneshot, watch};
    let (sender, mut receiver) = mpsc::channel(1);
    let (semaphore, count) = (Arc::new(Semaphore::new(2)), Arc::new(Mutex::new(0)));
    for i in 0..10 {
        let (sender, semaphore, count) = (sender.clone(), semaphore.clone(), count.clone());
        spawn(async move {
            let _permit = semaphore.acquire().await?;
            *count.lock().await += i;
            sender.send(i).await?;
            Ok::<_, Box<dyn core::error::Error + Send + Sync>>(())
        })
        .detach();
    }
    drop(sender);
    let mut sum = 0;
    while let Some(i) = receiver.recv().await {
        sum += i;
    }
    equal((sum, *count.lock().await), (45, 45))?;
    let (tell, told) = oneshot::channel();
    let (watched, mut watches) = watch::channel(0);
    let (all, mut each) = broadcast::channel(4);
    let waits = spawn(async move {
        watches.wait_for(|n| *n == 3).await?;
        let heard: i32 = each.recv().await?;
        tell.send(heard).map_err(|_| "nothing listens")?;
        Ok::<_, Box<dyn core::error::Error + Send + Sync>>(())
    });
    watched.send(3)?;
    all.send(7)?;
    equal(told.await?, 7)?;
    waits.await?
}

async fn macros() -> Done {
    let (one, two) = tokio::join!(spawn(async { 1 }), spawn(async { 2 }));
    let first = tokio::select! {
        () = core::future::pending() => 0,
        three = spawn(async { 3 }) => three?,
    };
    equal((one?, two?, first), (1, 2, 3))
}

async fn time() -> Done {
    let began = std::time::Instant::now();
    let late = spawn(async {
        let mut ticks = tokio::time::interval(Duration::from_millis(2));
        ticks.tick().await;
        ticks.tick().await;
        tokio::time::timeout(Duration::from_millis(2), core::future::pending::<()>()).await
    });
    equal((late.await?.is_err(), began.elapsed() >= Duration::from_millis(4)), (true, true))
}

async fn net() -> Done {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let sends = spawn(async move {
        let mut stream = tokio::net::TcpStream::connect(addr).await?;
        stream.write_all(b"hello").await
    });
    let mut all = String::new();
    listener.accept().await?.0.read_to_string(&mut all).await?;
    sends.await??;
    equal(all, "hello".to_owned())
}

async fn files() -> Done {
    let own = spawn(tokio::fs::read_to_string("Cargo.toml")).await?;
    equal(own.is_ok_and(|text| text.contains("[dependencies]")), true)
}

async fn process() -> Done {
    let output = spawn(async { tokio::process::Command::new("echo").arg("child").output().await });
    equal(output.await??.stdout, b"child\n".to_vec())
}

async fn signal() -> Done {
    use tokio::signal::unix::{SignalKind, signal};
    let mut signals = signal(SignalKind::user_defined1())?;
    let heard = spawn(async move { signals.recv().await });
    let pid = std::process::id().to_string();
    filch_linux::process::Command::new("kill").args(["-USR1", &pid]).status().await?;
    equal(heard.await?, Some(()))
}

async fn tasks() -> Done {
    let sum = spawn(async {
        let task = tokio::spawn(async { spawn(async { 1 }).await });
        let closure = tokio::task::spawn_blocking(|| 2);
        Ok::<_, tokio::task::JoinError>((task.await?, closure.await?))
    });
    let (one, two) = sum.await??;
    equal((one?, two), (1, 2))
}

async fn local_set() -> Done {
    let set = tokio::task::LocalSet::new();
    let local = async { tokio::task::spawn_local(async { 7 }).await };
    equal(set.run_until(local).await?, 7)
}

async fn block_in_place() -> Done {
    equal(tokio::spawn(async { tokio::task::block_in_place(|| 7) }).await?, 7)
}

async fn stream() -> Done {
    use tokio_stream::{StreamExt, wrappers::ReceiverStream};
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let sends = spawn(async move {
        for i in 0..100 {
            sender.send(i).await?;
        }
        Ok::<_, tokio::sync::mpsc::error::SendError<i32>>(())
    });
    let sum = spawn(ReceiverStream::new(receiver).map(|i| 2 * i).fold(0, |sum, i| sum + i)).await?;
    sends.await??;
    equal(sum, 9_900)
}

async fn stream_of_time() -> Done {
    use tokio_stream::{StreamExt, wrappers::IntervalStream};
    let ticks = IntervalStream::new(tokio::time::interval(Duration::from_millis(1)));
    let ticks = ticks.take(3).timeout(Duration::from_secs(10));
    let ended = spawn(ticks.fold(0, |n, tick| n + i32::from(tick.is_ok())));
    equal(ended.await?, 3)
}

async fn actix_system() -> Done {
    let system = || actix_rt::System::new().block_on(async { actix_rt::spawn(async { 7 }).await });
    equal(filch_linux::spawn_blocking(system).await??, 7)
}

async fn actix() -> Done {
    equal(actix_rt::spawn(async { 7 }).await?, 7)
}
