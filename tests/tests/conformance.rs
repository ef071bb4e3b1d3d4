//! The conformance suite on threads, with the hosts of both runtimes; plain, and as hostile as the
//! contract allows. Signals are the interrupts.
#![cfg(target_os = "linux")]

use core::{
    any::Any,
    cell::Cell,
    fmt,
    panic::AssertUnwindSafe,
    ptr::{NonNull, null},
    task::Waker,
};
use std::{
    panic::{catch_unwind, resume_unwind},
    sync::{Mutex, OnceLock, PoisonError},
    thread,
};

use filch::{
    Config, Event, Executor, Instant, Panic, PanicVtable, Platform, Reactor, StartError, TaskPool,
    WorkerEntry, WorkerId, atomic::AtomicU32,
};
use filch_conformance::{Hostile, Port, Suite};
use filch_std::{Futex, Host};

const WORKERS: usize = 4;
const CONFIG: Config = Config::new().watchdog(None).spin_rounds(0);
/// A signal handler runs in program order with its thread, so a signal at any point needs nothing
/// more than this.
const SIGNAL: libc::c_int = libc::SIGUSR2;

type Hook = &'static (dyn Fn(Option<Event>) + Sync);

/// A platform of threads over a host.
struct Threads<H> {
    host: H,
    /// Called for interrupts (`None`) and for events.
    hook: OnceLock<Hook>,
}

#[derive(Clone, Copy)]
struct Here {
    platform: *const (),
    worker: WorkerId,
    hook: Option<Hook>,
}

const NOWHERE: Here = Here { platform: null(), worker: WorkerId::new(0), hook: None };

thread_local! {
    static HERE: Cell<Here> = const { Cell::new(NOWHERE) };
}

impl<H> Threads<H> {
    fn id(&self) -> *const () {
        core::ptr::from_ref(self).cast()
    }
}

type Payload = Box<dyn Any + Send>;

static PANICS: PanicVtable = PanicVtable { drop: drop_payload, message: |_| None, resume };

unsafe fn drop_payload(payload: NonNull<()>) {
    // SAFETY: `guard` leaked it.
    drop(unsafe { Box::from_raw(payload.cast::<Payload>().as_ptr()) });
}

unsafe fn resume(payload: NonNull<()>) -> ! {
    // SAFETY: as above.
    resume_unwind(*unsafe { Box::from_raw(payload.cast::<Payload>().as_ptr()) })
}

// SAFETY: `HERE` is the thread's own, and only `set_worker` sets it; `guard` calls once; a
// thread runs its entry once. Sleep, wake and clock are the host's contract.
unsafe impl<H: Host> Platform for Threads<H> {
    fn now(&self) -> Instant {
        self.host.now()
    }
    fn current_worker(&self) -> Option<WorkerId> {
        let here = HERE.get();
        core::ptr::eq(here.platform, self.id()).then_some(here.worker)
    }
    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        if let Some(worker) = worker {
            HERE.set(Here { platform: self.id(), worker, hook: self.hook.get().copied() });
        }
        // SAFETY: the caller's contract.
        unsafe { self.host.set_worker(worker) };
        if worker.is_none() {
            HERE.set(NOWHERE);
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
        unsafe { self.host.wait(worker, word, expected, deadline) };
    }
    fn wake(&self, worker: WorkerId, word: &AtomicU32) {
        self.host.wake(worker, word);
    }
    fn reactor(&self) -> Option<&dyn Reactor> {
        self.host.reactor()
    }
    fn start(&self, entry: WorkerEntry) -> Result<(), StartError> {
        thread::spawn(move || entry.run());
        Ok(())
    }
    fn guard(&self, poll: &mut dyn FnMut()) -> Result<(), Panic> {
        catch_unwind(AssertUnwindSafe(poll)).map_err(|payload| {
            let payload = NonNull::from(Box::leak(Box::new(payload)));
            // SAFETY: the payload is `Send`, and not shared.
            unsafe { Panic::from_raw(payload.cast(), &PANICS) }
        })
    }
    fn relax(&self, _: u32) {
        thread::yield_now();
    }
    fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        self.host.block(word, expected, deadline);
    }
    fn unblock(&self, word: &AtomicU32) {
        self.host.unblock(word);
    }
    fn event(&self, _: Option<WorkerId>, event: Event) {
        if let Some(hook) = self.hook.get() {
            hook(Some(event));
        }
    }
}

/// Gives the hook of the threads, also through a platform around them.
trait Hooked {
    fn hook(&self) -> &OnceLock<Hook>;
}
impl<H> Hooked for Threads<H> {
    fn hook(&self) -> &OnceLock<Hook> {
        &self.hook
    }
}
impl<P: Hooked> Hooked for Hostile<P> {
    fn hook(&self) -> &OnceLock<Hook> {
        self.inner().hook()
    }
}

extern "C" fn on_signal(_: libc::c_int) {
    if let Some(hook) = HERE.get().hook {
        hook(None);
    }
}

fn port() -> Port {
    fn print(line: fmt::Arguments<'_>) {
        println!("{line}");
    }
    let mut port = Port::new(print);
    // SAFETY: the handler only uses what signal handlers may: atomics, a thread local without
    // destructor, a futex.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(SIGNAL, &action, core::ptr::null_mut()), 0);
    }
    port.raise = Some(|| {
        // SAFETY: to this thread, which has the handler.
        unsafe { libc::raise(SIGNAL) };
    });
    port.foreign = Some(|waker: Waker| drop(thread::spawn(move || waker.wake())));
    port.unwinds = true;
    port.wakes = 2_000;
    port
}

fn conforms<P: Platform + Hooked + Send>(platform: P, port: Port) {
    /// Only one suite runs at a time.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // A lost wake-up is a hang.
    let _watchdog = filch_test_support::watchdog();
    let executor: &'static Executor<P, WORKERS> =
        Box::leak(Box::new(Executor::with_config(platform, CONFIG)));
    let suite: &'static Suite<P, WORKERS> = Box::leak(Box::new(Suite::new(executor, port)));
    let memory: &'static TaskPool<512, 64> = Box::leak(Box::new(TaskPool::new()));
    let hook: Hook = Box::leak(Box::new(move |event| match event {
        None => suite.on_interrupt(),
        Some(event) => suite.on_event(event),
    }));
    assert!(executor.platform().hook().set(hook).is_ok());

    let cores = (0..WORKERS as u16)
        // SAFETY: the thread is new, and the only one of this number.
        .map(|i| thread::spawn(move || unsafe { suite.contracts(WorkerId::new(i), memory) }));
    cores.collect::<Vec<_>>().into_iter().for_each(|core| core.join().unwrap());
    assert!(suite.start());
    let all: &'static TaskPool<4_096, 1> = Box::leak(Box::new(TaskPool::new()));
    let mut all = executor.spawn(all, suite.tasks(memory)).map_err(|_| "too large").unwrap();
    all.join().unwrap();
    assert_eq!(executor.shutdown(Instant::MAX, |_| {}), Ok(0));
    let (passed, failed) = suite.verdict();
    println!("{passed} passed, {failed} failed");
    assert!(passed >= 20 && failed == 0);
}

fn threads<H: Host>() -> Threads<H> {
    Threads { host: H::new().unwrap(), hook: OnceLock::new() }
}

fn hostile<H: Host>() {
    let mut port = port();
    port.stirs = None;
    let seed = 7;
    println!("seed {seed}");
    conforms(Hostile::new(threads::<H>(), seed), port);
}

#[test]
fn the_futex_host_conforms() {
    conforms(threads::<Futex>(), port());
}

#[test]
fn the_futex_host_conforms_when_it_is_hostile() {
    hostile::<Futex>();
}

#[test]
fn the_linux_host_conforms() {
    conforms(threads::<filch_linux::Linux>(), port());
}

#[test]
fn the_linux_host_conforms_when_it_is_hostile() {
    hostile::<filch_linux::Linux>();
}
