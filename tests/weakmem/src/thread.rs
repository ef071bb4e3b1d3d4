//! Simulated threads, as in [`std::thread`]; one runs at a time.

use core::{mem::ManuallyDrop, panic::Location};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    atomic::{AtomicU32, Ordering},
    futex, run,
};

/// A word whose end needs no order: its references are counted outside of the run.
pub(crate) type Word = Arc<ManuallyDrop<AtomicU32>>;

/// A handle to a thread's result.
pub struct JoinHandle<T> {
    result: Arc<Mutex<Option<T>>>,
    done: Word,
    thread: Thread,
}

impl<T> core::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("JoinHandle").field(&self.thread.id).finish()
    }
}

/// Identifies a thread, for [`unpark`](Self::unpark).
#[derive(Clone, Debug)]
pub struct Thread {
    id: usize,
    token: Word,
}

/// Spawns a thread, which sees what its parent has seen. A switch point.
///
/// `f` need not be `Send`: all simulated threads run on one real thread. A panic that `f` does not
/// catch ends the run. The run ends when all threads have.
///
/// # Panics
/// Outside of a check.
#[track_caller]
pub fn spawn<T: 'static>(f: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
    let site = Location::caller();
    let result = Arc::new(Mutex::new(None));
    let done = word();
    let body = {
        let (result, done) = (Arc::clone(&result), Arc::clone(&done));
        move || {
            let value = f();
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            // Ordering: Release pairs with the Acquire in `join`.
            done.store(1, Ordering::Release);
            futex::wake_all(&done);
        }
    };
    let id = run::step(site, |run, _| Ok(run.spawn(Box::new(body), site)));
    let Some(id) = id else { panic!("a simulated thread outside of a check") };
    JoinHandle { result, done, thread: thread(id) }
}

impl<T> JoinHandle<T> {
    /// Waits for the thread. It cannot have panicked, as that would have ended the run: the result
    /// only has the form of [`std::thread::JoinHandle::join`].
    ///
    /// # Errors
    /// None.
    #[track_caller]
    pub fn join(self) -> std::thread::Result<T> {
        let site = Location::caller();
        // Ordering: Acquire pairs with the Release in `spawn`. A read-modify-write, which never
        // reads an old value.
        while self.done.fetch_or(0, Ordering::Acquire) == 0 {
            futex::wait_at(&self.done, 0, site);
        }
        let value = self.result.lock().unwrap_or_else(PoisonError::into_inner).take();
        match value {
            Some(value) => Ok(value),
            None => unreachable!("it is written before `done`"),
        }
    }

    /// Whether the thread has ended, as far as the caller has seen.
    #[track_caller]
    pub fn is_finished(&self) -> bool {
        self.done.load(Ordering::Acquire) != 0
    }

    /// The thread.
    pub fn thread(&self) -> &Thread {
        &self.thread
    }
}

impl Thread {
    /// Its number: 0 for the first of a run, counted in the order of spawning.
    pub fn id(&self) -> usize {
        self.id
    }

    /// Ends the thread's [`park`], or the next one. The thread that returns from `park` sees what
    /// came before this call.
    #[track_caller]
    pub fn unpark(&self) {
        // Ordering: Release pairs with the Acquire in `park`.
        self.token.swap(1, Ordering::Release);
        futex::wake_all(&self.token);
    }
}

/// The running thread.
///
/// # Panics
/// Outside of a check.
#[track_caller]
pub fn current() -> Thread {
    match id() {
        Some(id) => thread(id),
        None => panic!("a simulated thread outside of a check"),
    }
}

pub(crate) fn word() -> Word {
    Arc::new(ManuallyDrop::new(AtomicU32::new(0)))
}

/// The number of the running thread, or `None` outside of a check.
pub fn id() -> Option<usize> {
    run::with(|run| run.current()).flatten()
}

/// Sleeps until this thread is unparked, or until a spurious wake.
///
/// # Panics
/// Outside of a check.
#[track_caller]
pub fn park() {
    let site = Location::caller();
    let token = current().token;
    // Ordering: Acquire pairs with the Release in `unpark`.
    if token.swap(0, Ordering::Acquire) == 0 {
        futex::wait_at(&token, 0, site);
        token.swap(0, Ordering::Acquire);
    }
}

/// Lets other threads run first, if there are any. Under [`Strategy::Pct`](crate::Strategy::Pct)
/// the thread falls below all of them.
#[track_caller]
pub fn yield_now() {
    run::give_way(Location::caller());
}

#[track_caller]
fn thread(id: usize) -> Thread {
    match run::with(|run| run.token(id)) {
        Some(token) => Thread { id, token },
        None => panic!("a simulated thread outside of a check"),
    }
}
