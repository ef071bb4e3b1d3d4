//! What the tests of the core share: a platform that is stepped by hand, a platform of threads, and futures to observe.
#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

pub(crate) mod watched;

use core::{
    any::Any,
    cell::RefCell,
    future::{Future, poll_fn},
    ops::Deref,
    panic::AssertUnwindSafe,
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    task::{Poll, Waker},
    time::Duration,
};
use std::{
    panic::{catch_unwind, resume_unwind},
    rc::Rc,
    sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, mpsc},
    thread,
};

pub(crate) use filch_test_support::{Drops, Flag, Tally, Watchdog, until, watchdog};

use filch::{
    Config, Context, Event, Instant, JoinHandle, Panic, PanicVtable, Platform, Reactor, Scheduler,
    Slots, StartError, Step, TaskPool, Worker, WorkerEntry, WorkerId, WorkerSlot,
    atomic::AtomicU32,
    parts::{All, Parts},
};

pub(crate) const fn id(index: u16) -> WorkerId {
    WorkerId::new(index)
}

// The workers that the calling context is.

thread_local! {
    /// The workers that this thread is, with the address of their platform, innermost last.
    static HERE: RefCell<Vec<(usize, WorkerId)>> = const { RefCell::new(Vec::new()) };
}

fn here(platform: usize) -> Option<WorkerId> {
    HERE.with_borrow(|all| all.iter().rev().find(|(at, _)| *at == platform).map(|(_, id)| *id))
}

/// The thread becomes this worker, or stops being the innermost one that it is.
fn set_worker(platform: usize, worker: Option<WorkerId>) {
    if let Some(worker) = worker {
        return HERE.with_borrow_mut(|all| all.push((platform, worker)));
    }
    let left = HERE.with_borrow_mut(Vec::pop);
    assert_eq!(
        left.map(|(at, _)| at),
        Some(platform),
        "workers are left in the order of their entry"
    );
}

/// Forgets the innermost context, which is of this platform: a panic has left it, or it will never be left.
pub(crate) fn forget_context<P>(platform: *const P) {
    let last = HERE.with_borrow_mut(Vec::pop);
    assert_eq!(last.map(|(at, _)| at), Some(platform.addr()));
}

// Panics, contained.

type Payload = Box<dyn Any + Send>;

static PANICS: PanicVtable = PanicVtable { drop: drop_payload, message, resume };

unsafe fn drop_payload(payload: NonNull<()>) {
    // SAFETY: `contain` made it by `Box::leak`.
    drop(unsafe { Box::from_raw(payload.cast::<Payload>().as_ptr()) });
}

unsafe fn message(payload: NonNull<()>) -> Option<&'static str> {
    // SAFETY: as above; the caller keeps the payload for as long as it keeps the message.
    unsafe { payload.cast::<Payload>().as_ref() }.downcast_ref::<&'static str>().copied()
}

unsafe fn resume(payload: NonNull<()>) -> ! {
    // SAFETY: `contain` made it by `Box::leak`; the caller gives it away.
    resume_unwind(*unsafe { Box::from_raw(payload.cast::<Payload>().as_ptr()) })
}

pub(crate) fn contain(poll: &mut dyn FnMut()) -> Result<(), Panic> {
    catch_unwind(AssertUnwindSafe(poll)).map_err(|payload| {
        let payload = NonNull::from(Box::leak(Box::new(payload)));
        // SAFETY: the payload is `Send`, and only its message is ever shared.
        unsafe { Panic::from_raw(payload.cast(), &PANICS) }
    })
}

/// A platform whose contexts are all played by one thread. Only the test and idle loops advance its clock.
pub(crate) struct Manual {
    clock: AtomicU64,
    /// Polls over the limit: whose, and for how many nanoseconds.
    long_polls: Mutex<Vec<(u16, u64)>>,
    /// The workers that `wake` was called for.
    woken: Mutex<Vec<u16>>,
    in_handler: AtomicBool,
    /// So many workers are near each other; 0 for all.
    pub(crate) cluster: AtomicUsize,
}

impl Manual {
    pub(crate) const fn new() -> Self {
        Self {
            clock: AtomicU64::new(0),
            long_polls: Mutex::new(Vec::new()),
            woken: Mutex::new(Vec::new()),
            in_handler: AtomicBool::new(false),
            cluster: AtomicUsize::new(0),
        }
    }

    /// The workers that `wake` was called for since the last call.
    pub(crate) fn woken(&self) -> Vec<u16> {
        core::mem::take(&mut *self.woken.lock().unwrap())
    }

    /// Runs `f` in a handler, which has interrupted the caller.
    pub(crate) fn interrupt<R>(&self, f: impl FnOnce() -> R) -> R {
        let was = self.in_handler.swap(true, Ordering::Relaxed);
        let result = f();
        self.in_handler.store(was, Ordering::Relaxed);
        result
    }

    pub(crate) fn long_polls(&self) -> Vec<(u16, u64)> {
        self.long_polls.lock().unwrap().clone()
    }

    /// Runs `f` in the context of this worker, whether the worker has entered or not.
    pub(crate) fn pose<R>(&self, worker: u16, f: impl FnOnce() -> R) -> R {
        set_worker(self.at(), Some(id(worker)));
        let result = f();
        set_worker(self.at(), None);
        result
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }

    fn at(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    fn sleep(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        if word.load(Ordering::Acquire) == expected {
            let deadline = deadline.expect("the only thread would sleep for ever");
            self.clock.fetch_max(deadline.as_nanos(), Ordering::Relaxed);
        }
    }
}

// SAFETY: contexts are entries in the thread's own list, innermost first; `contain` calls once. Sleeps check the word,
// and no other context runs meanwhile.
unsafe impl Platform for Manual {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.load(Ordering::Relaxed))
    }
    fn current_worker(&self) -> Option<WorkerId> {
        here(self.at())
    }
    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        set_worker(self.at(), worker);
    }
    fn distance(&self, from: WorkerId, to: WorkerId) -> u32 {
        let cluster_of =
            |id: WorkerId| id.index().checked_div(self.cluster.load(Ordering::Relaxed));
        cluster_of(from).zip(cluster_of(to)).map_or(0, |(a, b)| a.abs_diff(b) as u32)
    }
    fn context(&self) -> Context {
        if self.in_handler.load(Ordering::Relaxed) { Context::Handler } else { Context::Thread }
    }
    unsafe fn wait(&self, _: WorkerId, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        self.sleep(word, expected, deadline);
    }
    fn wake(&self, worker: WorkerId, _: &AtomicU32) {
        self.woken.lock().unwrap().push(worker.index() as u16);
    }
    fn guard(&self, poll: &mut dyn FnMut()) -> Result<(), Panic> {
        contain(poll)
    }
    fn relax(&self, _: u32) {
        self.advance(Duration::from_micros(1));
    }
    fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        self.sleep(word, expected, deadline);
    }
    fn event(&self, _: Option<WorkerId>, event: Event) {
        if let Event::LongPoll { worker, nanos } = event {
            self.long_polls.lock().unwrap().push((worker, nanos));
        }
    }
}

/// Boxed slots for the tests: without its feature `alloc` the core has none.
pub(crate) struct Room<const RING: usize, F: Parts = All>(Box<[WorkerSlot<RING, F>]>);

// SAFETY: the box owns its slots, and passes them to no other executor.
unsafe impl<const RING: usize, F: Parts> Slots<RING> for Room<RING, F> {
    type Parts = F;

    fn slots(&self) -> &[WorkerSlot<RING, F>] {
        &self.0
    }
}

pub(crate) type ManualExecutor<const RING: usize = 256> = Scheduler<Manual, Room<RING>, RING>;

pub(crate) fn slots<const RING: usize, F: Parts>(n: usize) -> Room<RING, F> {
    Room((0..n).map(|_| WorkerSlot::new()).collect())
}

/// A worker, if it is online.
type Seat<const RING: usize> = Option<Rc<Worker<Manual, Room<RING>, RING>>>;

/// An executor on the manual platform, and its workers. The calling thread plays all their contexts.
pub(crate) struct Sim<const RING: usize = 256> {
    pub(crate) executor: &'static ManualExecutor<RING>,
    workers: RefCell<Vec<Seat<RING>>>,
    _watchdog: Watchdog,
}

impl Sim {
    /// All workers online.
    pub(crate) fn new(workers: u16) -> Self {
        Self::build(workers, quiet())
    }

    /// All workers online.
    pub(crate) fn with(workers: u16, config: Config) -> Self {
        Self::build(workers, config)
    }

    /// No worker online.
    pub(crate) fn offline(workers: u16, config: Config) -> Self {
        Self::build_offline(workers, config)
    }

    /// No worker online, in an executor for tests that need it longer.
    pub(crate) fn leak_offline(workers: u16, config: Config) -> &'static ManualExecutor {
        let sim = Self::build_offline(workers, config);
        forever(Box::new(sim)).executor
    }

    /// No worker online. Opens the executor again if it was used before.
    pub(crate) fn over(executor: &'static ManualExecutor, workers: u16) -> Self {
        executor.reopen();
        Self {
            executor,
            workers: RefCell::new(vec![None; usize::from(workers)]),
            _watchdog: watchdog(),
        }
    }
}

/// The defaults, without what would make a test depend on the clock.
pub(crate) fn quiet() -> Config {
    Config::new().watchdog(None).spin_rounds(0)
}

/// A short timeout of the watchdog.
pub(crate) const NAP: Duration = Duration::from_micros(500);

pub(crate) type Shared<const RING: usize> = Arc<Mine<Rc<Sim<RING>>>>;

/// A sim that its own tasks can use.
pub(crate) fn shared<const RING: usize>(sim: Sim<RING>) -> (Rc<Sim<RING>>, Shared<RING>) {
    let sim = Rc::new(sim);
    let for_tasks = Arc::new(Mine::new(Rc::clone(&sim)));
    (sim, for_tasks)
}

impl<const RING: usize> Sim<RING> {
    /// As `with`, with rings of any size.
    pub(crate) fn build(workers: u16, config: Config) -> Self {
        let sim = Self::build_offline(workers, config);
        (0..workers).for_each(|i| sim.attach(i));
        sim
    }

    fn build_offline(workers: u16, config: Config) -> Self {
        let slots = slots(usize::from(workers));
        let executor = Scheduler::over(Manual::new(), config, slots).expect("a fair number");
        let executor = forever(Box::new(executor));
        Self {
            executor,
            workers: RefCell::new(vec![None; usize::from(workers)]),
            _watchdog: watchdog(),
        }
    }

    pub(crate) fn attach(&self, worker: u16) {
        // From a context that is no worker, even if called inside a poll.
        let outer = HERE.take();
        let attached = self.executor.worker(id(worker)).expect("the worker is offline");
        HERE.set(outer);
        self.workers.borrow_mut()[usize::from(worker)] = Some(Rc::new(attached));
    }

    /// Takes the worker offline.
    pub(crate) fn detach(&self, worker: u16) {
        let handle = self.workers.borrow_mut()[usize::from(worker)].take().expect("online");
        let handle = Rc::into_inner(handle).expect("not in the midst of a step");
        set_worker(self.executor.platform().at(), Some(id(worker)));
        drop(handle);
    }

    /// Plays the worker's context. Calls nest: the other contexts wait meanwhile.
    pub(crate) fn on<R>(
        &self,
        worker: u16,
        f: impl FnOnce(&Worker<Manual, Room<RING>, RING>) -> R,
    ) -> R {
        let handle = self.workers.borrow()[usize::from(worker)].clone().expect("online");
        let at = self.executor.platform().at();
        set_worker(at, Some(id(worker)));
        let result = f(&handle);
        set_worker(at, None);
        result
    }

    pub(crate) fn step(&self, worker: u16) -> Step {
        self.on(worker, Worker::step)
    }

    /// Steps the worker until it is idle. Returns how many polls there were.
    pub(crate) fn run(&self, worker: u16) -> usize {
        self.on(worker, |worker| worker.run_for(100_000))
    }

    /// Steps all workers in turn until all are idle.
    pub(crate) fn settle(&self) -> usize {
        let n = self.workers.borrow().len() as u16;
        let online = |i: &u16| self.workers.borrow()[usize::from(*i)].is_some();
        let mut polls = 0;
        loop {
            let round: usize = (0..n).filter(online).map(|i| self.run(i)).sum();
            polls += round;
            if round == 0 {
                return polls;
            }
        }
    }

    /// Cancels all tasks that are left.
    pub(crate) fn close(&self) {
        let n = self.workers.borrow().len() as u16;
        (0..n).filter(|i| self.is_online(*i)).for_each(|i| self.detach(i));
        self.executor.shutdown(Instant::ZERO, |_| {}).expect("this thread is no worker");
        let totals = self.executor.metrics().totals();
        assert_eq!(totals.spawned, totals.completed, "{totals:?}");
    }

    fn is_online(&self, worker: u16) -> bool {
        self.workers.borrow()[usize::from(worker)].is_some()
    }
}

/// Checks at the end of every test that no task is left.
impl<const RING: usize> Drop for Sim<RING> {
    fn drop(&mut self) {
        if thread::panicking() {
            core::mem::forget(self.workers.take());
        } else {
            self.close();
        }
    }
}

/// A value that only this thread touches, in a future that must be `Send`.
pub(crate) struct Mine<T>(T, thread::ThreadId);

// SAFETY: `deref` checks the thread; the tests that use it have one thread, so that it is dropped there too.
unsafe impl<T> Send for Mine<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Mine<T> {}

impl<T> Mine<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(value, thread::current().id())
    }
}

impl<T> Deref for Mine<T> {
    type Target = T;
    fn deref(&self) -> &T {
        assert_eq!(self.1, thread::current().id(), "the value is another thread's");
        &self.0
    }
}

/// A platform whose workers are threads. They sleep on one condition variable.
pub(crate) struct Threads {
    lock: Mutex<()>,
    news: Condvar,
    origin: OnceLock<std::time::Instant>,
    started: Mutex<Vec<thread::JoinHandle<()>>>,
    /// How many more threads `start` may start.
    starts: AtomicUsize,
    /// Two bits for each worker: whether it sleeps, and whether it listens.
    asleep: AtomicU64,
    /// How often workers have asked the reactor.
    pub(crate) asks: AtomicUsize,
    /// Entries that `start` has kept, if it keeps them.
    desk: Mutex<Option<Vec<WorkerEntry>>>,
    /// What the next `unblock` does.
    at_unblock: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// What each `deliver` and each `relax` of a worker does.
    at_deliver: OnceLock<Hook>,
    at_relax: OnceLock<Hook>,
}

type Hook = Box<dyn Fn(Option<WorkerId>) + Send + Sync>;

type EventHook = Rc<dyn Fn(Event<'_>)>;

thread_local! {
    /// What each event of this thread calls, of an executor of threads.
    static AT_EVENT: RefCell<Option<EventHook>> = const { RefCell::new(None) };
    /// What the next `wake` by this thread calls.
    static AT_WAKE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    /// What this thread calls when it next stops being a worker, before others see that.
    static AT_LEAVE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// When this thread, a worker of an executor of threads, next stops being one, it calls this before others see that.
pub(crate) fn at_leave(f: impl FnOnce() + 'static) {
    drop(AT_LEAVE.replace(Some(Box::new(f))));
}

/// Each event of an executor of threads calls this from now on, if it is this thread's, but not while one does.
pub(crate) fn at_event(f: impl Fn(Event<'_>) + 'static) {
    drop(AT_EVENT.replace(Some(Rc::new(f))));
}

/// The next `wake` by this thread, of an executor of threads, calls this.
pub(crate) fn at_wake(f: impl FnOnce() + 'static) {
    drop(AT_WAKE.replace(Some(Box::new(f))));
}

/// How a worker sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleeps {
    Awake,
    Waits,
    Listens,
}

impl Threads {
    pub(crate) const fn new() -> Self {
        Self {
            lock: Mutex::new(()),
            news: Condvar::new(),
            origin: OnceLock::new(),
            started: Mutex::new(Vec::new()),
            starts: AtomicUsize::new(usize::MAX),
            asleep: AtomicU64::new(0),
            asks: AtomicUsize::new(0),
            desk: Mutex::new(None),
            at_unblock: Mutex::new(None),
            at_deliver: OnceLock::new(),
            at_relax: OnceLock::new(),
        }
    }

    /// Every `deliver` calls this from now on. At most once for an executor.
    pub(crate) fn at_deliver(&self, f: impl Fn(Option<WorkerId>) + Send + Sync + 'static) {
        assert!(self.at_deliver.set(Box::new(f)).is_ok(), "once");
    }

    /// Every `relax` calls this from now on. At most once for an executor.
    pub(crate) fn at_relax(&self, f: impl Fn(Option<WorkerId>) + Send + Sync + 'static) {
        assert!(self.at_relax.set(Box::new(f)).is_ok(), "once");
    }

    /// From now on `start` keeps the entries, for the test to run them.
    pub(crate) fn keep_entries(&self) {
        *self.desk.lock().unwrap() = Some(Vec::new());
    }

    /// Takes an entry that was kept.
    pub(crate) fn take_entry(&self) -> Option<WorkerEntry> {
        self.desk.lock().unwrap().as_mut()?.pop()
    }

    /// The next `unblock` does this first.
    pub(crate) fn at_unblock(&self, f: impl FnOnce() + Send + 'static) {
        *self.at_unblock.lock().unwrap() = Some(Box::new(f));
    }

    /// Runs `f` in the context of this worker, whether the worker has entered or not.
    pub(crate) fn pose<R>(&self, worker: u16, f: impl FnOnce() -> R) -> R {
        set_worker(self.at(), Some(id(worker)));
        let result = f();
        set_worker(self.at(), None);
        result
    }

    /// How the worker sleeps. Its index is below 32.
    pub(crate) fn sleeps(&self, worker: u16) -> Sleeps {
        match self.asleep.load(Ordering::SeqCst) >> (2 * worker) & 3 {
            0 => Sleeps::Awake,
            1 => Sleeps::Waits,
            _ => Sleeps::Listens,
        }
    }

    fn sleep_as(&self, worker: WorkerId, how: u64, sleep: impl FnOnce()) {
        let bits = how << (2 * worker.index());
        self.asleep.fetch_or(bits, Ordering::SeqCst);
        sleep();
        self.asleep.fetch_and(!bits, Ordering::SeqCst);
    }

    pub(crate) fn limit_starts(&self, starts: usize) {
        self.starts.store(starts, Ordering::Relaxed);
    }

    /// Joins the threads that were started, after a shutdown.
    pub(crate) fn join(&self) {
        let started = core::mem::take(&mut *self.started.lock().unwrap());
        started.into_iter().for_each(|thread| thread.join().expect("workers do not panic"));
    }

    fn at(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    fn sleep(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if word.load(Ordering::Acquire) != expected {
            return;
        }
        match deadline {
            Some(end) => drop(self.news.wait_timeout(guard, end - self.now())),
            None => drop(self.news.wait(guard)),
        }
    }

    fn rouse(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.news.notify_all();
    }
}

// SAFETY: contexts are threads, each with a list of its own; `contain` calls once; each entry runs on its own thread,
// once. Sleeps check the word under the lock that wakes take.
unsafe impl Platform for Threads {
    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.get_or_init(std::time::Instant::now).elapsed()
    }
    fn current_worker(&self) -> Option<WorkerId> {
        here(self.at())
    }
    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        if worker.is_none() {
            if let Ok(Some(hook)) = AT_LEAVE.try_with(RefCell::take) {
                hook();
            }
        }
        set_worker(self.at(), worker);
    }
    unsafe fn wait(&self, me: WorkerId, word: &AtomicU32, old: u32, end: Option<Instant>) {
        self.sleep_as(me, 1, || self.sleep(word, old, end));
    }
    fn wake(&self, _: WorkerId, _: &AtomicU32) {
        if let Some(hook) = AT_WAKE.take() {
            hook();
        }
        self.rouse();
    }
    fn event(&self, _: Option<WorkerId>, event: Event<'_>) {
        if let Some(hook) = AT_EVENT.take() {
            hook(event);
            drop(AT_EVENT.replace(Some(hook)));
        }
    }
    fn start(&self, entry: WorkerEntry) -> Result<(), StartError> {
        let allowed = |n: usize| n.checked_sub(1);
        if self.starts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, allowed).is_err() {
            return Err(StartError::Refused(11));
        }
        if let Some(desk) = self.desk.lock().unwrap().as_mut() {
            desk.push(entry);
            return Ok(());
        }
        self.started.lock().unwrap().push(thread::spawn(move || entry.run()));
        Ok(())
    }
    fn guard(&self, poll: &mut dyn FnMut()) -> Result<(), Panic> {
        contain(poll)
    }
    fn relax(&self, _: u32) {
        if let Some(hook) = self.at_relax.get() {
            hook(self.current_worker());
        }
        thread::yield_now();
    }
    fn reactor(&self) -> Option<&dyn Reactor> {
        Some(self)
    }
    fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        self.sleep(word, expected, deadline);
    }
    fn unblock(&self, _: &AtomicU32) {
        let first = self.at_unblock.lock().unwrap().take();
        if let Some(first) = first {
            first();
        }
        self.rouse();
    }
}

// SAFETY: as above.
unsafe impl Reactor for Threads {
    unsafe fn listen(
        &self,
        me: WorkerId,
        word: &AtomicU32,
        old: u32,
        end: Option<Instant>,
    ) -> bool {
        if end == Some(Instant::ZERO) {
            self.asks.fetch_add(1, Ordering::SeqCst);
        } else {
            self.sleep_as(me, 2, || self.sleep(word, old, end));
        }
        self.at_deliver.get().is_some()
    }
    fn interrupt(&self, _: WorkerId, _: &AtomicU32) {
        self.rouse();
    }
    unsafe fn deliver(&self, worker: WorkerId) -> usize {
        if let Some(hook) = self.at_deliver.get() {
            hook(Some(worker));
        }
        0
    }
}

pub(crate) type ThreadExecutor = Scheduler<Threads, Room<256>>;

/// An executor whose workers run on threads.
pub(crate) fn threads(workers: u16, config: Config) -> &'static ThreadExecutor {
    let executor = parked(workers, config);
    (0..workers - spares(executor, workers)).for_each(|i| executor.start(id(i)).unwrap());
    executor
}

/// The same, before any thread has started.
pub(crate) fn parked(slots_in_all: u16, config: Config) -> &'static ThreadExecutor {
    let slots = slots(usize::from(slots_in_all));
    forever(Box::new(Scheduler::over(Threads::new(), config, slots).expect("a fair number")))
}

fn spares(executor: &ThreadExecutor, slots_in_all: u16) -> u16 {
    slots_in_all - executor.workers() as u16
}

/// Cancels all tasks and joins the threads.
pub(crate) fn stop(executor: &'static ThreadExecutor) {
    executor.shutdown(Instant::ZERO, |_| {}).expect("not on a worker");
    executor.platform().join();
    let totals = executor.metrics().totals();
    assert_eq!(totals.spawned, totals.completed, "{totals:?}");
}

/// Leaks memory, because an executor's must stay, and remembers the address, so that leak checkers do not complain.
pub(crate) fn forever<T>(memory: Box<T>) -> &'static T {
    static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let memory: &'static T = Box::leak(memory);
    KEPT.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(core::ptr::from_ref(memory).expose_provenance());
    memory
}

/// Memory for a test of its own.
pub(crate) fn pool() -> &'static TaskPool<1024, 64> {
    forever(Box::default())
}

/// What happened, in order.
#[derive(Clone)]
pub(crate) struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T> Log<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Vec::new())))
    }
    pub(crate) fn push(&self, entry: T) {
        self.0.lock().unwrap().push(entry);
    }
    pub(crate) fn take(&self) -> Vec<T> {
        core::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// The output of a complete task.
pub(crate) fn output<T>(handle: &mut JoinHandle<T>) -> Result<T, filch::JoinError> {
    assert!(handle.is_finished(), "the task goes on");
    handle.join()
}
