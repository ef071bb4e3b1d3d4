//! epoll itself: registration, the wait, and the alarm that ends it.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use core::{mem::MaybeUninit, sync::atomic::AtomicI32, time::Duration};

use filch::{
    atomic::{AtomicBool, Ordering},
    io::{Direction, Readiness, Ready},
};
use filch_io::driver::{Counts, Key, Watch};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll},
    io::Errno,
};

use crate::alarm::Alarm;

/// Events that are taken in one call. More are left for the next, which goes round among the sources.
///
/// As many as a busy server has ready at a time: events that are left over wait for another tick
/// and another system call.
const BATCH: usize = 256;

/// No descriptor.
const CLOSED: i32 = -1;

/// The key of the alarm; no source has it.
const ALARM: u64 = u64::MAX;

/// The most rings. Their keys are those below the alarm's; no source has them.
#[cfg(feature = "io-uring")]
pub(crate) const RINGS: usize = 8;

/// Which of the rings has this key.
#[cfg(feature = "io-uring")]
pub(crate) fn ring_of(key: u64) -> Option<usize> {
    let at = (ALARM - 1 - key.min(ALARM - 1)) as usize;
    (at < RINGS).then_some(at)
}

/// One epoll and its alarm, while the runtime lives.
///
/// INV-OPEN: the descriptors are open, unless they are `CLOSED`, for a worker that is online; for a thread that holds `changes`; for
/// one that rings, INV-ALARM. They are closed and opened while no worker is online, by a thread that holds `changes` alone.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: AtomicI32,
    /// Edge-triggered and never read: each write is an edge, and its counter has room for those of centuries.
    alarm: Alarm,
    changes: RwLock<()>,
    /// The kernel has refused to wait: other code has closed the descriptor.
    broken: AtomicBool,
    /// Whether the kernel has `epoll_pwait2` (Linux 5.11), as far as is known.
    exact: AtomicBool,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let this = Self {
            epoll: AtomicI32::new(CLOSED),
            alarm: Alarm::closed(),
            changes: RwLock::new(()),
            broken: AtomicBool::new(false),
            exact: AtomicBool::new(true),
        };
        this.open()?;
        Ok(this)
    }

    /// Opens what is closed. Only while no worker is online.
    pub(crate) fn open(&self) -> io::Result<()> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let alarm = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let key = epoll::EventData::new_u64(ALARM);
        epoll::add(&epoll, &alarm, key, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
        let _changes = self.changes.write().unwrap_or_else(PoisonError::into_inner);
        // Ordering: Relaxed; the start of the worker threads orders it for them, the lock for
        // others.
        self.broken.store(false, Ordering::Relaxed);
        self.alarm.set(alarm.into_raw_fd());
        self.epoll.store(epoll.into_raw_fd(), Ordering::Relaxed);
        Ok(())
    }

    /// Closes both, once no thread rings. When the last worker has left.
    pub(crate) fn close(&self, relax: impl Fn()) {
        let _changes = self.changes.write().unwrap_or_else(PoisonError::into_inner);
        // Ordering: the lock.
        let epoll = self.epoll.swap(CLOSED, Ordering::Relaxed);
        for fd in [(epoll != CLOSED).then_some(epoll), self.alarm.take(relax)].into_iter().flatten()
        {
            if !self.broken.load(Ordering::Relaxed) {
                // SAFETY: from `into_raw_fd`, and taken out once; INV-OPEN: nobody uses it.
                drop(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
    }

    /// The epoll, for as long as the caller may use it (INV-OPEN).
    fn epoll(&self) -> Result<BorrowedFd<'_>, Errno> {
        match self.epoll.load(Ordering::Relaxed) {
            CLOSED => Err(Errno::BADF),
            // SAFETY: INV-OPEN.
            fd => Ok(unsafe { BorrowedFd::borrow_raw(fd) }),
        }
    }

    /// The epoll's number.
    pub(crate) fn raw_fd(&self) -> RawFd {
        // Ordering: as in `epoll`.
        self.epoll.load(Ordering::Relaxed)
    }

    /// Keeps the epoll open.
    fn stay_open(&self) -> RwLockReadGuard<'_, ()> {
        self.changes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the kernel has refused to wait; this is final.
    pub(crate) fn is_broken(&self) -> bool {
        // Ordering: Relaxed; a cached answer.
        self.broken.load(Ordering::Relaxed)
    }

    /// Notes that the kernel has refused to wait; true for the first caller. The descriptors may
    /// belong to other code by now, and stay open.
    pub(crate) fn is_broken_by(&self, error: Errno) -> bool {
        !matches!(error, Errno::INTR | Errno::NOMEM) && !self.broken.swap(true, Ordering::Relaxed)
    }

    /// From now on events of the file come with this key: those for reads and the end of the
    /// stream, and those for writes if `write`.
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>, key: u64, write: bool) -> io::Result<()> {
        let _open = self.stay_open();
        Ok(epoll::add(self.epoll()?, fd, epoll::EventData::new_u64(key), interest(write))?)
    }

    /// Changes which events are wanted; readiness is reported again.
    fn modify(&self, fd: BorrowedFd<'_>, key: u64, write: bool) -> io::Result<()> {
        let _open = self.stay_open();
        Ok(epoll::modify(self.epoll()?, fd, epoll::EventData::new_u64(key), interest(write))?)
    }

    /// Adds a ring, of which no event comes until it is armed.
    #[cfg(feature = "io-uring")]
    pub(crate) fn add_ring(&self, fd: BorrowedFd<'_>, at: usize) -> io::Result<()> {
        let _open = self.stay_open();
        let key = epoll::EventData::new_u64(ALARM - 1 - at as u64);
        Ok(epoll::add(self.epoll()?, fd, key, epoll::EventFlags::ONESHOT)?)
    }

    /// Asks for one event of a ring: at once if it has a completion, otherwise with the next one.
    #[cfg(feature = "io-uring")]
    pub(crate) fn arm_ring(&self, fd: BorrowedFd<'_>, at: usize) -> io::Result<()> {
        let _open = self.stay_open();
        let key = epoll::EventData::new_u64(ALARM - 1 - at as u64);
        let once = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        Ok(epoll::modify(self.epoll()?, fd, key, once)?)
    }

    /// Ends the wait under way, or the next. For any context, signal handlers included: one system call, which leaves `errno` alone.
    pub(crate) fn ring(&self) {
        self.alarm.ring(|alarm| {
            // SAFETY: INV-ALARM.
            let alarm = unsafe { BorrowedFd::borrow_raw(alarm) };
            // It cannot fail: see `alarm`.
            let _ = rustix::io::write(alarm, &1_u64.to_ne_bytes());
        });
    }

    /// Whether there are events that no worker has read.
    pub(crate) fn has_events(&self) -> bool {
        let _open = self.stay_open();
        let Ok(epoll) = self.epoll() else { return false };
        let mut polled = [PollFd::new(&epoll, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
    }

    /// Waits for events, at most so long (`None`: for ever), and puts them into `events`, which is
    /// empty.
    pub(crate) fn wait(&self, events: &mut Events, longest: Option<Duration>) -> Result<(), Errno> {
        events.counts.wait(longest);
        self.fill(events, longest)?;
        events.drop_alarm();
        if events.rung {
            events.counts.alarm();
        }
        Ok(())
    }

    fn fill(&self, events: &mut Events, longest: Option<Duration>) -> Result<(), Errno> {
        let timeout = longest
            .map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
        // Ordering: Relaxed; an answer that one thread caches for the others.
        if self.exact.load(Ordering::Relaxed) && timeout.is_some_and(|t| t.tv_nsec != 0) {
            match wait_exactly(self.epoll()?, events, timeout) {
                // The kernel has no such call, or a sandbox forbids it.
                Err(Errno::NOSYS | Errno::PERM) => self.exact.store(false, Ordering::Relaxed),
                result => return result,
            }
        }
        // The timeout is in milliseconds, rounded up: late rather than early. There is no
        // difference if there is no timeout, or one of whole seconds.
        let (found, _) = epoll::wait(self.epoll()?, &mut events.buffer, timeout.as_ref())?;
        (events.next, events.end) = (0, found.len());
        Ok(())
    }
}

impl Watch for Poller {
    fn add(&self, fd: BorrowedFd<'_>, key: Key) -> io::Result<()> {
        self.watch(fd, key.to_bits(), false)
    }

    fn arm(&self, fd: BorrowedFd<'_>, key: Key, _: Direction, _: &Readiness) -> io::Result<()> {
        self.modify(fd, key.to_bits(), true)
    }

    fn delete(&self, fd: BorrowedFd<'_>) {
        let _open = self.stay_open();
        if let Ok(epoll) = self.epoll() {
            // If other code closed the file, epoll has forgotten it.
            let _ = epoll::delete(epoll, fd);
        }
    }
}

/// For pollers outside of a runtime, whose memory is never freed.
impl Drop for Poller {
    fn drop(&mut self) {
        self.close(std::thread::yield_now);
    }
}

fn interest(write: bool) -> epoll::EventFlags {
    use epoll::EventFlags as E;
    let read = E::IN | E::PRI | E::RDHUP | E::ET;
    if write { read | E::OUT } else { read }
}

/// `epoll_pwait2`, whose timeout is in nanoseconds.
fn wait_exactly(
    epoll: BorrowedFd<'_>,
    events: &mut Events,
    timeout: Option<Timespec>,
) -> Result<(), Errno> {
    let timeout = timeout.map(|t| [t.tv_sec, t.tv_nsec]);
    // SAFETY: the buffer has room for the given number of events, in the kernel's layout. A timeout
    // is two 64-bit numbers on every machine. There is no signal mask.
    let n = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            events.buffer.as_mut_ptr(),
            BATCH as libc::c_int,
            timeout.as_ref().map_or(core::ptr::null(), |t: &[i64; 2]| t.as_ptr()),
            core::ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    match usize::try_from(n) {
        Ok(n) => {
            (events.next, events.end) = (0, n);
            Ok(())
        }
        Err(_) => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

/// Events that epoll returned and that are not delivered yet.
pub(crate) struct Events {
    buffer: [MaybeUninit<epoll::Event>; BATCH],
    /// INV-EVENTS: the kernel has written those before `end`.
    end: usize,
    next: usize,
    rung: bool,
    /// Those of the worker that the thread is.
    counts: Arc<Counts>,
}

impl Events {
    pub(crate) fn new() -> Self {
        let buffer = [const { MaybeUninit::uninit() }; BATCH];
        Self { buffer, end: 0, next: 0, rung: false, counts: Arc::default() }
    }

    /// The thread is another worker from now on.
    pub(crate) fn count_in(&mut self, counts: Arc<Counts>) {
        self.counts = counts;
    }

    /// The alarm that came alone is no event.
    fn drop_alarm(&mut self) {
        // SAFETY: INV-EVENTS.
        let is_alarm =
            |event: &MaybeUninit<epoll::Event>| unsafe { event.assume_init() }.data.u64() == ALARM;
        self.rung = self.end == 1 && is_alarm(&self.buffer[0]);
        if self.rung {
            self.end = 0;
        }
    }

    /// Whether the alarm has ended the last wait.
    pub(crate) fn is_rung(&self) -> bool {
        self.rung
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.next == self.end
    }

    /// The next event of a source: its key, and what is ready.
    pub(crate) fn pop(&mut self) -> Option<(u64, Ready)> {
        while self.next < self.end {
            // SAFETY: INV-EVENTS.
            let event = unsafe { self.buffer[self.next].assume_init() };
            self.next += 1;
            let (key, flags) = (event.data.u64(), event.flags);
            if key != ALARM {
                self.counts.event();
                return Some((key, ready(flags)));
            }
        }
        None
    }
}

/// Epoll's flags, in the terms of the core.
///
/// | epoll | core |
/// |---|---|
/// | `EPOLLIN` | `READABLE` |
/// | `EPOLLOUT` | `WRITABLE` |
/// | `EPOLLPRI` | `PRIORITY`, `READABLE` |
/// | `EPOLLRDHUP`, `EPOLLHUP`, `EPOLLERR` | `ERROR`, with which come `READABLE` and `WRITABLE` |
///
/// `READ_CLOSED` and `WRITE_CLOSED`, which are permanent, are never set. On Linux such an end is
/// not final (a FIFO gets another writer, a socket that has hung up connects): a source that is
/// ready for ever and would block is an endless loop. So an end makes a source ready once, and the
/// next operation finds the end. `ERROR` stays as a mark that some changes no longer come as
/// events: see `Source::drained`.
fn ready(flags: epoll::EventFlags) -> Ready {
    use epoll::EventFlags as E;
    let mut ready = Ready::EMPTY;
    for (flag, bits) in [
        (E::IN, Ready::READABLE),
        (E::OUT, Ready::WRITABLE),
        (E::PRI, Ready::PRIORITY | Ready::READABLE),
        (E::RDHUP | E::HUP | E::ERR, Ready::ERROR | Ready::READABLE | Ready::WRITABLE),
    ] {
        if flags.intersects(flag) {
            ready |= bits;
        }
    }
    ready
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        os::{fd::AsFd, unix::net::UnixStream},
        time::Instant,
    };

    use super::*;

    fn drain(events: &mut Events) -> Vec<(u64, Ready)> {
        core::iter::from_fn(|| events.pop()).collect()
    }

    /// With each of the two system calls.
    fn pollers() -> [Poller; 2] {
        let rounded = Poller::new().unwrap();
        rounded.exact.store(false, Ordering::Relaxed);
        [Poller::new().unwrap(), rounded]
    }

    #[test]
    fn a_wait_is_never_too_short_with_the_new_call_and_with_the_old() {
        for poller in pollers() {
            let exact = poller.exact.load(Ordering::Relaxed);
            let mut events = Events::new();
            for micros in [0, 1, 300, 1_700, 20_000] {
                let (time, begin) = (Duration::from_micros(micros), Instant::now());
                poller.wait(&mut events, Some(time)).unwrap();
                assert!(begin.elapsed() >= time, "{micros} us, exact: {exact}");
                assert!(events.is_empty());
            }
            // The answer about the kernel is unchanged.
            assert_eq!(poller.exact.load(Ordering::Relaxed), exact);
        }
    }

    #[test]
    fn the_alarm_rings_once_for_each_ring_and_is_no_source() {
        for poller in pollers() {
            let mut events = Events::new();
            for _ in 0..3 {
                poller.ring();
                poller.wait(&mut events, None).unwrap();
                assert!(events.is_rung() && events.is_empty());
                assert_eq!(drain(&mut events), []);
                poller.wait(&mut events, Some(Duration::from_micros(1))).unwrap();
                assert!(events.is_empty() && !events.is_rung(), "nobody rang");
            }
        }
    }

    #[test]
    fn events_come_once_for_each_edge_with_what_is_wanted() {
        for poller in pollers() {
            let mut events = Events::new();
            let mut next = |longest| {
                poller.wait(&mut events, longest).unwrap();
                drain(&mut events)
            };
            let now = Some(Duration::ZERO);
            let (a, mut b) = UnixStream::pair().unwrap();
            poller.watch(a.as_fd(), 7, false).unwrap();
            assert_eq!(next(now), [], "that it can be written to is not asked");
            b.write_all(b"!").unwrap();
            assert_eq!(next(None), [(7, Ready::READABLE)]);
            assert_eq!(next(now), []);
            b.write_all(b"!").unwrap();
            assert_eq!(next(None), [(7, Ready::READABLE)]);
            poller.modify(a.as_fd(), 8, true).unwrap();
            let both = Ready::READABLE | Ready::WRITABLE;
            assert_eq!(next(None), [(8, both)]);
            drop(b);
            assert_eq!(next(None), [(8, both | Ready::ERROR)]);
            poller.delete(a.as_fd());
            assert_eq!(next(now), []);
        }
    }

    #[test]
    fn flags_are_told_apart() {
        use epoll::EventFlags as E;
        let both = Ready::READABLE | Ready::WRITABLE;
        assert_eq!(ready(E::IN), Ready::READABLE);
        assert_eq!(ready(E::OUT), Ready::WRITABLE);
        assert_eq!(ready(E::IN | E::OUT), both);
        assert_eq!(ready(E::PRI), Ready::PRIORITY | Ready::READABLE);
        for end in [E::RDHUP, E::HUP, E::ERR] {
            assert_eq!(ready(end), both | Ready::ERROR);
        }
        assert_eq!(ready(E::empty()), Ready::EMPTY);
    }

    #[test]
    fn a_full_batch_leaves_the_rest_for_the_next() {
        let poller = Poller::new().unwrap();
        let mut events = Events::new();
        let pairs: Vec<_> = (0..BATCH + 10).map(|_| UnixStream::pair().unwrap()).collect();
        for (key, (a, b)) in pairs.iter().enumerate() {
            poller.watch(a.as_fd(), key as u64, false).unwrap();
            let mut b = b;
            b.write_all(b"!").unwrap();
        }
        let mut seen = Vec::new();
        while seen.len() < pairs.len() {
            poller.wait(&mut events, None).unwrap();
            seen.extend(drain(&mut events).into_iter().map(|(key, _)| key));
        }
        seen.sort_unstable();
        assert!(seen.iter().copied().eq(0..pairs.len() as u64));
    }
}
