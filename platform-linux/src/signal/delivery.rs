//! The handler, and what it shares with the listeners.

use core::{
    ffi::{c_int, c_void},
    mem,
    ptr::{self, null_mut},
    sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering},
};
use std::{
    io,
    os::fd::{BorrowedFd, IntoRawFd, OwnedFd},
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::event::{EventfdFlags, eventfd};

/// Signals are numbered from 1.
const SIGNALS: usize = 65;

/// The state of one signal. The handler reads and counts; the rest is written under the lock of
/// [`INSTALLED`].
///
/// - INV-BELL: once it is not [`NO_BELL`] it is an eventfd, which is never closed and never
///   replaced: a handler may be about to write to it at any time. A forked child shares it with its
///   parent; a write may then be spurious, which is harmless.
/// - INV-BEFORE: null, or an action whose handler is a function, never freed, as a handler may be
///   about to call it.
#[derive(Debug)]
pub(super) struct Line {
    count: AtomicU32,
    bell: AtomicI32,
    before: AtomicPtr<Before>,
}

/// A previous action, which the handler calls.
struct Before {
    action: libc::sigaction,
    /// The action that was called before this one, kept so that leak checkers see it.
    _older: *mut Before,
}

const NO_BELL: i32 = -1;

static LINES: [Line; SIGNALS] = [const {
    Line {
        count: AtomicU32::new(0),
        bell: AtomicI32::new(NO_BELL),
        before: AtomicPtr::new(null_mut()),
    }
}; SIGNALS];

/// For each signal that has our handler, the action that it had before.
static INSTALLED: Mutex<[Option<libc::sigaction>; SIGNALS]> = Mutex::new([None; SIGNALS]);

impl Line {
    /// How often the signal has come, modulo 2^32.
    pub(super) fn count(&self) -> u32 {
        // Ordering: Acquire pairs with the Release in `strike`: the listener sees what the sender
        // in this process did before.
        self.count.load(Ordering::Acquire)
    }

    /// The signal has come. Called from the handler: no lock, no memory.
    fn strike(&self) {
        // Ordering: Release pairs with the Acquire in `count`. It comes before the write to the
        // eventfd: a system call orders both.
        self.count.fetch_add(1, Ordering::Release);
        // Ordering: Relaxed; only the number is used, and the file existed before it.
        let bell = self.bell.load(Ordering::Relaxed);
        let one = 1_u64;
        // SAFETY: INV-BELL; eight bytes on this stack. `write` is async-signal-safe. It cannot fail
        // before 2^64 signals have come; every write is an edge for epoll, read or not.
        unsafe { libc::write(bell, ptr::from_ref(&one).cast(), mem::size_of::<u64>()) };
    }

    /// The eventfd; made if there is none.
    fn bell(&self) -> io::Result<BorrowedFd<'static>> {
        // Ordering: Relaxed; written under the lock that the caller holds.
        let mut bell = self.bell.load(Ordering::Relaxed);
        if bell == NO_BELL {
            bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?.into_raw_fd();
            // Ordering: Relaxed; as above. For the handler it is written before the handler is
            // installed.
            self.bell.store(bell, Ordering::Relaxed);
        }
        // SAFETY: INV-BELL.
        Ok(unsafe { BorrowedFd::borrow_raw(bell) })
    }
}

/// Ensures that the handler is installed. Returns the signal's line, and a descriptor of its
/// eventfd for the caller (epoll needs a separate descriptor for each listener of a runtime).
pub(super) fn listen(signal: c_int) -> io::Result<(&'static Line, OwnedFd)> {
    let line = line(signal)?;
    let mut installed = lock();
    let bell = line.bell()?.try_clone_to_owned()?;
    let slot = &mut installed[signal as usize];
    if slot.is_none() {
        *slot = Some(install(signal, line)?);
    }
    Ok((line, bell))
}

/// Restores the action from before.
pub(super) fn restore(signal: c_int) -> io::Result<()> {
    let Ok(_) = line(signal) else { return Ok(()) };
    let slot = &mut lock()[signal as usize];
    if let Some(before) = *slot {
        // SAFETY: an action that came from the system.
        unsafe { exchange(signal, Some(&before))? };
        *slot = None;
    }
    Ok(())
}

fn line(signal: c_int) -> io::Result<&'static Line> {
    // The C library's own signals are between the standard signals and the real-time ones.
    let standard = 1..32;
    let refused =
        [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
    if (standard.contains(&signal) || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&signal))
        && !refused.contains(&signal)
    {
        return Ok(&LINES[signal as usize]);
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("signal {signal} cannot be listened to"),
    ))
}

fn lock() -> MutexGuard<'static, [Option<libc::sigaction>; SIGNALS]> {
    // A poisoned lock only means that a thread panicked; the table stays valid.
    INSTALLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the handler; returns the action before.
fn install(signal: c_int, line: &Line) -> io::Result<libc::sigaction> {
    // SAFETY: only asks.
    let before = unsafe { exchange(signal, None)? };
    let ours = on_signal as *const () as libc::sighandler_t;
    // (This handler may be there already, if other code has restored it: it must not call itself.)
    let calls_on = ![libc::SIG_DFL, libc::SIG_IGN, ours].contains(&before.sa_sigaction);
    // Ordering: Relaxed; written under the lock that the caller holds.
    let older = line.before.load(Ordering::Relaxed);
    let calls_on = match calls_on {
        true => Box::into_raw(Box::new(Before { action: before, _older: older })),
        false => null_mut(),
    };
    // Written before the handler is installed, which must find it. (It stays when the action is
    // restored: a handler may be running.)
    // Ordering: Release pairs with the Acquire in `on_signal`.
    line.before.store(calls_on, Ordering::Release);
    // SAFETY: an action is plain data.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = ours;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: of the type that its flags name, and async-signal-safe, see there. Its mask is empty.
    unsafe { exchange(signal, Some(&action)) }
}

/// Sets the action, if one is given; returns the action before.
///
/// # Safety
/// The action's handler is of the type that its flags name, and may run wherever a signal
/// interrupts.
unsafe fn exchange(signal: c_int, action: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    // SAFETY: plain data.
    let mut before = unsafe { mem::zeroed() };
    let action = action.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: null or a reference, and a place on this stack. The rest is the caller's contract.
    if unsafe { libc::sigaction(signal, action, &raw mut before) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(before)
}

/// The handler. Async-signal-safe: atomics, and one system call.
extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the thread's own; the interrupted code may be about to read it.
    let errno = unsafe { *libc::__errno_location() };
    let line = &LINES[signal as usize];
    line.strike();
    // Ordering: Acquire pairs with the Release in `install`.
    // SAFETY: INV-BEFORE.
    if let Some(before) = unsafe { line.before.load(Ordering::Acquire).as_ref() } {
        // SAFETY: the program's own handler for this signal, called as the system would.
        unsafe { call(&before.action, signal, info, context) };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// # Safety
/// INV-BEFORE; in a handler of this signal, with what it was given.
unsafe fn call(
    action: &libc::sigaction,
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    type WithInfo = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
    type Plain = extern "C" fn(c_int);
    if action.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the flag means that the function is of this type.
        let handler: WithInfo = unsafe { mem::transmute(action.sa_sigaction) };
        handler(signal, info, context);
    } else {
        // SAFETY: without the flag it is of this type.
        let handler: Plain = unsafe { mem::transmute(action.sa_sigaction) };
        handler(signal);
    }
}
