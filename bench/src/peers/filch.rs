//! filch itself: with I/O on, as applications have it, and without.

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use filch_linux::runtime::Linux;
use filch_std::{
    JoinHandle, Runtime,
    runtime::{Futex, Host, RuntimeOn},
    time::Sleep,
};

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
    ($Name:ident, $Host:ident, $krate:ident, $records:expr) => {
        pub(crate) struct $Name(RuntimeOn<$Host>);

        impl Peer for $Name {
            type Here = ();

            fn start(workers: usize) -> Self {
                Self(start(workers, $records))
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
                $krate::time::sleep(duration)
            }

            fn reset(sleep: Pin<&mut Sleep>, duration: Duration) {
                sleep.reset($krate::time::now() + duration);
            }
        }
    };
}

/// A runtime whose flight recorder keeps so many records for each worker, where this program is built with it.
pub(crate) fn start<H: Host>(workers: usize, records: usize) -> RuntimeOn<H> {
    let builder = Runtime::builder().workers(workers);
    #[cfg(feature = "recorder")]
    let builder = builder.recorder(records);
    #[cfg(not(feature = "recorder"))]
    assert_eq!(records, 0, "this program is built without the recorder");
    builder.build_on().expect("the runtime starts")
}

/// Records of each worker where the recorder is on.
#[cfg(feature = "recorder")]
pub(crate) const RECORDS: usize = 4096;

peer!(Filch, Linux, filch_linux, 0);
peer!(FilchStd, Futex, filch_std, 0);
#[cfg(feature = "recorder")]
peer!(Recorded, Linux, filch_linux, RECORDS);
