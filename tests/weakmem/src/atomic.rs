//! Atomics with a history: each load may read any value that the memory model allows.
//!
//! They have the names and methods of [`core::sync::atomic`]. Each operation is a switch point.
//! Outside of a check they are ordinary atomics, all relaxed. The README lists the covered parts of
//! the C++20 model.

use core::{fmt, panic::Location};

pub use core::sync::atomic::Ordering;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::{
    races::{Access, Site},
    run::{self, Run},
    tag::Tag,
};

/// As [`core::sync::atomic::fence`]; a switch point.
///
/// # Panics
/// If `order` is `Relaxed`.
#[track_caller]
pub fn fence(order: Ordering) {
    assert_ne!(order, Relaxed, "there is no such thing as a relaxed fence");
    let site = Location::caller();
    run::step(site, |run, me| {
        run.memory.fence(me, order);
        run.note(me, "fence", 0, 0, site);
        Ok(())
    });
}

/// Orders nothing between threads: a simulated thread is never reordered with itself.
pub fn compiler_fence(_: Ordering) {}

macro_rules! atomic {
    ($(#[$meta:meta])* $name:ident $(<$t:ident>)?, $inner:ty, $value:ty, $to:expr, $from:expr) => {
        $(#[$meta])*
        pub struct $name $(<$t>)? {
            tag: Tag,
            /// The last value in modification order.
            last: $inner,
        }

        impl $(<$t>)? $name $(<$t>)? {
            /// An atomic that begins with `value`.
            pub const fn new(value: $value) -> Self {
                Self { tag: Tag::new(), last: <$inner>::new(value) }
            }

            /// Loads a value: the last one, or an older one that the thread may still see.
            ///
            /// # Panics
            /// If `order` is `Release` or `AcqRel`.
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                match load(&self.tag, || $to(self.last.load(Relaxed)), order, Location::caller()) {
                    Some(value) => $from(value),
                    None => self.last.load(order),
                }
            }

            /// Stores a value.
            ///
            /// # Panics
            /// If `order` is `Acquire` or `AcqRel`.
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                let last = || $to(self.last.load(Relaxed));
                store(&self.tag, last, $to(value), order, Location::caller());
                self.last.store(value, Relaxed);
            }

            /// Stores a value and returns the one before it.
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.modify("swap", order, |_| value)
            }

            /// Stores `new` if the value is `current`, and otherwise returns the value, which may
            /// be an old one.
            ///
            /// # Errors
            /// The value that it found.
            ///
            /// # Panics
            /// If `failure` is `Release` or `AcqRel`.
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                order: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let next = |found| (found == current).then_some(new);
                self.exchange(Change { what: "exchange", order, failure, weak: false }, next)
            }

            /// As [`compare_exchange`](Self::compare_exchange), but it may fail spuriously.
            ///
            /// # Errors
            /// The value that it found, which may be `current`.
            ///
            /// # Panics
            /// If `failure` is `Release` or `AcqRel`.
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                order: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let next = |found| (found == current).then_some(new);
                self.exchange(Change { what: "weak exchange", order, failure, weak: true }, next)
            }

            /// Loads, and exchanges until it succeeds or `f` returns `None`.
            ///
            /// # Errors
            /// The value for which `f` returned `None`.
            #[track_caller]
            pub fn fetch_update(
                &self,
                order: Ordering,
                failure: Ordering,
                mut f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut found = self.load(failure);
                while let Some(new) = f(found) {
                    match self.compare_exchange_weak(found, new, order, failure) {
                        Ok(old) => return Ok(old),
                        Err(other) => found = other,
                    }
                }
                Err(found)
            }

            /// The value of an atomic that is not shared.
            #[track_caller]
            pub fn get_mut(&mut self) -> &mut $value {
                self.tag.renew(Location::caller());
                self.last.get_mut()
            }

            /// The value of an atomic that is not shared.
            #[track_caller]
            pub fn into_inner(mut self) -> $value {
                *self.get_mut()
            }

            #[track_caller]
            fn modify(
                &self,
                what: &'static str,
                order: Ordering,
                f: impl Fn($value) -> $value,
            ) -> $value {
                let change = Change { what, order, failure: Relaxed, weak: false };
                match self.exchange(change, |old| Some(f(old))) {
                    Ok(old) | Err(old) => old,
                }
            }

            #[track_caller]
            fn exchange(
                &self,
                change: Change,
                next: impl Fn($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let last = || $to(self.last.load(Relaxed));
                let bits = |bits| next($from(bits)).map($to);
                let result = match update(&self.tag, last, &change, bits, Location::caller()) {
                    Some(result) => result.map($from).map_err($from),
                    None => return self.last.fetch_update(change.order, change.failure, next),
                };
                if let Ok(old) = result {
                    self.last.store(next(old).unwrap_or(old), Relaxed);
                }
                result
            }
        }

        impl $(<$t>)? Drop for $name $(<$t>)? {
            #[track_caller]
            fn drop(&mut self) {
                self.tag.kill(Location::caller());
            }
        }

        impl $(<$t>)? fmt::Debug for $name $(<$t>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.last.fmt(f)
            }
        }

        impl $(<$t>)? From<$value> for $name $(<$t>)? {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        }
    };
}

macro_rules! integer {
    ($($name:ident $value:ident),*) => { $(
        atomic!(
            #[doc = concat!("As [`core::sync::atomic::", stringify!($name), "`].")]
            $name, core::sync::atomic::$name, $value,
            |value: $value| value as u64, |bits: u64| bits as $value
        );

        impl $name {
            /// Adds, wrapping around, and returns the value before.
            #[track_caller]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.modify("add", order, |old| old.wrapping_add(value))
            }

            /// Subtracts, wrapping around, and returns the value before.
            #[track_caller]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.modify("subtract", order, |old| old.wrapping_sub(value))
            }

            /// Stores the larger of both, and returns the value before.
            #[track_caller]
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                self.modify("max", order, |old| old.max(value))
            }

            /// Stores the smaller of both, and returns the value before.
            #[track_caller]
            pub fn fetch_min(&self, value: $value, order: Ordering) -> $value {
                self.modify("min", order, |old| old.min(value))
            }
        }

        bits!($name $value);
    )* };
}

macro_rules! bits {
    ($name:ident $value:ident) => {
        impl $name {
            /// Bitwise and; returns the value before.
            #[track_caller]
            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                self.modify("and", order, |old| old & value)
            }

            /// Bitwise nand; returns the value before.
            #[track_caller]
            pub fn fetch_nand(&self, value: $value, order: Ordering) -> $value {
                self.modify("nand", order, |old| !(old & value))
            }

            /// Bitwise or; returns the value before.
            #[track_caller]
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.modify("or", order, |old| old | value)
            }

            /// Bitwise exclusive or; returns the value before.
            #[track_caller]
            pub fn fetch_xor(&self, value: $value, order: Ordering) -> $value {
                self.modify("xor", order, |old| old ^ value)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new($value::default())
            }
        }
    };
}

integer!(
    AtomicU8 u8, AtomicU16 u16, AtomicU32 u32, AtomicU64 u64, AtomicUsize usize,
    AtomicI8 i8, AtomicI16 i16, AtomicI32 i32, AtomicI64 i64, AtomicIsize isize
);

atomic!(
    /// As [`core::sync::atomic::AtomicBool`].
    AtomicBool, core::sync::atomic::AtomicBool, bool, u64::from, |bits: u64| bits != 0
);
bits!(AtomicBool bool);

atomic!(
    /// As [`core::sync::atomic::AtomicPtr`]; a pointer's provenance is exposed on the way.
    AtomicPtr<T>, core::sync::atomic::AtomicPtr<T>, *mut T,
    |pointer: *mut T| pointer.expose_provenance() as u64,
    |bits: u64| core::ptr::with_exposed_provenance_mut(bits as usize)
);

impl<T> Default for AtomicPtr<T> {
    fn default() -> Self {
        Self::new(core::ptr::null_mut())
    }
}

impl AtomicU32 {
    /// Its location in the run.
    pub(crate) fn locate(&self, run: &mut Run, site: Site) -> Result<usize, String> {
        self.tag.locate(run, site, || u64::from(self.last.load(Relaxed)))
    }
}

struct Change {
    what: &'static str,
    order: Ordering,
    failure: Ordering,
    weak: bool,
}

fn load(tag: &Tag, last: impl FnOnce() -> u64, order: Ordering, site: Site) -> Option<u64> {
    run::step(site, |run, me| {
        check_load(order);
        let at = touch(tag, run, me, "load", site, last)?;
        let (value, stale) = run.memory.load(me, at, order, run.odds.stale, &mut run.rng);
        run.stats.stale_reads += u64::from(stale);
        run.note(me, if stale { "stale load" } else { "load" }, at, value, site);
        Ok(value)
    })
}

fn store(tag: &Tag, last: impl FnOnce() -> u64, value: u64, order: Ordering, site: Site) {
    assert!(
        matches!(order, Relaxed | Release | SeqCst),
        "there is no such thing as {order:?} store"
    );
    run::step(site, |run, me| {
        let at = touch(tag, run, me, "store", site, last)?;
        run.memory.store(me, at, value, order);
        run.note(me, "store", at, value, site);
        Ok(())
    });
}

fn update(
    tag: &Tag,
    last: impl FnOnce() -> u64,
    change: &Change,
    next: impl Fn(u64) -> Option<u64>,
    site: Site,
) -> Option<Result<u64, u64>> {
    check_load(change.failure);
    run::step(site, |run, me| {
        let at = touch(tag, run, me, change.what, site, last)?;
        if change.weak && run.rng.chance(run.odds.failure) {
            run.stats.spurious_failures += 1;
            let odds = run.odds.stale;
            let (found, _) = run.memory.load(me, at, change.failure, odds, &mut run.rng);
            run.note(me, "spurious failure", at, found, site);
            return Ok(Err(found));
        }
        let (order, failure, odds) = (change.order, change.failure, run.odds.stale);
        let update = run.memory.update(me, at, order, failure, next, odds, &mut run.rng);
        run.stats.stale_reads += u64::from(update.stale);
        run.note(me, change.what, at, update.new.unwrap_or(update.old), site);
        Ok(if update.new.is_some() { Ok(update.old) } else { Err(update.old) })
    })
}

fn check_load(order: Ordering) {
    assert!(
        matches!(order, Relaxed | Acquire | SeqCst),
        "there is no such thing as {order:?} load"
    );
}

/// The location of the atomic that is being accessed.
fn touch(
    tag: &Tag,
    run: &mut Run,
    me: usize,
    what: &'static str,
    site: Site,
    last: impl FnOnce() -> u64,
) -> Result<usize, String> {
    let at = tag.locate(run, site, last)?;
    let seen = run.memory.seen(me);
    run.accesses[at].share(Access::new(what, me, seen, site), seen)?;
    Ok(at)
}
