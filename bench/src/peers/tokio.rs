//! Tokio, with both of its runtimes; with timers, without I/O.

use core::{
    future::{Future, pending},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::thread;

use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::JoinHandle,
    time::{Instant, Sleep, sleep},
};

use super::{Join, Peer, Timers};

pub(crate) struct MultiThread(Handle);

#[cfg(feature = "dial9")]
pub(crate) struct Dial9(Handle);

#[cfg(feature = "console")]
pub(crate) struct Console(Handle);

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

fn builder(workers: usize) -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).enable_time();
    builder
}

/// A runtime that serves until the process ends.
pub(crate) fn forever(runtime: Runtime) -> Handle {
    let handle = runtime.handle().clone();
    core::mem::forget(runtime);
    handle
}

fn multi_thread(workers: usize) -> Handle {
    forever(builder(workers).build().expect("the runtime starts"))
}

#[cfg(feature = "dial9")]
fn dial9(workers: usize) -> Handle {
    forever(super::observed::dial9(builder(workers)))
}

#[cfg(feature = "console")]
fn console(workers: usize) -> Handle {
    forever(super::observed::console(&mut builder(workers)))
}

fn current_thread(_: usize) -> Handle {
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("the runtime starts");
    let handle = runtime.handle().clone();
    thread::spawn(move || runtime.block_on(pending::<()>()));
    handle
}

macro_rules! peer {
    ($name:ident, $start:ident, $spawn:path, $spawn_in:path) => {
        impl Peer for $name {
            type Here = ();

            fn start(workers: usize) -> Self {
                Self($start(workers))
            }

            fn detach((): &(), future: impl Future<Output = ()> + Send + 'static) {
                drop($spawn(future));
            }

            fn submit(&self, future: impl Future<Output = ()> + Send + 'static) {
                drop($spawn_in(&self.0, future));
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
                Task($spawn(future))
            }

            fn spawn_from_outside<T: Send + 'static>(
                &self,
                future: impl Future<Output = T> + Send + 'static,
            ) -> Task<T> {
                Task($spawn_in(&self.0, future))
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

peer!(MultiThread, multi_thread, tokio::spawn, Handle::spawn);
peer!(CurrentThread, current_thread, tokio::spawn, Handle::spawn);
#[cfg(feature = "dial9")]
peer!(Dial9, dial9, dial9_tokio_telemetry::spawn, dial9_tokio_telemetry::spawn_in);
#[cfg(feature = "console")]
peer!(Console, console, tokio::spawn, Handle::spawn);
