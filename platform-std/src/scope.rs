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

use filch::{JoinError, JoinHandle};

use crate::{
    context::{Handle, expect_current},
    error::SpawnErrorKind,
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
    expect_current().scope(f)
}

impl Handle {
    /// Calls `f` with a scope, into which it spawns tasks that may borrow what lives longer than this call. Returns when `f` has returned
    /// and all tasks of the scope have ended, however `f` ends. The thread runs tasks while it waits, as in
    /// [`block_on`](Self::block_on), with the same warning on locks. In a task the call is one long poll.
    ///
    /// ```
    /// let runtime = filch_std::Runtime::new()?;
    /// let (words, mut sum) = (vec!["a".to_owned(), "few".into(), "words".into()], 0);
    /// let lengths = runtime.handle().scope(|scope| {
    ///     scope.spawn(async { sum = words.iter().map(String::len).sum::<usize>() });
    ///     let tasks: Vec<_> = words.iter().map(|word| scope.spawn(async move { word.len() })).collect();
    ///     tasks.into_iter().map(|task| task.join().unwrap()).collect::<Vec<_>>()
    /// });
    /// assert_eq!((lengths, sum), (vec![1, 3, 5], 9));
    /// # Ok::<(), filch_std::BuildError>(())
    /// ```
    ///
    /// What a task borrows lives longer than the scope:
    ///
    /// ```compile_fail,E0597
    /// let runtime = filch_std::Runtime::new().unwrap();
    /// runtime.handle().scope(|scope| {
    ///     let too_short = String::from("of the closure");
    ///     let borrowed = &too_short;
    ///     scope.spawn(async move { println!("{borrowed}") });
    /// });
    /// ```
    ///
    /// # Why there is no scope to `await`
    ///
    /// A task runs on another thread until it ends or its future is dropped there. So a borrow is sound only if the borrowed value cannot go before that. This call keeps
    /// it by its own stack frame, which no safe code takes away before the call returns or unwinds, and both wait. A future has no such
    /// frame: its owner may drop it at any `await`, and then its drop could wait, but its owner may also leak it (`mem::forget`, a
    /// cycle of counted references), and then end the borrow, while tasks still use it. No code of the scope would run in between:
    ///
    /// ```text
    /// let mut future = Box::pin(scope_async(|scope| scope.spawn(async { use_for_long(&value) })));
    /// let _ = poll_once(future.as_mut());     // the task runs on another worker
    /// mem::forget(future);                    // no drop, no wait
    /// drop(value);                            // and the task uses it
    /// ```
    ///
    /// To `await`, spawn tasks that own or share what they use, into a [`JoinSet`](crate::JoinSet); or poll several futures that borrow
    /// in one task, as `futures::join!` does; or compute by [`parallel::for_each_async`](crate::parallel::for_each_async), which
    /// leaves nothing behind between two polls.
    ///
    /// # Panics
    /// With a panic of `f`; if a task panicked whose handle was not joined; in a hook of the runtime. In a forked child, also if the fork was in `f` and tasks
    /// were left.
    ///
    /// Idea: `std::thread::scope`.
    #[track_caller]
    pub fn scope<'env, F, T>(&self, f: F) -> T
    where
        F: for<'scope> FnOnce(&'scope TaskScope<'scope, 'env>) -> T,
    {
        if let Err(kind) = self.check() {
            panic!("{kind}");
        }
        hooks::refuse("scope");
        let worker = self.worker();
        let scope = TaskScope {
            handle: *self,
            latch: CountLatch::on(*self, 1),
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
        let vain = || self.check().is_err();
        if worker.is_none() {
            // It helps if it may; whether that has ended the wait or not, the latch says.
            let _ = self.0.core.help_patiently(&mut || scope.latch.is_set() || vain());
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
}

/// Where tasks are spawned that borrow. From [`Handle::scope`].
///
/// INV-SCOPE: it stays in place until its latch is set. The latch counts the call of `scope`, up to the end of the closure, and each task from
/// before its spawn until its future has been dropped; a count is up by one that is counted already, and nothing of
/// `'scope` is touched by a task after its count is down. A forked child does not wait: it has none of the threads that run the tasks, and
/// what its own thread still polls or drops of them touches nothing (`Counted::is_here`).
///
/// ```
/// use core::future::pending;
/// use filch_std::{ScopedHandle, TaskScope};
/// fn lengths<'s>(scope: &'s TaskScope<'s, '_>, words: &'s [String]) -> Vec<ScopedHandle<'s, usize>> {
///     words.iter().map(|word| scope.spawn(async move { word.len() })).collect()
/// }
/// let runtime = filch_std::Runtime::new()?;
/// let words = ["a".to_owned(), "few".into()];
/// let lengths = runtime.block_on(async {
///     filch_std::scope(|scope| {
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
/// # Ok::<(), filch_std::BuildError>(())
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

/// A task of a scope: `await` it in another task of the scope, or [`join`](Self::join) it. Dropped, the task goes on, and the scope waits for it.
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
