//! A task that waits, for tests that observe its polls and the place where its future is dropped.

use core::{
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::{Context, Poll},
};
use std::sync::Arc;

use filch::{JoinHandle, Platform as _, TaskOptions};

use super::{Flag, Log, ManualExecutor, Mine, Sim, pool};

/// Waits for the flag, and records where it was dropped.
struct Witness {
    wait: Pin<Box<dyn Future<Output = ()> + Send>>,
    sim: Arc<Mine<&'static ManualExecutor>>,
    log: Log<Option<u16>>,
    polls: Arc<AtomicUsize>,
}

impl Future for Witness {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.polls.fetch_add(1, SeqCst);
        self.wait.as_mut().poll(cx)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.log.push(self.sim.platform().current_worker().map(|w| w.index() as u16));
    }
}

/// A task that waits, and what has been observed of it.
pub(crate) struct Watched {
    pub(crate) sim: Sim,
    pub(crate) handle: JoinHandle<()>,
    pub(crate) flag: Flag,
    /// The workers on which the future was dropped.
    pub(crate) log: Log<Option<u16>>,
    pub(crate) polls: Arc<AtomicUsize>,
}

pub(crate) fn watched() -> Watched {
    watched_with(TaskOptions::new())
}

pub(crate) fn watched_with(options: TaskOptions) -> Watched {
    let sim = Sim::new(1);
    let (flag, log, polls) = (Flag::new(), Log::new(), Arc::new(AtomicUsize::new(0)));
    let future = Witness {
        wait: Box::pin(flag.wait()),
        sim: Arc::new(Mine::new(sim.executor)),
        log: log.clone(),
        polls: Arc::clone(&polls),
    };
    let handle = sim.executor.spawner().spawn_with(options, pool(), future).unwrap();
    Watched { sim, handle, flag, log, polls }
}
