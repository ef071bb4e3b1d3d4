//! Small helpers.

/// A number of 64 bits that is given once.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(::core::num::NonZeroU64);

        impl $name {
            pub(crate) fn next() -> Self {
                static NEXT: ::core::sync::atomic::AtomicU64 = ::core::sync::atomic::AtomicU64::new(1);
                loop {
                    // Ordering: Relaxed; a counter.
                    let next = NEXT.fetch_add(1, ::core::sync::atomic::Ordering::Relaxed);
                    if let Some(id) = ::core::num::NonZeroU64::new(next) {
                        return Self(id);
                    }
                }
            }
        }

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

pub(crate) use id;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic: what the locks here guard is whole at any time.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
