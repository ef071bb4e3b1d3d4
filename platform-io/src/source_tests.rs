//! Sources, on the host `Polling` and on one that only notes what it is asked for.

use core::{
    future::Future,
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::Waker,
};
use std::{
    io::{Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    sync::{Arc, Mutex},
    thread,
};

use super::*;
use crate::{
    Async,
    driver::{Mode, Watch},
};

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
        let (a, b) = pair();
        let (driver, old) = (b.source().driver, b.source().key);
        drop((a, b));
        // In the same two entries, in either order.
        let (a, b) = pair();
        let mut byte = [0];
        for io in [&a, &b] {
            assert_ne!(io.source().key, old);
            io.try_read_with(|mut io| io.read(&mut byte)).unwrap_err();
        }
        assert!(!driver.deliver(old, Ready::READABLE));
        for io in [&a, &b] {
            assert!(!io.source().readiness().get().ready.intersects(Ready::READABLE));
        }
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

/// A source of a host that is watched so.
fn noted(mode: Mode) -> (Arc<Noted>, Source) {
    let noted = Arc::new(Noted::default());
    let driver: &'static Driver = Box::leak(Box::new(Driver::new(Arc::clone(&noted) as _, mode)));
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
