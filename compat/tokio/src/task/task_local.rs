//! Values that a future has for itself while it is polled: [`task_local!`](crate::task_local).

use core::{
    cell::RefCell,
    error::Error,
    fmt,
    future::Future,
    marker::PhantomPinned,
    pin::Pin,
    task::{Context, Poll},
};
use std::thread;

use pin_project_lite::pin_project;

/// Declares values that a future has for itself while it is polled.
///
/// ```
/// filch_tokio::task_local! {
///     static NUMBER: u32;
/// }
/// let runtime = filch_tokio::runtime::Runtime::new().unwrap();
/// let seen = runtime.block_on(NUMBER.scope(7, async { NUMBER.get() }));
/// assert_eq!(seen, 7);
/// ```
#[macro_export]
macro_rules! task_local {
    () => {};
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty; $($rest:tt)*) => {
        $crate::task_local!($(#[$attr])* $vis static $name: $t);
        $crate::task_local!($($rest)*);
    };
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty) => {
        $(#[$attr])*
        $vis static $name: $crate::task::LocalKey<$t> = {
            ::std::thread_local! {
                static VALUE: ::core::cell::RefCell<::core::option::Option<$t>> =
                    const { ::core::cell::RefCell::new(::core::option::Option::None) };
            }
            $crate::task::LocalKey { inner: VALUE }
        };
    };
}

/// A value that a future has for itself: from [`task_local!`](crate::task_local).
pub struct LocalKey<T: 'static> {
    #[doc(hidden)]
    pub inner: thread::LocalKey<RefCell<Option<T>>>,
}

/// Why there is no value: the caller is in no scope of the key.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct AccessError {
    _private: (),
}

impl fmt::Debug for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessError").finish()
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("task-local value not set")
    }
}

impl Error for AccessError {}

const NESTED: &str = "cannot enter a task-local scope while the task-local storage is borrowed";
const GONE: &str =
    "cannot enter a task-local scope during or after destruction of the underlying thread-local";

impl<T: 'static> LocalKey<T> {
    /// A future that has this value while it is polled, and as it is dropped.
    pub fn scope<F: Future>(&'static self, value: T, f: F) -> TaskLocalFuture<T, F> {
        TaskLocalFuture { local: self, slot: Some(value), future: Some(f), _pinned: PhantomPinned }
    }

    /// Calls a closure that has this value.
    ///
    /// # Panics
    /// If the value is borrowed.
    #[track_caller]
    pub fn sync_scope<F, R>(&'static self, value: T, f: F) -> R
    where
        F: FnOnce() -> R,
    {
        let mut value = Some(value);
        match self.swapped(&mut value, f) {
            Ok(result) => result,
            Err(reason) => panic!("{reason}"),
        }
    }

    /// Calls the closure with the value in place.
    fn swapped<R>(
        &'static self,
        slot: &mut Option<T>,
        f: impl FnOnce() -> R,
    ) -> Result<R, &'static str> {
        let swap = |slot: &mut Option<T>| {
            let swapped = self.inner.try_with(|inner| match inner.try_borrow_mut() {
                Ok(mut inner) => {
                    core::mem::swap(slot, &mut *inner);
                    Ok(())
                }
                Err(_) => Err(NESTED),
            });
            swapped.unwrap_or(Err(GONE))
        };
        struct Back<'a, T, S: Fn(&mut Option<T>) -> Result<(), &'static str>>(&'a mut Option<T>, S);
        impl<T, S: Fn(&mut Option<T>) -> Result<(), &'static str>> Drop for Back<'_, T, S> {
            fn drop(&mut self) {
                // It was swapped before, on this thread, and no borrow outlives the closure.
                let _ = (self.1)(self.0);
            }
        }
        swap(slot)?;
        let _back = Back(slot, swap);
        Ok(f())
    }

    /// Calls a closure with the value.
    ///
    /// # Panics
    /// Outside of a scope of the key.
    #[track_caller]
    pub fn with<F, R>(&'static self, f: F) -> R
    where
        F: FnOnce(&T) -> R,
    {
        match self.try_with(f) {
            Ok(result) => result,
            Err(_) => panic!("cannot access a task-local storage value without setting it first"),
        }
    }

    /// Calls a closure with the value.
    ///
    /// # Errors
    /// Outside of a scope of the key.
    pub fn try_with<F, R>(&'static self, f: F) -> Result<R, AccessError>
    where
        F: FnOnce(&T) -> R,
    {
        let called = self.inner.try_with(|inner| inner.borrow().as_ref().map(f));
        called.ok().flatten().ok_or(AccessError { _private: () })
    }
}

impl<T: Clone + 'static> LocalKey<T> {
    /// A copy of the value.
    ///
    /// # Panics
    /// Outside of a scope of the key.
    #[track_caller]
    pub fn get(&'static self) -> T {
        self.with(T::clone)
    }

    /// A copy of the value.
    ///
    /// # Errors
    /// Outside of a scope of the key.
    pub fn try_get(&'static self) -> Result<T, AccessError> {
        self.try_with(T::clone)
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}

pin_project! {
    /// The future of [`LocalKey::scope`].
    #[must_use = "futures do nothing unless polled"]
    pub struct TaskLocalFuture<T, F>
    where
        T: 'static,
    {
        local: &'static LocalKey<T>,
        slot: Option<T>,
        #[pin]
        future: Option<F>,
        #[pin]
        _pinned: PhantomPinned,
    }

    impl<T: 'static, F> PinnedDrop for TaskLocalFuture<T, F> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if this.future.is_some() {
                let mut future = this.future;
                let _ = this.local.swapped(this.slot, || future.set(None));
            }
        }
    }
}

impl<T, F> TaskLocalFuture<T, F> {
    /// Takes the value out.
    pub fn take_value(self: Pin<&mut Self>) -> Option<T> {
        self.project().slot.take()
    }
}

impl<T: 'static, F: Future> Future for TaskLocalFuture<T, F> {
    type Output = F::Output;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let mut future = this.future;
        let polled = this.local.swapped(this.slot, || {
            let polled = future.as_mut().as_pin_mut().map(|future| future.poll(cx));
            if polled.as_ref().is_some_and(Poll::is_ready) {
                future.set(None);
            }
            polled
        });
        match polled {
            Ok(Some(polled)) => polled,
            Ok(None) => panic!("`TaskLocalFuture` polled after completion"),
            Err(reason) => panic!("{reason}"),
        }
    }
}

impl<T: fmt::Debug + 'static, F> fmt::Debug for TaskLocalFuture<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskLocalFuture").field("value", &self.slot).finish_non_exhaustive()
    }
}
