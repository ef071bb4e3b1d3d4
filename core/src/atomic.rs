//! The one place that names an atomic type.
//!
//! Everything else in the crate, and every [`Platform`](crate::Platform), takes its atomics from here, so that the same
//! code runs over the machine's own atomics, over `portable-atomic` (targets without compare-and-swap), over
//! `atomic-polyfill` (feature of that name), and under the model checkers `loom`, `shuttle` and `filch-weakmem`.
//!
//! [`Word`] is the widest integer whose atomics are native: `u64` where the target has them, else `u32`. No path that
//! a waker or an interrupt handler touches uses anything wider, because an emulated wide atomic is a lock. The cfg
//! `filch_narrow` forces the narrow word on any host, so that both layouts are tested on one machine.

pub use core::sync::atomic::Ordering;

/// A number that changes only where nobody relies on it, so that it is no part of any protocol, and models do not see it: the
/// machine's own loads and stores, which every target has.
#[derive(Debug)]
pub(crate) struct Setting(core::sync::atomic::AtomicU32);

impl Setting {
    pub(crate) const fn new(value: u32) -> Self {
        Self(core::sync::atomic::AtomicU32::new(value))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u32 {
        // Ordering: it goes with nothing.
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, value: u32) {
        // Ordering: as above.
        self.0.store(value, Ordering::Relaxed);
    }
}

#[cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]
mod backend {
    #[cfg(all(
        target_has_atomic = "ptr",
        any(not(target_has_atomic = "64"), filch_narrow),
        not(feature = "atomic-polyfill")
    ))]
    pub use core::sync::atomic::AtomicU32 as AtomicWord;
    #[cfg(all(target_has_atomic = "64", not(filch_narrow), not(feature = "atomic-polyfill")))]
    pub use core::sync::atomic::AtomicU64 as AtomicWord;
    #[cfg(all(target_has_atomic = "ptr", not(feature = "atomic-polyfill")))]
    pub use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};

    #[cfg(all(not(target_has_atomic = "ptr"), not(feature = "atomic-polyfill")))]
    pub use portable_atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU32 as AtomicWord, AtomicUsize,
    };

    #[cfg(all(feature = "atomic-polyfill", any(not(target_has_atomic = "64"), filch_narrow)))]
    pub use atomic_polyfill::AtomicU32 as AtomicWord;
    #[cfg(all(feature = "atomic-polyfill", target_has_atomic = "64", not(filch_narrow)))]
    pub use atomic_polyfill::AtomicU64 as AtomicWord;
    #[cfg(feature = "atomic-polyfill")]
    pub use atomic_polyfill::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};

    pub(crate) use core::hint::spin_loop;
    pub use core::sync::atomic::{compiler_fence, fence};

    /// A cell whose accesses a model checker could watch; here it costs nothing.
    #[derive(Debug)]
    #[repr(transparent)]
    pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        /// A cell that holds `value`.
        pub const fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }

        /// Reads through a shared pointer.
        #[inline(always)]
        pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        /// Writes through an exclusive pointer.
        #[inline(always)]
        pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(filch_loom)]
mod backend {
    use core::{fmt, ops::Deref};

    use loom::sync::atomic as loom_atomic;

    pub(crate) use loom::hint::spin_loop;
    pub use loom::{cell::UnsafeCell, sync::atomic::fence};

    /// Loom has no compiler fences: it never reorders a thread with itself.
    pub fn compiler_fence(_: super::Ordering) {}

    /// Loom's atomic, and, in models that ask for it (see `model::check`), a counter that loads count up.
    ///
    /// Loom 0.7 looks for schedules by the accesses that depend on each other, but keeps the last access of each atomic
    /// only: a load hides those before it, also from a write by the same thread that comes after it, so that of a load
    /// and a compare-and-swap it may never try whether another thread's load comes after them. Relaxed, the counters
    /// order nothing; but as each depends on the one before, all orders of the loads are tried.
    macro_rules! counted {
        ($name:ident$(<$t:ident>)?, $inner:ty, $value:ty) => {
            /// Loom's atomic, with a counter of loads.
            pub struct $name$(<$t>)? {
                inner: $inner,
                loads: Option<loom_atomic::AtomicUsize>,
            }

            impl$(<$t>)? $name$(<$t>)? {
                /// An atomic that begins with `value`.
                pub fn new(value: $value) -> Self {
                    let loads = counts().then(|| loom_atomic::AtomicUsize::new(0));
                    Self { inner: <$inner>::new(value), loads }
                }

                /// Loads the value.
                #[track_caller]
                pub fn load(&self, order: super::Ordering) -> $value {
                    if let Some(loads) = &self.loads {
                        loads.fetch_add(1, super::Ordering::Relaxed);
                    }
                    self.inner.load(order)
                }
            }

            impl$(<$t>)? fmt::Debug for $name$(<$t>)? {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.inner.fmt(f)
                }
            }

            impl$(<$t>)? Deref for $name$(<$t>)? {
                type Target = $inner;
                fn deref(&self) -> &$inner {
                    &self.inner
                }
            }
        };
    }
    #[cfg(test)]
    use super::model::counts;
    #[cfg(not(test))]
    fn counts() -> bool {
        false
    }

    counted!(AtomicBool, loom_atomic::AtomicBool, bool);
    counted!(AtomicU32, loom_atomic::AtomicU32, u32);
    counted!(AtomicUsize, loom_atomic::AtomicUsize, usize);
    counted!(AtomicPtr<T>, loom_atomic::AtomicPtr<T>, *mut T);
    #[cfg(filch_narrow)]
    pub use self::AtomicU32 as AtomicWord;
    #[cfg(not(filch_narrow))]
    counted!(AtomicWord, loom_atomic::AtomicU64, u64);
}

#[cfg(filch_weakmem)]
mod backend {
    #[cfg(filch_narrow)]
    pub use filch_weakmem::atomic::AtomicU32 as AtomicWord;
    #[cfg(not(filch_narrow))]
    pub use filch_weakmem::atomic::AtomicU64 as AtomicWord;
    pub(crate) use filch_weakmem::spin_loop;
    pub use filch_weakmem::{
        UnsafeCell,
        atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, compiler_fence, fence},
    };
}

#[cfg(filch_shuttle)]
mod backend {
    pub(crate) use shuttle::hint::spin_loop;
    #[cfg(filch_narrow)]
    pub use shuttle::sync::atomic::AtomicU32 as AtomicWord;
    #[cfg(not(filch_narrow))]
    pub use shuttle::sync::atomic::AtomicU64 as AtomicWord;
    pub use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, fence};
    /// Shuttle runs one thread at a time.
    pub fn compiler_fence(_: super::Ordering) {}

    /// Shuttle has no cell of its own; every access is a scheduling point.
    #[derive(Debug)]
    pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        /// A cell that holds `value`.
        pub const fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }

        /// Reads through a shared pointer.
        pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            shuttle::thread::yield_now();
            f(self.0.get())
        }

        /// Writes through an exclusive pointer.
        pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            shuttle::thread::yield_now();
            f(self.0.get())
        }
    }
}

pub(crate) use backend::spin_loop;
pub use backend::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, AtomicWord, UnsafeCell, compiler_fence, fence,
};

/// One round of a wait for somebody who is about to be done; model checkers let the others run.
#[cold]
#[cfg_attr(filch_weakmem, track_caller)]
pub(crate) fn spin() {
    #[cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]
    core::hint::spin_loop();
    #[cfg(filch_loom)]
    loom::thread::yield_now();
    #[cfg(filch_shuttle)]
    shuttle::thread::yield_now();
    #[cfg(filch_weakmem)]
    filch_weakmem::thread::yield_now();
}

/// The widest integer with native atomics on this target.
#[cfg(all(target_has_atomic = "64", not(filch_narrow)))]
pub type Word = u64;
/// The widest integer with native atomics on this target.
#[cfg(any(not(target_has_atomic = "64"), filch_narrow))]
pub type Word = u32;

/// A counter with one writer. Models leave it out: the one protocol that rests on counters, the end of an executor, is
/// argued in `scheduler/shutdown.rs`.
///
/// As wide as a pointer: on 32-bit targets it wraps, and differences stay right.
#[derive(Debug, Default)]
pub(crate) struct Counter(core::sync::atomic::AtomicUsize);

impl Counter {
    pub(crate) const fn new() -> Self {
        Self(core::sync::atomic::AtomicUsize::new(0))
    }

    /// Adds `n`. The caller is the only writer.
    #[inline(always)]
    pub(crate) fn add(&self, n: usize) {
        // Ordering: Release pairs with the Acquire in `get`; the load is the writer's own.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> usize {
        // Ordering: see `add`.
        self.0.load(Ordering::Acquire)
    }
}

/// `const fn` everywhere but under loom, whose atomics are made at run time.
macro_rules! maybe_const {
    ($(#[$meta:meta])* $vis:vis fn $($rest:tt)*) => {
        #[cfg(not(filch_loom))]
        $(#[$meta])* $vis const fn $($rest)*
        #[cfg(filch_loom)]
        $(#[$meta])* $vis fn $($rest)*
    };
}
pub(crate) use maybe_const;

/// An array of equal values; a constant everywhere but under loom.
macro_rules! array_of {
    ($value:expr; $n:expr) => {{
        #[cfg(not(filch_loom))]
        {
            [const { $value }; $n]
        }
        #[cfg(filch_loom)]
        {
            core::array::from_fn::<_, { $n }, _>(|_| $value)
        }
    }};
}
pub(crate) use array_of;

/// What the models of all modules share.
#[cfg(all(test, filch_loom))]
pub(crate) mod model {
    use core::{
        cell::{Cell, RefCell},
        ptr::NonNull,
        sync::atomic::{AtomicUsize, Ordering},
    };
    use std::{sync::Arc, thread, time::Instant};

    type Leaked = (NonNull<()>, unsafe fn(NonNull<()>));

    std::thread_local! {
        /// Whether atomics that are made now count their loads. Loom's threads are coroutines of the one thread that runs
        /// the model, so that they all see this.
        static COUNTS: Cell<bool> = const { Cell::new(false) };
        static LEAKED: RefCell<Vec<Leaked>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn counts() -> bool {
        COUNTS.get()
    }

    /// Runs `f` in all schedules with at most `preemptions` of them that loom finds, and that the counters of loads make
    /// it find (see `counted`): for models of a few dozen accesses.
    pub(crate) fn check(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
        run(true, preemptions, f);
    }

    /// Runs `f` in the schedules with at most `preemptions` of them that loom finds by itself: for larger models.
    pub(crate) fn check_large(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
        run(false, preemptions, f);
    }

    fn run(counts: bool, preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        // `LOOM_MAX_PREEMPTIONS` above or below 2 moves the bound as far.
        let bound = (preemptions + model.preemption_bound.unwrap_or(2)).saturating_sub(2);
        model.preemption_bound = Some(bound);
        model.max_branches = model.max_branches.max(20_000);
        let (begin, schedules) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let n = Arc::clone(&schedules);
        COUNTS.set(counts);
        model.check(move || {
            n.fetch_add(1, Ordering::Relaxed);
            f();
            for (at, drop) in LEAKED.take() {
                // SAFETY: `leak` put it there; the model is over, its threads have been joined.
                unsafe { drop(at) };
            }
        });
        COUNTS.set(false);
        let (n, time) = (schedules.load(Ordering::Relaxed), begin.elapsed().as_secs_f32());
        let me = thread::current();
        let name = me.name().unwrap_or("model");
        std::eprintln!("{name}: {n} schedules, {bound} preemptions, {time:.1} s");
    }
    /// A value that lives until the end of the model's run, whose threads are joined before that.
    pub(crate) fn leak<T>(value: T) -> &'static T {
        unsafe fn drop_box<T>(at: NonNull<()>) {
            // SAFETY: it was made below.
            drop(unsafe { Box::from_raw(at.cast::<T>().as_ptr()) });
        }
        let at = NonNull::from(Box::leak(Box::new(value)));
        LEAKED.with_borrow_mut(|all| all.push((at.cast(), drop_box::<T>)));
        // SAFETY: just made, and never used mutably again.
        unsafe { at.as_ref() }
    }
}
