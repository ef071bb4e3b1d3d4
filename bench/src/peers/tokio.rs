//! Tokio, with both of its runtimes; with timers, without I/O.

use core::{
    future::{Future, pending},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::thread;

use tokio::{
    runtime::{Builder, Handle},
    task::JoinHandle,
    time::{Instant, Sleep, sleep},
};

use super::{Join, Peer, Timers};

pub(crate) struct MultiThread(Handle);

/// Runs on a separate thread, so that other threads can spawn from outside.
pub(crate) struct CurrentThread(Handle);

/// A task's output.
pub(crate) struct Task<T>(JoinHandle<T>);

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(cx).map(|output| output.expect("the task ends by itself"))
    }
}

fn multi_thread(workers: usize) -> Handle {
    let runtime = Builder::new_multi_thread().worker_threads(workers).enable_time().build();
    let runtime = runtime.expect("the runtime starts");
    let handle = runtime.handle().clone();
    // It serves until the process ends.
    core::mem::forget(runtime);
    handle
}

fn current_thread(_: usize) -> Handle {
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("the runtime starts");
    let handle = runtime.handle().clone();
    thread::spawn(move || runtime.block_on(pending::<()>()));
    handle
}

macro_rules! peer {
    ($name:ident, $start:ident) => {
        impl Peer for $name {
            type Here = ();

            fn start(workers: usize) -> Self {
                Self($start(workers))
            }

            fn detach((): &(), future: impl Future<Output = ()> + Send + 'static) {
                drop(tokio::spawn(future));
            }

            fn submit(&self, future: impl Future<Output = ()> + Send + 'static) {
                drop(self.0.spawn(future));
            }

            fn within(&mut self, job: impl FnOnce(&()) + Send + 'static) {
                self.submit(async move { job(&()) });
            }
        }

        impl Join for $name {
            type Task<T: Send + 'static> = Task<T>;

            fn spawn<T: Send + 'static>(
                future: impl Future<Output = T> + Send + 'static,
            ) -> Task<T> {
                Task(tokio::spawn(future))
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

        impl Timers for $name {
            type Sleep = Sleep;

            fn sleep(duration: Duration) -> Sleep {
                sleep(duration)
            }

            fn reset(sleep: Pin<&mut Sleep>, duration: Duration) {
                sleep.reset(Instant::now() + duration);
            }
        }
    };
}

peer!(MultiThread, multi_thread);
peer!(CurrentThread, current_thread);
