//! Tasks that borrow from the stack of a caller that waits for them.

use core::{
    fmt,
    future::Future,
    marker::PhantomData,
    mem,
    panic::AssertUnwindSafe,
    pin::Pin,
    ptr::NonNull,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll, ready},
};
use std::{
    panic::{catch_unwind, resume_unwind},
    sync::{Arc, Mutex},
};

use filch::{JoinError, JoinHandle, SpawnErrorKind};

use crate::{
    context::{Handle, expect_current},
    fork, hooks,
    latch::CountLatch,
    panics::lock,
};

/// Runs tasks that borrow, on the current runtime: [`Handle::scope`].
///
/// # Panics
/// If the calling thread is in no runtime, and as that.
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope TaskScope<'scope, 'env>) -> T,
{
    scope_on(expect_current(), f)
}

/// See [`Handle::scope`].
#[track_caller]
pub(crate) fn scope_on<'env, F, T>(here: Handle, f: F) -> T
where
    F: for<'scope> FnOnce(&'scope TaskScope<'scope, 'env>) -> T,
{
    if let Err(kind) = here.check() {
        panic!("{kind}");
    }
    hooks::refuse("scope");
    let worker = here.0.core.current_worker();
    let scope = TaskScope {
        handle: here,
        latch: CountLatch::on(here, 1),
        panics: AtomicUsize::new(0),
        scope: PhantomData,
        env: PhantomData,
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    // SAFETY: INV-SCOPE; the caller's own count, which ends here.
    unsafe { CountLatch::down(NonNull::from(&scope.latch)) };
    // What unwinds from here on ends the program: the tasks borrow.
    let waits = Waits;
    // The process may have been forked in `f`, or in a task that ran here.
    let vain = || here.check().is_err();
    if worker.is_none() {
        // It helps if it may; whether that has ended the wait or not, the latch says.
        let _ = here.0.core.help_patiently(&mut || scope.latch.is_set() || vain());
    }
    scope.latch.wait_unless(&vain);
    mem::forget(waits);
    match outcome {
        Err(panic) => resume_unwind(panic),
        Ok(_) if !scope.latch.is_set() => panic!("{}", SpawnErrorKind::Forked),
        // Ordering: Relaxed: the latch orders it.
        Ok(_) if scope.panics.load(Ordering::Relaxed) > 0 => {
            panic!("a task of the scope panicked")
        }
        Ok(output) => output,
    }
}

/// Where tasks are spawned that borrow. From [`Handle::scope`].
///
/// INV-SCOPE: it stays in place until its latch is set. The latch counts the call of `scope`, up to the end of the closure, and each task
/// from before its spawn until its future has been dropped; a count is up by one that is counted already, and nothing of `'scope` is
/// touched by a task after its count is down. A forked child does not wait: it has none of the threads that run the tasks, and what its own
/// thread still polls or drops of them touches nothing (`Counted::is_here`).
///
/// ```
/// use core::future::pending;
/// use filch_std::task::{ScopedHandle, TaskScope};
/// fn lengths<'s>(scope: &'s TaskScope<'s, '_>, words: &'s [String]) -> Vec<ScopedHandle<'s, usize>> {
///     words.iter().map(|word| scope.spawn(async move { word.len() })).collect()
/// }
/// let runtime = filch_std::Runtime::new()?;
/// let words = ["a".to_owned(), "few".into()];
/// let lengths = runtime.block_on(async {
///     filch_std::task::scope(|scope| {
///         let stuck = scope.spawn(pending::<()>());
///         assert!(!stuck.is_finished());
///         stuck.abort();
///         assert!(stuck.join().is_err());
///         // One that does not borrow may outlive the scope.
///         scope.handle().spawn(async {}).detach();
///         lengths(scope, &words).into_iter().map(|task| task.join().unwrap()).collect::<Vec<_>>()
///     })
/// });
/// assert_eq!(lengths, [1, 3]);
/// # Ok::<(), filch_std::runtime::BuildError>(())
/// ```
pub struct TaskScope<'scope, 'env: 'scope> {
    handle: Handle,
    latch: CountLatch,
    /// Panics of tasks that no handle has shown.
    panics: AtomicUsize,
    /// Invariant, as in `std::thread::Scope`: else a task could outlive what it borrows.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope, 'env> TaskScope<'scope, 'env> {
    /// Spawns a task that may borrow from outside of the scope. It may be called by tasks of the scope, too. Cost: two allocations.
    ///
    /// # Panics
    /// As [`Handle::spawn`].
    #[track_caller]
    pub fn spawn<F>(&'scope self, future: F) -> ScopedHandle<'scope, F::Output>
    where
        F: Future + Send + 'scope,
        F::Output: Send + 'scope,
    {
        let output = Arc::new(Mutex::new(None));
        let place = Arc::clone(&output);
        let body: Body<'scope> = Box::pin(async move {
            let output = future.await;
            *lock(&place) = Some(output);
        });
        // SAFETY: the lifetime alone changes. The body, and all that it holds, is dropped before the task's count is down (the drop of
        // `Scoped`, which nothing takes apart), and so before the scope ends (INV-SCOPE). A task that is leaked keeps its count.
        let body = unsafe { mem::transmute::<Body<'scope>, Body<'static>>(body) };
        self.latch.up(1);
        let counted = Counted {
            latch: NonNull::from(&self.latch),
            panics: NonNull::from(&self.panics),
            process: fork::generation(),
        };
        let task = self.handle.spawn(Scoped { body: Some(body), panicked: false, counted });
        ScopedHandle { task, output, panics: &self.panics }
    }

    /// The runtime of the tasks.
    pub fn handle(&self) -> Handle {
        self.handle
    }
}

impl fmt::Debug for TaskScope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskScope").finish_non_exhaustive()
    }
}

type Body<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A scope's wait for its tasks. Only an unwind drops it.
struct Waits;

impl Drop for Waits {
    #[cold]
    fn drop(&mut self) {
        // The tasks borrow from frames that an unwind would take away. The panic has been printed.
        std::process::abort();
    }
}

/// A task of a scope.
struct Scoped {
    /// Until the drop.
    body: Option<Body<'static>>,
    /// Its panic has been counted: the handle shows one alone.
    panicked: bool,
    /// The body has been dropped before.
    counted: Counted,
}

impl Scoped {
    /// Calls code of the body, and counts its panic.
    fn counting<R>(&mut self, f: impl FnOnce(&mut Option<Body<'static>>) -> R) -> R {
        // SAFETY: INV-SCOPE: the task counts.
        let panics = unsafe { self.counted.panics.as_ref() };
        let unwinds = Unwinds { panics, panicked: &mut self.panicked };
        let output = f(&mut self.body);
        mem::forget(unwinds);
        output
    }
}

impl Drop for Scoped {
    fn drop(&mut self) {
        if self.counted.is_here() {
            self.counting(|body| *body = None);
        } else {
            mem::forget(self.body.take());
        }
    }
}

/// One count of a scope's latch. INV-SCOPE.
struct Counted {
    latch: NonNull<CountLatch>,
    panics: NonNull<AtomicUsize>,
    /// In which it was counted.
    process: u32,
}

impl Counted {
    /// Whether the scope waits for it: not in a forked child.
    fn is_here(&self) -> bool {
        self.process == fork::generation()
    }
}

// SAFETY: both are shared by the tasks of the scope, which keeps them for as long as this counts.
unsafe impl Send for Counted {}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: INV-SCOPE; the last touch.
            unsafe { CountLatch::down(self.latch) };
        }
    }
}

/// Counts the panic in which it is dropped, if it is the task's first.
struct Unwinds<'a> {
    panics: &'a AtomicUsize,
    panicked: &'a mut bool,
}

impl Drop for Unwinds<'_> {
    fn drop(&mut self) {
        if !mem::replace(self.panicked, true) {
            // Ordering: Relaxed: the latch and the task's output order it.
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Future for Scoped {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.counted.is_here() {
            return Poll::Pending;
        }
        self.get_mut().counting(|body| match body {
            Some(body) => body.as_mut().poll(cx),
            None => unreachable!("only the drop takes it"),
        })
    }
}

/// A task of a scope: `await` it in another task of the scope, or [`join`](Self::join) it. Dropped, the task goes on, and the scope waits
/// for it.
pub struct ScopedHandle<'scope, T> {
    task: JoinHandle<()>,
    output: Arc<Mutex<Option<T>>>,
    panics: &'scope AtomicUsize,
}

impl<T> ScopedHandle<'_, T> {
    /// Waits for the output in sync code, as [`JoinHandle::join`].
    ///
    /// # Errors
    /// [`JoinError`]: the task has panicked, or was aborted.
    pub fn join(mut self) -> Result<T, JoinError> {
        let ended = self.task.join();
        self.take(ended)
    }

    /// As [`JoinHandle::abort`].
    pub fn abort(&self) {
        self.task.abort();
    }

    /// As [`JoinHandle::is_finished`].
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    fn take(&self, ended: Result<(), JoinError>) -> Result<T, JoinError> {
        match ended {
            Ok(()) => lock(&self.output).take().ok_or(JoinError::Taken),
            Err(error) => {
                if error.is_panic() {
                    // Ordering: as in `Unwinds`.
                    self.panics.fetch_sub(1, Ordering::Relaxed);
                }
                Err(error)
            }
        }
    }
}

impl<T> Future for ScopedHandle<'_, T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = ready!(Pin::new(&mut self.task).poll(cx));
        Poll::Ready(self.take(ended))
    }
}

impl<T> fmt::Debug for ScopedHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScopedHandle").field(&self.task).finish()
    }
}
