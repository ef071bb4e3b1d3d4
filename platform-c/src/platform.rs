//! The machine below, as a table of C functions.

use core::ffi::{c_char, c_void};

use filch::{
    Context, Instant, Platform, StartError, WorkerEntry, WorkerId,
    atomic::{AtomicU32, Ordering},
};

use crate::{
    FILCH_ABI,
    filch_status::{self, *},
    object::{Object, kind},
    status::attempt,
};

/// A deadline that never comes.
pub const FILCH_NEVER: u64 = 0xFFFF_FFFF_FFFF_FFFF;
/// What `current_worker` returns in a context that is no worker.
pub const FILCH_NO_WORKER: i32 = -1;
/// What `context` returns where the code may wait for other contexts: a thread, a core outside of its handlers.
pub const FILCH_THREAD: i32 = 0;
/// What `context` returns in an interrupt or signal handler.
pub const FILCH_HANDLER: i32 = 1;

/// The word that a worker or a thread sleeps on. Other contexts change it: read it by `filch_load`, or atomically with acquire.
#[repr(C)]
#[derive(Debug)]
pub struct filch_word {
    /// Its value.
    pub value: u32,
}

/// What the program does for the executor: its clock, the current worker, sleeping and waking. `filch_init` copies the table.
///
/// The first five functions must be there, the others may be null. `data` is passed to each. All may be called by several contexts
/// at once. No function may leave by `longjmp` or by a C++ exception.
///
/// Memory safety rests on `current_worker` and `set_worker`, and that no wake-up is lost rests on `wait` and `wake`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct filch_platform {
    /// `FILCH_ABI`.
    pub abi: u32,
    /// Passed to each function; the executor does not look at it.
    pub data: *mut c_void,
    /// Monotonic time in nanoseconds, from any origin. It never goes back, as seen by one context. From any context.
    pub now: Option<unsafe extern "C" fn(data: *mut c_void) -> u64>,
    /// The number of the worker that the calling context may be (of a core: its number), or `FILCH_NO_WORKER`. Two contexts never
    /// get the same number at the same time; an interrupt handler may get the number of what it interrupted. From any context, on
    /// each wake and spawn.
    pub current_worker: Option<unsafe extern "C" fn(data: *mut c_void) -> i32>,
    /// `FILCH_THREAD` or `FILCH_HANDLER`. From any context.
    pub context: Option<unsafe extern "C" fn(data: *mut c_void) -> i32>,
    /// Sleeps, in the context of this worker, while the word has the value `expected`, until a `wake` for the worker or until
    /// `deadline` (`FILCH_NEVER`: none). Returns at once if the word has another value. It may return early for no reason. A `wake`
    /// after a change of the word always ends a `wait` that saw the old value: check the word with interrupts masked, and halt so
    /// that a pending interrupt ends the halt.
    pub wait: Option<
        unsafe extern "C" fn(
            data: *mut c_void,
            worker: u32,
            word: *const filch_word,
            expected: u32,
            deadline: u64,
        ),
    >,
    /// Ends the `wait` of this worker; its word has changed before the call. From any context: it waits for nothing.
    pub wake: Option<unsafe extern "C" fn(data: *mut c_void, worker: u32, word: *const filch_word)>,
    /// The calling context becomes this worker, or, with `FILCH_NO_WORKER`, stops being the one that it is. Null if a context is
    /// one worker for ever, as a core is.
    pub set_worker: Option<unsafe extern "C" fn(data: *mut c_void, worker: i32)>,
    /// Starts a context (a thread, a core) that calls `filch_entry_run` on a copy of the entry, once, and returns 0. Or does not,
    /// and returns another number; then the entry is no longer valid. Null if contexts come by themselves and call `filch_run`.
    pub start: Option<
        unsafe extern "C" fn(data: *mut c_void, worker: u32, entry: *const filch_entry) -> i32,
    >,
    /// Called between two looks for work: a hint to the processor in rounds 0 to 5, a yield of the core in later ones. Null: a hint.
    pub relax: Option<unsafe extern "C" fn(data: *mut c_void, round: u32)>,
    /// As `wait`, for a thread that is no worker and waits in `filch_join` or `filch_shutdown`. Null: it spins.
    pub block: Option<
        unsafe extern "C" fn(
            data: *mut c_void,
            word: *const filch_word,
            expected: u32,
            deadline: u64,
        ),
    >,
    /// Ends every `block` on this word, which has changed. From any context: it waits for nothing. Null if `block` is null.
    pub unblock: Option<unsafe extern "C" fn(data: *mut c_void, word: *const filch_word)>,
    /// The library has found a defect of its own: prints the message and ends the program. It must not return. Called if the
    /// library has its panic handler (the one that `build.sh` builds has); of several executors, that of the first one.
    pub panic: Option<unsafe extern "C" fn(data: *mut c_void, message: *const c_char)>,
}

/// A worker to be started: see `start` of `filch_platform`. It is passed on by copying it; one of the copies is used, once.
#[repr(C)]
#[derive(Debug)]
pub struct filch_entry {
    _opaque: [usize; 5],
}

kind!(filch_entry, WorkerEntry, 1, moves: true);

/// The table, of which the first five functions are there.
#[derive(Debug)]
pub(crate) struct Table {
    now: unsafe extern "C" fn(*mut c_void) -> u64,
    current_worker: unsafe extern "C" fn(*mut c_void) -> i32,
    context: unsafe extern "C" fn(*mut c_void) -> i32,
    wait: unsafe extern "C" fn(*mut c_void, u32, *const filch_word, u32, u64),
    wake: unsafe extern "C" fn(*mut c_void, u32, *const filch_word),
    /// The table as it was given, for the other functions.
    pub(crate) given: filch_platform,
}

// SAFETY: the C program promises that any context may call the functions, with this `data`.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Table {
    /// # Safety
    /// `from` is null, or points to a table.
    pub(crate) unsafe fn new(from: *const filch_platform) -> Result<Self, filch_status> {
        // SAFETY: the caller's.
        let given = *unsafe { from.as_ref() }.ok_or(FILCH_ENULL)?;
        if given.abi != FILCH_ABI {
            return Err(FILCH_EABI);
        }
        let filch_platform { now, current_worker, context, wait, wake, .. } = given;
        if given.block.is_some() != given.unblock.is_some() {
            return Err(FILCH_ENULL);
        }
        Ok(Self {
            now: now.ok_or(FILCH_ENULL)?,
            current_worker: current_worker.ok_or(FILCH_ENULL)?,
            context: context.ok_or(FILCH_ENULL)?,
            wait: wait.ok_or(FILCH_ENULL)?,
            wake: wake.ok_or(FILCH_ENULL)?,
            given,
        })
    }

    /// Fails in a handler.
    pub(crate) fn no_handler(&self) -> Result<(), filch_status> {
        if self.context() == Context::Handler { Err(FILCH_ECONTEXT) } else { Ok(()) }
    }
}

/// The core's word as C sees it.
fn word_of(word: &AtomicU32) -> *const filch_word {
    core::ptr::from_ref(word).cast()
}

fn nanos(deadline: Option<Instant>) -> u64 {
    deadline.map_or(FILCH_NEVER, Instant::as_nanos)
}

// SAFETY: these are the promises of `filch_platform`, which the C program makes. Guard: the default, which calls once; C functions
// do not panic.
unsafe impl Platform for Table {
    fn now(&self) -> Instant {
        // SAFETY: the C program's promise.
        Instant::from_nanos(unsafe { (self.now)(self.given.data) })
    }

    fn current_worker(&self) -> Option<WorkerId> {
        // SAFETY: the C program's promise.
        let number = unsafe { (self.current_worker)(self.given.data) };
        u16::try_from(number).ok().map(WorkerId::new)
    }

    fn context(&self) -> Context {
        // SAFETY: the C program's promise.
        let context = unsafe { (self.context)(self.given.data) };
        if context == FILCH_THREAD { Context::Thread } else { Context::Handler }
    }

    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        if let Some(set) = self.given.set_worker {
            let worker = worker.map_or(FILCH_NO_WORKER, |id| id.index() as i32);
            // SAFETY: the C program's promise.
            unsafe { set(self.given.data, worker) };
        }
    }

    unsafe fn wait(&self, id: WorkerId, word: &AtomicU32, expected: u32, end: Option<Instant>) {
        let worker = id.index() as u32;
        // SAFETY: the C program's promise.
        unsafe { (self.wait)(self.given.data, worker, word_of(word), expected, nanos(end)) };
    }

    fn wake(&self, worker: WorkerId, word: &AtomicU32) {
        // SAFETY: the C program's promise.
        unsafe { (self.wake)(self.given.data, worker.index() as u32, word_of(word)) };
    }

    fn start(&self, entry: WorkerEntry) -> Result<(), StartError> {
        let Some(start) = self.given.start else { return Err(StartError::Unsupported) };
        let (id, mut copy) = (entry.worker(), filch_entry { _opaque: [0; 5] });
        // SAFETY: the copy is ours. If the program takes it, it is not used here again; else it is dropped, which says that the
        // worker does not come.
        unsafe {
            Object::make(&raw mut copy, entry);
            match start(self.given.data, id.index() as u32, &raw const copy) {
                0 => Ok(()),
                code => {
                    let _ = Object::drop(&raw mut copy);
                    Err(StartError::Refused(code))
                }
            }
        }
    }

    fn relax(&self, round: u32) {
        match self.given.relax {
            // SAFETY: the C program's promise.
            Some(relax) => unsafe { relax(self.given.data, round) },
            None => core::hint::spin_loop(),
        }
    }

    fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        if let Some(block) = self.given.block {
            // SAFETY: the C program's promise.
            return unsafe { block(self.given.data, word_of(word), expected, nanos(deadline)) };
        }
        // Ordering: Acquire pairs with the Release of the caller of `unblock`, which changes the word before.
        while word.load(Ordering::Acquire) == expected
            && deadline.is_none_or(|end| self.now() < end)
        {
            self.relax(u32::MAX);
        }
    }

    fn unblock(&self, word: &AtomicU32) {
        if let Some(unblock) = self.given.unblock {
            // SAFETY: the C program's promise.
            unsafe { unblock(self.given.data, word_of(word)) };
        }
    }
}

/// The value of a word that the executor has passed to a function of the platform, read with acquire; 0 for null. From any context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_load(word: *const filch_word) -> u32 {
    // Ordering: Acquire pairs with the Release of the context that changed the word.
    // SAFETY: the caller's: a word that the executor has passed.
    unsafe { word.cast::<AtomicU32>().as_ref() }.map_or(0, |word| word.load(Ordering::Acquire))
}

/// The calling context becomes the worker of the entry, and works until the executor has shut down. From the context that `start`
/// of the platform has started; the entry is used up.
///
/// FILCH_OK at the end; FILCH_ENULL, FILCH_EINIT (run before).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_entry_run(entry: *mut filch_entry) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's. The value moves out, and the cookie goes with it.
        let run = unsafe { Object::take(entry)? };
        run.run();
        Ok(FILCH_OK)
    })
}
