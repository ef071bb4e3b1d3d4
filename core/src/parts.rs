//! What an executor has, said by its type.
//!
//! ```
//! use filch::{WorkerSlot, parts::*};
//!
//! // One core, no more than spawning, waking and awaiting, and some timers.
//! type Device = WorkerSlot<8, FewTimers>;
//! // A server that computes: all parts but classes. More than eight parts are a tuple in a tuple.
//! type Server = WorkerSlot<8, (Cores, Timers, Io, Watchdog, Metrics, Shutdown, (Forks, Waits, Broadcasts))>;
//! assert!(size_of::<Device>() < size_of::<Server>());
//! assert!(size_of::<Server>() <= size_of::<WorkerSlot<8, All>>());
//! ```
//!
//! The last parameter of an [`Executor`](crate::Executor) is a set of parts: one part, a tuple of up to eight, [`All`] (the default) or
//! `()` for none. What is not in the set is not linked, and its queues, wheels and counters take no memory. A method that needs a part does
//! not compile without it; a handle that does not know its executor's type returns an error.
//!
//! | part | without it |
//! |---|---|
//! | [`Cores`] | the executor has one worker, which polls tasks in the order of their wakes; no code searches, steals, or keeps cores apart in memory |
//! | [`Timers`] or [`FewTimers`] | no [`Scheduler::timers`](crate::Scheduler::timers) |
//! | [`Forks`] | no [`Scheduler::fork`](crate::Scheduler::fork) |
//! | [`Waits`] | no [`Scheduler::help_until`](crate::Scheduler::help_until), and [`JoinHandle::join`](crate::JoinHandle::join) works only outside of workers |
//! | [`Watchdog`] | no worker sees to one that is stuck in a poll |
//! | [`Shutdown`] | the executor runs for ever |
//! | [`Metrics`] | no [`Scheduler::metrics`](crate::Scheduler::metrics) |
//! | [`Broadcasts`] | no [`Scheduler::broadcast`](crate::Scheduler::broadcast) |
//! | [`Io`] | no worker listens in the platform's [`Reactor`](crate::Reactor) |
//! | `Classes`, of the feature `classes` | all tasks are alike |
//!
//! After Cargo's features, which are one set for a whole program: two executors of one program may differ.

use core::{
    fmt,
    mem::{self, ManuallyDrop},
    ops::Deref,
};

use crate::atomic::Counter;

mod sealed {
    pub trait Sealed {}
}

/// Whether an executor has a part: [`Bool<true>`](Bool) or [`Bool<false>`](Bool).
///
/// # Safety
/// INV-FIELD: `Field<T>` is `T` if `ON`, and `()` if not.
pub unsafe trait Switch: sealed::Sealed + 'static {
    #[doc(hidden)]
    const ON: bool;
    #[doc(hidden)]
    type Or<S: Switch>: Switch;
    #[doc(hidden)]
    type Field<T>;
    #[doc(hidden)]
    fn get<T>(field: &Self::Field<T>) -> Option<&T>;
}

/// A [`Switch`].
#[derive(Debug)]
pub enum Bool<const ON: bool> {}

impl<const ON: bool> sealed::Sealed for Bool<ON> {}

/// The part is there.
pub type On = Bool<true>;
/// The part is not there.
pub type Off = Bool<false>;

// SAFETY: INV-FIELD, by the line that says so.
unsafe impl Switch for On {
    const ON: bool = true;
    type Or<S: Switch> = Self;
    type Field<T> = T;
    #[inline(always)]
    fn get<T>(field: &T) -> Option<&T> {
        Some(field)
    }
}

// SAFETY: as above.
unsafe impl Switch for Off {
    const ON: bool = false;
    type Or<S: Switch> = S;
    type Field<T> = ();
    #[inline(always)]
    fn get<T>((): &()) -> Option<&T> {
        None
    }
}

/// A set of parts: one of them, a tuple of them, [`All`], or `()`.
///
/// ```
/// use filch::parts::{All, Bool, Cores, Off, On, Parts, Switch, Timers};
/// // Code that needs timers, on executors with any other parts.
/// fn needs_timers<F: Parts<Timers = On>>() {}
/// needs_timers::<All>();
/// needs_timers::<(Cores, Timers)>();
/// // Code for executors without.
/// fn is_without_timers<F: Parts<Timers = Off>>() {}
/// is_without_timers::<Cores>();
/// is_without_timers::<()>();
/// // `On` and `Off` are the two switches.
/// fn is_switch<S: Switch>() {}
/// is_switch::<Bool<true>>();
/// ```
pub trait Parts: sealed::Sealed + Send + Sync + 'static {
    #[doc(hidden)]
    type Cores: Switch;
    #[doc(hidden)]
    type Timers: Switch;
    #[doc(hidden)]
    type Wheels: Switch;
    #[doc(hidden)]
    type Forks: Switch;
    #[doc(hidden)]
    type Waits: Switch;
    #[doc(hidden)]
    type Watchdog: Switch;
    #[doc(hidden)]
    type Shutdown: Switch;
    #[doc(hidden)]
    type Metrics: Switch;
    #[doc(hidden)]
    type Broadcasts: Switch;
    #[doc(hidden)]
    type Io: Switch;
    #[doc(hidden)]
    type Classes: Switch;
}

/// Whether a part sets a switch: that of its name, or as here.
const fn sets(part: &str, switch: &str) -> bool {
    is(part, switch)
        || is(part, "Timers") && is(switch, "Wheels")
        || is(part, "FewTimers") && is(switch, "Timers")
}

/// Whether a part is there at all: that of classes has a feature.
const fn is_built(part: &str) -> bool {
    cfg!(feature = "classes") || !is(part, "Classes")
}

const fn is(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

macro_rules! part {
    ($(#[$doc:meta])* $part:ident of [$($name:ident)*]) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $part {}
        impl sealed::Sealed for $part {}
        impl Parts for $part {
            $(type $name = Bool<{ sets(stringify!($part), stringify!($name)) }>;)*
        }
    };
}

macro_rules! parts {
    ($all:tt: $($(#[$doc:meta])* $part:ident;)*) => { $(part!($(#[$doc])* $part of $all);)* };
}

parts! {
    [Cores Timers Wheels Forks Waits Watchdog Shutdown Metrics Broadcasts Io Classes]:
    /// Several workers, which share their work.
    Cores;
    /// Timers: sleeps, timeouts, intervals. Each worker has a wheel of 6 levels with 64 slots: 3 KiB on 64-bit targets.
    Timers;
    /// [`Timers`], with 8 slots in a level: 0.3 KiB on 32-bit targets. The more the timers, the longer one takes.
    FewTimers;
    /// Fork-join runs.
    Forks;
    /// Waits in sync code on a worker, which runs other tasks meanwhile.
    Waits;
    /// Sleeping workers see to those that are stuck in a poll. Of use with [`Cores`].
    Watchdog;
    /// The executor can come to an end: shutdown, cancelling, reopening.
    Shutdown;
    /// Counters of what workers do.
    Metrics;
    /// Closures that each worker runs.
    Broadcasts;
    /// Workers listen in the platform's [`Reactor`](crate::Reactor).
    Io;
}

#[cfg(feature = "classes")]
part! {
    /// Scheduling classes: [`Class`](crate::Class). A worker has a second ring, for background tasks.
    ///
    /// ```
    /// use filch::{WorkerSlot, parts::{Classes, Timers}};
    /// assert!(size_of::<WorkerSlot<8, (Classes, Timers)>>() > size_of::<WorkerSlot<8, Timers>>());
    /// ```
    Classes of [Cores Timers Wheels Forks Waits Watchdog Shutdown Metrics Broadcasts Io Classes]
}

macro_rules! sets {
    ([$($name:ident)*]) => {
        /// All parts: the default.
        #[derive(Debug)]
        pub enum All {}
        impl sealed::Sealed for All {}
        impl Parts for All { $(type $name = Bool<{ is_built(stringify!($name)) }>;)* }

        impl sealed::Sealed for () {}
        impl Parts for () { $(type $name = Off;)* }
    };
}

/// The union of sets.
macro_rules! union {
    ($name:ident: $set:ident) => { <$set as Parts>::$name };
    ($name:ident: $set:ident $($sets:ident)+) => {
        <<$set as Parts>::$name as Switch>::Or<union!($name: $($sets)+)>
    };
}

macro_rules! tuple {
    ($($set:ident)+) => {
        impl<$($set: Parts),+> sealed::Sealed for ($($set,)+) {}
        impl<$($set: Parts),+> Parts for ($($set,)+) {
            type Cores = union!(Cores: $($set)+);
            type Timers = union!(Timers: $($set)+);
            type Wheels = union!(Wheels: $($set)+);
            type Forks = union!(Forks: $($set)+);
            type Waits = union!(Waits: $($set)+);
            type Watchdog = union!(Watchdog: $($set)+);
            type Shutdown = union!(Shutdown: $($set)+);
            type Metrics = union!(Metrics: $($set)+);
            type Broadcasts = union!(Broadcasts: $($set)+);
            type Io = union!(Io: $($set)+);
            type Classes = union!(Classes: $($set)+);
        }
    };
}

sets!([Cores Timers Wheels Forks Waits Watchdog Shutdown Metrics Broadcasts Io Classes]);
tuple!(A);
tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
tuple!(A B C D E);
tuple!(A B C D E F);
tuple!(A B C D E F G);
tuple!(A B C D E F G H);

/// Workers may wait in sync code, and so rely on others.
pub(crate) type Blocks<F> = <<F as Parts>::Waits as Switch>::Or<<F as Parts>::Forks>;
/// Tasks are counted.
pub(crate) type Counts<F> = <<F as Parts>::Shutdown as Switch>::Or<<F as Parts>::Metrics>;

type Either<A, B> = <A as Switch>::Or<B>;
type Seldom<F> = Either<<F as Parts>::Broadcasts, <F as Parts>::Shutdown>;
type Timed<F> = Either<<F as Parts>::Timers, <F as Parts>::Io>;
/// A worker has something to see to now and then, between its polls.
pub(crate) type Ticks<F> =
    Either<Either<Seldom<F>, Timed<F>>, Either<<F as Parts>::Watchdog, <F as Parts>::Metrics>>;

/// What belongs to a part: there, or of no size.
#[repr(transparent)]
pub(crate) struct Kept<T, S: Switch>(S::Field<T>);

// SAFETY: INV-FIELD: it holds a `T`, or nothing.
unsafe impl<T: Sync, S: Switch> Sync for Kept<T, S> {}
// SAFETY: as above.
unsafe impl<T: Send, S: Switch> Send for Kept<T, S> {}

impl<T, S: Switch> Kept<T, S> {
    pub(crate) const fn new(value: T) -> Self {
        let value = ManuallyDrop::new(value);
        // SAFETY: INV-FIELD. The value moves, or is forgotten.
        unsafe { if S::ON { mem::transmute_copy(&value) } else { mem::transmute_copy(&()) } }
    }

    /// What is there; decided when the program is compiled.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&T> {
        S::get(&self.0)
    }
}

impl<T> Kept<T, On> {
    /// It is there.
    #[inline(always)]
    pub(crate) fn always(&self) -> &T {
        &self.0
    }
}

/// A [`Counter`] of a part.
pub(crate) struct Tally<S: Switch>(Kept<Counter, S>);

impl<S: Switch> Tally<S> {
    pub(crate) const fn new() -> Self {
        Self(Kept::new(Counter::new()))
    }

    #[inline(always)]
    pub(crate) fn add(&self, n: usize) {
        if let Some(counter) = self.0.get() {
            counter.add(n);
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> usize {
        self.0.get().map_or(0, Counter::get)
    }
}

impl<S: Switch> fmt::Debug for Tally<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// Apart from its neighbours in memory, on cache lines of its own, if there are several cores to write them.
pub(crate) struct Apart<T, C: Switch>(pub(crate) T, Kept<[Lines; 0], C>);

#[repr(align(128))]
struct Lines;

impl<T, C: Switch> Apart<T, C> {
    pub(crate) const fn new(value: T) -> Self {
        Self(value, Kept::new([]))
    }
}

impl<T, C: Switch> Deref for Apart<T, C> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
