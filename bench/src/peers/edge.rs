//! edge-executor, on one thread, with its queue for any number of tasks.

use core::future::{Future, pending};
use std::{sync::OnceLock, thread};

use edge_executor::{Executor, Task, UnboundQueue, block_on};

use super::{Join, Peer};

static EXECUTOR: OnceLock<Executor<'static, UnboundQueue>> = OnceLock::new();

fn executor() -> &'static Executor<'static, UnboundQueue> {
    EXECUTOR.get_or_init(Executor::new)
}

pub(crate) struct Edge;

impl Peer for Edge {
    type Here = ();

    fn start(_: usize) -> Self {
        thread::spawn(|| block_on(executor().run(pending::<()>())));
        Self
    }

    fn detach((): &(), future: impl Future<Output = ()> + Send + 'static) {
        executor().spawn(future).detach();
    }

    fn submit(&self, future: impl Future<Output = ()> + Send + 'static) {
        executor().spawn(future).detach();
    }

    fn within(&mut self, job: impl FnOnce(&()) + Send + 'static) {
        self.submit(async move { job(&()) });
    }
}

impl Join for Edge {
    type Task<T: Send + 'static> = Task<T>;

    fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Task<T> {
        executor().spawn(future)
    }

    fn spawn_from_outside<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        executor().spawn(future)
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        block_on(future)
    }
}
