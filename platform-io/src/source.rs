//! A registered file, and one attempt at an operation on it.

use core::{
    future::Future,
    task::{Context, Poll},
};
#[cfg(feature = "observe")]
use core::{future::poll_fn, pin::pin};
use std::io::{self, ErrorKind};

#[cfg(feature = "observe")]
use filch::dump::Wait;
use filch::{
    atomic::{AtomicBool, Ordering},
    io::{Direction, Event, Readiness, Ready},
};
use filch_std::{Handle, task::budgeted};
#[cfg(feature = "observe")]
use rustix::fd::AsRawFd;
use rustix::fd::BorrowedFd;
#[cfg(target_os = "linux")]
use rustix::io::Errno;

use crate::{
    driver::Driver,
    slab::{Entry, Key},
};

/// A file that a runtime watches, until `deregister`.
#[derive(Debug)]
pub(crate) struct Source {
    driver: &'static Driver,
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
        Self::add(&handle, fd, true)
    }

    /// Registers the file with that runtime. Events for writes are wanted from the beginning. It begins as ready for both, or for
    /// nothing.
    pub(crate) fn register_on(
        handle: &Handle,
        fd: BorrowedFd<'_>,
        ready: bool,
    ) -> io::Result<Self> {
        let source = Self::add(handle, fd, ready)?;
        let armed = if ready && source.driver.is_oneshot() {
            // The first attempt that would block asks for an event.
            Ok(())
        } else {
            source.rearm(fd, Direction::Read).and_then(|()| source.rearm(fd, Direction::Write))
        };
        match armed {
            Ok(()) => Ok(source),
            Err(error) => {
                source.deregister(fd);
                Err(error)
            }
        }
    }

    fn add(handle: &Handle, fd: BorrowedFd<'_>, ready: bool) -> io::Result<Self> {
        let driver = handle
            .io::<Driver>()
            .ok_or_else(|| io::Error::other("this thread is in a runtime without I/O"))?;
        if !driver.is_ours() {
            return Err(io::Error::other("the runtime belongs to the parent process"));
        }
        let life = driver.lives();
        let (key, entry) = driver.sources().insert()?;
        if !ready {
            // Before the first event can come.
            entry.readiness.clear(entry.readiness.get());
        }
        if let Err(error) = driver.watch().add(fd, key) {
            driver.sources().remove(key, entry);
            return Err(explain(error));
        }
        driver.all_counts().register(life);
        Ok(Self { driver, entry, key, life, write: AtomicBool::new(false) })
    }

    /// Watches the file no more, and wakes the tasks that wait. Once.
    pub(crate) fn deregister(&self, fd: BorrowedFd<'_>) {
        if !self.driver.is_ours() {
            // Threads that do not exist in the child may hold the locks.
            return;
        }
        self.driver.watch().delete(fd);
        self.driver.all_counts().deregister(self.life);
        self.driver.sources().remove(self.key, self.entry);
    }

    pub(crate) fn readiness(&self) -> &'static Readiness {
        &self.entry.readiness
    }

    /// An error if no event will ever come to wake a waiting task.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.driver.lives() == self.life && self.driver.is_ours() {
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
        self.check()?;
        self.readiness().clear(event.only(side(direction)));
        self.rearm(fd, direction)
    }

    /// Uses the event up, and asks for the next one of each direction that it was for.
    pub(crate) fn clear(&self, fd: BorrowedFd<'_>, event: Event) -> io::Result<()> {
        self.check()?;
        self.readiness().clear(event);
        for direction in [Direction::Read, Direction::Write] {
            if event.ready.intersects(side(direction)) {
                self.rearm(fd, direction)?;
            }
        }
        Ok(())
    }

    /// Asks for the next event of this direction, if events do not come by themselves.
    fn rearm(&self, fd: BorrowedFd<'_>, direction: Direction) -> io::Result<()> {
        if direction == Direction::Write || self.driver.is_oneshot() {
            self.arm(fd, direction)
        } else {
            Ok(())
        }
    }

    /// Asks for an event of this direction. If the operation would no longer block, it comes at once. With edges this is needed for
    /// writes alone, and once.
    fn arm(&self, fd: BorrowedFd<'_>, direction: Direction) -> io::Result<()> {
        // Ordering: Relaxed; a flag. A caller that finds it set waits for events that come in any
        // case.
        if !self.driver.is_oneshot()
            && (self.write.load(Ordering::Relaxed) || self.write.swap(true, Ordering::Relaxed))
        {
            return Ok(());
        }
        let result = self.driver.watch().arm(fd, self.key, direction, self.readiness());
        if result.is_err() {
            // The next attempt calls this again. A caller that relied on this one makes its attempt
            // now.
            self.write.store(false, Ordering::Relaxed);
            self.readiness().set(side(direction));
        }
        result
    }

    /// A read has taken fewer bytes of a stream than it asked for: the stream is empty, and the
    /// next bytes are an edge. But the end of the stream or an error may have come already,
    /// together with the bytes; it will not come again as an event.
    ///
    /// Without edges nothing is known of the next bytes before the next attempt.
    pub(crate) fn drained(&self, event: Event) {
        if self.driver.is_oneshot() {
            return;
        }
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
#[cfg(not(feature = "observe"))]
#[inline(always)]
pub(crate) fn shown<F: Future>(future: F, _: BorrowedFd<'_>, _: Direction) -> F {
    future
}

#[cfg(feature = "observe")]
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
    #[cfg(feature = "observe")]
    if polled.is_pending() {
        let fd = fd.as_raw_fd();
        // A socket of Windows is a small number too.
        #[cfg(windows)]
        let fd = fd as i32;
        filch::dump::waits(cx.waker(), || match direction {
            Direction::Read => Wait::Read(fd),
            Direction::Write => Wait::Write(fd),
        });
    }
    #[cfg(not(feature = "observe"))]
    let _ = (polled, cx, fd, direction);
}

/// Translates the errors of those that watch files.
#[cold]
fn explain(error: io::Error) -> io::Error {
    #[cfg(target_os = "linux")]
    if Errno::from_io_error(&error) == Some(Errno::PERM) {
        return io::Error::new(
            ErrorKind::Unsupported,
            "epoll takes no file of this kind (a regular file, a folder): use `spawn_blocking`",
        );
    }
    if error.kind() == ErrorKind::AlreadyExists {
        return io::Error::new(
            ErrorKind::AlreadyExists,
            "this file descriptor is registered with the runtime already",
        );
    }
    error
}

#[cfg(all(test, target_os = "linux", feature = "polling"))]
mod tests {
    use core::{
        future::Future,
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering::SeqCst},
        task::Waker,
    };
    use std::{
        io::{Read, Write},
        os::{
            fd::AsFd,
            unix::net::{UnixDatagram, UnixStream},
        },
        sync::{Arc, Mutex},
        thread,
    };

    use super::*;
    use crate::{
        Async,
        driver::{Mode, Watch},
    };

    fn on_runtime(test: impl Future<Output = ()>) {
        crate::Builder::new().workers(2).build().unwrap().block_on(test);
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
            let (driver, key) = (b.source().driver, b.source().key);
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
                assert!(driver.deliver(key, ready));
            }
            // The same from another thread, at any moment.
            thread::scope(|scope| {
                scope.spawn(|| {
                    (0..10_000).for_each(|_| assert!(driver.deliver(key, Ready::ERROR)));
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
            // A socket without a peer has no event of its own, which would reach the next one by its index.
            let quiet = || Async::new(UnixDatagram::unbound().unwrap()).unwrap();
            let source = quiet();
            let (driver, old) = (source.source().driver, source.source().key);
            drop(source);
            // In the same entry.
            let source = quiet();
            assert_ne!(source.source().key, old);
            assert_eq!(source.source().key.index(), old.index());
            source.try_read_with(|io| io.recv(&mut [0])).unwrap_err();
            assert!(!driver.deliver(old, Ready::READABLE));
            assert!(!source.source().readiness().get().ready.intersects(Ready::READABLE));
        });
    }

    /// Watches nothing, and notes what it is asked for; refuses it while that is wanted.
    #[derive(Debug, Default)]
    struct Noted {
        armed: Mutex<Vec<Direction>>,
        refuses: AtomicBool,
    }

    impl Watch for Noted {
        fn add(&self, _: BorrowedFd<'_>, _: Key) -> io::Result<()> {
            Ok(())
        }

        fn arm(&self, _: BorrowedFd<'_>, _: Key, to: Direction, _: &Readiness) -> io::Result<()> {
            if self.refuses.load(SeqCst) {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            self.armed.lock().unwrap().push(to);
            Ok(())
        }

        fn delete(&self, _: BorrowedFd<'_>) {}
    }

    impl Noted {
        fn take(&self) -> Vec<Direction> {
            core::mem::take(&mut *self.armed.lock().unwrap())
        }
    }

    /// The hosts of all tests stay, as those of runtimes do: a search for leaks finds them here.
    static DRIVERS: Mutex<Vec<&'static Driver>> = Mutex::new(Vec::new());

    /// A source of a host that is watched so.
    fn noted(mode: Mode) -> (Arc<Noted>, Source) {
        let noted = Arc::new(Noted::default());
        let driver: &'static Driver =
            Box::leak(Box::new(Driver::new(Arc::clone(&noted) as _, mode)));
        DRIVERS.lock().unwrap().push(driver);
        let (key, entry) = driver.sources().insert().unwrap();
        (noted, Source { driver, entry, key, life: 0, write: AtomicBool::new(false) })
    }

    /// An attempt that would have blocked; an error if it could not be asked for the next event.
    fn block(source: &Source, direction: Direction) -> Option<io::Result<()>> {
        let file = std::fs::File::open("/dev/null").unwrap();
        let event = source.readiness().get();
        source.once(file.as_fd(), event, direction, || Err(ErrorKind::WouldBlock.into()))
    }

    fn is_ready(source: &Source, direction: Direction) -> bool {
        source.readiness().get().ready.intersects(side(direction))
    }

    #[test]
    fn a_short_read_uses_the_event_up_but_not_the_end_nor_a_later_event() {
        let (_, source) = noted(Mode::Edge);
        let is_ready = || is_ready(&source, Direction::Read);
        source.drained(source.readiness().get());
        assert!(!is_ready());

        source.driver.deliver(source.key, Ready::READABLE);
        let seen = source.readiness().get();
        source.driver.deliver(source.key, Ready::READABLE);
        source.drained(seen);
        assert!(is_ready(), "another event has come");
        source.drained(source.readiness().get());
        assert!(!is_ready());

        source.driver.deliver(source.key, Ready::READABLE | Ready::ERROR);
        source.drained(source.readiness().get());
        assert!(is_ready(), "the end will not come again");
    }

    /// Nothing has asked for the next event.
    #[test]
    fn without_edges_a_short_read_uses_nothing_up() {
        let (_, source) = noted(Mode::Oneshot);
        source.drained(source.readiness().get());
        assert!(is_ready(&source, Direction::Read));
    }

    #[test]
    fn with_edges_events_of_writing_are_asked_for_once_when_a_write_would_block() {
        let (noted, source) = noted(Mode::Edge);
        assert!(block(&source, Direction::Read).is_none());
        assert_eq!(noted.take(), []);
        for asked in [&[Direction::Write][..], &[]] {
            assert!(block(&source, Direction::Write).is_none());
            assert_eq!(noted.take(), asked);
        }
    }

    #[test]
    fn without_edges_each_attempt_that_would_block_asks_for_an_event() {
        let (noted, source) = noted(Mode::Oneshot);
        for direction in [Direction::Read, Direction::Read, Direction::Write, Direction::Write] {
            assert!(block(&source, direction).is_none());
            assert_eq!(noted.take(), [direction]);
            assert!(!is_ready(&source, direction));
        }
    }

    /// Other tasks may rely on the event.
    #[test]
    fn if_no_event_will_come_the_next_attempt_is_made_at_once() {
        for (mode, direction) in [
            (Mode::Edge, Direction::Write),
            (Mode::Oneshot, Direction::Read),
            (Mode::Oneshot, Direction::Write),
        ] {
            let (noted, source) = noted(mode);
            noted.refuses.store(true, SeqCst);
            let error = block(&source, direction).unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfMemory);
            assert!(is_ready(&source, direction));
            noted.refuses.store(false, SeqCst);
            assert!(block(&source, direction).is_none());
            assert_eq!(noted.take(), [direction], "it is asked for again");
        }
    }

    /// Four futures wait on two sockets, all at once and again and again: each asks for its own direction, and takes nothing away.
    #[test]
    fn each_direction_of_a_source_is_waited_for_beside_the_other() {
        const ALL: usize = 4 << 20;
        async fn send(io: &Async<UnixStream>) {
            let mut left = ALL;
            while left > 0 {
                let chunk = vec![7; left.min(100_000)];
                left -= io.write_with(|mut io| io.write(&chunk)).await.unwrap();
            }
        }
        async fn receive(io: &Async<UnixStream>) {
            let (mut left, mut buffer) = (ALL, vec![0; 60_000]);
            while left > 0 {
                left -= io.read_with(|mut io| io.read(&mut buffer)).await.unwrap();
            }
        }
        let _watchdog = filch_test_support::watchdog();
        on_runtime(async {
            let (a, b) = pair();
            let (a, b) = (Arc::new(a), Arc::new(b));
            let (one, other) = (Arc::clone(&a), Arc::clone(&b));
            // Also on several workers.
            let sends = filch_std::spawn(async move { futures::join!(send(&one), send(&other)) });
            futures::join!(receive(&a), receive(&b));
            sends.await.unwrap();
            futures::join!(send(&a), receive(&a), send(&b), receive(&b));
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
