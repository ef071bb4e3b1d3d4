//! What programs rely on: where tasks run, what cancels them, what blocks. tokio's own tests are run by `compat/tokio/check.sh`.

use core::{
    sync::atomic::{AtomicBool, Ordering},
    task::Context,
    time::Duration,
};
use std::{
    io::{Read, Write},
    os::unix::net,
    process::Stdio,
    sync::{Arc, Barrier, mpsc},
    thread,
    time::Instant,
};

use filch_test_support::{Drops, on_wake, watchdog};
use filch_tokio::{
    io::{AsyncReadExt, AsyncWriteExt, unix::AsyncFd},
    net::{TcpListener, TcpStream, UnixStream},
    process,
    runtime::{Builder, Handle, LocalOptions, Runtime, RuntimeFlavor},
    select,
    sync::oneshot,
    task, time,
};

fn threaded(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
}

fn current() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_current_thread_runtime_runs_its_tasks_in_block_on_on_the_caller() {
    let _watchdog = watchdog();
    let runtime = current();
    assert_eq!(runtime.handle().runtime_flavor(), RuntimeFlavor::CurrentThread);
    let (send, receive) = mpsc::channel();
    runtime.spawn(async move { send.send(thread::current().id()).unwrap() });
    assert!(receive.try_recv().is_err());
    runtime.block_on(task::yield_now());
    assert_eq!(receive.try_recv(), Ok(thread::current().id()));
}

#[test]
fn a_dropped_handle_leaves_its_task_and_an_abort_ends_it() {
    let _watchdog = watchdog();
    for runtime in [current(), threaded(2)] {
        runtime.block_on(async {
            let (send, receive) = oneshot::channel();
            drop(task::spawn(async { send.send(7) }));
            assert_eq!(receive.await, Ok(7));

            let stuck = task::spawn(core::future::pending::<()>());
            let id = stuck.id();
            stuck.abort();
            let error = stuck.await.unwrap_err();
            assert!(error.is_cancelled());
            assert_eq!(error.to_string(), format!("task {id} was cancelled"));

            let panics = task::spawn(async { panic!("boom") });
            let id = panics.id();
            let error: task::JoinError = panics.await.map(|(): ()| ()).unwrap_err();
            assert_eq!(error.to_string(), format!("task {id} panicked with message \"boom\""));
        });
    }
}

#[test]
fn detached_tasks_that_nothing_can_wake_are_kept_until_the_runtime_ends() {
    let _watchdog = watchdog();
    for runtime in [current(), threaded(2)] {
        let drops = Drops::new();
        // A common idiom: a task keeps a guard until the runtime ends.
        let keep = || {
            let guard = drops.tally();
            async move {
                let _guard = guard;
                core::future::pending::<()>().await;
            }
        };
        let local = task::LocalSet::new();
        drop(local.spawn_local(keep()));
        runtime.block_on(local.run_until(async {
            drop(task::spawn(keep()));
            let late = task::spawn(keep());
            drop(task::spawn_local(keep()));
            let mut set = task::JoinSet::new();
            set.spawn(keep());
            // All of them are polled.
            for _ in 0..100 {
                task::yield_now().await;
            }
            drop(late);
            set.detach_all();
            for _ in 0..100 {
                task::yield_now().await;
            }
        }));
        assert_eq!(drops.count(), 0);
        drop(local);
        assert_eq!(drops.count(), 2);
        drop(runtime);
        assert_eq!(drops.count(), 5);
    }
}

#[test]
fn the_end_of_a_runtime_drops_its_tasks_inside_it() {
    let _watchdog = watchdog();
    struct Inside(mpsc::Sender<bool>);
    impl Drop for Inside {
        fn drop(&mut self) {
            let _ = self.0.send(Handle::try_current().is_ok());
        }
    }
    for runtime in [current(), threaded(2)] {
        let (send, receive) = mpsc::channel();
        let inside = Inside(send);
        let task = runtime.spawn(async move {
            let _inside = inside;
            core::future::pending::<()>().await;
        });
        drop(runtime);
        assert_eq!(receive.recv(), Ok(true));
        assert!(current().block_on(task).unwrap_err().is_cancelled());
    }
}

#[test]
fn workers_that_block_in_place_are_replaced() {
    let _watchdog = watchdog();
    let runtime = threaded(1);
    const BLOCKED: usize = 4;
    let barrier = Arc::new(Barrier::new(BLOCKED + 1));
    let blocked: Vec<_> = (0..BLOCKED)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            runtime.spawn(async move { task::block_in_place(|| barrier.wait()) })
        })
        .collect();
    // Each of them is in its call before one leaves it.
    barrier.wait();
    for task in blocked {
        runtime.block_on(task).unwrap();
    }
    let panics = runtime.spawn(async { task::block_in_place(|| panic!("in place")) });
    assert!(runtime.block_on(panics).map(|(): ()| ()).unwrap_err().is_panic());
    assert_eq!(runtime.block_on(runtime.spawn(async { 7 })).unwrap(), 7);
}

#[test]
fn the_end_of_a_stream_that_comes_with_its_last_bytes_is_seen() {
    let _watchdog = watchdog();
    for runtime in [current(), threaded(2)] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            (0..1_000).for_each(|_| stream.write_all(b"0123456789").unwrap());
        });
        let read = runtime.block_on(async {
            let mut bytes = Vec::new();
            TcpStream::connect(addr).await.unwrap().read_to_end(&mut bytes).await.unwrap();
            bytes.len()
        });
        assert_eq!(read, 10_000);
        peer.join().unwrap();
    }
}

#[test]
fn an_accepted_stream_and_both_ends_of_a_pair_can_be_used_at_once() {
    let _watchdog = watchdog();
    current().block_on(async {
        let (mut a, b) = UnixStream::pair().unwrap();
        assert_eq!(a.try_write(b"hi").unwrap(), 2);
        assert!(a.try_read(&mut [0]).is_err());
        b.readable().await.unwrap();
        let (_, mut write) = a.split();
        write.shutdown().await.unwrap();
        let mut both = [0; 8];
        assert_eq!(b.try_read(&mut both).unwrap(), 2);

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let client = thread::spawn(move || {
            let mut client = std::net::TcpStream::connect(addr).unwrap();
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            text
        });
        let (stream, _) = listener.accept().await.unwrap();
        assert_eq!(stream.try_write(b"now").unwrap(), 3);
        drop(stream);
        assert_eq!(client.join().unwrap(), "now");
    });
}

#[test]
fn a_stopped_clock_moves_when_nothing_is_runnable() {
    let _watchdog = watchdog();
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let begin = time::Instant::now();
        time::sleep(Duration::from_secs(86_400)).await;
        assert_eq!(begin.elapsed(), Duration::from_secs(86_400));
        let late = time::timeout(Duration::from_secs(1), core::future::pending::<()>());
        assert!(late.await.is_err());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        for _ in 0..100 {
            assert!(time::timeout(Duration::from_secs(1), listener.accept()).await.is_err());
        }
    });
}

/// A registered stream, whose wait for a read calls the closure; and its peer.
fn woken(call: impl Fn() + Send + Sync + 'static) -> (AsyncFd<net::UnixStream>, net::UnixStream) {
    let (stream, peer) = net::UnixStream::pair().unwrap();
    stream.set_nonblocking(true).unwrap();
    let stream = AsyncFd::new(stream).unwrap();
    assert!(stream.poll_read_ready(&mut Context::from_waker(&on_wake(call))).is_pending());
    (stream, peer)
}

#[test]
fn a_stopped_clock_waits_for_events_that_the_reactor_has_still_to_deliver() {
    let _watchdog = watchdog();
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let moved = Arc::new(AtomicBool::new(false));
    runtime.block_on(async {
        let begin = time::Instant::now();
        // The reactor hears of the last two streams at once, and the waker of the first of these holds it up.
        let looks = Arc::clone(&moved);
        let (_slow, mut wakes_slowly) = woken(move || {
            let begin = Instant::now();
            while !looks.load(Ordering::Relaxed) && begin.elapsed() < Duration::from_millis(100) {
                thread::yield_now();
            }
        });
        let (awaited, mut wakes) = woken(|| {});
        let (meets, goes_on) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
        let gate = (Arc::clone(&meets), Arc::clone(&goes_on));
        let (_first, mut stops) = woken(move || {
            gate.0.wait();
            gate.1.wait();
        });
        stops.write_all(b"!").unwrap();
        meets.wait();
        wakes_slowly.write_all(b"!").unwrap();
        wakes.write_all(b"!").unwrap();
        goes_on.wait();
        select! {
            biased;
            () = time::sleep(Duration::from_secs(1)) => moved.store(true, Ordering::Relaxed),
            event = awaited.readable() => drop(event.unwrap()),
        }
        assert!(!moved.load(Ordering::Relaxed));
        assert_eq!(begin.elapsed(), Duration::ZERO);
    });
}

#[test]
fn a_local_runtime_has_tasks_that_are_not_send() {
    let _watchdog = watchdog();
    let drops = Drops::new();
    let runtime =
        Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).unwrap();
    let local = std::rc::Rc::new(drops.tally());
    let kept = runtime.spawn_local({
        let local = std::rc::Rc::clone(&local);
        async move {
            let _local = local;
            core::future::pending::<()>().await;
        }
    });
    let count = runtime.block_on(async {
        task::spawn_local(async move { std::rc::Rc::strong_count(&local) }).await
    });
    assert_eq!(count.unwrap(), 2);
    drop(runtime);
    assert_eq!(drops.count(), 1);
    assert!(kept.is_finished());
}

#[test]
fn a_child_outlives_the_runtime_that_has_spawned_it() {
    let _watchdog = watchdog();
    let cat = || {
        let mut command = process::Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
    };
    for (first, second) in [(current(), threaded(2)), (threaded(2), current())] {
        let mut child = first.block_on(async { cat() });
        drop(first);
        // It runs until its input is closed, which the wait does.
        assert!(second.block_on(child.wait()).unwrap().success());
        // One that waits as its runtime ends is told so.
        let mut child = second.block_on(async { cat() });
        let input = child.stdin.take();
        let handle = second.handle().clone();
        let error = thread::spawn(move || handle.block_on(child.wait()).unwrap_err());
        drop(second);
        assert!(filch_tokio::runtime::is_rt_shutdown_err(&error.join().unwrap()));
        drop(input);
    }
}
