//! How a runtime's threads are made: their names, stacks and hooks, and the processors that they are bound to.

use core::{cell::Cell, fmt};
use std::{io, sync::Arc, thread};

use crate::{
    error::BuildError,
    long_poll::Hook,
    panics::quietly,
    thread_hooks::{ThreadHooks, ThreadRole},
};

/// Which processors the workers are bound to: see [`Builder::affinity`](crate::Builder::affinity).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Affinity {
    /// The operating system chooses, and moves them.
    #[default]
    Free,
    /// Each to one of the processors that the thread may use which builds the runtime, one after the other; round again if there are more
    /// workers.
    Each,
    /// Worker 0 to the first of these, and so on; round again if there are more workers.
    Cores(Vec<usize>),
}

/// Names a thread.
#[derive(Clone)]
pub(crate) struct Namer(pub(crate) Arc<dyn Fn(ThreadRole) -> String + Send + Sync>);

impl fmt::Debug for Namer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Namer")
    }
}

/// The name of a thread: the namer's, or the default if there is none or it panics.
fn name(namer: Option<&Namer>, role: ThreadRole, prefix: &str) -> io::Result<String> {
    let own = Cell::new(None);
    if let Some(Namer(name)) = namer {
        quietly(|| own.set(Some(name(role))));
    }
    let default = || match role {
        ThreadRole::Worker(worker) => format!("{prefix}-{}", worker.index()),
        ThreadRole::Blocking(before) => format!("{prefix}-blocking-{}", before + 1),
    };
    let name = own.into_inner().unwrap_or_else(default);
    check(&name).map(|()| name)
}

/// Refuses a name at which the standard library would panic.
pub(crate) fn check(name: &str) -> io::Result<()> {
    if name.contains('\0') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a name with a zero in it"));
    }
    Ok(())
}

/// How a runtime wants its threads made.
#[derive(Clone, Default)]
pub(crate) struct Dress {
    pub(crate) name: String,
    pub(crate) namer: Option<Namer>,
    pub(crate) places: Option<Places>,
    pub(crate) stack: Option<usize>,
    pub(crate) on_long_poll: Option<Hook>,
    pub(crate) hooks: ThreadHooks,
}

impl Dress {
    /// For a thread of the runtime.
    pub(crate) fn builder(&self, role: ThreadRole) -> io::Result<thread::Builder> {
        let name = name(self.namer.as_ref(), role, &self.name)?;
        let builder = thread::Builder::new().name(name);
        Ok(match self.stack {
            Some(bytes) => builder.stack_size(bytes),
            None => builder,
        })
    }

    /// The calling thread, which was made for that, goes to its processor.
    pub(crate) fn bind(&self, role: ThreadRole) {
        if let Some(places) = &self.places {
            places.bind(role);
        }
    }
}

/// The processors of a runtime's threads, if its workers are bound.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// How many workers there are: those above are compensation workers.
    workers: usize,
    cores: Arc<[usize]>,
    all: platform::Set,
}

impl Places {
    /// # Errors
    /// [`BuildError::Core`] for a processor that the calling thread may not use.
    pub(crate) fn new(affinity: &Affinity, workers: usize) -> Result<Option<Self>, BuildError> {
        if *affinity == Affinity::Free {
            return Ok(None);
        }
        let all = platform::usable().map_err(BuildError::Thread)?;
        let cores: Arc<[usize]> = match affinity {
            Affinity::Cores(cores) => cores.as_slice().into(),
            _ => platform::cores(&all).collect(),
        };
        if let Some(core) = cores.iter().find(|core| !platform::cores(&all).any(|c| c == **core)) {
            return Err(BuildError::Core(*core));
        }
        if cores.is_empty() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "no processor for the workers");
            return Err(BuildError::Thread(error));
        }
        Ok(Some(Self { workers, cores, all }))
    }

    /// Binds the calling thread. A thread that is not a worker of its own right may use all: it was started by one that may be bound.
    /// Where the system refuses, the thread stays as it is.
    pub(crate) fn bind(&self, role: ThreadRole) {
        let core = match role {
            ThreadRole::Worker(worker) if worker.index() < self.workers => {
                self.cores.get(worker.index() % self.cores.len()).copied()
            }
            _ => None,
        };
        platform::bind(&self.all, core);
    }
}

#[cfg(target_os = "linux")]
mod platform {
    use std::io;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub(super) type Set = CpuSet;

    /// The processors that the calling thread may use.
    pub(super) fn usable() -> io::Result<Set> {
        Ok(sched_getaffinity(None)?)
    }

    pub(super) fn cores(set: &Set) -> impl Iterator<Item = usize> + '_ {
        (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core))
    }

    /// Binds the calling thread to that processor, or to all.
    pub(super) fn bind(all: &Set, core: Option<usize>) {
        let mut one = CpuSet::new();
        let set = match core {
            Some(core) => {
                one.set(core);
                &one
            }
            None => all,
        };
        // The processor may have gone since the build.
        let _ = sched_setaffinity(None, set);
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::io;

    pub(super) type Set = ();

    pub(super) fn usable() -> io::Result<Set> {
        let error = "threads are bound to processors on Linux alone";
        Err(io::Error::new(io::ErrorKind::Unsupported, error))
    }

    pub(super) fn cores((): &Set) -> impl Iterator<Item = usize> {
        core::iter::empty()
    }

    pub(super) fn bind((): &Set, _: Option<usize>) {}
}
