//! Operations on files by io_uring.
//!
//! A ring takes an operation in one system call. If what it needs is in the page cache, the same call completes it, and no other
//! thread nor the reactor has a part in it. Otherwise its completion is an event of the runtime's epoll, which has the
//! descriptor of the ring: in one-shot mode, armed while an operation is under way that was not complete at once. So
//! operations that are complete at once wake no worker that sleeps in epoll.

mod flight;

use core::{
    cell::Cell,
    task::{Context, Waker},
    time::Duration,
};
use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use filch::atomic::{AtomicBool, AtomicUsize, Ordering};
use filch_std::{Handle, internal::contain};
use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::io::Errno;
use slab::Slab;

use self::flight::{Land, Perform};
use super::operation::Operation;
use crate::{poller::RINGS, runtime::Linux};

/// Entries for operations that the kernel has not taken: each is taken at once, unless it is short of memory.
const ENTRIES: u32 = 8;
/// Operations under way in one ring. More of them go to the pool.
const ROOM: usize = 512;
/// The completion of a request to cancel; nothing waits for it.
const CANCEL: u64 = u64::MAX;
/// Operations that go to the pool after a shortage, before the ring is tried again: at first, and at most.
const PAUSES: [u32; 2] = [16, 4_096];
/// How long the end of a runtime waits for the kernel to be done, with all rings together.
const PATIENCE: Duration = Duration::from_secs(2);

/// Performs an operation in a ring of the runtime, if it has one; otherwise gives it back.
pub(super) async fn perform<O: Operation>(handle: Handle, operation: O) -> Result<O::Output, O> {
    match handle.host::<Linux>() {
        Some(linux) if linux.rings.is_allowed() => Perform::new(linux, operation).await,
        _ => Err(operation),
    }
}

/// The rings of a runtime. A thread always uses the same one, and different workers different ones, as far as there are
/// enough: a ring takes one operation at a time, and copies what is in the page cache meanwhile.
#[derive(Debug)]
pub(crate) struct Rings {
    all: [Ring; RINGS],
    allowed: AtomicBool,
}

thread_local! {
    /// Which ring the thread uses; `usize::MAX`: it has not used one.
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Rings {
    pub(crate) fn new() -> Self {
        Self {
            all: core::array::from_fn(|at| Ring { at, state: Mutex::new(State::FRESH) }),
            allowed: AtomicBool::new(true),
        }
    }

    /// Allows them or not, from the next operation on.
    pub(crate) fn allow(&self, on: bool) {
        // Ordering: Relaxed; a switch that orders nothing else, as in `is_allowed`.
        self.allowed.store(on, Ordering::Relaxed);
    }

    fn is_allowed(&self) -> bool {
        // Ordering: Relaxed; see `allow`.
        self.allowed.load(Ordering::Relaxed)
    }

    /// The calling thread's.
    fn ring(&self) -> &Ring {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        if MINE.get() == usize::MAX {
            // Ordering: Relaxed; a count that spreads the threads.
            MINE.set(THREADS.fetch_add(1, Ordering::Relaxed) % RINGS);
        }
        &self.all[MINE.get()]
    }

    /// Whether the calling thread has a ring.
    pub(super) fn is_open(&self, linux: &Linux) -> bool {
        linux.is_ours()
            && self.is_allowed()
            && self.ring().state().open(linux, self.ring().at).is_some()
    }

    /// Whether operations are under way.
    pub(crate) fn are_busy(&self) -> bool {
        self.all.iter().any(|ring| match &*ring.state() {
            State::Open(open) => !open.flights.is_empty(),
            _ => false,
        })
    }

    /// A ring has completions. Returns how many tasks were woken.
    pub(crate) fn deliver(&self, linux: &Linux, at: usize) -> usize {
        self.all.get(at).map_or(0, |ring| ring.deliver(linux))
    }

    /// A runtime begins: rings may be opened. What the last one was allowed is over.
    pub(crate) fn begin(&self) {
        self.allow(true);
        for ring in &self.all {
            *ring.state() = State::FRESH;
        }
    }

    /// No worker listens any more. Cancels what is under way and waits until the kernel is done with it.
    pub(crate) fn end(&self) {
        let until = Instant::now() + PATIENCE;
        for ring in &self.all {
            let state = core::mem::replace(&mut *ring.state(), State::Ended);
            if let State::Open(open) = state {
                open.end(until);
            }
        }
    }
}

#[derive(Debug)]
struct Ring {
    /// Which of the rings.
    at: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// An operation opens it, after so many that go to the pool: none at first, and as `pause` says after a shortage.
    Closed {
        skips: u32,
        pause: u32,
    },
    /// The kernel has none, or does not allow it, or lacks what we need.
    Refused,
    Open(Box<Open>),
    /// The runtime has ended.
    Ended,
}

/// A ring of the kernel.
///
/// INV-ROOM: the completion queue has room for the completions of as many flights as there may be, and of as many requests to
/// cancel. So none overflows.
struct Open {
    uring: IoUring,
    /// By what the kernel returns as `user_data`. One stays until its completion is taken.
    flights: Slab<Arc<dyn Land>>,
    /// Requests to cancel whose completions have not been taken.
    cancels: usize,
    /// Epoll tells the next completion.
    armed: bool,
    /// The kernel has refused the descriptor: other code has closed it. From then on nothing is handed over.
    broken: bool,
}

impl core::fmt::Debug for Open {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Open").field("flights", &self.flights.len()).finish_non_exhaustive()
    }
}

/// The task that waits for it, and the flight.
type Arrival = (Option<Waker>, Arc<dyn Land>);

/// What has landed, to be woken and dropped without the ring's lock.
#[derive(Default)]
struct Landed {
    flights: [Option<Arrival>; 16],
    len: usize,
}

impl Landed {
    fn is_full(&self) -> bool {
        self.len == self.flights.len()
    }

    fn push(&mut self, waker: Option<Waker>, flight: Arc<dyn Land>) {
        self.flights[self.len] = Some((waker, flight));
        self.len += 1;
    }

    /// Returns the number of tasks that were woken. Does not panic.
    fn wake(&mut self) -> usize {
        let mut woken = 0;
        for (waker, flight) in self.flights[..self.len].iter_mut().filter_map(Option::take) {
            woken += usize::from(waker.is_some());
            wake(waker);
            drop(flight);
        }
        self.len = 0;
        woken
    }
}

/// A waker that panics keeps nothing else from what is to be done, such as the wakes of others; its panic has been printed.
fn wake(mut waker: Option<Waker>) {
    drop(contain(&mut || {
        if let Some(waker) = waker.take() {
            waker.wake();
        }
    }));
}

enum Started {
    /// Its key.
    At(usize),
    /// There is no ring, or no room: the kernel has not seen it.
    Refused,
}

/// The system lacks something that it may have later: descriptors, memory, room in epoll.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOSPC, Errno::AGAIN];
    Errno::from_io_error(error).is_some_and(|error| shortages.contains(&error))
}

impl State {
    const FRESH: Self = Self::Closed { skips: 0, pause: 0 };

    /// The ring, which is opened if it may be.
    fn open(&mut self, linux: &Linux, at: usize) -> Option<&mut Open> {
        if let Self::Closed { skips: skips @ 1.., .. } = self {
            *skips -= 1;
        } else if let Self::Closed { pause, .. } = *self {
            let pause = (2 * pause).clamp(PAUSES[0], PAUSES[1]);
            *self = match Open::new(linux, at) {
                Ok(open) => Self::Open(Box::new(open)),
                Err(error) if is_shortage(&error) => Self::Closed { skips: pause, pause },
                Err(_) => Self::Refused,
            };
        }
        match self {
            Self::Open(open) if !open.broken => Some(open),
            _ => None,
        }
    }
}

impl Ring {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the kernel begin. The flight may have landed when this returns.
    ///
    /// # Safety
    /// What the entry leads to is valid until the flight has landed, or is lost.
    unsafe fn start(&self, linux: &Linux, entry: squeue::Entry, flight: Arc<dyn Land>) -> Started {
        let mut landed = Landed::default();
        let mut state = self.state();
        let Some(open) = state.open(linux, self.at) else { return Started::Refused };
        if open.flights.len() >= ROOM {
            return Started::Refused;
        }
        let key = open.flights.insert(flight);
        // SAFETY: the caller's.
        let pushed = unsafe { open.push(&entry.user_data(key as u64)) };
        if pushed {
            open.submit();
        }
        // What was pushed last is still in the queue of a ring that is broken, and stays there.
        if !pushed || open.broken {
            let flight = open.flights.remove(key);
            drop(state);
            drop(flight);
            return Started::Refused;
        }
        open.take(&mut landed);
        open.arm(linux, self.at);
        drop(state);
        landed.wake();
        Started::At(key)
    }

    /// Offers the kernel again what it has not taken for want of memory; if it is in vain, the task tries again.
    fn flush(&self, cx: &Context<'_>) {
        let mut state = self.state();
        let State::Open(open) = &mut *state else { return };
        if open.uring.submission().is_empty() {
            return;
        }
        open.submit();
        let again = !open.broken && !open.uring.submission().is_empty();
        // A waker may do anything, also begin another operation.
        drop(state);
        if again {
            cx.waker().wake_by_ref();
        }
    }

    /// Asks the kernel to cancel a flight, unless it has landed. Once for each flight.
    fn cancel(&self, key: usize, flight: &Arc<dyn Land>) {
        let mut landed = Landed::default();
        let mut state = self.state();
        let State::Open(open) = &mut *state else { return };
        if open.flights.get(key).is_some_and(|at| Arc::ptr_eq(at, flight)) {
            open.cancel(key);
            open.submit();
            open.take(&mut landed);
        }
        drop(state);
        landed.wake();
    }

    fn deliver(&self, linux: &Linux) -> usize {
        let (mut woken, mut landed) = (0, Landed::default());
        loop {
            let mut state = self.state();
            let State::Open(open) = &mut *state else { return woken };
            open.armed = false;
            open.take(&mut landed);
            let more = landed.is_full();
            open.arm(linux, self.at);
            drop(state);
            woken += landed.wake();
            if !more {
                return woken;
            }
        }
    }
}

impl Open {
    fn new(linux: &Linux, at: usize) -> io::Result<Self> {
        // A forked child does not have the ring's memory.
        let uring = IoUring::builder().dontfork().setup_cqsize(2 * ROOM as u32).build(ENTRIES)?;
        let params = uring.params();
        // Paths are copied at once; a wait has a timeout; the file's own position can be used.
        let has_features = params.is_feature_submit_stable()
            && params.is_feature_ext_arg()
            && params.is_feature_rw_cur_pos()
            && params.cq_entries() as usize >= 2 * ROOM;
        let mut probe = Probe::new();
        uring.submitter().register_probe(&mut probe)?;
        let needed = [
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::OpenAt::CODE,
            opcode::Fsync::CODE,
            opcode::AsyncCancel::CODE,
        ];
        if !has_features || !needed.iter().all(|code| probe.is_supported(*code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        linux.poller.add_ring(fd(&uring), at)?;
        Ok(Self { uring, flights: Slab::new(), cancels: 0, armed: false, broken: false })
    }

    /// Puts an entry into the submission queue. False if the kernel takes none.
    ///
    /// # Safety
    /// As [`Ring::start`].
    unsafe fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the caller's.
        if unsafe { self.uring.submission().push(entry) }.is_ok() {
            return true;
        }
        // It is full of what the kernel has refused.
        self.submit();
        // SAFETY: as above.
        unsafe { self.uring.submission().push(entry) }.is_ok()
    }

    /// Hands the submission queue over. What the kernel refuses for want of memory stays in it, for [`Ring::flush`].
    fn submit(&mut self) {
        while !self.broken {
            let Err(error) = self.uring.submit() else { return };
            match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                Some(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => return,
                _ => self.broken = true,
            }
        }
    }

    fn cancel(&mut self, key: usize) {
        if self.cancels >= ROOM {
            // It ends by itself.
            return;
        }
        let entry = opcode::AsyncCancel::new(key as u64).build().user_data(CANCEL);
        // SAFETY: it leads to no memory.
        if unsafe { self.push(&entry) } {
            self.cancels += 1;
        }
    }

    /// Takes completions, as many as there is room for.
    fn take(&mut self, landed: &mut Landed) {
        debug_assert!(!self.uring.submission().cq_overflow(), "INV-ROOM");
        let mut completions = self.uring.completion();
        while !landed.is_full() {
            let Some(completion) = completions.next() else { return };
            match completion.user_data() {
                CANCEL => self.cancels -= 1,
                key => {
                    if let Some(flight) = self.flights.try_remove(key as usize) {
                        landed.push(flight.land(completion.result()), flight);
                    }
                }
            }
        }
    }

    /// Has epoll tell the next completion, if one is to come. One that has come since is told at once.
    fn arm(&mut self, linux: &Linux, at: usize) {
        if !self.armed && !self.flights.is_empty() {
            // If epoll is closed, the runtime is about to end, which ends the flights too.
            self.armed = linux.poller.arm_ring(fd(&self.uring), at).is_ok();
        }
    }

    /// The runtime has ended. The kernel has until then.
    fn end(mut self: Box<Self>, until: Instant) {
        let keys: Vec<usize> = self.flights.iter().map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.cancel(key));
        let mut landed = Landed::default();
        while !self.flights.is_empty() && !self.broken {
            let pause = types::Timespec::new().nsec(100_000_000);
            let args = types::SubmitArgs::new().timespec(&pause);
            // It fails if the time is up.
            let _ = self.uring.submitter().submit_with_args(1, &args);
            self.take(&mut landed);
            let more = landed.is_full();
            landed.wake();
            if !more && Instant::now() >= until {
                break;
            }
        }
        let lost: Vec<_> = self.flights.drain().collect();
        for flight in lost {
            // INV-FLIGHT: the kernel may still use the memory.
            let waker = flight.lose();
            core::mem::forget(flight);
            wake(waker);
        }
        if self.broken {
            // The descriptor may belong to other code by now.
            core::mem::forget(self);
        }
    }
}

/// The descriptor of a ring, for a call while it is open.
fn fd(uring: &IoUring) -> BorrowedFd<'_> {
    // SAFETY: the ring owns it, and is borrowed.
    unsafe { BorrowedFd::borrow_raw(uring.as_raw_fd()) }
}

#[cfg(test)]
mod tests {
    use core::{
        future::{Future, poll_fn},
        task::Poll,
    };
    use std::sync::Arc;

    use super::*;
    use crate::fs::operation::Read;

    fn read(file: &Arc<std::fs::File>, len: usize) -> Read {
        let (file, buf) = (Arc::clone(file), vec![0; len]);
        Read { file, buf, from: 0, at: Some(0), whole: false }
    }

    fn linux() -> &'static Linux {
        Handle::current().unwrap().host::<Linux>().unwrap()
    }

    /// What the kernel has not taken for want of memory is still in the queue.
    #[test]
    fn a_full_submission_queue_is_handed_over_first() {
        let _watchdog = filch_test_support::watchdog();
        let file = Arc::new(std::fs::File::open("/proc/self/exe").unwrap());
        crate::Builder::new().workers(1).build().unwrap().block_on(async {
            let (linux, ring) = (linux(), linux().rings.ring());
            {
                let mut state = ring.state();
                let open = state.open(linux, ring.at).unwrap();
                let nothing = opcode::Nop::new().build().user_data(1 << 40);
                // SAFETY: it leads to no memory.
                while unsafe { open.uring.submission().push(&nothing) }.is_ok() {}
                assert!(open.uring.submission().is_full());
            }
            let (n, buf) = Perform::new(linux, read(&file, 4)).await.ok().unwrap();
            assert_eq!((n.unwrap(), &buf[..]), (4, &b"\x7fELF"[..]));
        });
    }

    /// As many as there is room for, all of which are then cancelled, half of them without a look at the completions: `take` asserts
    /// that none has overflowed.
    #[test]
    fn there_is_room_for_all_completions() {
        let _watchdog = filch_test_support::watchdog();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let file = Arc::new(std::fs::File::from(reader));
        let read = || Read { at: None, ..read(&file, 8) };
        let runtime = crate::Builder::new().workers(1).build().unwrap();
        let mut flights = runtime.block_on(async {
            let linux = linux();
            let mut flights: Vec<_> =
                (0..ROOM + 50).map(|_| Box::pin(Perform::new(linux, read()))).collect();
            let mut refused = 0;
            let start = poll_fn(|cx| {
                flights.retain_mut(|flight| match flight.as_mut().poll(cx) {
                    Poll::Pending => true,
                    Poll::Ready(given_back) => {
                        refused += usize::from(given_back.is_err());
                        false
                    }
                });
                Poll::Ready(())
            });
            filch_std::task::unconstrained(start).await;
            assert_eq!((flights.len(), refused), (ROOM, 50));
            assert!(linux.rings.are_busy());
            flights
        });
        flights.truncate(ROOM / 2);
        drop(runtime);
        let mut cx = Context::from_waker(Waker::noop());
        for flight in &mut flights {
            assert!(matches!(flight.as_mut().poll(&mut cx), Poll::Ready(Err(_))));
        }
        drop(flights);
        // No operation has it any more.
        assert!(Arc::into_inner(file).is_some());
        drop(writer);
    }
}
