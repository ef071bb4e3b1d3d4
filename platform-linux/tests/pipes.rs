//! Pipes: every byte arrives once and in order, ends are reported, and dropped reads and writes
//! lose nothing.

mod os_common;

use core::pin::pin;
use std::{
    fs::File,
    io::{ErrorKind, IoSlice, IoSliceMut, Read as _, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    process::{Command, Stdio},
    thread,
};

use filch_linux::pipe::{Receiver, Sender, pipe};
use futures::io::{AsyncReadExt, AsyncWriteExt};
use os_common::{once, rng, run, watchdog};
use rustix::{fs::OFlags, pipe::PipeFlags};

#[test]
fn whole_buffers_are_read_and_written() {
    run(2, async {
        let (sender, receiver) = pipe().unwrap();
        let writing = filch_linux::spawn(async move { sender.write_all(&[7; 300_000]).await });
        let mut received = vec![0; 300_000];
        receiver.read_exact(&mut received).await.unwrap();
        assert!(received.iter().all(|&byte| byte == 7));
        writing.await.unwrap().unwrap();
        let error = receiver.read_exact(&mut [0; 1]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    });
}

#[test]
fn bytes_arrive_in_order() {
    let mut rng = rng();
    run(2, async {
        let pipes: Vec<_> = (0..50).map(|_| pipe().unwrap()).collect();
        let moving: Vec<_> = pipes
            .into_iter()
            .map(|(sender, receiver)| {
                let (mut there, mut here) = (rng.fork(), rng.fork());
                let writing = filch_linux::spawn(async move {
                    let mut next = 0_u8;
                    let mut sum = 0;
                    for _ in 0..there.usize(1..100) {
                        let len = there.usize(1..20_000);
                        let piece: Vec<u8> = (0..len).map(|i| next.wrapping_add(i as u8)).collect();
                        let (one, other) = piece.split_at(there.usize(0..piece.len()));
                        let n = if there.bool() {
                            let parts = [IoSlice::new(one), IoSlice::new(other)];
                            sender.write_vectored(&parts).await.unwrap()
                        } else {
                            sender.write(&piece).await.unwrap()
                        };
                        assert!((1..=piece.len()).contains(&n));
                        next = next.wrapping_add(n as u8);
                        sum += n;
                    }
                    sum
                });
                let reading = filch_linux::spawn(async move {
                    let (mut next, mut sum) = (0_u8, 0);
                    loop {
                        let mut buf = vec![0; here.usize(1..10_000)];
                        let n = if here.bool() {
                            let at = here.usize(0..buf.len());
                            let (one, other) = buf.split_at_mut(at);
                            let mut parts = [IoSliceMut::new(one), IoSliceMut::new(other)];
                            receiver.read_vectored(&mut parts).await.unwrap()
                        } else {
                            receiver.read(&mut buf).await.unwrap()
                        };
                        for byte in &buf[..n] {
                            assert_eq!(*byte, next);
                            next = next.wrapping_add(1);
                        }
                        sum += n;
                        if n == 0 {
                            return sum;
                        }
                    }
                });
                (writing, reading)
            })
            .collect();
        for (writing, reading) in moving {
            assert_eq!(writing.await.unwrap(), reading.await.unwrap());
        }
    });
}

#[test]
fn ends_are_told() {
    run(2, async {
        let (sender, receiver) = pipe().unwrap();
        drop(receiver);
        assert_eq!(sender.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);

        let (sender, receiver) = pipe().unwrap();
        let reading = filch_linux::spawn(async move { receiver.read(&mut [0; 8]).await });
        filch_linux::task::yield_now().await;
        drop(sender);
        assert_eq!(reading.await.unwrap().unwrap(), 0);

        // A writer that waits for room gets an error when there is no reader left.
        let (sender, receiver) = pipe().unwrap();
        let writing = filch_linux::spawn(async move {
            loop {
                if let Err(error) = sender.write(&[0; 10_000]).await {
                    return error.kind();
                }
            }
        });
        let mut buf = [0; 100_000];
        assert!(receiver.read(&mut buf).await.unwrap() > 0);
        drop(receiver);
        assert_eq!(writing.await.unwrap(), ErrorKind::BrokenPipe);

        // What was written before the end is read before it.
        let (sender, receiver) = pipe().unwrap();
        sender.write(b"last words").await.unwrap();
        drop(sender);
        let mut all = b"its ".to_vec();
        assert_eq!(receiver.read_to_end(&mut all).await.unwrap(), 10);
        assert_eq!(all, b"its last words");
        assert_eq!(receiver.read(&mut []).await.unwrap(), 0);
    });
}

#[test]
fn dropped_operations_lose_nothing() {
    let mut rng = rng();
    run(2, async {
        let (sender, receiver) = pipe().unwrap();
        let writing = filch_linux::spawn(async move {
            for n in 0..50_000_u32 {
                let bytes = n.to_le_bytes();
                // All or nothing, for so few bytes.
                if once(pin!(sender.write(&bytes))).await.is_pending() {
                    assert_eq!(sender.write(&bytes).await.unwrap(), 4);
                }
            }
        });
        let mut all: Vec<u8> = Vec::new();
        loop {
            let mut buf = [0; 100];
            let room = rng.usize(1..=100);
            let first = once(pin!(receiver.read(&mut buf[..room]))).await;
            let n = match first {
                core::task::Poll::Ready(n) => n,
                core::task::Poll::Pending => receiver.read(&mut buf[..room]).await,
            };
            match n.unwrap() {
                0 => break,
                n => all.extend(&buf[..n]),
            }
        }
        writing.await.unwrap();
        let expected: Vec<u8> = (0..50_000_u32).flat_map(u32::to_le_bytes).collect();
        assert!(all == expected);
    });
}

#[test]
fn readers_share_a_pipe() {
    run(2, async {
        let (sender, receiver) = pipe().unwrap();
        let receiver = std::sync::Arc::new(receiver);
        let reading: Vec<_> = (0..10)
            .map(|_| {
                let receiver = std::sync::Arc::clone(&receiver);
                filch_linux::spawn(async move {
                    let mut sum = 0;
                    loop {
                        match receiver.read(&mut [0; 77]).await.unwrap() {
                            0 => return sum,
                            n => sum += n,
                        }
                    }
                })
            })
            .collect();
        let mut sent = 0;
        for _ in 0..2_000 {
            sent += sender.write(&[1; 300]).await.unwrap();
        }
        drop(sender);
        let mut sum = 0;
        for reading in reading {
            sum += reading.await.unwrap();
        }
        assert_eq!(sum, sent);
    });
}

#[test]
fn the_traits_of_futures() {
    run(2, async {
        let (mut sender, mut receiver) = pipe().unwrap();
        let data: Vec<u8> = (0..1_000_000_u32).map(|n| (n / 7) as u8).collect();
        let copy = data.clone();
        let writing = filch_linux::spawn(async move {
            AsyncWriteExt::write_all(&mut sender, &copy).await.unwrap();
            sender.flush().await.unwrap();
            sender.close().await
        });
        let mut all = Vec::new();
        AsyncReadExt::read_to_end(&mut receiver, &mut all).await.unwrap();
        assert!(all == data);
        writing.await.unwrap().unwrap();
    });
}

#[test]
fn pipes_from_elsewhere() {
    run(2, async {
        // Both ends, from their descriptors.
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let (receiver, sender) =
            (Receiver::try_from(reader).unwrap(), Sender::try_from(writer).unwrap());
        sender.write(b"a").await.unwrap();
        assert_eq!(receiver.read(&mut [0; 8]).await.unwrap(), 1);
        // Not with the ends swapped, and only pipes.
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        for error in [
            Sender::try_from(reader).unwrap_err(),
            Receiver::try_from(writer).unwrap_err(),
            Receiver::try_from(File::open("/dev/null").unwrap()).unwrap_err(),
            Sender::try_from(
                std::os::unix::net::UnixStream::pair().map(|(a, _)| OwnedFd::from(a)).unwrap(),
            )
            .unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
        // From a child of the standard library.
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let sender = Sender::try_from(child.stdin.take().unwrap()).unwrap();
        let receiver = Receiver::try_from(child.stdout.take().unwrap()).unwrap();
        sender.write(b"meow").await.unwrap();
        drop(sender);
        let mut all = Vec::new();
        receiver.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"meow");
        assert!(child.wait().unwrap().success());
    });
}

/// A pipe in packet mode returns one packet for each read, so a short read does not mean that it is
/// empty.
#[test]
fn packets_are_not_taken_for_an_empty_pipe() {
    run(2, async {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::DIRECT).unwrap();
        let receiver = Receiver::try_from(reader).unwrap();
        for len in 1..=3 {
            rustix::io::write(&writer, &[0; 3][..len]).unwrap();
        }
        for len in 1..=3 {
            assert_eq!(receiver.read(&mut [0; 8]).await.unwrap(), len);
        }
        assert!(once(pin!(receiver.read(&mut [0; 8]))).await.is_pending());
    });
}

#[test]
fn threads_and_children_get_blocking_ends() {
    let _watchdog = watchdog();
    let runtime = filch_linux::Builder::new().workers(2).build().unwrap();
    let (sender, receiver) = runtime.block_on(async { pipe() }).unwrap();
    let flags = |fd: std::os::fd::BorrowedFd<'_>| rustix::fs::fcntl_getfl(fd).unwrap();
    assert!(flags(receiver.as_fd()).contains(OFlags::NONBLOCK));
    let mut file = File::from(receiver.into_blocking_fd().unwrap());
    assert!(!flags(file.as_fd()).contains(OFlags::NONBLOCK));
    let reading = thread::spawn(move || {
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        text
    });
    let mut file = File::from(sender.into_blocking_fd().unwrap());
    file.write_all(b"from thread to thread").unwrap();
    drop(file);
    assert_eq!(reading.join().unwrap(), "from thread to thread");
}

/// A reader that always finds bytes yields all the same.
#[test]
fn a_busy_pipe_spends_the_budget() {
    run(1, async {
        let (sender, receiver) = pipe().unwrap();
        const LEN: usize = 50_000;
        assert_eq!(sender.write(&[0; LEN]).await.unwrap(), LEN);
        let busy = filch_linux::spawn(async move {
            for _ in 0..LEN {
                receiver.read(&mut [0]).await.unwrap();
            }
        });
        // On the same worker.
        let others = filch_linux::spawn(async move {
            let mut turns = 0;
            while !busy.is_finished() {
                turns += 1;
                filch_linux::task::yield_now().await;
            }
            turns
        });
        let turns = others.await.unwrap();
        println!("{turns} turns");
        // 128 reads make a turn.
        assert!(turns > 100, "{turns}");
    });
}
