//! The knobs of a pool.

use core::fmt;
use std::{env, io, sync::Arc, thread};

use filch_std::Runtime;

use crate::{
    current,
    error::ThreadPoolBuildError,
    pool::ThreadPool,
    registry::{MOST, Payload, Registry},
    thread::{CustomSpawn, DefaultSpawn, Owner, ThreadBuilder, ThreadSpawn, spawn_std, take_seat},
};

type PanicHandler = dyn Fn(Payload) + Send + Sync;
type ThreadHandler = dyn Fn(usize) + Send + Sync;

/// What a pool does for its user while it lives.
#[derive(Default)]
pub(crate) struct Handlers {
    pub(crate) panic: Option<Box<PanicHandler>>,
    pub(crate) start: Option<Box<ThreadHandler>>,
    pub(crate) exit: Option<Box<ThreadHandler>>,
    pub(crate) breadth_first: bool,
}

/// The knobs of a [`ThreadPool`], or of the global pool.
///
/// ```
/// let pool = rayon_core::ThreadPoolBuilder::new()
///     .num_threads(2)
///     .thread_name(|i| format!("crunch-{i}"))
///     .build()?;
/// let name = pool.install(|| std::thread::current().name().map(str::to_owned));
/// assert!(name.is_some_and(|name| name.starts_with("crunch-")));
/// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
/// ```
pub struct ThreadPoolBuilder<S = DefaultSpawn> {
    num_threads: usize,
    use_current_thread: bool,
    name: Option<Box<dyn FnMut(usize) -> String>>,
    stack_size: Option<usize>,
    handlers: Handlers,
    spawn: S,
}

impl Default for ThreadPoolBuilder {
    fn default() -> Self {
        Self {
            num_threads: 0,
            use_current_thread: false,
            name: None,
            stack_size: None,
            handlers: Handlers::default(),
            spawn: DefaultSpawn,
        }
    }
}

impl ThreadPoolBuilder {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a pool of scoped threads, which may borrow what lives outside: each runs `wrapper`, which should call
    /// [`ThreadBuilder::run`]. Calls `with_pool`, and waits for the threads' end.
    ///
    /// # Errors
    /// [`ThreadPoolBuildError`].
    pub fn build_scoped<W, F, R>(self, wrapper: W, with_pool: F) -> Result<R, ThreadPoolBuildError>
    where
        W: Fn(ThreadBuilder) + Sync,
        F: FnOnce(&ThreadPool) -> R,
    {
        thread::scope(|scope| {
            let wrapper = &wrapper;
            let spawn = |thread: ThreadBuilder| {
                spawn_std(&thread).spawn_scoped(scope, || wrapper(thread)).map(drop)
            };
            Ok(with_pool(&self.spawn_handler(spawn).build()?))
        })
    }

    /// Makes the pool's threads by `spawn`, which has them call [`ThreadBuilder::run`].
    pub fn spawn_handler<F>(self, spawn: F) -> ThreadPoolBuilder<CustomSpawn<F>>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        ThreadPoolBuilder {
            num_threads: self.num_threads,
            use_current_thread: self.use_current_thread,
            name: self.name,
            stack_size: self.stack_size,
            handlers: self.handlers,
            spawn: CustomSpawn(spawn),
        }
    }
}

impl<S: ThreadSpawn> ThreadPoolBuilder<S> {
    /// Makes a pool.
    ///
    /// # Errors
    /// [`ThreadPoolBuildError`]; threads that were started end by themselves.
    ///
    /// # Panics
    /// With the panics of what names or makes threads.
    pub fn build(self) -> Result<ThreadPool, ThreadPoolBuildError> {
        self.make().map(ThreadPool::of)
    }

    /// Makes the global pool, and waits until its threads have started. It can be made once, and is by its first use.
    ///
    /// # Errors
    /// As [`build`](Self::build); if there is one already.
    pub fn build_global(self) -> Result<(), ThreadPoolBuildError> {
        let registry = current::make_global(|| self.make())?;
        registry.primed.wait();
        Ok(())
    }

    /// A pool whose `release` is still to come.
    pub(crate) fn make(mut self) -> Result<Arc<Owner>, ThreadPoolBuildError> {
        if self.use_current_thread && current::is_seated() {
            return Err(ThreadPoolBuildError::ALREADY_IN_POOL);
        }
        // No LIFO slot: tickets should be seen by thieves at once, and the queues behind them have an order of their own. A
        // worker that waits works, however deep: a stand-in would be one thread too many.
        let builder = Runtime::builder().workers(self.threads()).lifo_cap(0).nesting(u32::MAX);
        let runtime: Runtime = builder.build_bare()?;
        let registry = Registry::new(*runtime.handle(), core::mem::take(&mut self.handlers));
        let owner = Arc::new(Owner::new(runtime, registry));
        let unfinished = Unfinished(owner.registry());
        self.start(&owner)?;
        core::mem::forget(unfinished);
        Ok(owner)
    }

    fn start(&mut self, owner: &Arc<Owner>) -> io::Result<()> {
        for index in 0..owner.registry().num_threads() {
            if index == 0 && self.use_current_thread {
                take_seat(owner);
                continue;
            }
            let name = self.name.as_mut().map(|name| name(index));
            let owner = Arc::clone(owner);
            let thread = ThreadBuilder { owner, index, name, stack_size: self.stack_size };
            self.spawn.spawn(thread)?;
        }
        Ok(())
    }

    /// How many threads the pool is to have.
    fn threads(&self) -> usize {
        let of = |name| env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
        let asked = match self.num_threads {
            0 => match of("RAYON_NUM_THREADS") {
                Some(n) => n,
                None => of("RAYON_RS_NUM_CPUS").unwrap_or(0),
            },
            n => n,
        };
        let n = if asked == 0 { filch_std::runtime::available_workers() } else { asked };
        n.min(MOST)
    }
}

/// A pool in the making: its threads end if it comes to nothing.
struct Unfinished<'a>(&'a Registry);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl<S> ThreadPoolBuilder<S> {
    /// How many threads (default, and 0: the environment's `RAYON_NUM_THREADS`, else as many as there are processors).
    pub fn num_threads(mut self, n: usize) -> Self {
        self.num_threads = n;
        self
    }

    /// The calling thread is the pool's thread 0, for ever. It works for the pool while it waits in it. The pool's memory is
    /// never freed.
    pub fn use_current_thread(mut self) -> Self {
        self.use_current_thread = true;
        self
    }

    /// What the threads are called, by their indices.
    pub fn thread_name<F>(mut self, name: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.name = Some(Box::new(name));
        self
    }

    /// The threads' stacks, in bytes (default: the standard library's).
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Who gets the panics that nobody waits for, as those of [`spawn`](crate::spawn) (default: they end the program, as
    /// does a panic of the handler).
    pub fn panic_handler<H>(mut self, handler: H) -> Self
    where
        H: Fn(Payload) + Send + Sync + 'static,
    {
        self.handlers.panic = Some(Box::new(handler));
        self
    }

    /// Called by each thread when it starts, with its index.
    pub fn start_handler<H>(mut self, handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.handlers.start = Some(Box::new(handler));
        self
    }

    /// Called by each thread when it ends, with its index.
    pub fn exit_handler<H>(mut self, handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.handlers.exit = Some(Box::new(handler));
        self
    }

    /// What is spawned on a thread runs there in the order of the spawns.
    #[deprecated(note = "use `scope_fifo` and `spawn_fifo`")]
    pub fn breadth_first(mut self) -> Self {
        self.handlers.breadth_first = true;
        self
    }
}

impl<S> fmt::Debug for ThreadPoolBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPoolBuilder")
            .field("num_threads", &self.num_threads)
            .field("use_current_thread", &self.use_current_thread)
            .field("stack_size", &self.stack_size)
            .finish_non_exhaustive()
    }
}
