//! async-executor, as smol uses it, and its variant for statics; async-io's timers.

use core::{
    future::{Future, pending},
    pin::Pin,
    time::Duration,
};
use std::thread;

use async_executor::{Executor, StaticExecutor, Task};
use async_io::Timer;
use futures_lite::future::block_on;

use super::{Join, Peer, Timers};

static PLAIN: Executor<'static> = Executor::new();
static STATIC: StaticExecutor = StaticExecutor::new();

pub(crate) struct Smol;
pub(crate) struct Static;

macro_rules! peer {
    ($name:ident, $executor:ident) => {
        impl Peer for $name {
            type Here = ();

            fn start(workers: usize) -> Self {
                for _ in 0..workers {
                    thread::spawn(|| block_on($executor.run(pending::<()>())));
                }
                Self
            }

            fn detach((): &(), future: impl Future<Output = ()> + Send + 'static) {
                $executor.spawn(future).detach();
            }

            fn submit(&self, future: impl Future<Output = ()> + Send + 'static) {
                $executor.spawn(future).detach();
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
                $executor.spawn(future)
            }

            fn spawn_from_outside<T: Send + 'static>(
                &self,
                future: impl Future<Output = T> + Send + 'static,
            ) -> Task<T> {
                $executor.spawn(future)
            }

            fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
                block_on(future)
            }
        }

        impl Timers for $name {
            type Sleep = Timer;

            fn sleep(duration: Duration) -> Timer {
                Timer::after(duration)
            }

            fn reset(sleep: Pin<&mut Timer>, duration: Duration) {
                sleep.get_mut().set_after(duration);
            }
        }
    };
}

peer!(Smol, PLAIN);
peer!(Static, STATIC);
