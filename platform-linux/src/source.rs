//! A registered file, and one attempt at an operation on it.

use core::{
    future::Future,
    task::{Context, Poll},
};
#[cfg(feature = "task-dump")]
use core::{future::poll_fn, pin::pin};
#[cfg(feature = "task-dump")]
use std::os::fd::AsRawFd;
use std::{
    io::{self, ErrorKind},
    os::fd::BorrowedFd,
};

#[cfg(feature = "task-dump")]
use filch::dump::Wait;
use filch::{
    atomic::{AtomicBool, Ordering},
    io::{Direction, Event, Readiness, Ready},
};
use filch_std::{Handle, budgeted};
use rustix::io::Errno;

use crate::{
    Linux,
    slab::{Entry, Key},
};

/// A file that is registered with the epoll of a runtime, until `deregister`.
#[derive(Debug)]
pub(crate) struct Source {
    linux: &'static Linux,
    entry: &'static Entry,
    key: Key,
    /// Which of the runtimes on this host it belongs to, so that no task waits for ever when that
    /// one has ended.
    life: u32,
    /// Whether events for writes are wanted. They are from the first write that would block. Most
    /// sources never have one, and so save an event when they are made and, for Unix sockets, one
    /// for each read of the peer.
    write: AtomicBool,
}

impl Source {
    /// Registers the file with the current runtime.
    pub(crate) fn register(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let handle = Handle::current().map_err(io::Error::other)?;
        Self::add(&handle, fd, false, true)
    }

    /// Registers the file with that runtime. Events for writes are wanted from the beginning. It begins as ready for both, or for
    /// nothing.
    pub(crate) fn register_on(
        handle: &Handle,
        fd: BorrowedFd<'_>,
        ready: bool,
    ) -> io::Result<Self> {
        Self::add(handle, fd, true, ready)
    }

    fn add(handle: &Handle, fd: BorrowedFd<'_>, write: bool, ready: bool) -> io::Result<Self> {
        let linux = handle
            .host::<Linux>()
            .ok_or_else(|| io::Error::other("this thread is in a runtime without I/O"))?;
        if !linux.is_ours() {
            return Err(io::Error::other("the runtime belongs to the parent process"));
        }
        let life = linux.lives();
        let (key, entry) = linux.sources.insert()?;
        if !ready {
            // Before the first event can come.
            entry.readiness.clear(entry.readiness.get());
        }
        if let Err(error) = linux.poller.add(fd, key.0, write) {
            linux.sources.remove(key, entry);
            return Err(explain(error));
        }
        linux.counts.register(life);
        Ok(Self { linux, entry, key, life, write: AtomicBool::new(write) })
    }

    /// Removes the file from epoll, and wakes the tasks that wait. Once.
    pub(crate) fn deregister(&self, fd: BorrowedFd<'_>) {
        if !self.linux.is_ours() {
            // Threads that do not exist in the child may hold the locks.
            return;
        }
        // If other code closed the file, epoll has forgotten it.
        let _ = self.linux.poller.delete(fd);
        self.linux.counts.deregister(self.life);
        self.linux.sources.remove(self.key, self.entry);
    }

    pub(crate) fn readiness(&self) -> &'static Readiness {
        &self.entry.readiness
    }

    /// An error if no event will ever come to wake a waiting task.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.linux.lives() == self.life && self.linux.is_ours() {
            return Ok(());
        }
        Err(io::Error::other(
            "the runtime of this source of I/O has shut down, or is the parent process's",
        ))
    }

    /// One attempt, on the task's budget, after `event`. `Ready(None)` if it would have blocked:
    /// wait for the next event. Pending if the budget is spent: the task has been woken.
    #[inline]
    pub(crate) fn attempt<R>(
        &self,
        cx: &mut Context<'_>,
        fd: BorrowedFd<'_>,
        event: Event,
        direction: Direction,
        op: impl FnMut() -> io::Result<R>,
    ) -> Poll<Option<io::Result<R>>> {
        let mut blocked = false;
        let polled = budgeted(cx, |_| match self.once(fd, event, direction, op) {
            Some(result) => Poll::Ready(Some(result)),
            None => {
                blocked = true;
                Poll::Pending
            }
        });
        if blocked { Poll::Ready(None) } else { polled }
    }

    /// One attempt; `None` if it would have blocked.
    #[inline]
    pub(crate) fn once<R>(
        &self,
        fd: BorrowedFd<'_>,
        event: Event,
        direction: Direction,
        mut op: impl FnMut() -> io::Result<R>,
    ) -> Option<io::Result<R>> {
        loop {
            match op() {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return self.blocked(fd, event, direction).err().map(Err);
                }
                result => return Some(result),
            }
        }
    }

    /// The operation would have blocked: uses the event up.
    fn blocked(&self, fd: BorrowedFd<'_>, event: Event, direction: Direction) -> io::Result<()> {
        // This check comes first, so that a source whose runtime has ended stays ready, and its
        // operations fail. If the runtime ends after the check, its edge is later than the event,
        // and stays.
        self.clear(fd, event.only(side(direction)))
    }

    /// Uses the event up. If it is for writes, the next one is asked for.
    pub(crate) fn clear(&self, fd: BorrowedFd<'_>, event: Event) -> io::Result<()> {
        self.check()?;
        self.readiness().clear(event);
        let write = event.ready.intersects(Ready::WRITABLE);
        if write { self.ask_for_write(fd) } else { Ok(()) }
    }

    /// From now on events for writes are wanted. If a write would no longer block, one comes at
    /// once.
    fn ask_for_write(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        // Ordering: Relaxed; a flag. A caller that finds it set waits for events that come in any
        // case.
        if self.write.load(Ordering::Relaxed) || self.write.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let result = self.linux.poller.modify(fd, self.key.0, true);
        if result.is_err() {
            // The next attempt calls this again. A caller that relied on this one makes its attempt
            // now.
            self.write.store(false, Ordering::Relaxed);
            self.readiness().set(Ready::WRITABLE);
        }
        result
    }

    /// A read has taken fewer bytes of a stream than it asked for: the stream is empty, and the
    /// next bytes are an edge. But the end of the stream or an error may have come already,
    /// together with the bytes; it will not come again as an event.
    pub(crate) fn drained(&self, event: Event) {
        let now = self.readiness().get();
        if !now.ready.intersects(Ready::ERROR | Ready::PRIORITY) {
            // An end or an error that comes after this check is an edge later than the event.
            self.readiness().clear(event.only(side(Direction::Read)));
        }
    }
}

/// What an operation in this direction waits for, and uses up.
pub(crate) fn side(direction: Direction) -> Ready {
    match direction {
        Direction::Read => Ready::READABLE,
        Direction::Write => Ready::WRITABLE,
    }
}

/// The future, which shows itself in a dump as one that waits for the file.
#[cfg(not(feature = "task-dump"))]
#[inline(always)]
pub(crate) fn shown<F: Future>(future: F, _: BorrowedFd<'_>, _: Direction) -> F {
    future
}

#[cfg(feature = "task-dump")]
pub(crate) async fn shown<F: Future>(
    future: F,
    fd: BorrowedFd<'_>,
    direction: Direction,
) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let polled = future.as_mut().poll(cx);
        show(&polled, cx, fd, direction);
        polled
    })
    .await
}

/// As `shown`, of one poll.
#[inline(always)]
pub(crate) fn show<T>(
    polled: &Poll<T>,
    cx: &Context<'_>,
    fd: BorrowedFd<'_>,
    direction: Direction,
) {
    #[cfg(feature = "task-dump")]
    if polled.is_pending() {
        let fd = fd.as_raw_fd();
        filch::dump::waits(cx.waker(), || match direction {
            Direction::Read => Wait::Read(fd),
            Direction::Write => Wait::Write(fd),
        });
    }
    #[cfg(not(feature = "task-dump"))]
    let _ = (polled, cx, fd, direction);
}

/// Translates epoll's errors.
#[cold]
fn explain(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::PERM) => io::Error::new(
            ErrorKind::Unsupported,
            "epoll takes no file of this kind (a regular file, a folder): use `spawn_blocking`",
        ),
        Some(Errno::EXIST) => io::Error::new(
            ErrorKind::AlreadyExists,
            "this file descriptor is registered with the runtime already",
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use core::{
        future::Future,
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering::SeqCst},
        task::Waker,
    };
    use std::{
        io::{Read, Write},
        os::{fd::AsFd, unix::net::UnixStream},
        thread,
    };

    use super::*;
    use crate::Async;

    fn on_runtime(test: impl Future<Output = ()>) {
        crate::builder().workers(2).build().unwrap().block_on(test);
    }

    fn pair() -> (Async<UnixStream>, Async<UnixStream>) {
        let (a, b) = UnixStream::pair().unwrap();
        (Async::new(a).unwrap(), Async::new(b).unwrap())
    }

    #[test]
    fn events_for_nothing_lead_to_attempts_and_to_nothing_else() {
        const ALL: [Ready; 4] =
            [Ready::READABLE, Ready::ERROR, Ready::PRIORITY.union(Ready::READABLE), Ready::ALL];
        on_runtime(async {
            let (a, b) = pair();
            let (linux, key) = (b.source().linux, b.source().key);
            let attempts = &AtomicUsize::new(0);
            let mut byte = [0];
            let mut read = pin!(b.read_with(|mut io| {
                attempts.fetch_add(1, SeqCst);
                io.read(&mut byte)
            }));
            let mut cx = Context::from_waker(Waker::noop());
            for i in 1..=100 {
                assert!(read.as_mut().poll(&mut cx).is_pending());
                // A source that is closed for good would be tried for ever; the poller never
                // reports that.
                let ready = ALL[i % ALL.len()] - Ready::READ_CLOSED - Ready::WRITE_CLOSED;
                assert_eq!(attempts.load(SeqCst), i);
                assert!(linux.sources.deliver(key, ready));
            }
            // The same from another thread, at any moment.
            thread::scope(|scope| {
                scope.spawn(|| {
                    (0..10_000).for_each(|_| assert!(linux.sources.deliver(key, Ready::ERROR)));
                });
                for _ in 0..1_000 {
                    assert!(read.as_mut().poll(&mut cx).is_pending());
                }
            });
            a.write_with(|mut io| io.write(b"!")).await.unwrap();
            assert_eq!(read.await.unwrap(), 1);
        });
    }

    #[test]
    fn a_source_hears_nothing_that_was_meant_for_the_one_before() {
        on_runtime(async {
            let (a, b) = pair();
            let (linux, old) = (b.source().linux, b.source().key);
            drop((a, b));
            // In the same two entries, in either order.
            let (a, b) = pair();
            let mut byte = [0];
            for io in [&a, &b] {
                assert_ne!(io.source().key, old);
                io.try_read_with(|mut io| io.read(&mut byte)).unwrap_err();
            }
            assert!(!linux.sources.deliver(old, Ready::READABLE));
            for io in [&a, &b] {
                assert!(!io.source().readiness().get().ready.intersects(Ready::READABLE));
            }
        });
    }

    #[test]
    fn a_short_read_uses_the_event_up_but_not_the_end_nor_a_later_event() {
        on_runtime(async {
            let (_a, b) = pair();
            let (linux, key) = (b.source().linux, b.source().key);
            let is_ready = || b.source().readiness().get().ready.intersects(Ready::READABLE);
            b.source().drained(b.source().readiness().get());
            assert!(!is_ready());

            linux.sources.deliver(key, Ready::READABLE);
            let seen = b.source().readiness().get();
            linux.sources.deliver(key, Ready::READABLE);
            b.source().drained(seen);
            assert!(is_ready(), "another event has come");
            b.source().drained(b.source().readiness().get());
            assert!(!is_ready());

            linux.sources.deliver(key, Ready::READABLE | Ready::ERROR);
            b.source().drained(b.source().readiness().get());
            assert!(is_ready(), "the end will not come again");
        });
    }

    #[test]
    fn events_of_writing_are_asked_for_when_a_write_would_block() {
        on_runtime(async {
            let (a, b) = pair();
            let asked = || a.source().write.load(Ordering::Relaxed);
            a.write_with(|mut io| io.write(b"!")).await.unwrap();
            assert!(!asked());
            while a.try_write_with(|mut io| io.write(&[0; 4_096])).is_ok() {}
            assert!(asked());
            let mut buffer = vec![0; 1 << 20];
            let read = b.read_with(|mut io| io.read(&mut buffer));
            let (wrote, read) = futures::join!(a.write_with(|mut io| io.write(b"!")), read);
            assert!(wrote.is_ok() && read.is_ok());
        });
    }

    #[test]
    fn a_refusal_is_explained() {
        let error = |errno: Errno| explain(errno.into());
        assert_eq!(error(Errno::PERM).kind(), ErrorKind::Unsupported);
        assert_eq!(error(Errno::EXIST).kind(), ErrorKind::AlreadyExists);
        assert_eq!(error(Errno::NOSPC).raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
        on_runtime(async {
            let (a, _b) = pair();
            assert!(Source::register(a.as_fd()).is_err());
        });
    }
}
