//! What both kinds of scope share: the count of what they wait for, and the first panic.

use core::{marker::PhantomData, panic::AssertUnwindSafe, ptr::NonNull};
use std::{
    panic::{catch_unwind, resume_unwind},
    sync::{Arc, Mutex},
};

use filch_std::internal::CountLatch;

use crate::{
    broadcast::BroadcastContext,
    job::Job,
    registry::{Payload, RegistryRef, lock},
};

/// INV-SCOPE: a scope stays until each of its jobs has counted the latch down, which is the last that it does with it.
pub(super) struct Base<'scope> {
    pub(super) registry: RegistryRef,
    latch: CountLatch,
    panic: Mutex<Option<Payload>>,
    /// `'scope` can be neither stretched nor cut.
    scope: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

impl<'scope> Base<'scope> {
    pub(super) fn new(registry: RegistryRef) -> Self {
        // Its body is one of those it waits for.
        let latch = CountLatch::on(registry.handle, 1);
        Self { registry, latch, panic: Mutex::default(), scope: PhantomData }
    }

    /// Runs the body, and waits for the jobs.
    pub(super) fn complete<R>(&self, body: impl FnOnce() -> R) -> R {
        let outcome = self.guard(body);
        // SAFETY: INV-LATCH: the body is counted from the beginning.
        unsafe { CountLatch::down(NonNull::from(&self.latch)) };
        self.latch.wait();
        match (lock(&self.panic).take(), outcome) {
            (None, Some(outcome)) => outcome,
            (Some(payload), _) => resume_unwind(payload),
            (None, None) => unreachable!("the panic of the body was kept, if no other"),
        }
    }

    /// Keeps the first panic.
    fn guard<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(outcome) => Some(outcome),
            Err(payload) => {
                // The payload that comes too late is dropped when nothing is locked.
                let _late = {
                    let mut first = lock(&self.panic);
                    if first.is_none() { first.replace(payload) } else { Some(payload) }
                };
                None
            }
        }
    }

    /// A closure as a job that the scope waits for.
    pub(super) fn job(&self, body: impl FnOnce() + Send + 'scope) -> Job {
        self.latch.up(1);
        let this = ScopeRef::new(self);
        let job = move || {
            let base = this.get();
            base.guard(body);
            // SAFETY: INV-LATCH: counted above; the last touch.
            unsafe { CountLatch::down(NonNull::from(&base.latch)) };
        };
        // SAFETY: it runs before the scope ends (INV-SCOPE), and so before `'scope` does.
        unsafe { Job::borrowing(job) }
    }

    /// A closure that every thread runs, and that the scope waits for.
    pub(super) fn broadcast(&self, body: impl Fn(BroadcastContext<'_>) + Send + Sync + 'scope) {
        let (body, n) = (Arc::new(body), self.registry.num_threads());
        self.registry.push_to_all(|index| {
            let body = Arc::clone(&body);
            self.job(move || body(BroadcastContext::new(index, n)))
        });
    }
}

/// A reference to a scope, or a part of one, in a job of it (INV-SCOPE).
pub(super) struct ScopeRef<T>(NonNull<T>);

// SAFETY: as `&T`.
unsafe impl<T: Sync> Send for ScopeRef<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for ScopeRef<T> {}

impl<T> ScopeRef<T> {
    pub(super) fn new(scope: &T) -> Self {
        Self(NonNull::from(scope))
    }

    pub(super) fn get(&self) -> &T {
        // SAFETY: INV-SCOPE.
        unsafe { self.0.as_ref() }
    }
}
