//! filch itself: with I/O on, as applications have it, and without.

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use filch_linux::Linux;
use filch_std::{Futex, JoinHandle, Runtime, time::Sleep};

use super::{Join, Peer, Timers};

/// A task's output.
pub(crate) struct Task<T>(JoinHandle<T>);

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(cx).map(|output| output.expect("the task ends by itself"))
    }
}

/// A peer by a crate, which gives the builder and the functions; the types are the same.
macro_rules! peer {
    ($Name:ident, $Host:ident, $krate:ident, $builder:expr) => {
        pub(crate) struct $Name(Runtime<$Host>);

        impl Peer for $Name {
            type Here = ();

            fn start(workers: usize) -> Self {
                Self($builder.workers(workers).build().expect("the runtime starts"))
            }

            fn detach((): &(), future: impl Future<Output = ()> + Send + 'static) {
                $krate::spawn(future).detach();
            }

            fn submit(&self, future: impl Future<Output = ()> + Send + 'static) {
                self.0.spawn(future).detach();
            }

            fn within(&mut self, job: impl FnOnce(&()) + Send + 'static) {
                self.submit(async move { job(&()) });
            }
        }

        impl Join for $Name {
            type Task<T: Send + 'static> = Task<T>;

            fn spawn<T: Send + 'static>(
                future: impl Future<Output = T> + Send + 'static,
            ) -> Task<T> {
                Task($krate::spawn(future))
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

        impl Timers for $Name {
            type Sleep = Sleep;

            fn sleep(duration: Duration) -> Sleep {
                $krate::sleep(duration)
            }

            fn reset(sleep: Pin<&mut Sleep>, duration: Duration) {
                sleep.reset($krate::time::now() + duration);
            }
        }
    };
}

/// A runtime with I/O, as all rows have it.
pub(crate) fn builder() -> filch_linux::Builder {
    let builder = filch_linux::builder();
    #[cfg(feature = "recorder")]
    let builder = builder.recorder(records());
    builder
}

fn builder_std() -> filch_std::Builder {
    let builder = Runtime::<Futex>::builder();
    #[cfg(feature = "recorder")]
    let builder = builder.recorder(records());
    builder
}

/// Records of a worker that the runtime keeps; none without the variable.
#[cfg(feature = "recorder")]
fn records() -> usize {
    std::env::var("FILCH_RECORDS").ok().and_then(|records| records.parse().ok()).unwrap_or(0)
}

peer!(Filch, Linux, filch_linux, builder());
peer!(FilchStd, Futex, filch_std, builder_std());
