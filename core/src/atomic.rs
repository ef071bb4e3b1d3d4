//! The one place that names an atomic type.
//!
//! The rest of the crate, and every [`Platform`](crate::Platform), takes its atomics from here. So the same code runs
//! on the machine's own atomics, on `portable-atomic` (targets without compare-and-swap), on `atomic-polyfill` (feature
//! of that name), and under the model checkers `loom`, `shuttle` and `filch-weakmem`.
//!
//! [`Word`] is the widest integer whose atomics are native: `u64` where the target has them, else `u32`. No path that a
//! waker or an interrupt handler touches uses a wider one, because an emulated wide atomic is a lock. The cfg
//! `filch_narrow` forces the narrow word on any host, so that both layouts are tested on one machine.

pub use core::sync::atomic::Ordering;

/// A number that changes only while no context relies on it. It is no part of a protocol, so models do not see it: it
/// uses the machine's own loads and stores, which every target has.
#[derive(Debug)]
pub(crate) struct Setting(core::sync::atomic::AtomicU32);

impl Setting {
    pub(crate) const fn new(value: u32) -> Self {
        Self(core::sync::atomic::AtomicU32::new(value))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u32 {
        // Ordering: Relaxed: it publishes nothing.
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, value: u32) {
        // Ordering: as above.
        self.0.store(value, Ordering::Relaxed);
    }
}

/// A static that refers to a value that was ready before, or to none. As `Setting`, it is no part of a protocol that models see.
#[cfg(any(feature = "task-dump", feature = "waker-events"))]
pub(crate) struct Global<T: 'static>(core::sync::atomic::AtomicPtr<T>);

#[cfg(any(feature = "task-dump", feature = "waker-events"))]
impl<T: Sync> Global<T> {
    pub(crate) const fn new() -> Self {
        Self(core::sync::atomic::AtomicPtr::new(core::ptr::null_mut()))
    }

    pub(crate) fn set(&self, value: Option<&'static T>) {
        let value = value.map_or(core::ptr::null(), core::ptr::from_ref);
        // Ordering: Release pairs with the Acquire in `get`: a context that finds the value finds what was prepared for it.
        self.0.store(value.cast_mut(), Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // Ordering: Acquire pairs with the Release in `set`.
        // SAFETY: null, or `set` had it as a reference for ever, which is shared with any context: it is `Sync`.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }
}

/// A number that an observer puts on a task, or none. As `Setting`, it is no part of a protocol that models see.
#[cfg(feature = "waker-events")]
pub(crate) struct Mark(core::sync::atomic::AtomicUsize);

#[cfg(feature = "waker-events")]
impl Mark {
    pub(crate) const fn none() -> Self {
        Self(core::sync::atomic::AtomicUsize::new(0))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> Option<core::num::NonZeroUsize> {
        // Ordering: Relaxed, here and below: a number alone. A context that has a waker of the task sees what was there as the waker
        // was made, by way of what gave it the waker.
        core::num::NonZeroUsize::new(self.0.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(crate) fn set(&self, mark: Option<core::num::NonZeroUsize>) {
        self.0.store(mark.map_or(0, core::num::NonZeroUsize::get), Ordering::Relaxed);
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

    /// A cell whose accesses a model checker could check. Here it costs nothing.
    ///
    /// ```
    /// use filch::atomic::UnsafeCell;
    /// let cell = UnsafeCell::new(1);
    /// // SAFETY: no other context has the cell.
    /// cell.with_mut(|number| unsafe { *number += 1 });
    /// // SAFETY: as above.
    /// assert_eq!(cell.with(|number| unsafe { *number }), 2);
    /// ```
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

    /// Loom's atomic. In models that ask for it (see `model::check`), with a counter that each load increments.
    ///
    /// Loom 0.7 derives the schedules that it tries from accesses that depend on each other, but it keeps only the last
    /// access of each atomic. A load hides the accesses before it, even from a later write by the same thread. So of a
    /// load and a compare-and-swap, it may never try that another thread's load comes after both. The counters are
    /// Relaxed and order nothing, but each increment depends on the one before, so that loom tries the loads in every
    /// order.
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
    /// Shuttle runs one thread at a time, so that a compiler fence does nothing.
    pub fn compiler_fence(_: super::Ordering) {}

    /// Shuttle has no cell of its own. Each access is a scheduling point.
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

/// One round of a wait for another context that is about to finish. Model checkers run another thread meanwhile.
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
///
/// ```
/// use filch::atomic::{AtomicWord, Word};
/// let word: Word = AtomicWord::new(7).into_inner();
/// assert_eq!(word, 7);
/// ```
#[cfg(all(target_has_atomic = "64", not(filch_narrow)))]
pub type Word = u64;
/// The widest integer with native atomics on this target.
///
/// ```
/// use filch::atomic::{AtomicWord, Word};
/// let word: Word = AtomicWord::new(7).into_inner();
/// assert_eq!(word, 7);
/// ```
#[cfg(any(not(target_has_atomic = "64"), filch_narrow))]
pub type Word = u32;

/// A counter with one writer. Models leave it out: one protocol rests on counters, the end of an executor, and
/// `scheduler/lifecycle/shutdown.rs` argues it.
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
        // Ordering: Release pairs with the Acquire in `get`. The load reads the writer's own value.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> usize {
        // Ordering: Acquire pairs with the Release in `add`.
        self.0.load(Ordering::Acquire)
    }
}

/// `const fn`, except under loom, whose atomics are made at run time.
macro_rules! maybe_const {
    ($(#[$meta:meta])* $vis:vis fn $($rest:tt)*) => {
        #[cfg(not(filch_loom))]
        $(#[$meta])* $vis const fn $($rest)*
        #[cfg(filch_loom)]
        $(#[$meta])* $vis fn $($rest)*
    };
}
pub(crate) use maybe_const;

/// An array of equal values; a constant except under loom.
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
        /// Whether new atomics count their loads. Loom's threads are coroutines of the one thread that runs the model,
        /// so all of them see this value.
        static COUNTS: Cell<bool> = const { Cell::new(false) };
        static LEAKED: RefCell<Vec<Leaked>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn counts() -> bool {
        COUNTS.get()
    }

    /// Runs `f` in every schedule with at most `preemptions` preemptions that loom finds, including those that it finds
    /// by the counters of loads (see `counted`). For models of a few dozen accesses.
    pub(crate) fn check(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
        run(true, preemptions, f);
    }

    /// Runs `f` in the schedules with at most `preemptions` preemptions that loom finds without the counters. For
    /// larger models.
    pub(crate) fn check_large(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
        run(false, preemptions, f);
    }

    fn run(counts: bool, preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        // The variable `LOOM_MAX_PREEMPTIONS` shifts the bound by its difference to 2.
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
                // SAFETY: `leak` put the value there; the model is over, and its threads have been joined.
                unsafe { drop(at) };
            }
        });
        COUNTS.set(false);
        let (n, time) = (schedules.load(Ordering::Relaxed), begin.elapsed().as_secs_f32());
        let me = thread::current();
        let name = me.name().unwrap_or("model");
        std::eprintln!("{name}: {n} schedules, {bound} preemptions, {time:.1} s");
    }
    /// A value that lives until the end of the model's run. The model's threads are joined before that.
    pub(crate) fn leak<T>(value: T) -> &'static T {
        unsafe fn drop_box<T>(at: NonNull<()>) {
            // SAFETY: the pointer is that of the box made below, and is freed once.
            drop(unsafe { Box::from_raw(at.cast::<T>().as_ptr()) });
        }
        let at = NonNull::from(Box::leak(Box::new(value)));
        LEAKED.with_borrow_mut(|all| all.push((at.cast(), drop_box::<T>)));
        // SAFETY: the value has just been made, and is never borrowed mutably again.
        unsafe { at.as_ref() }
    }
}
