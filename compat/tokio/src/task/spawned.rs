//! A task as what polls it sees it: a future without an output, which never panics.

use core::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::atomic::Ordering,
    task::{Context, Poll},
};
use std::{panic::catch_unwind, sync::Arc};

use pin_project_lite::pin_project;

use super::{
    JoinError, JoinHandle,
    join::{Slot, quietly},
};
use crate::runtime::{
    Handle,
    context::{self, Polling},
};

pin_project! {
    /// A future and the place of its output.
    pub(crate) struct Spawned<F: Future> {
        #[pin]
        future: Option<F>,
        core: Core<F::Output>,
        begun: bool,
    }

    impl<F: Future> PinnedDrop for Spawned<F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if !this.core.over {
                // The thread may be about to end: then without.
                let _entered = this.core.handle.clone().and_then(context::try_enter);
                this.core.cancel(this.future);
            }
        }
    }
}

/// All but the future.
struct Core<T> {
    slot: Arc<Slot<T>>,
    handle: Option<Handle>,
    polling: Polling,
    over: bool,
}

impl<F: Future> Spawned<F> {
    /// A task of that runtime.
    pub(crate) fn new(handle: Handle, future: F) -> (Self, JoinHandle<F::Output>) {
        let polling = match handle.inner.scheduler {
            Some(_) => Polling::Local,
            None => Polling::Threaded,
        };
        Self::on(Some(handle), polling, future)
    }

    /// A task of a `LocalSet`, which may be in no runtime.
    pub(crate) fn local(handle: Option<Handle>, future: F) -> (Self, JoinHandle<F::Output>) {
        Self::on(handle, Polling::Local, future)
    }

    fn on(handle: Option<Handle>, polling: Polling, future: F) -> (Self, JoinHandle<F::Output>) {
        if let Some(handle) = &handle {
            // Ordering: Relaxed; a count.
            handle.inner.alive.fetch_add(1, Ordering::Relaxed);
        }
        let slot = Slot::new();
        let join = JoinHandle::new(Arc::clone(&slot));
        let core = Core { slot, handle, polling, over: false };
        (Self { future: Some(future), core, begun: false }, join)
    }
}

impl<F: Future> Future for Spawned<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let (future, core) = (this.future, this.core);
        let head = &core.slot.head;
        if !core::mem::replace(this.begun, true) {
            head.watch(cx.waker());
        }
        context::poll(core.polling, head.id, || core.poll(future, cx))
    }
}

/// A panic drops the future as it unwinds: the drop may ask whether the thread panics.
struct Unwinds<'a, F>(Pin<&'a mut Option<F>>);

impl<F> Drop for Unwinds<'_, F> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl<T> Core<T> {
    fn poll<F>(&mut self, mut future: Pin<&mut Option<F>>, cx: &mut Context<'_>) -> Poll<()>
    where
        F: Future<Output = T>,
    {
        if self.slot.head.is_aborted() {
            self.cancel(future);
            return Poll::Ready(());
        }
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let mut unwinds = Unwinds(future.as_mut());
            let polled = match unwinds.0.as_mut().as_pin_mut() {
                Some(future) => future.poll(cx),
                None => Poll::Pending,
            };
            core::mem::forget(unwinds);
            polled
        }));
        let output = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => {
                catch_unwind(AssertUnwindSafe(|| future.set(None))).map(|()| output)
            }
            Err(payload) => Err(payload),
        };
        self.end(output.map_err(|payload| JoinError::panic(self.slot.head.id, payload)));
        Poll::Ready(())
    }

    /// Drops the future, whose task is over.
    fn cancel<F: Future<Output = T>>(&mut self, mut future: Pin<&mut Option<F>>) {
        let id = self.slot.head.id;
        let before = context::set_task(Some(id));
        let dropped = catch_unwind(AssertUnwindSafe(|| future.set(None)));
        self.end(Err(match dropped {
            Ok(()) => JoinError::cancelled(id),
            Err(payload) => JoinError::panic(id, payload),
        }));
        context::set_task(before);
    }

    fn end(&mut self, output: Result<T, JoinError>) {
        self.over = true;
        if let Some(handle) = &self.handle {
            // Ordering: Relaxed; a count.
            handle.inner.alive.fetch_sub(1, Ordering::Relaxed);
        }
        self.slot.finish(output);
    }
}

/// A closure for a thread that may block, as a job. The job cancels its task if it is dropped before it runs.
pub(crate) fn blocking_job<R: Send + 'static>(
    handle: Handle,
    f: impl FnOnce() -> R + Send + 'static,
) -> (impl FnOnce() + Send + 'static, JoinHandle<R>) {
    let slot = Slot::new();
    let join = JoinHandle::new(Arc::clone(&slot));
    // The clock stands still while the closure waits or runs.
    let hold = handle.inner.clock().hold(&handle);
    let mut call = Call { slot, f: Some(f) };
    let run = move || {
        // In a variable of this closure: otherwise only a part is captured.
        call.run();
        drop(call);
        drop(hold);
    };
    (run, join)
}

struct Call<F, R> {
    slot: Arc<Slot<R>>,
    f: Option<F>,
}

impl<F: FnOnce() -> R, R> Call<F, R>
where
    F: FnOnce() -> R,
{
    fn run(&mut self) {
        let id = self.slot.head.id;
        if self.slot.head.is_aborted() {
            return;
        }
        let Some(f) = self.f.take() else { return };
        let before = context::set_task(Some(id));
        let output = catch_unwind(AssertUnwindSafe(f)).map_err(|p| JoinError::panic(id, p));
        self.slot.finish(output);
        context::set_task(before);
    }
}

impl<F, R> Drop for Call<F, R> {
    fn drop(&mut self) {
        if let Some(f) = self.f.take() {
            let id = self.slot.head.id;
            let before = context::set_task(Some(id));
            quietly(f);
            self.slot.finish(Err(JoinError::cancelled(id)));
            context::set_task(before);
        }
    }
}
