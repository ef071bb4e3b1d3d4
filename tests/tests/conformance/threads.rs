//! Threads as a platform, over a host; signals are their interrupts.

use core::{cell::Cell, fmt, mem, ptr, ptr::null, task::Waker};
use std::{io, sync::OnceLock, thread};

use filch::{
    Event, Instant, Panic, Platform, Reactor, StartError, WorkerEntry, WorkerId, atomic::AtomicU32,
};
use filch_conformance::{Hostile, Port};
use filch_std::runtime::Host;

/// A signal handler runs in program order with its thread, so a signal at any point needs nothing
/// more than this.
const SIGNAL: libc::c_int = libc::SIGUSR2;

pub(crate) type Hook = &'static (dyn Fn(Option<Event>) + Sync);

/// A platform of threads over a host.
pub(crate) struct Threads<H> {
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
        filch_std::internal::contain(poll)
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
pub(crate) trait Hooked {
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

impl<H: Host> Threads<H> {
    pub(crate) fn new() -> Self {
        Self { host: H::new().unwrap(), hook: OnceLock::new() }
    }
}

/// A port with the hooks of threads. The signal's handler calls the platform's hook.
pub(crate) fn port(print: fn(fmt::Arguments<'_>)) -> Port {
    let mut port = Port::new(print);
    // SAFETY: the handler only uses what signal handlers may: atomics, a thread local without
    // destructor, a futex.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(SIGNAL, &action, ptr::null_mut()), 0);
    }
    port.raise = Some(|| {
        // SAFETY: to this thread, which has the handler.
        unsafe { libc::raise(SIGNAL) };
    });
    port.alarm = Some(|nanos| ALARM.with(|alarm| alarm.set(nanos)));
    port.foreign = Some(|waker: Waker| drop(thread::spawn(move || waker.wake())));
    port.unwinds = true;
    port.wakes = 2_000;
    port
}

thread_local! {
    static ALARM: Alarm = Alarm::new();
}

/// A timer of the operating system that sends the signal to the thread that made it.
struct Alarm(libc::timer_t);

impl Alarm {
    fn new() -> Self {
        let mut timer = ptr::null_mut();
        // SAFETY: an event of zeroes is valid, and the fields that `SIGEV_THREAD_ID` reads are set.
        let made = unsafe {
            let mut event: libc::sigevent = mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = SIGNAL;
            event.sigev_notify_thread_id = libc::gettid();
            libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer)
        };
        assert_eq!(made, 0, "{}", io::Error::last_os_error());
        Self(timer)
    }

    fn set(&self, nanos: u32) {
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero would turn it off.
        let nanos = libc::c_long::from(nanos.clamp(1, 999_999_999) as i32);
        let once = libc::itimerspec {
            it_interval: none,
            it_value: libc::timespec { tv_sec: 0, tv_nsec: nanos },
        };
        // SAFETY: the timer is this thread's, and lives.
        let set = unsafe { libc::timer_settime(self.0, 0, &once, ptr::null_mut()) };
        assert_eq!(set, 0, "{}", io::Error::last_os_error());
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: it is not used again.
        unsafe { libc::timer_delete(self.0) };
    }
}
