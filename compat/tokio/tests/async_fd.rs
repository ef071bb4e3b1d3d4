//! What an `AsyncFd` says of the ends of files, and what it waits for.

use core::{
    future::Future,
    pin::pin,
    task::{Context, Waker},
};
use std::{
    fs::File,
    io::{Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
};

use filch_test_support::watchdog;
use filch_tokio::{
    io::{Interest, Ready, unix::AsyncFd},
    net::{self, unix::pipe},
    runtime::Builder,
    task,
};
use rustix::pipe::{PipeFlags, pipe_with};

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// In a runtime of each kind.
fn run<F: Future<Output = ()>>(test: impl Fn() -> F) {
    let _watchdog = watchdog();
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        builder.worker_threads(1).enable_all().build().unwrap().block_on(test());
    }
}

/// The ends of a pipe, which do not block: to read and to write.
fn pipe_ends() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap()
}

/// Two sockets, which do not block.
fn pair() -> (UnixStream, UnixStream) {
    let (a, b) = UnixStream::pair().unwrap();
    a.set_nonblocking(true).unwrap();
    b.set_nonblocking(true).unwrap();
    (a, b)
}

/// Whether the future waits, after other tasks have had their turn.
async fn waits(future: impl Future) -> bool {
    let mut future = pin!(future);
    for _ in 0..20 {
        let mut cx = Context::from_waker(Waker::noop());
        if future.as_mut().poll(&mut cx).is_ready() {
            return false;
        }
        task::yield_now().await;
        std::thread::yield_now();
    }
    true
}

/// Waits for the interest until it comes with that.
async fn until(
    fd: &AsyncFd<impl std::os::fd::AsRawFd>,
    interest: Interest,
    with: fn(Ready) -> bool,
) -> Ready {
    loop {
        let mut guard = fd.ready(interest).await.unwrap();
        let ready = guard.ready();
        assert!(!ready.is_empty());
        if with(ready) {
            return ready;
        }
        guard.clear_ready();
        drop(guard);
        task::yield_now().await;
    }
}

#[test]
fn a_pipe_whose_reader_has_gone_is_closed_for_writes_and_not_readable() {
    run(|| async {
        let (reads, writes) = pipe_ends();
        let fd = AsyncFd::new(writes).unwrap();
        assert!(waits(fd.readable()).await);
        drop(reads);
        let ready = until(&fd, BOTH, Ready::is_write_closed).await;
        assert!(
            ready.is_writable() && !ready.is_readable() && !ready.is_read_closed(),
            "{ready:?}"
        );
        let ready = until(&fd, Interest::WRITABLE, Ready::is_write_closed).await;
        assert!(ready.is_writable() && !ready.is_error(), "{ready:?}");
        assert!(until(&fd, Interest::ERROR, Ready::is_error).await.is_error());
        assert!(waits(fd.readable()).await);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(fd.poll_read_ready(&mut cx).is_pending());
        assert!(fd.poll_write_ready(&mut cx).is_ready());
        let attempt = fd.try_io(Interest::READABLE, |_| -> std::io::Result<()> { unreachable!() });
        assert_eq!(attempt.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        assert!(File::from(fd.into_inner()).write(b"!").is_err());
    });
}

#[test]
fn a_pipe_whose_reader_has_gone_while_it_was_full() {
    run(|| async {
        let (reads, writes) = pipe_ends();
        let mut writes = File::from(writes);
        while writes.write(&[0; 1 << 12]).is_ok() {}
        let fd = AsyncFd::new(writes).unwrap();
        assert!(waits(fd.writable()).await);
        drop(reads);
        assert!(until(&fd, Interest::WRITABLE, Ready::is_write_closed).await.is_writable());
    });
}

#[test]
fn a_pipe_whose_writer_has_gone_is_closed_for_reads() {
    run(|| async {
        let (reads, writes) = pipe_ends();
        let fd = AsyncFd::new(File::from(reads)).unwrap();
        let mut writes = File::from(writes);
        writes.write_all(b"!").unwrap();
        assert!(!until(&fd, BOTH, Ready::is_readable).await.is_read_closed());
        drop(writes);
        assert!(until(&fd, Interest::READABLE, Ready::is_read_closed).await.is_readable());
        assert_eq!(fd.get_ref().read(&mut [0; 8]).unwrap(), 1);
        assert_eq!(fd.get_ref().read(&mut [0; 8]).unwrap(), 0);
    });
}

#[test]
fn a_socket_whose_peer_writes_no_more_and_one_whose_peer_has_gone() {
    run(|| async {
        let (a, b) = pair();
        let fd = AsyncFd::new(a).unwrap();
        b.shutdown(std::net::Shutdown::Write).unwrap();
        let ready = until(&fd, BOTH, Ready::is_read_closed).await;
        assert!(ready.is_readable() && !ready.is_write_closed(), "{ready:?}");
        drop(b);
        let ready = until(&fd, BOTH, Ready::is_write_closed).await;
        assert!(ready.is_read_closed() && ready.is_readable() && ready.is_writable(), "{ready:?}");
    });
}

#[test]
fn a_full_socket_whose_peer_writes_no_more_is_not_writable() {
    run(|| async {
        let (a, mut b) = pair();
        while (&a).write(&[0; 1 << 12]).is_ok() {}
        let fd = AsyncFd::new(a).unwrap();
        assert!(waits(fd.writable()).await);
        b.shutdown(std::net::Shutdown::Write).unwrap();
        until(&fd, BOTH, Ready::is_read_closed).await;
        assert!(waits(fd.writable()).await);
        while b.read(&mut [0; 1 << 12]).is_ok() {}
        assert!(!until(&fd, Interest::WRITABLE, Ready::is_writable).await.is_write_closed());
    });
}

#[test]
fn sockets_and_pipes_of_the_crate_say_the_same() {
    run(|| async {
        let (sender, receiver) = pipe::pipe().unwrap();
        drop(receiver);
        while !sender.ready(Interest::WRITABLE).await.unwrap().is_write_closed() {
            task::yield_now().await;
        }
        assert!(waits(sender.ready(Interest::READABLE)).await);
        let (a, b) = net::UnixStream::pair().unwrap();
        while a.try_write(&[0; 1 << 12]).is_ok() {}
        b.into_std().unwrap().shutdown(std::net::Shutdown::Write).unwrap();
        while !a.ready(BOTH).await.unwrap().is_read_closed() {
            task::yield_now().await;
        }
        assert!(!a.ready(BOTH).await.unwrap().is_empty());
    });
}

#[test]
fn an_end_stays_when_it_is_cleared() {
    run(|| async {
        let (reads, writes) = pipe_ends();
        let fd = AsyncFd::new(writes).unwrap();
        drop(reads);
        until(&fd, BOTH, Ready::is_write_closed).await;
        for _ in 0..3 {
            let mut guard = fd.writable().await.unwrap();
            assert!(guard.ready().is_write_closed());
            guard.clear_ready();
        }
        let (a, b) = pair();
        let fd = AsyncFd::new(a).unwrap();
        drop(b);
        until(&fd, BOTH, Ready::is_read_closed).await;
        for _ in 0..3 {
            let mut guard = fd.readable().await.unwrap();
            assert!(guard.ready().is_read_closed());
            guard.clear_ready_matching(Ready::READABLE);
        }
    });
}

/// Where tokio's would be ready for ever.
#[test]
fn a_pipe_that_has_another_writer_is_waited_for() {
    use std::os::unix::fs::OpenOptionsExt;
    let path = std::env::temp_dir().join(format!("filch-tokio-fifo-{}", std::process::id()));
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    );
    made.unwrap();
    run(|| async {
        let writer = || File::options().write(true).open(&path).unwrap();
        let reads = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
        let fd = AsyncFd::new(reads).unwrap();
        drop(writer());
        until(&fd, BOTH, Ready::is_read_closed).await;
        let mut next = writer();
        assert!(waits(fd.readable()).await);
        next.write_all(b"!").unwrap();
        assert!(!until(&fd, Interest::READABLE, Ready::is_readable).await.is_read_closed());
    });
    std::fs::remove_file(path).unwrap();
}
