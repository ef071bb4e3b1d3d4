//! `Async` over pairs of sockets: bytes arrive, whichever tasks read and write them, and whichever
//! operations are dropped in between.

mod common;

use core::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll, Waker},
};
use std::{
    io::{self, ErrorKind, Read, Write},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::net::{UnixDatagram, UnixStream},
    },
    sync::Arc,
    thread,
};

use common::{Flag, pair, runtime, until, watchdog};
use filch_linux::{
    Async,
    io::{Direction, Ready},
    spawn,
};
use futures::{
    AsyncReadExt, AsyncWriteExt, StreamExt,
    stream::FuturesUnordered,
    task::{ArcWake, waker},
};

fn seed() -> u64 {
    let seed = fastrand::u64(..);
    println!("seed {seed:#x}");
    seed
}

async fn write_all(io: &Async<UnixStream>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let n = io.write_with(|mut io| io.write(bytes)).await?;
        bytes = &bytes[n..];
    }
    Ok(())
}

async fn read_exact(io: &Async<UnixStream>, bytes: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match io.read_with(|mut io| io.read(&mut bytes[done..])).await? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            n => done += n,
        }
    }
    Ok(())
}

/// Polls once, with a waker that does nothing.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Counts its wakes.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl ArcWake for Wakes {
    fn wake_by_ref(this: &Arc<Self>) {
        this.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn ping_pong_of_random_sizes_over_two_workers() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let seed = seed();
    let pairs = (0..20).map(|i| {
        let mut random = fastrand::Rng::with_seed(seed + i);
        rt.spawn(async move {
            let (a, b) = pair();
            // Echoes what it reads, through the traits, and sums it up.
            let echo = spawn(async move {
                let (mut sum, mut buffer) = (0, vec![0; 50_000]);
                loop {
                    let n = (&b).read(&mut buffer).await.unwrap();
                    if n == 0 {
                        return sum;
                    }
                    sum += buffer[..n].iter().map(|b| u64::from(*b)).sum::<u64>();
                    (&b).write_all(&buffer[..n]).await.unwrap();
                }
            });
            let (mut sent, mut received) = (0, 0);
            for _ in 0..300 {
                // Sometimes more than the socket's buffers hold, so that both directions block.
                let most = if random.u32(..30) == 0 { 400_000 } else { 3_000 };
                let bytes: Vec<u8> = (0..random.usize(1..most)).map(|_| random.u8(..)).collect();
                let mut back = vec![0; bytes.len()];
                let (wrote, read) =
                    futures::join!(write_all(&a, &bytes), read_exact(&a, &mut back));
                wrote.and(read).unwrap();
                assert_eq!(bytes, back);
                sent += bytes.iter().map(|b| u64::from(*b)).sum::<u64>();
                received += back.iter().map(|b| u64::from(*b)).sum::<u64>();
            }
            drop(a);
            (sent, received, echo.await.unwrap())
        })
    });
    for pair in pairs.collect::<Vec<_>>() {
        let (sent, received, echoed) = rt.block_on(pair).unwrap();
        assert!(sent > 0);
        assert_eq!((sent, sent), (received, echoed));
    }
}

#[test]
fn streams_with_short_reads_lose_neither_bytes_nor_the_end() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let seed = seed();
    let tasks: Vec<_> = (0..200)
        .map(|i| {
            let mut random = fastrand::Rng::with_seed(seed + i);
            rt.spawn(async move {
                let (a, b) = pair();
                let total = random.usize(..5_000);
                let reader = spawn(async move {
                    let (mut sum, mut buffer) = (0, [0; 512]);
                    loop {
                        let read = |mut io: &UnixStream| io.read(&mut buffer);
                        match b.read_stream_with(512, read).await.unwrap() {
                            0 => return sum,
                            n => sum += n,
                        }
                    }
                });
                let mut left = total;
                while left > 0 {
                    let n = random.usize(1..=left.min(700));
                    write_all(&a, &[7; 700][..n]).await.unwrap();
                    left -= n;
                    if random.bool() {
                        filch_linux::task::yield_now().await;
                    }
                }
                // The end comes with the last bytes, or after them.
                drop(a);
                assert_eq!(reader.await.unwrap(), total);
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| rt.block_on(task).unwrap());
}

#[test]
fn futures_dropped_midway_lose_nothing() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    rt.block_on(async {
        let (a, b) = pair();
        let writer = spawn(async move {
            for i in 0..2_000_u32 {
                write_all(&a, &i.to_ne_bytes()).await.unwrap();
                if i % 3 == 0 {
                    filch_linux::task::yield_now().await;
                }
            }
        });
        let (mut bytes, mut buffer) = (Vec::new(), [0; 64]);
        while bytes.len() < 8_000 {
            // Polled a few times at most, with a foreign waker; then dropped.
            let len = random.usize(1..64);
            let polls = random.usize(1..4);
            let n = {
                let mut reading = pin!(b.read_with(|mut io| io.read(&mut buffer[..len])));
                (0..polls).find_map(|_| match poll_once(reading.as_mut()) {
                    Poll::Ready(n) => Some(n.unwrap()),
                    Poll::Pending => None,
                })
            };
            match n {
                Some(n) => bytes.extend_from_slice(&buffer[..n]),
                None => filch_linux::task::yield_now().await,
            }
        }
        writer.await.unwrap();
        let numbers = bytes.chunks(4).map(|b| u32::from_ne_bytes(b.try_into().unwrap()));
        assert!(numbers.eq(0..2_000));
    });
}

#[test]
fn a_fresh_source_is_tried_without_a_word_from_epoll() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    rt.block_on(async {
        let (a, b) = pair();
        let mut buffer = [0; 8];
        // Each is ready at its first poll: the waker never wakes.
        let Poll::Ready(Ok(3)) = poll_once(pin!(a.write_with(|mut io| io.write(b"one")))) else {
            panic!("there is room");
        };
        let Poll::Ready(Ok(3)) = poll_once(pin!(b.read_with(|mut io| io.read(&mut buffer)))) else {
            panic!("there is something");
        };
        assert!(poll_once(pin!(b.read_with(|mut io| io.read(&mut buffer)))).is_pending());
    });
}

#[test]
fn one_attempt_at_a_time() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    rt.block_on(async {
        let (a, b) = pair();
        let mut byte = [0];
        let error = b.try_read_with(|mut io| io.read(&mut byte)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let mut waiting = pin!(b.readable());
        assert!(poll_once(waiting.as_mut()).is_pending(), "it has been found not to be ready");
        assert_eq!(a.try_write_with(|mut io| io.write(b"!")).unwrap(), 1);
        waiting.await.unwrap();
        assert_eq!(b.try_read_with(|mut io| io.read(&mut byte)).unwrap(), 1);
        // Interrupted operations are tried again; other errors go to the caller.
        let mut results = [ErrorKind::Interrupted, ErrorKind::Interrupted, ErrorKind::Other]
            .into_iter()
            .map(io::Error::from);
        let failed = b.read_with(|_| Err::<(), _>(results.next().unwrap())).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Other);
    });
}

#[test]
fn any_number_of_tasks_wait_and_all_hear() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    rt.block_on(async {
        let (a, b) = pair();
        let b = Arc::new(b);
        let mut byte = [0];
        b.try_read_with(|mut io| io.read(&mut byte)).unwrap_err();
        let waiting: Vec<_> = (0..100)
            .map(|_| {
                let b = Arc::clone(&b);
                spawn(async move { b.readable().await.unwrap() })
            })
            .collect();
        // Readers take a byte each, in any order.
        let readers: Vec<_> = (0..100)
            .map(|_| {
                let b = Arc::clone(&b);
                spawn(async move {
                    let mut byte = [0];
                    b.read_with(|mut io| io.read(&mut byte)).await.unwrap();
                    u32::from(byte[0])
                })
            })
            .collect();
        for i in 0..100_u8 {
            write_all(&a, &[i]).await.unwrap();
            filch_linux::task::yield_now().await;
        }
        for task in waiting {
            task.await.unwrap();
        }
        let mut sum = 0;
        for reader in readers {
            sum += reader.await.unwrap();
        }
        assert_eq!(sum, (0..100).sum::<u32>());
    });
}

#[test]
fn reading_and_writing_wait_apart_in_the_poll_style() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    rt.block_on(async {
        let (a, b) = pair();
        while a.try_write_with(|mut io| io.write(&[0; 4_096])).is_ok() {}
        let (read, write) = (Arc::new(Wakes::default()), Arc::new(Wakes::default()));
        let (waker_read, waker_write) = (waker(Arc::clone(&read)), waker(Arc::clone(&write)));
        let mut byte = [0];
        let mut cx = Context::from_waker(&waker_read);
        assert!(a.poll_read_with(&mut cx, |mut io| io.read(&mut byte)).is_pending());
        let mut cx = Context::from_waker(&waker_write);
        assert!(a.poll_write_with(&mut cx, |mut io| io.write(b"!")).is_pending());

        write_all(&b, b"!").await.unwrap();
        while read.0.load(Ordering::SeqCst) == 0 {
            filch_linux::task::yield_now().await;
        }
        if env!("CARGO_PKG_NAME") == "filch-linux" {
            assert_eq!(write.0.load(Ordering::SeqCst), 0, "there is no room yet");
        } else {
            // On filch-io an event is told to both directions, and the writer may be woken for nothing.
            let mut cx = Context::from_waker(&waker_write);
            assert!(a.poll_write_with(&mut cx, |mut io| io.write(b"!")).is_pending());
            write.0.store(0, Ordering::SeqCst);
        }
        let mut buffer = vec![0; 1 << 20];
        b.read_with(|mut io| io.read(&mut buffer)).await.unwrap();
        while write.0.load(Ordering::SeqCst) == 0 {
            filch_linux::task::yield_now().await;
        }
        // Dropping it wakes the tasks that still wait.
        let mut cx = Context::from_waker(&waker_read);
        assert!(a.poll_read_with(&mut cx, |mut io| io.read(&mut byte)).is_ready());
        assert!(a.poll_read_with(&mut cx, |mut io| io.read(&mut byte)).is_pending());
        let before = read.0.load(Ordering::SeqCst);
        let inner = a.into_inner().unwrap();
        assert_eq!(read.0.load(Ordering::SeqCst), before + 1);
        // It is no longer registered, so it can be registered again.
        drop(Async::new(inner).unwrap());
    });
}

#[test]
fn other_executors_wait_for_our_sources() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    // In `FuturesUnordered`, whose wakers are its own.
    rt.block_on(async {
        let pairs: Vec<_> = (0..50).map(|_| pair()).collect();
        let mut reads: FuturesUnordered<_> = pairs
            .iter()
            .enumerate()
            .map(|(i, (_, b))| async move {
                let mut byte = [0];
                read_exact(b, &mut byte).await.unwrap();
                assert_eq!(usize::from(byte[0]), i);
            })
            .collect();
        for (i, (a, _)) in pairs.iter().enumerate().rev() {
            write_all(a, &[i as u8]).await.unwrap();
            reads.next().await.unwrap();
        }
        assert!(reads.is_empty());
    });
    // On another thread, under another executor.
    let (a, b) = rt.block_on(async { pair() });
    let other = thread::spawn(move || {
        futures::executor::block_on(async {
            let mut byte = [0];
            read_exact(&b, &mut byte).await.unwrap();
            write_all(&b, &byte).await.unwrap();
        });
    });
    let handle = *rt.handle();
    let third = thread::spawn(move || {
        handle.block_on(async {
            write_all(&a, b"!").await.unwrap();
            let mut byte = [0];
            read_exact(&a, &mut byte).await.unwrap();
            byte[0]
        })
    });
    assert_eq!(third.join().unwrap(), b'!');
    other.join().unwrap();
}

#[test]
fn a_task_that_is_always_ready_gives_way() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    rt.block_on(rt.spawn(async {
        let (flag, seen) = (Flag::new(), Flag::new());
        let other = spawn({
            let (flag, seen) = (flag.clone(), seen.clone());
            async move {
                flag.wait().await;
                seen.set();
            }
        });
        let (a, b) = pair();
        let mut byte = [0];
        // One worker: the other task runs only if this one yields.
        while !seen.is_set() {
            flag.set();
            a.write_with(|mut io| io.write(b"!")).await.unwrap();
            b.read_with(|mut io| io.read(&mut byte)).await.unwrap();
        }
        other.await.unwrap();
    }))
    .unwrap();
}

#[test]
fn what_epoll_does_not_take_is_an_error_that_says_so() {
    let _watchdog = watchdog();
    let outside = Async::new(UnixStream::pair().unwrap().0).unwrap_err();
    assert!(outside.to_string().contains("no filch runtime"), "{outside}");
    let plain = filch_std::Runtime::builder().workers(1).build().unwrap();
    let without = plain.block_on(async { Async::new(UnixStream::pair().unwrap().0) }).unwrap_err();
    assert!(without.to_string().contains("without I/O"), "{without}");

    let rt = runtime(1);
    rt.block_on(async {
        let file = Async::new(std::fs::File::open("/proc/self/exe").unwrap()).unwrap_err();
        assert_eq!(file.kind(), ErrorKind::Unsupported, "{file}");
        let (a, _b) = pair();
        let again = Async::new(&a).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{again}");
        // The refused registration has changed nothing.
        write_all(&a, b"!").await.unwrap();
        // A second descriptor of the same socket is another source.
        let copy = Async::new(a.get_ref().try_clone().unwrap()).unwrap();
        write_all(&copy, b"!").await.unwrap();
    });
}

#[test]
fn a_file_closed_behind_our_back_gives_errors() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    rt.block_on(async {
        let (a, b) = pair();
        let mut byte = [0];
        assert!(poll_once(pin!(a.read_with(|mut io| io.read(&mut byte)))).is_pending());
        // Puts something that is not a socket in its place, so that the number is not reused by
        // another test.
        let null = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: the test replaces the descriptor under its owner on purpose; the number stays
        // open.
        assert!(unsafe { libc::dup2(null.as_raw_fd(), a.as_raw_fd()) } >= 0);
        // The peer sees the end.
        assert_eq!(b.read_with(|mut io| io.read(&mut byte)).await.unwrap(), 0);
        assert!(a.write_with(|mut io| io.write(b"!")).await.is_err());
        // A write that would block cannot be waited for.
        let error = a.write_with(|_| Err::<(), _>(ErrorKind::WouldBlock.into())).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::PermissionDenied);
        drop(a);
    });
}

#[test]
fn a_descriptor_that_is_shared_is_deregistered_while_it_lives_on() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    rt.block_on(async {
        let (a, b) = UnixDatagram::pair().unwrap();
        let copy = a.try_clone().unwrap();
        for _ in 0..1_000 {
            // SAFETY: the new number has no other owner.
            let owned = unsafe { OwnedFd::from_raw_fd(libc::dup(copy.as_raw_fd())) };
            let source = Async::new(UnixDatagram::from(owned)).unwrap();
            b.send(b"!").unwrap();
            let mut byte = [0];
            source.read_with(|io| io.recv(&mut byte)).await.unwrap();
            // This does not close the file: if it stayed in epoll it would go on reporting events.
        }
        drop(a);
    });
}

#[test]
fn tasks_that_wait_are_cancelled() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let (a, b) = rt.block_on(async { pair() });
    let (a, b) = (Arc::new(a), Arc::new(b));
    for round in 0..200 {
        let b = Arc::clone(&b);
        let mut task = rt.spawn(async move {
            let mut byte = [0];
            b.read_with(|mut io| io.read(&mut byte)).await.map(|_| byte[0])
        });
        if round % 2 == 0 {
            thread::yield_now();
        }
        task.abort();
        assert!(task.join().is_err());
    }
    rt.block_on(async {
        write_all(&a, b"!").await.unwrap();
        let mut byte = [0];
        read_exact(&b, &mut byte).await.unwrap();
    });
    until(|| Arc::strong_count(&b) == 1);
}

#[test]
fn a_registered_source_begins_as_told_and_events_are_cleared_by_hand() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let handle = *rt.handle();
    // Outside of the runtime.
    let (a, b) = UnixStream::pair().unwrap();
    a.set_nonblocking(true).unwrap();
    b.set_nonblocking(true).unwrap();
    let a = Async::register_on(&handle, a, true).unwrap();
    assert!(a.readiness().ready.contains(Ready::READABLE | Ready::WRITABLE));
    let b = Async::register_on(&handle, b, false).unwrap();
    assert!(!b.readiness().ready.intersects(Ready::READABLE));
    rt.block_on(async {
        // Events for writes come without an attempt.
        b.wait_ready(Ready::WRITABLE).await.unwrap();
        (&mut a.get_ref()).write_all(b"!").unwrap();
        let event = b.wait_ready(Ready::READABLE).await.unwrap();
        let polled = |cx: &mut Context<'_>| b.poll_wait_ready(cx, Direction::Read);
        let again = poll_fn(|cx| Poll::Ready(polled(cx))).await;
        assert!(matches!(again, Poll::Ready(Ok(_))));
        b.clear(event).unwrap();
        // On filch-io an event for writes may be told to reads too.
        if env!("CARGO_PKG_NAME") == "filch-linux" {
            assert!(poll_fn(|cx| Poll::Ready(polled(cx))).await.is_pending());
        }
        (&mut a.get_ref()).write_all(b"!").unwrap();
        poll_fn(polled).await.unwrap();
    });
    drop(rt);
    assert!(b.clear(b.readiness()).is_err());
}
