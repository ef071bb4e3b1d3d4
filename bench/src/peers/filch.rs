//! filch itself, with I/O on, as applications have it.

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use filch_linux::{JoinHandle, Runtime, time::Sleep};

use super::{Join, Peer, Timers};

pub(crate) struct Filch(Runtime);

impl Peer for Filch {
    type Here = ();

    fn start(workers: usize) -> Self {
        Self(filch_linux::builder().workers(workers).build().expect("the runtime starts"))
    }

    fn detach((): &(), future: impl Future<Output = ()> + Send + 'static) {
        filch_linux::spawn(future).detach();
    }

    fn submit(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(future).detach();
    }

    fn within(&mut self, job: impl FnOnce(&()) + Send + 'static) {
        self.submit(async move { job(&()) });
    }
}

/// A task's output.
pub(crate) struct Task<T>(JoinHandle<T>);

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(cx).map(|output| output.expect("the task ends by itself"))
    }
}

impl Join for Filch {
    type Task<T: Send + 'static> = Task<T>;

    fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Task<T> {
        Task(filch_linux::spawn(future))
    }

    fn spawn_from_outside<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        Task(self.0.spawn(future))
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.block_on(future)
    }
}

impl Timers for Filch {
    type Sleep = Sleep;

    fn sleep(duration: Duration) -> Sleep {
        filch_linux::sleep(duration)
    }

    fn reset(sleep: Pin<&mut Sleep>, duration: Duration) {
        sleep.reset(filch_linux::time::now() + duration);
    }
}
