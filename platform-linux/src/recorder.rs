//! Files of the flight recorder: on a signal, and when the program crashes.
//!
//! ```no_run
//! use filch_linux::{recorder, signal::SignalKind};
//!
//! let runtime = filch_linux::Builder::new().recorder(4096).build()?;
//! recorder::save_on_crash(*runtime.handle(), "crash.trace")?;
//! runtime.block_on(async {
//!     // `kill -USR2 PID`, then `filch-trace summary filch.trace`.
//!     recorder::save_on(SignalKind::user_defined2(), "filch.trace")?.detach();
//!     // ...
//!     Ok(())
//! })
//! # as std::io::Result<()>;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::{
    ffi::{c_int, c_void},
    fmt, mem,
    ptr::{self, null_mut},
    sync::atomic::{AtomicBool, Ordering},
};
use std::{
    ffi::{CStr, CString},
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    thread,
};

use filch_std::{
    Handle, JoinHandle,
    runtime::{LongPoll, NoRuntime},
};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::signal::{SignalKind, signal};

/// Writes what the current runtime did last to this file, whenever the signal comes: a task, until its handle aborts it. Each file takes
/// the place of the last.
///
/// # Errors
/// `NotConnected` if the calling thread is in no runtime; `Unsupported` if that has no recorder; those of [`signal()`]. An error of a later
/// write ends the task, as its output.
pub fn save_on(
    kind: SignalKind,
    path: impl Into<PathBuf>,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let handle = current_recorded()?;
    let mut signals = signal(kind)?;
    let path = path.into();
    Ok(handle.spawn(async move {
        loop {
            signals.recv().await?;
            let path = path.clone();
            match handle.spawn_blocking(move || save(handle, &path)).await {
                Ok(saved) => saved?,
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }))
}

/// A hook for [`Builder::on_long_poll`](crate::Builder::on_long_poll): prints the poll, and writes what the runtime did last to this file,
/// on the blocking pool. Each file takes the place of the last; while one is written, other polls are printed alone.
///
/// ```no_run
/// use core::time::Duration;
/// let runtime = filch_linux::Builder::new()
///     .recorder(4096)
///     .poll_limit(Some(Duration::from_millis(10)))
///     .on_long_poll(filch_linux::recorder::save_long_poll("long-poll.trace"))
///     .build()?;
/// # Ok::<(), filch_linux::runtime::BuildError>(())
/// ```
pub fn save_long_poll(path: impl Into<PathBuf>) -> impl Fn(LongPoll) + Send + Sync + 'static {
    let (path, writes) = (path.into(), Arc::new(AtomicBool::new(false)));
    move |poll| {
        // It must not panic, as `eprintln` does when the standard error is closed.
        let say = |what: &dyn fmt::Display| drop(writeln!(io::stderr(), "filch: {what}"));
        let handle = current_recorded().ok();
        let Some(handle) = handle.filter(|_| !writes.swap(true, ORDER)) else {
            return say(&poll);
        };
        let (path, writes) = (path.clone(), Arc::clone(&writes));
        let save = move || {
            match save(handle, &path) {
                Ok(()) => say(&format_args!("{poll}: see {}", path.display())),
                Err(error) => say(&format_args!("{poll}; {}: {error}", path.display())),
            }
            writes.store(false, ORDER);
        };
        handle.spawn_blocking(save).detach();
    }
}

/// Ordering: Relaxed: it keeps two from writing one file at the same time, and orders nothing.
const ORDER: Ordering = Ordering::Relaxed;

fn save(handle: Handle, path: &Path) -> io::Result<()> {
    handle.snapshot().ok_or_else(no_recorder)?.save(path)
}

/// The current runtime, which has a recorder.
pub(crate) fn current_recorded() -> io::Result<Handle> {
    let no_runtime = |error: NoRuntime| io::Error::new(ErrorKind::NotConnected, error);
    recorded(Handle::current().map_err(no_runtime)?)
}

fn recorded(handle: Handle) -> io::Result<Handle> {
    if handle.is_recorded() { Ok(handle) } else { Err(no_recorder()) }
}

fn no_recorder() -> io::Error {
    io::Error::new(ErrorKind::Unsupported, "the runtime has no recorder (`Builder::recorder`)")
}

/// What the handler of a crash needs.
struct Crash {
    handle: Handle,
    /// A thread reads from its other end, and writes the file then: the stack of a signal handler may be small.
    tell: OwnedFd,
    /// What these signals did before: by the places in [`FATAL`].
    before: [libc::sigaction; FATAL.len()],
}

// SAFETY: `sigaction` has pointers to functions alone.
unsafe impl Send for Crash {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for Crash {}

static CRASH: OnceLock<Crash> = OnceLock::new();
/// The file is written.
static WRITTEN: AtomicBool = AtomicBool::new(false);
/// So many milliseconds the handler waits for that.
const PATIENCE: u32 = 5_000;

/// Signals that end a program which is at fault, and their names.
const FATAL: [(c_int, &str); 6] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGTRAP, "SIGTRAP"),
];

/// Writes what this runtime did last to this file when the program crashes: an abort, a fault, a stack overflow. The signal's name is the
/// trace's note. The file is made now, if it is not there, and keeps what it has until then.
///
/// A thread waits for the crash, and writes. It allocates nothing and takes no lock, so that it works also if another thread crashed in the
/// allocator. Afterwards the signal does what it did before; a `SIGSEGV` or `SIGBUS` that a process has sent
/// ends this one. All this is for the life of the process, and for one runtime.
///
/// # Errors
/// `AlreadyExists` after a first call; `Unsupported` if the runtime has no recorder; those of the file system, of threads and of `sigaction`.
pub fn save_on_crash(handle: Handle, path: impl AsRef<Path>) -> io::Result<()> {
    let handle = recorded(handle)?;
    if CRASH.get().is_some() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    // The program may have been started anew after a crash: what is there stays until the next one.
    let path = path.as_ref();
    drop(OpenOptions::new().create(true).append(true).open(path)?);
    let path = CString::new(path.as_os_str().as_bytes())?;
    let (told, tell) = pipe_with(PipeFlags::CLOEXEC)?;
    let told = File::from(told);
    let mut before = [action(); FATAL.len()];
    for ((signal, _), before) in FATAL.iter().zip(&mut before) {
        // SAFETY: it asks for the action.
        if unsafe { libc::sigaction(*signal, ptr::null(), before) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // It ends if the other end of its pipe is dropped.
    let thread = thread::Builder::new().name(String::from("filch-crash"));
    deaf(|| thread.spawn(move || wait_for_crash(handle, told, &path)))?;
    CRASH.set(Crash { handle, tell, before }).map_err(|_| ErrorKind::AlreadyExists)?;
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_crash;
    let mut ours = action();
    ours.sa_sigaction = handler as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    for (signal, _) in FATAL {
        // SAFETY: the handler has the type that the flags say.
        if unsafe { libc::sigaction(signal, &ours, null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn action() -> libc::sigaction {
    // SAFETY: all zeros is the default action with an empty mask.
    unsafe { mem::zeroed() }
}

/// Starts a thread that takes none of these signals from its first instruction on: it has the mask of the thread that starts it. What is
/// sent to the process goes to another one; the thread that writes the file would wait for itself.
fn deaf<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: sets of signals on this stack.
    unsafe {
        let (mut fatal, mut before) = (mem::zeroed(), mem::zeroed());
        libc::sigemptyset(&mut fatal);
        for (signal, _) in FATAL {
            libc::sigaddset(&mut fatal, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &fatal, &mut before);
        let started = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut());
        started
    }
}

/// The thread that writes the file.
fn wait_for_crash(handle: Handle, mut told: File, path: &CStr) {
    let mut signal = [0];
    if told.read_exact(&mut signal).is_err() {
        return;
    }
    let number = c_int::from(signal[0]);
    let name = FATAL.iter().find(|(fatal, _)| *fatal == number).map_or("", |(_, name)| name);
    // The file may have been replaced since; and the standard library may allocate for a path.
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
    // SAFETY: a path that ends with a zero.
    let file = unsafe { libc::open(path.as_ptr(), flags, 0o644) };
    if file < 0 {
        // Ordering: Release, as below: nothing was written.
        return WRITTEN.store(true, Ordering::Release);
    }
    // SAFETY: a descriptor that nothing else has.
    let mut file = unsafe { File::from_raw_fd(file) };
    let mut out = Out { buffer: [0; 4096], len: 0 };
    handle.dump(name, &mut |bytes| out.write(bytes, &mut file));
    out.flush(&mut file);
    // Ordering: Release pairs with the Acquire in `on_crash`; the system has the file in any case.
    WRITTEN.store(true, Ordering::Release);
}

extern "C" fn on_crash(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    let Some(crash) = CRASH.get() else { return };
    // A forked child has no thread that writes.
    if crash.handle.is_recorded() {
        let byte = signal as u8;
        // SAFETY: one byte of this stack. The first one is read; more than one thread may crash, and none waits for room.
        unsafe { libc::write(crash.tell.as_raw_fd(), (&raw const byte).cast(), 1) };
        let moment = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        for _ in 0..PATIENCE {
            // Ordering: Acquire pairs with the Release in `wait_for_crash`.
            if WRITTEN.load(Ordering::Acquire) {
                break;
            }
            // SAFETY: it sleeps.
            unsafe { libc::nanosleep(&moment, null_mut()) };
        }
    }
    // SAFETY: the system's pointer to what is known of the signal.
    let is_sent = unsafe { (*info).si_code } <= 0;
    let place = FATAL.iter().position(|(number, _)| *number == signal);
    let before = match place {
        // The standard library's handler takes it for a fault, and would return, for the fault to come again.
        Some(place) if !is_sent || signal != libc::SIGSEGV && signal != libc::SIGBUS => {
            crash.before[place]
        }
        _ => action(),
    };
    // SAFETY: an action that the system has given, or the default one.
    unsafe {
        libc::sigaction(signal, &before, null_mut());
        // An instruction at fault is at fault again. A trap lies behind, and what a process has sent too: they come again at the return.
        if is_sent || signal == libc::SIGTRAP {
            libc::raise(signal);
        }
    }
}

/// What goes to a file, without the allocator.
struct Out {
    buffer: [u8; 4096],
    len: usize,
}

impl Out {
    fn write(&mut self, bytes: &[u8], file: &mut File) {
        if self.len + bytes.len() > self.buffer.len() {
            self.flush(file);
        }
        if let Some(room) = self.buffer.get_mut(self.len..self.len + bytes.len()) {
            room.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    fn flush(&mut self, file: &mut File) {
        // No room may be left, or the file is gone: what is there must do.
        let _ = file.write_all(&self.buffer[..self.len]);
        self.len = 0;
    }
}
