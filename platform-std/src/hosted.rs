//! The platform of a runtime: threads, thread locals and panics are here; sleep and I/O come from
//! the host.

#[cfg(all(feature = "observe", target_os = "linux"))]
use core::sync::atomic::AtomicI32;
use core::{
    cell::Cell,
    ptr::{NonNull, null},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use std::{
    io,
    sync::{Arc, Mutex, OnceLock},
    thread,
};

use filch::{
    Context, Event, Instant, Panic, Platform, Reactor, StartError, TaskInfo, WorkerEntry, WorkerId,
    atomic::AtomicU32,
};

#[cfg(feature = "observe")]
use crate::recording::Recording;
use crate::{
    block_on,
    context::{self, Busy, Handle, Hold},
    fork, hooks,
    host::Host,
    latch,
    long_poll::LongPoll,
    panics::{self, lock, quietly},
    parallel,
    pool::Pools,
    resize::Resizes,
    seat::{Seat, worker_of},
    sinks::Sinks,
    thread_config::Dress,
    thread_hooks::ThreadRole,
    wake_hook::WakeHook,
};

/// See `Builder::on_wake`.
pub(crate) type OnWake = Arc<dyn Fn() + Send + Sync>;

/// Finds what the calling worker is to run in a wait for a job.
type FindBroadcast = fn() -> Option<fn()>;

static FOREIGN_BROADCASTS: OnceLock<FindBroadcast> = OnceLock::new();

/// See [`Handle::set_foreign_broadcasts`].
pub(crate) fn set_foreign_broadcasts(find: FindBroadcast) {
    FOREIGN_BROADCASTS.get_or_init(|| find);
}

/// A host, and the threads on it.
pub(crate) struct Hosted<H> {
    pub(crate) host: H,
    /// Threads that were started for a worker, and have not become one yet.
    pub(crate) starting: Arc<AtomicUsize>,
    /// How the runtime on this platform wants its threads made.
    dress: Mutex<Dress>,
    pub(crate) handle: OnceLock<Handle>,
    /// The process that has its threads.
    process: u32,
    /// The runtime's pools; none that take a closure before its beginning and after its end.
    pools: Mutex<Pools>,
    seats: Box<[Seat]>,
    /// How many workers there are.
    workers: AtomicUsize,
    pub(crate) threads: Mutex<Vec<thread::JoinHandle<()>>>,
    /// Where events go.
    pub(crate) sinks: Sinks,
    /// The tasks that publish the runtime's metrics. They end before it waits for its tasks; `None` from then on.
    #[cfg(feature = "metrics")]
    pub(crate) publishers: Mutex<Option<Vec<filch::AbortHandle>>>,
    /// Why the last thread could not be started.
    pub(crate) refused: Mutex<Option<io::Error>>,
    pub(crate) resizes: Resizes,
    /// What the wake of a worker calls, in a runtime of one thread.
    pub(crate) on_wake: WakeHook<OnWake>,
}

impl<H: Host> Hosted<H> {
    /// A platform for so many workers, those in spare slots included.
    pub(crate) fn new(host: H, slots: usize) -> Self {
        Self {
            host,
            starting: Arc::default(),
            dress: Mutex::default(),
            handle: OnceLock::new(),
            process: fork::generation(),
            pools: Mutex::new(Pools::none()),
            seats: (0..slots).map(|_| Seat::new()).collect(),
            workers: AtomicUsize::new(0),
            threads: Mutex::new(Vec::new()),
            sinks: Sinks::default(),
            #[cfg(feature = "metrics")]
            publishers: Mutex::default(),
            refused: Mutex::new(None),
            resizes: Resizes::default(),
            on_wake: WakeHook::none(),
        }
    }

    /// Records from now on, with room for so many records. Called before the first worker starts.
    #[cfg(feature = "observe")]
    pub(crate) fn record(&'static self, records: usize) -> io::Result<()> {
        if records == 0 {
            return Ok(());
        }
        let new = || Recording::new(self.seats.len(), records);
        let recording = self.sinks.recording.get_or_init(new);
        recording.begin();
        let name = format!("{}-ticks", lock(&self.dress).name);
        let ticker = thread::Builder::new().name(name).stack_size(64 << 10);
        let ticker = ticker.spawn(|| {
            be_punctual();
            recording.tick(&self.host);
        })?;
        lock(&self.threads).push(ticker);
        Ok(())
    }

    /// Sets how threads are made. Called before the first thread starts.
    pub(crate) fn dress(&self, dress: Dress) {
        let before = core::mem::replace(&mut *lock(&self.dress), dress);
        // A hook's captures are dropped outside of the lock.
        quietly(|| drop(before));
    }

    pub(crate) fn pools(&self) -> Pools {
        lock(&self.pools).clone()
    }

    pub(crate) fn set_pools(&self, pools: Pools) {
        let before = core::mem::replace(&mut *lock(&self.pools), pools);
        // As in `dress`.
        quietly(|| drop(before));
    }

    /// The runtime has ended: what comes is refused, what was accepted is done, and what the hooks hold is given back as the last thread
    /// ends.
    pub(crate) fn close_pools(&self) {
        self.pools().close();
        self.set_pools(Pools::none());
    }

    pub(crate) fn dressed(&self) -> Dress {
        lock(&self.dress).clone()
    }

    /// Whether it is of a runtime of one thread, which has no spare slots.
    pub(crate) fn is_local(&self) -> bool {
        self.seats.len() == 1
    }

    fn id(&self) -> *const () {
        core::ptr::from_ref(self).cast()
    }

    fn start_thread(&self, entry: WorkerEntry) -> io::Result<thread::JoinHandle<()>> {
        let dress = self.dressed();
        let role = ThreadRole::Worker(entry.worker());
        let builder = dress.builder(role)?;
        let handle = self.handle.get().copied();
        // A thread that is about to become a worker may have work to do.
        let hold = handle.map(Hold::new);
        // Ordering: Release pairs with the Acquire in `broadcast`, here and below.
        self.starting.fetch_add(1, Ordering::Release);
        let starting = Arc::clone(&self.starting);
        let started = builder.spawn(move || {
            be_punctual();
            let _busy = handle.map(Busy::new);
            drop(hold);
            STARTING.set(true);
            dress.bind(role);
            dress.hooks.around(Some(role), || dress.hooks.worker(|| entry.run()));
            if STARTING.replace(false) {
                // The start was refused, and the thread never entered.
                starting.fetch_sub(1, Ordering::Release);
            }
        });
        if started.is_err() {
            self.starting.fetch_sub(1, Ordering::Release);
        }
        started
    }
}

thread_local! {
    /// The thread was started for a worker, and has not become one yet.
    static STARTING: Cell<bool> = const { Cell::new(false) };
}

// SAFETY:
// - Identity: the seats that a thread has taken are its own; `set_worker` alone takes them and gives them back.
// - Guard: `contain` calls once, here.
// - Start: the entry runs once, on a new thread.
// - Liveness and clock: the host's contract.
unsafe impl<H: Host> Platform for Hosted<H> {
    fn now(&self) -> Instant {
        self.host.now()
    }

    #[inline]
    fn current_worker(&self) -> Option<WorkerId> {
        worker_of(self.id())
    }

    #[inline]
    fn context(&self) -> Context {
        // A forked child has none of the threads that could end a wait.
        if self.process == fork::generation() { Context::Thread } else { Context::Forked }
    }

    fn budget(&self) -> Option<NonNull<Cell<u32>>> {
        Some(block_on::budget())
    }

    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        // SAFETY: the caller's contract.
        unsafe {
            match worker {
                Some(worker) => self.enter(worker),
                None => self.leave(),
            }
        }
    }

    unsafe fn wait(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) {
        // SAFETY: the caller's contract.
        unsafe { self.host.wait(worker, word, expected, deadline) }
    }

    fn wake(&self, worker: WorkerId, word: &AtomicU32) {
        self.host.wake(worker, word);
        if self.is_local() {
            self.host.alert();
            self.on_wake.visit(|hook| hooks::call(|| hook()));
        }
    }

    #[inline]
    fn reactor(&self) -> Option<&dyn Reactor> {
        self.host.reactor()
    }

    #[inline]
    fn nest(&self) -> *const () {
        self.handle.get().map_or(null(), |here| context::nest(*here))
    }

    fn left_poll(&self) -> Option<NonNull<Cell<*const ()>>> {
        Some(block_on::left_poll())
    }

    fn stay(&self) -> *const () {
        match (self.seat(), self.handle.get()) {
            (Some(seat), Some(here)) => seat.stay(*here),
            _ => null(),
        }
    }

    #[inline]
    fn unnest(&self, before: *const ()) {
        if let Some(here) = self.handle.get() {
            // SAFETY: the core pairs the calls.
            unsafe { context::unnest(*here, before) };
        }
    }

    fn foreign_broadcast(&self) -> Option<fn()> {
        FOREIGN_BROADCASTS.get().and_then(|find| find())
    }

    fn start(&self, entry: WorkerEntry) -> Result<(), StartError> {
        match self.start_thread(entry) {
            Ok(thread) => {
                let mut threads = lock(&self.threads);
                // Compensation workers come and go; threads that have ended are not kept.
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
                *lock(&self.refused) = Some(error);
                Err(StartError::Refused(code))
            }
        }
    }

    #[inline(always)]
    fn guard(&self, poll: &mut dyn FnMut()) -> Result<(), Panic> {
        panics::contain(poll)
    }

    fn relax(&self, round: u32) {
        latch::relax(round);
    }

    fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        self.host.block(word, expected, deadline);
    }

    fn unblock(&self, word: &AtomicU32) {
        self.host.unblock(word);
    }

    #[inline(always)]
    fn event(&self, worker: Option<WorkerId>, event: Event) {
        self.sinks.event(worker, event, &self.host);
        match event {
            Event::LongPoll { worker, nanos } => {
                self.report(WorkerId::new(worker), Duration::from_nanos(nanos));
            }
            Event::Panic(_) => self.fall(),
            _ => {}
        }
    }
}

impl<H: Host> Hosted<H> {
    /// The task that a worker polls, by its recorder.
    #[cfg(feature = "observe")]
    fn polled(&self, worker: WorkerId) -> Option<TaskInfo> {
        let recording = self.sinks.recording.get()?;
        let polled = recording.polling(worker)?;
        let mut found = None;
        self.handle.get()?.0.core.tasks(&mut |task| {
            if task.id.get() == polled {
                found = Some(task);
            }
        });
        // Otherwise that one may be over, and another task have its place.
        found.filter(|_| recording.polling(worker) == Some(polled))
    }

    /// The thread that is this worker; 0: none.
    #[cfg(all(feature = "observe", target_os = "linux"))]
    pub(crate) fn thread(&self, worker: WorkerId) -> Option<&AtomicI32> {
        self.seats.get(worker.index()).map(Seat::thread)
    }

    #[cfg(not(feature = "observe"))]
    fn polled(&self, _: WorkerId) -> Option<TaskInfo> {
        None
    }

    /// # Safety
    /// As [`Platform::set_worker`], with `Some(worker)`.
    unsafe fn enter(&self, worker: WorkerId) {
        let seat = &self.seats[worker.index()];
        seat.take(self.id(), worker, self.handle.get().copied());
        // Ordering: a count, see `leave`.
        self.workers.fetch_add(1, Ordering::Relaxed);
        if STARTING.replace(false) {
            self.starting.fetch_sub(1, Ordering::Release);
        }
        // SAFETY: the caller's contract.
        unsafe { self.host.set_worker(Some(worker)) };
        let entry = self.host.entry();
        seat.entered.set(entry.is_some());
        if let Some(entry) = entry {
            entry.enter();
        }
    }

    /// The seat of the calling thread.
    fn seat(&self) -> Option<&Seat> {
        self.seats.get(self.current_worker()?.index())
    }

    /// The calling thread, which is a worker, resides in the runtime: [`Seat::reside`].
    pub(crate) fn reside(&self) {
        let Some(seat) = self.seat() else { return };
        seat.reside(self.handle.get().copied());
        let is_here = context::current().is_some_and(|here| self.handle.get() == Some(&here));
        if let Some(entry) = self.host.entry().filter(|_| !is_here) {
            seat.entered.set(false);
            entry.leave();
        }
    }

    /// # Safety
    /// As [`Platform::set_worker`], with `None`.
    unsafe fn leave(&self) {
        let Some(seat) = self.seat() else { return };
        if let Some(entry) = self.host.entry().filter(|_| seat.entered.get()) {
            entry.leave();
        }
        // SAFETY: the caller's contract.
        unsafe { self.host.set_worker(None) };
        seat.give_back();
        parallel::forget_run();
        // Ordering: AcqRel: the last one sees that another has found the end. All may be gone before that: those that were asked to leave,
        // or a thread that has helped, while the first worker is on its way.
        if self.workers.fetch_sub(1, Ordering::AcqRel) == 1
            && self.handle.get().is_some_and(|here| here.0.core.is_stopped())
        {
            self.host.end();
        }
    }

    /// A task has panicked.
    #[cold]
    fn fall(&self) {
        if let Some(Handle(runtime)) = self.handle.get() {
            runtime.fall.by_panic(|| runtime.core.begin_shutdown());
        }
    }

    #[cold]
    fn report(&self, worker: WorkerId, so_far: Duration) {
        let dress = self.dressed();
        #[cfg(all(feature = "observe", target_os = "linux"))]
        let now = self.handle.get().and_then(|here| here.0.core.thread(worker));
        let poll = LongPoll {
            worker,
            so_far,
            task: self.polled(worker),
            #[cfg(all(feature = "observe", target_os = "linux"))]
            thread: now.map_or(0, |thread| thread.load(Ordering::Relaxed)),
            #[cfg(all(feature = "observe", target_os = "linux"))]
            now,
        };
        match dress.on_long_poll {
            // The hook must not unwind; its panic has been printed.
            Some(hook) => hooks::call(|| hook.call(poll)),
            None => poll.print(&dress.name),
        }
    }
}

/// Makes the thread's timeouts end when they are due. By default Linux delays them by up to 50 us
/// to save power; a worker that sleeps until its next deadline gains nothing by that.
pub(crate) fn be_punctual() {
    #[cfg(target_os = "linux")]
    // SAFETY: it takes a number, and concerns this thread alone.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
}
