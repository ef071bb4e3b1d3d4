//! `block_in_place`: whatever its closure does, and however many tasks are in it, the others go on.

use core::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};
use std::{sync::Arc, thread};

use filch_test_support::{until, watchdog};
use filch_tokio as tokio;
use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::block_in_place,
    time::sleep,
};

fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
}

#[test]
fn a_sleep_ends_in_it() {
    for workers in [1, 2, 8] {
        let _watchdog = watchdog();
        let runtime = runtime(workers);
        for _ in 0..5 {
            let sleeps = async {
                block_in_place(|| Handle::current().block_on(sleep(Duration::from_millis(20))));
            };
            runtime.block_on(runtime.spawn(sleeps)).unwrap();
        }
    }
}

#[test]
fn timers_and_sockets_go_on_beside_it() {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    for workers in [1, 2] {
        let _watchdog = watchdog();
        let runtime = runtime(workers);
        let echoes = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&echoes);
        let server = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = server.local_addr().unwrap();
        runtime.spawn(async move {
            let (mut stream, _) = server.accept().await.unwrap();
            let mut byte = [0];
            while stream.read(&mut byte).await.unwrap() > 0 {
                stream.write_all(&byte).await.unwrap();
            }
        });
        runtime.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            loop {
                sleep(Duration::from_millis(1)).await;
                let mut byte = [7];
                stream.write_all(&byte).await.unwrap();
                stream.read_exact(&mut byte).await.unwrap();
                count.fetch_add(1, Relaxed);
            }
        });
        let blocks = move || {
            let begin = echoes.load(Relaxed);
            until(|| echoes.load(Relaxed) > begin + 10);
        };
        for _ in 0..3 {
            let blocks = blocks.clone();
            runtime.block_on(runtime.spawn(async move { block_in_place(blocks) })).unwrap();
        }
    }
}

/// Each waits for a task that has yet to run, and then does what tasks do.
#[test]
fn any_number_of_tasks_are_in_it() {
    for workers in [1, 2] {
        let _watchdog = watchdog();
        let runtime = runtime(workers);
        let go = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..200)
            .map(|i| {
                let go = Arc::clone(&go);
                runtime.spawn(async move {
                    block_in_place(|| until(|| go.load(Relaxed)));
                    sleep(Duration::from_millis(1)).await;
                    tokio::spawn(async move { i }).await.unwrap()
                })
            })
            .collect();
        runtime.block_on(runtime.spawn(async move { go.store(true, Relaxed) })).unwrap();
        for (i, task) in tasks.into_iter().enumerate() {
            assert_eq!(runtime.block_on(task).unwrap(), i);
        }
    }
}

/// Threads that have stood in for others are gone when the runtime is.
#[test]
fn its_threads_end() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    for _ in 0..50 {
        let blocks = async { block_in_place(|| thread::current().id()) };
        runtime.block_on(runtime.spawn(blocks)).unwrap();
    }
    drop(runtime);
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    until(|| threads() < 20);
}

/// A task in it waits for what will not come as its runtime ends: with spare slots, and where more tasks are in it than there are of those.
/// Each ends after some seconds, both at a time.
#[test]
fn a_runtime_ends_though_a_task_waits_in_it() {
    async fn accepts() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _ = listener.accept().await;
    }

    let waits: [fn(); 4] = [
        || Handle::current().block_on(sleep(Duration::from_secs(1_000))),
        || Handle::current().block_on(accepts()),
        || runtime(1).block_on(core::future::pending()),
        || Builder::new_current_thread().build().unwrap().block_on(core::future::pending()),
    ];
    let ends = |count| {
        let runtime = runtime(2);
        let (send, receive) = std::sync::mpsc::channel();
        for wait in waits.into_iter().cycle().take(count) {
            let send = send.clone();
            runtime.spawn(async move {
                block_in_place(|| {
                    send.send(()).unwrap();
                    wait();
                });
            });
        }
        for _ in 0..count {
            receive.recv().unwrap();
        }
        drop(runtime);
    };
    let _watchdog = watchdog();
    thread::scope(|scope| {
        for count in [4, 12] {
            scope.spawn(move || ends(count));
        }
    });
}

/// More tasks than there are spare slots: some of them leave their workers.
#[test]
fn a_task_stays_in_the_runtime_that_it_has_entered() {
    let _watchdog = watchdog();
    let (runtime, other) = (runtime(2), runtime(1));
    let barrier = Arc::new(std::sync::Barrier::new(12));
    let tasks: Vec<_> = (0..12)
        .map(|_| {
            let (barrier, other) = (Arc::clone(&barrier), other.handle().clone());
            runtime.spawn(async move {
                let own = Handle::current().id();
                let entered = other.enter();
                block_in_place(|| barrier.wait());
                assert_eq!(Handle::current().id(), other.id());
                drop(entered);
                assert_eq!(Handle::current().id(), own);
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}
