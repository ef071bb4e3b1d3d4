//! A pool's threads, and how they are made.

use core::{fmt, mem::ManuallyDrop, ptr::NonNull};
use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
};

use filch_std::{Runtime, runtime::WorkerId};

use crate::{
    current::{self, Seat},
    registry::{Registry, lock},
};

/// Owns a pool's runtime and registry. Its threads share it, so that it goes with the last of them, or with the pool.
///
/// INV-OWNER: the registry stays until the runtime has ended: no task is left then, and no worker.
pub(crate) struct Owner {
    runtime: ManuallyDrop<Runtime>,
    registry: NonNull<Registry>,
}

// SAFETY: the runtime and the registry are both.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Owner {
    pub(crate) fn new(runtime: Runtime, registry: Registry) -> Self {
        let registry = NonNull::from(Box::leak(Box::new(registry)));
        Self { runtime: ManuallyDrop::new(runtime), registry }
    }

    pub(crate) fn registry(&self) -> &Registry {
        // SAFETY: INV-OWNER.
        unsafe { self.registry.as_ref() }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: once, here. It waits for the end of all tasks and workers: it is not one of them that drops the last
        // share, since each keeps its own beyond its life as a worker (`ThreadBuilder::run`, `take_seat`).
        unsafe { ManuallyDrop::drop(&mut self.runtime) };
        // SAFETY: INV-OWNER; made from a box.
        drop(unsafe { Box::from_raw(self.registry.as_ptr()) });
    }
}

/// Counts the threads that have begun.
pub(crate) struct Primed {
    missing: Mutex<usize>,
    news: Condvar,
}

impl Primed {
    pub(crate) fn new(threads: usize) -> Self {
        Self { missing: Mutex::new(threads), news: Condvar::new() }
    }

    fn one_more(&self) {
        *lock(&self.missing) -= 1;
        self.news.notify_all();
    }

    /// Waits until all have.
    pub(crate) fn wait(&self) {
        let mut missing = lock(&self.missing);
        while *missing > 0 {
            missing = self.news.wait(missing).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A thread of a pool, to be started by [`ThreadPoolBuilder::spawn_handler`](crate::ThreadPoolBuilder::spawn_handler).
pub struct ThreadBuilder {
    pub(crate) owner: Arc<Owner>,
    pub(crate) index: usize,
    pub(crate) name: Option<String>,
    pub(crate) stack_size: Option<usize>,
}

impl ThreadBuilder {
    /// The thread's index in the pool.
    pub fn index(&self) -> usize {
        self.index
    }

    /// What the thread should be called, if the pool's builder says so.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// How large its stack should be, in bytes, if the pool's builder says so.
    pub fn stack_size(&self) -> Option<usize> {
        self.stack_size
    }

    /// Is the pool's thread in the calling one, until the pool has been dropped and all that was spawned in it has ended.
    pub fn run(self) {
        let (registry, index) = (self.owner.registry(), self.index);
        current::sit(Some(Seat { registry: registry.refer(), index }));
        let mut begin = Some(|| {
            if let Some(handler) = &registry.handlers.start {
                registry.contain(|| handler(index));
            }
            registry.primed.one_more();
        });
        let mut begin = || {
            if let Some(begin) = begin.take() {
                begin();
            }
        };
        registry.handle.be_worker(WorkerId::new(index as u16), &mut begin);
        // If the pool was gone before.
        begin();
        if let Some(handler) = &registry.handlers.exit {
            registry.contain(|| handler(index));
        }
        current::sit(None);
    }
}

/// The calling thread is a pool's thread 0 from now on. The pool's memory stays for ever.
pub(crate) fn take_seat(owner: &Arc<Owner>) {
    let registry = owner.registry();
    if registry.handle.stay_worker(WorkerId::new(0)) {
        core::mem::forget(Arc::clone(owner));
        current::sit(Some(Seat { registry: registry.refer(), index: 0 }));
    }
    registry.primed.one_more();
}

impl fmt::Debug for ThreadBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadBuilder")
            .field("index", &self.index)
            .field("name", &self.name)
            .field("stack_size", &self.stack_size)
            .finish_non_exhaustive()
    }
}

/// How a pool makes its threads. Nobody else can implement it.
pub trait ThreadSpawn: Sealed {
    #[doc(hidden)]
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()>;
}

/// Keeps a trait to this crate.
pub trait Sealed {}

/// Threads of the standard library.
#[derive(Debug, Default)]
pub struct DefaultSpawn;

/// Threads made by a closure.
#[derive(Debug)]
pub struct CustomSpawn<F>(pub(crate) F);

impl Sealed for DefaultSpawn {}
impl<F> Sealed for CustomSpawn<F> {}

impl ThreadSpawn for DefaultSpawn {
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        spawn_std(&thread).spawn(|| thread.run()).map(drop)
    }
}

impl<F> ThreadSpawn for CustomSpawn<F>
where
    F: FnMut(ThreadBuilder) -> io::Result<()>,
{
    fn spawn(&mut self, thread: ThreadBuilder) -> io::Result<()> {
        (self.0)(thread)
    }
}

/// The standard library's builder for such a thread.
pub(crate) fn spawn_std(thread: &ThreadBuilder) -> thread::Builder {
    let mut builder = thread::Builder::new();
    if let Some(name) = thread.name() {
        builder = builder.name(name.to_owned());
    }
    if let Some(bytes) = thread.stack_size() {
        builder = builder.stack_size(bytes);
    }
    builder
}
