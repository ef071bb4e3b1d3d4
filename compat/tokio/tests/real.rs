//! Crates that are built on the crate `tokio` find its runtime wherever this crate's runtimes poll or block.

use core::time::Duration;
use std::{
    io::{Read, Write},
    sync::{Arc, mpsc},
    thread,
};

use filch_test_support::watchdog;
use filch_tokio::{
    runtime::{Builder, Handle, LocalOptions, Runtime},
    sync::{Mutex, oneshot},
    task::{self, LocalSet},
};
use real::io::{AsyncReadExt, AsyncWriteExt};

const MS: Duration = Duration::from_millis(1);

fn threaded(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
}

fn current() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn both() -> [Runtime; 2] {
    [current(), threaded(2)]
}

/// What such a crate does: it spawns, sleeps, connects and blocks by the crate `tokio`.
async fn uses_the_real_one() -> usize {
    let listener = real::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let echo = real::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = [0; 5];
        stream.read_exact(&mut bytes).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
    });
    let mut stream = real::net::TcpStream::connect(addr).await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    real::time::sleep(MS).await;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    echo.await.unwrap();
    real::task::spawn_blocking(move || text.len()).await.unwrap()
}

#[test]
fn in_root_futures() {
    let _watchdog = watchdog();
    for runtime in both() {
        assert_eq!(runtime.block_on(uses_the_real_one()), 5);
        // On another thread than that of `Runtime::block_on`.
        let (handle, (stop, stopped)) = (runtime.handle().clone(), oneshot::channel());
        let other = thread::spawn(move || {
            let n = handle.block_on(uses_the_real_one());
            stop.send(()).unwrap();
            n
        });
        runtime.block_on(stopped).unwrap();
        assert_eq!(other.join().unwrap(), 5);
    }
}

#[filch_tokio::test(crate = "filch_tokio")]
async fn in_the_macros_current_thread_runtime() {
    assert_eq!(uses_the_real_one().await, 5);
}

#[filch_tokio::test(crate = "filch_tokio", flavor = "multi_thread", worker_threads = 2)]
async fn in_the_macros_multi_thread_runtime() {
    assert_eq!(task::spawn(uses_the_real_one()).await.unwrap(), 5);
    assert_eq!(uses_the_real_one().await, 5);
}

#[test]
fn in_tasks_and_local_tasks() {
    let _watchdog = watchdog();
    for runtime in both() {
        assert_eq!(runtime.block_on(runtime.spawn(uses_the_real_one())).unwrap(), 5);
        let set = LocalSet::new();
        let local = set.run_until(async {
            let of_set = task::spawn_local(uses_the_real_one()).await.unwrap();
            let of_real = real::task::LocalSet::new();
            let nested = of_real
                .run_until(async { real::task::spawn_local(uses_the_real_one()).await.unwrap() });
            of_set + nested.await
        });
        assert_eq!(runtime.block_on(local), 10);
    }
    let local = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let local = local.unwrap();
    let spawned = local.spawn_local(uses_the_real_one());
    assert_eq!(local.block_on(spawned).unwrap(), 5);
}

#[test]
fn in_closures_that_block_and_where_the_runtime_is_entered() {
    let _watchdog = watchdog();
    for runtime in both() {
        let handle = runtime.handle().clone();
        let blocking = runtime.spawn_blocking(move || {
            real::runtime::Handle::current().block_on(uses_the_real_one())
                + handle.block_on(uses_the_real_one())
        });
        assert_eq!(runtime.block_on(blocking).unwrap(), 10);
        let id = || real::runtime::Handle::try_current().ok().map(|handle| handle.id());
        assert_eq!(id(), None);
        let entered = runtime.enter();
        let outer = id();
        assert!(outer.is_some());
        let other = current();
        {
            let _inner = other.enter();
            assert!(id().is_some() && id() != outer);
        }
        assert_eq!(id(), outer);
        drop(entered);
        assert_eq!(id(), None);
    }
}

#[test]
fn its_tasks_and_closures_are_in_this_crates_runtime() {
    let _watchdog = watchdog();
    for runtime in both() {
        let id = runtime.handle().id();
        let (task, closure) = runtime.block_on(async {
            let task = real::spawn(async { task::spawn(async { Handle::current().id() }).await });
            let closure = real::task::spawn_blocking(|| Handle::current().id());
            (task.await.unwrap().unwrap(), closure.await.unwrap())
        });
        assert_eq!((task, closure), (id, id));
    }
}

#[test]
fn the_timeouts_of_channels_work() {
    let _watchdog = watchdog();
    for runtime in both() {
        runtime.block_on(async {
            let (send, mut receive) = filch_tokio::sync::mpsc::channel(1);
            send.send_timeout(1, MS).await.unwrap();
            assert!(send.send_timeout(2, MS).await.is_err());
            assert_eq!(receive.recv().await, Some(1));
        });
    }
}

/// Whether `f` panics where it is called.
fn panics(f: impl FnOnce()) -> bool {
    std::panic::catch_unwind(core::panic::AssertUnwindSafe(f)).is_err()
}

#[test]
fn what_blocks_panics_in_a_poll_and_works_in_place() {
    let _watchdog = watchdog();
    async fn misuses(lock: Arc<Mutex<i32>>) {
        assert!(panics(|| drop(lock.blocking_lock())));
        let (_send, receive) = oneshot::channel::<()>();
        assert!(panics(|| drop(receive.blocking_recv())));
        assert!(panics(|| real::runtime::Handle::current().block_on(async {})));
        assert!(panics(|| Handle::current().block_on(async {})));
    }
    let lock = Arc::new(Mutex::new(7));
    for runtime in both() {
        runtime.block_on(misuses(Arc::clone(&lock)));
        runtime.block_on(runtime.spawn(misuses(Arc::clone(&lock)))).unwrap();
        let set = LocalSet::new();
        set.spawn_local(misuses(Arc::clone(&lock)));
        runtime.block_on(set);
    }
    async fn blocks_in_place(lock: Arc<Mutex<i32>>) -> i32 {
        task::block_in_place(|| {
            let of_new_runtimes: usize =
                both().iter().map(|runtime| runtime.block_on(uses_the_real_one())).sum();
            let nested = Handle::current().block_on(async { task::block_in_place(|| 1) });
            *lock.blocking_lock() + of_new_runtimes as i32 + nested
        })
    }
    let runtime = threaded(1);
    assert_eq!(runtime.block_on(blocks_in_place(Arc::clone(&lock))), 18);
    assert_eq!(runtime.block_on(runtime.spawn(blocks_in_place(lock))).unwrap(), 18);
}

#[test]
fn the_end_of_a_runtime_drops_the_tasks_of_both() {
    let _watchdog = watchdog();
    struct Tells(mpsc::Sender<&'static str>, &'static str);
    impl Drop for Tells {
        fn drop(&mut self) {
            let _ = self.0.send(self.1);
        }
    }
    async fn holds(tells: Tells) {
        let _tells = tells;
        real::time::sleep(Duration::from_secs(3_600)).await;
    }
    for runtime in both() {
        let (send, receive) = mpsc::channel();
        runtime.block_on(async {
            let (one, other) = (Tells(send.clone(), "ours"), Tells(send, "tokio's"));
            task::spawn(holds(one));
            real::spawn(holds(other));
            task::yield_now().await;
        });
        drop(runtime);
        assert_eq!(receive.iter().collect::<Vec<_>>(), ["ours", "tokio's"]);
    }
}

#[test]
fn a_task_of_the_real_one_that_blocks_does_not_hold_a_shutdown_with_a_limit() {
    let _watchdog = watchdog();
    for runtime in both() {
        let (mut near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
        let (begun, begins) = mpsc::channel();
        runtime.block_on(async {
            real::spawn(async move {
                begun.send(()).unwrap();
                near.read_exact(&mut [0]).unwrap();
            });
        });
        begins.recv().unwrap();
        runtime.shutdown_timeout(MS);
        far.write_all(&[7]).unwrap();
    }
}
