//! Where another thread is: a signal makes it write down the addresses of its frames.

use core::{
    cell::Cell,
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

/// The thread that is asked, `ANSWERS` while it writes, or 0. INV-ASKED: the handler that has made it `ANSWERS` alone writes `PLACES` and
/// `COUNT`, until it makes it 0.
static ASKED: AtomicI32 = AtomicI32::new(0);
const ANSWERS: i32 = -1;
static PLACES: [AtomicUsize; FRAMES] = [const { AtomicUsize::new(0) }; FRAMES];
/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Held by the thread that asks.
static ASKS: Mutex<()> = Mutex::new(());

/// The handler and the unwinder need less than this.
const ROOM: usize = 32 << 10;

thread_local! {
    // Without a destructor: the handler reads it.
    /// The stack of the thread, from its lowest address on, once it is a worker.
    static STACK: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// The calling thread, as the system numbers it. It may be asked from now on.
pub(crate) fn thread_id() -> i32 {
    if STACK.get().1 == 0 {
        STACK.set(own_stack().unwrap_or((0, 1)));
    }
    gettid()
}

fn gettid() -> i32 {
    // SAFETY: it takes nothing.
    unsafe { libc::gettid() }
}

fn own_stack() -> Option<(usize, usize)> {
    let (mut low, mut size) = (ptr::null_mut(), 0);
    // SAFETY: all zeros is room for attributes, which the first call fills and the last one ends.
    unsafe {
        let mut attributes: libc::pthread_attr_t = mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return None;
        }
        let known = libc::pthread_attr_getstack(&attributes, &mut low, &mut size) == 0;
        libc::pthread_attr_destroy(&mut attributes);
        known.then_some((low.addr(), size))
    }
}

/// The stack of a thread of this process, the innermost frame first, a line each; none if the thread does not answer, or is gone.
pub(crate) fn of(thread: i32) -> Option<String> {
    let _asks = match ASKS.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    let signal = signal()?;
    // One that was asked before may still be at it.
    // Ordering: Acquire pairs with the Release in `answer`; Release with the Acquire there.
    let (set, load) = (Ordering::AcqRel, Ordering::Relaxed);
    if thread <= 0 || ASKED.compare_exchange(0, thread, set, load).is_err() {
        return None;
    }
    // SAFETY: numbers; a thread that is gone is an error.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) } == 0;
    let mut waited = Duration::ZERO;
    let step = Duration::from_micros(200);
    // Ordering: Acquire pairs with the Release in `answer`: the addresses are there.
    while sent && ASKED.load(Ordering::Acquire) != 0 && waited < PATIENCE {
        thread::sleep(step);
        waited += step;
    }
    // Ordering: Acquire as above.
    let given_up = ASKED.compare_exchange(thread, 0, Ordering::Acquire, Ordering::Acquire);
    let count = COUNT.load(Ordering::Relaxed);
    (given_up == Err(0) && count > 0).then(|| describe(&PLACES[..count.min(FRAMES)]))
}

/// The signal that this uses, with its handler; none if the program uses it.
fn signal() -> Option<c_int> {
    static SIGNAL: OnceLock<Option<c_int>> = OnceLock::new();
    *SIGNAL.get_or_init(install)
}

fn install() -> Option<c_int> {
    let signal = libc::SIGRTMAX() - 7;
    // SAFETY: all zeros is the default action; the system writes the old one. The handler has the type that goes with no flag of
    // `SA_SIGINFO`.
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
    answer();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Writes down the frames of this thread, if it is the one that is asked.
fn answer() {
    // Ordering: AcqRel pairs with that of the exchanges in `of`: the answers come after each other.
    let (set, load) = (Ordering::AcqRel, Ordering::Relaxed);
    if ASKED.compare_exchange(gettid(), ANSWERS, set, load).is_err() {
        return;
    }
    let mut count = 0;
    if has_room() {
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
    }
    COUNT.store(count, Ordering::Relaxed);
    // Ordering: Release pairs with the Acquires in `of`: they see the addresses.
    ASKED.store(0, Ordering::Release);
}

/// Whether the unwinder has room: not near the end of the stack, nor on a coroutine's, whose end is not known.
fn has_room() -> bool {
    let (low, size) = STACK.get();
    let here = (&raw const size).addr();
    here.checked_sub(low).is_some_and(|room| room >= ROOM && room < size)
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
    let of_handler = |line: &String| {
        line.contains("stacks::on_signal")
            || line.contains("stacks::answer")
            || line.contains("restore_rt")
    };
    let first = lines.iter().rposition(of_handler).map_or(0, |last| last + 1);
    lines[first..].join("\n")
}
