//! The platform of a runtime: threads, thread locals and panics here, sleep and I/O from the host.

use core::{
    cell::{Cell, RefCell},
    sync::atomic::{AtomicUsize, Ordering},
};
use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use filch::{Instant, Panic, Platform, StartError, WorkerEntry, WorkerId, atomic::AtomicU32};

use crate::{
    clock::{Clock, Due},
    context::{self, Handle},
    host::Host,
    panics,
};

/// A host with threads on it.
pub(crate) struct Hosted<H> {
    pub(crate) host: H,
    pub(crate) clock: Clock,
    /// Threads that were started for a worker, and are not one yet.
    pub(crate) starting: Arc<AtomicUsize>,
    /// What the next runtime on this platform wants of its threads, and its handle.
    dress: Mutex<Dress>,
    pub(crate) threads: Mutex<Vec<thread::JoinHandle<()>>>,
    /// Why the last thread could not be started.
    pub(crate) refused: Mutex<Option<io::Error>>,
}

#[derive(Clone, Default)]
struct Dress {
    name: String,
    stack: Option<usize>,
    handle: Option<Handle>,
}

impl<H: Host> Hosted<H> {
    pub(crate) fn new(host: H) -> Self {
        Self {
            host,
            clock: Clock::default(),
            starting: Arc::default(),
            dress: Mutex::default(),
            threads: Mutex::new(Vec::new()),
            refused: Mutex::new(None),
        }
    }

    /// Before the first thread starts: how threads are made, and the runtime that they are in.
    pub(crate) fn dress(&self, name: String, stack: Option<usize>, handle: Handle) {
        *self.lock_dress() = Dress { name, stack, handle: Some(handle) };
    }

    fn lock_dress(&self) -> MutexGuard<'_, Dress> {
        self.dress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self) -> *const () {
        core::ptr::from_ref(self).cast()
    }

    fn start_thread(&self, entry: WorkerEntry) -> io::Result<thread::JoinHandle<()>> {
        let dress = self.lock_dress().clone();
        let mut builder =
            thread::Builder::new().name(format!("{}-{}", dress.name, entry.worker().index()));
        if let Some(bytes) = dress.stack {
            builder = builder.stack_size(bytes);
        }
        // Until it is a worker it may have something to do as well as one.
        // Ordering: AcqRel pairs with the Acquire in `Clock::go_on`.
        self.clock.holds.fetch_add(1, Ordering::AcqRel);
        let handle = dress.handle;
        // Ordering: Release pairs with the Acquire in `broadcast`, here and below.
        self.starting.fetch_add(1, Ordering::Release);
        let starting = Arc::clone(&self.starting);
        let started = builder.spawn(move || {
            be_punctual();
            STARTING.set(true);
            entry.run();
            if let Some(handle) = handle.filter(|_| STARTING.replace(false)) {
                // It was refused, and never entered.
                starting.fetch_sub(1, Ordering::Release);
                handle.core.clock().holds.fetch_sub(1, Ordering::AcqRel);
                handle.core.clock_recheck();
            }
        });
        if started.is_err() {
            self.starting.fetch_sub(1, Ordering::Release);
            self.clock.holds.fetch_sub(1, Ordering::AcqRel);
            self.clock_recheck();
        }
        started
    }

    /// A time by the runtime's clock, by the host's.
    fn to_host(&self, deadline: Option<Instant>) -> Option<Instant> {
        deadline.map(|deadline| self.clock.to_host(deadline))
    }

    /// A worker's sleep, by the host's clock or by a stopped one.
    fn sleep(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
        sleep: impl FnOnce(Option<Instant>),
    ) {
        if !self.clock.is_stopped() {
            return sleep(self.to_host(deadline));
        }
        // If it is this worker that is to wake, its word changes, and it does not sleep.
        self.wake_due(self.clock.sleep(worker, word, expected, deadline, &|| self.host.has_io()));
        sleep(None);
        self.clock.wakes(worker);
    }

    /// Wakes the workers whose deadlines a stopped clock has come to.
    fn wake_due(&self, due: Due) {
        if due.is_empty() {
            return;
        }
        let handle = self.lock_dress().handle;
        if let Some(handle) = handle {
            due.into_iter().for_each(|worker| handle.core.unpark(worker));
        }
    }

    pub(crate) fn clock_recheck(&self) {
        self.wake_due(self.clock.recheck(&|| self.host.has_io()));
    }
}

/// Which worker of which platform the calling thread is.
#[derive(Clone, Copy)]
struct Here {
    platform: *const (),
    worker: WorkerId,
    /// The runtime that the thread was in before.
    before: Option<Handle>,
}

const NOWHERE: Here = Here { platform: core::ptr::null(), worker: WorkerId::new(0), before: None };

thread_local! {
    /// The innermost worker that the thread is; without a destructor, so that signal handlers may read it.
    static TOP: Cell<Here> = const { Cell::new(NOWHERE) };
    /// The thread was started for a worker, and is not one yet.
    static STARTING: Cell<bool> = const { Cell::new(false) };
    /// Those around it: a worker of one runtime that helps another is both.
    static BELOW: RefCell<Vec<Here>> = const { RefCell::new(Vec::new()) };
}

// SAFETY:
// - Identity: `TOP` and `BELOW` are the thread's own; `enter` and `leave` are the only writers and nest.
// - Guard: `contain` calls once, here.
// - Start: the entry runs once, on a new thread.
// - Liveness and clock: the host's contract.
unsafe impl<H: Host> Platform for Hosted<H> {
    fn now(&self) -> Instant {
        self.clock.now(|| self.host.now())
    }

    #[inline]
    fn current_worker(&self) -> Option<WorkerId> {
        let top = TOP.get();
        if core::ptr::eq(top.platform, self.id()) {
            return Some(top.worker);
        }
        if top.platform.is_null() {
            return None;
        }
        below(self.id())
    }

    unsafe fn enter(&self, worker: WorkerId) {
        let top = TOP.get();
        if !top.platform.is_null() {
            BELOW.with_borrow_mut(|below| below.push(top));
        }
        let before = context::enter(self.lock_dress().handle);
        TOP.set(Here { platform: self.id(), worker, before });
        // Ordering: AcqRel pairs with the Acquire in `Clock::go_on`.
        self.clock.online.fetch_add(1, Ordering::AcqRel);
        if context::is_guest(&self.clock) {
            // It sleeps as a worker now. Ordering: as above, and after it: somebody counts it at any time.
            self.clock.guests.fetch_sub(1, Ordering::AcqRel);
        }
        if STARTING.replace(false) {
            self.starting.fetch_sub(1, Ordering::Release);
            self.clock.holds.fetch_sub(1, Ordering::AcqRel);
        }
        // SAFETY: the caller's.
        unsafe { self.host.enter(worker) };
    }

    unsafe fn leave(&self, worker: WorkerId) {
        // SAFETY: the caller's.
        unsafe { self.host.leave(worker) };
        // Ordering: as in `enter`, the other way about.
        if context::is_guest(&self.clock) {
            self.clock.guests.fetch_add(1, Ordering::AcqRel);
        }
        self.clock.online.fetch_sub(1, Ordering::AcqRel);
        self.clock_recheck();
        context::enter(TOP.get().before);
        TOP.set(BELOW.with_borrow_mut(Vec::pop).unwrap_or(NOWHERE));
    }

    unsafe fn wait(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) {
        self.sleep(worker, word, expected, deadline, |deadline| {
            // SAFETY: the caller's.
            unsafe { self.host.wait(worker, word, expected, deadline) }
        });
    }

    unsafe fn listen(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) {
        self.sleep(worker, word, expected, deadline, |deadline| {
            // SAFETY: the caller's.
            unsafe { self.host.listen(worker, word, expected, deadline) }
        });
    }

    fn wake(&self, worker: WorkerId, word: &AtomicU32) {
        self.host.wake(worker, word);
    }

    fn start(&self, entry: WorkerEntry) -> Result<(), StartError> {
        match self.start_thread(entry) {
            Ok(thread) => {
                let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
                // Stand-ins come and go, and those that have gone are not kept.
                let (gone, mut here): (Vec<_>, Vec<_>) =
                    threads.drain(..).partition(thread::JoinHandle::is_finished);
                here.push(thread);
                *threads = here;
                drop(threads);
                gone.into_iter().for_each(|thread| drop(thread.join()));
                Ok(())
            }
            Err(error) => {
                let code = error.raw_os_error().unwrap_or(0);
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Err(StartError::Refused(code))
            }
        }
    }

    unsafe fn poll_io(&self, worker: WorkerId) -> usize {
        // SAFETY: the caller's.
        unsafe { self.host.poll_io(worker) }
    }

    fn is_unwatched(&self) -> bool {
        self.host.is_unwatched()
    }

    #[inline(always)]
    fn guard(&self, poll: &mut dyn FnMut()) -> Result<(), Panic> {
        panics::contain(poll)
    }

    fn resume(&self, panic: Panic) -> ! {
        panics::resume(panic)
    }

    fn relax(&self, round: u32) {
        relax(round);
    }

    fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        if !context::is_guest(&self.clock) {
            return self.host.block(word, expected, self.to_host(deadline));
        }
        self.wake_due(self.clock.guest_sleeps(word, expected, &|| self.host.has_io()));
        self.host.block(word, expected, self.to_host(deadline));
        self.clock.guest_wakes(word);
    }

    fn unblock(&self, word: &AtomicU32) {
        self.host.unblock(word);
    }
}

/// A moment until the next look, after so many that were in vain: a few spins, longer and longer; then the core may be
/// somebody else's.
pub(crate) fn relax(round: u32) {
    if round < 6 {
        (0..1 << round).for_each(|_| core::hint::spin_loop());
    } else {
        thread::yield_now();
    }
}

/// The thread's timeouts end when they are due: Linux otherwise puts them off by up to 50 us, to save power by waking less
/// often, which is no gain for a worker that sleeps until its next deadline alone.
fn be_punctual() {
    #[cfg(target_os = "linux")]
    // SAFETY: it takes a number, and concerns this thread alone.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
}

#[cold]
fn below(platform: *const ()) -> Option<WorkerId> {
    // A signal handler may find the list borrowed: then it is in no worker that it can tell.
    BELOW.with(|below| {
        let below = below.try_borrow().ok()?;
        below.iter().find(|here| core::ptr::eq(here.platform, platform)).map(|here| here.worker)
    })
}
