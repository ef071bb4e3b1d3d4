//! Where another thread is: a signal makes it write down the addresses of its frames.

use core::{
    ffi::c_int,
    fmt::Write,
    mem, ptr,
    sync::atomic::{AtomicI32, AtomicUsize, Ordering},
    time::Duration,
};
use std::{
    sync::{Mutex, OnceLock, TryLockError},
    thread,
};

/// Frames that are kept; the innermost ones.
const FRAMES: usize = 64;
/// How long a thread has to answer.
const PATIENCE: Duration = Duration::from_millis(200);

/// The thread that is asked. INV-ASKED: while it is that, the handler in this thread alone writes `PLACES` and `COUNT`.
static ASKED: AtomicI32 = AtomicI32::new(0);
static PLACES: [AtomicUsize; FRAMES] = [const { AtomicUsize::new(0) }; FRAMES];
/// How many there are; `NONE` until the thread has answered.
static COUNT: AtomicUsize = AtomicUsize::new(NONE);
const NONE: usize = usize::MAX;

/// Held by the thread that asks.
static ASKS: Mutex<()> = Mutex::new(());

/// The calling thread, as the system numbers it.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: it takes nothing.
    unsafe { libc::gettid() }
}

/// The stack of a thread of this process, the innermost frame first, a line each; none if the thread does not answer, or is gone.
pub(crate) fn of(thread: i32) -> Option<String> {
    let _asks = match ASKS.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    let signal = signal()?;
    COUNT.store(NONE, Ordering::Relaxed);
    // Ordering: Release pairs with the Acquire in `on_signal`: it comes after the store of `COUNT`.
    ASKED.store(thread, Ordering::Release);
    // SAFETY: numbers; a thread that is gone is an error.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) } == 0;
    let mut waited = Duration::ZERO;
    let step = Duration::from_micros(200);
    // Ordering: Acquire pairs with the Release in `on_signal`: the addresses are there.
    while sent && COUNT.load(Ordering::Acquire) == NONE && waited < PATIENCE {
        thread::sleep(step);
        waited += step;
    }
    // If it has not answered, its answer is not taken any more.
    // Ordering: AcqRel pairs with that of the exchange in `on_signal`.
    let answers = ASKED.swap(0, Ordering::AcqRel) == 0;
    let count = COUNT.load(Ordering::Acquire);
    (answers && count != NONE).then(|| describe(&PLACES[..count.min(FRAMES)]))
}

/// The signal that this uses, with its handler; none if the program uses it.
fn signal() -> Option<c_int> {
    static SIGNAL: OnceLock<Option<c_int>> = OnceLock::new();
    *SIGNAL.get_or_init(install)
}

fn install() -> Option<c_int> {
    let signal = libc::SIGRTMAX() - 7;
    // SAFETY: all zeros is the default action; the system writes the old one. The handler has the type that goes with no flag of `SA_SIGINFO`.
    unsafe {
        let mut before: libc::sigaction = mem::zeroed();
        let asked = libc::sigaction(signal, ptr::null(), &mut before);
        if asked != 0 || before.sa_sigaction != libc::SIG_DFL {
            return None;
        }
        let handler: extern "C" fn(c_int) = on_signal;
        let mut ours: libc::sigaction = mem::zeroed();
        ours.sa_sigaction = handler as usize;
        // The system goes on with the call that it interrupts. On the thread's own stack: the signal stack is small.
        ours.sa_flags = libc::SA_RESTART;
        (libc::sigaction(signal, &ours, ptr::null_mut()) == 0).then_some(signal)
    }
}

extern "C" fn on_signal(_: c_int) {
    // The code that is interrupted may look at it.
    // SAFETY: the C library's own place for it, of this thread.
    let errno = unsafe { *libc::__errno_location() };
    // Ordering: Acquire pairs with the Release in `of`.
    if ASKED.load(Ordering::Acquire) == thread_id() {
        let mut count = 0;
        // SAFETY: INV-ASKED: one thread at a time walks its own stack here.
        unsafe {
            backtrace::trace_unsynchronized(|frame| {
                if let Some(place) = PLACES.get(count) {
                    place.store(frame.ip().addr(), Ordering::Relaxed);
                    count += 1;
                }
                count < FRAMES
            });
        }
        // Ordering: Release pairs with the Acquire in `of`. AcqRel of the exchange: if the other thread asks no longer, it reads nothing.
        COUNT.store(count, Ordering::Release);
        let _ = ASKED.compare_exchange(thread_id(), 0, Ordering::AcqRel, Ordering::Relaxed);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Names and lines of these addresses. What belongs to the handler is left out.
fn describe(places: &[AtomicUsize]) -> String {
    let mut lines = Vec::new();
    for place in places {
        let address = ptr::without_provenance_mut(place.load(Ordering::Relaxed));
        backtrace::resolve(address, |symbol| {
            let Some(name) = symbol.name() else { return };
            let mut line = format!("  {name:#}");
            if let (Some(file), Some(number)) = (symbol.filename(), symbol.lineno()) {
                let _ = write!(line, " ({}:{number})", file.display());
            }
            lines.push(line);
        });
    }
    // The handler, and the frame that the system puts below it.
    let of_handler =
        |line: &String| line.contains("stacks::on_signal") || line.contains("restore_rt");
    let first = lines.iter().rposition(of_handler).map_or(0, |last| last + 1);
    lines[first..].join("\n")
}
