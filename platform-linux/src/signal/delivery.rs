//! What a signal does, and what it shares with the listeners.
//!
//! The handler is that of the crate signal-hook-registry, which has one for all its users in the process, calls the program's
//! own from before, and runs each user's action.

use core::{
    ffi::c_int,
    mem::MaybeUninit,
    ptr,
    sync::atomic::{AtomicU32, Ordering},
};
use std::{
    collections::{BTreeMap, btree_map},
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustix::event::{EventfdFlags, eventfd};
use signal_hook::{SigId, low_level};

/// What the handler changes when a signal comes.
#[derive(Debug)]
pub(super) struct Line {
    count: AtomicU32,
    /// An eventfd. A forked child shares it with its parent; a write may then be spurious, which is harmless.
    event: OwnedFd,
}

impl Line {
    fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { count: AtomicU32::new(0), event })
    }

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
        // It cannot fail before 2^64 signals have come; every write is an edge for epoll, read or not.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }
}

/// A signal that has been listened to.
struct Entry {
    line: Arc<Line>,
    /// The action had been the default one. The handler stays for the life of the process, as other users may rely on it; so the
    /// default action is emulated.
    was_default: bool,
    /// What tells the listeners, unless it is restored.
    strike: Option<SigId>,
    /// What emulates the default action, if it is restored.
    default: Option<SigId>,
}

/// By number.
static ENTRIES: Mutex<BTreeMap<c_int, Entry>> = Mutex::new(BTreeMap::new());

impl Entry {
    fn new(signal: c_int) -> io::Result<Self> {
        let (line, was_default) = (Arc::new(Line::new()?), is_default(signal)?);
        Ok(Self { line, was_default, strike: None, default: None })
    }

    fn listen(&mut self, signal: c_int) -> io::Result<()> {
        if self.strike.is_none() {
            let line = Arc::clone(&self.line);
            // SAFETY: async-signal-safe: an atomic, and one system call. It does not panic.
            self.strike = Some(unsafe { low_level::register(signal, move || line.strike())? });
        }
        // Until here the default action holds.
        self.default.take().map(low_level::unregister);
        Ok(())
    }

    fn restore(&mut self, signal: c_int) -> io::Result<()> {
        if self.strike.is_none() {
            return Ok(());
        }
        if self.was_default {
            // SAFETY: async-signal-safe, both functions say so.
            self.default = Some(unsafe { low_level::register(signal, move || end(signal))? });
        }
        // No signal is lost between the two.
        self.strike.take().map(low_level::unregister);
        Ok(())
    }
}

/// Does in the handler what the system does by default.
fn end(signal: c_int) {
    // It knows the standard signals. Of others the default is to end the process, here with a shell's status for it.
    if low_level::emulate_default_handler(signal).is_err() {
        low_level::exit(128 + signal);
    }
}

/// Ensures that the signal is delivered. Returns its line, and a descriptor of its eventfd for the caller (epoll needs a separate
/// descriptor for each listener of a runtime).
pub(super) fn listen(signal: c_int) -> io::Result<(Arc<Line>, OwnedFd)> {
    check(signal)?;
    let mut entries = lock();
    let entry = match entries.entry(signal) {
        btree_map::Entry::Occupied(entry) => entry.into_mut(),
        btree_map::Entry::Vacant(place) => place.insert(Entry::new(signal)?),
    };
    let event = entry.line.event.try_clone()?;
    entry.listen(signal)?;
    Ok((Arc::clone(&entry.line), event))
}

/// Restores what a signal did before it was listened to.
pub(super) fn restore(signal: c_int) -> io::Result<()> {
    lock().get_mut(&signal).map_or(Ok(()), |entry| entry.restore(signal))
}

fn check(signal: c_int) -> io::Result<()> {
    // The C library's own signals are between the standard signals and the real-time ones.
    let standard = 1..32;
    let refused =
        [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];
    if (standard.contains(&signal) || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&signal))
        && !refused.contains(&signal)
    {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("signal {signal} cannot be listened to"),
    ))
}

fn lock() -> MutexGuard<'static, BTreeMap<c_int, Entry>> {
    // A poisoned lock only means that a thread panicked; the entries stay valid.
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the signal has the system's default action now.
fn is_default(signal: c_int) -> io::Result<bool> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: it only asks: no new action, and a place on this stack for the one that is there.
    if unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system has written it.
    Ok(unsafe { action.assume_init() }.sa_sigaction == libc::SIG_DFL)
}
