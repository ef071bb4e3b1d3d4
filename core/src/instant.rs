//! Time as the core sees it: monotonic nanoseconds.

use core::{
    ops::{Add, Sub},
    time::Duration,
};

/// A point in time: nanoseconds of a [`Platform`](crate::Platform)'s monotonic clock, from an origin of its choice.
///
/// Arithmetic saturates at the ends of the range (584 years wide), so a far deadline stays far and never wraps into the
/// past. Callable from any context.
///
/// ```
/// use core::time::Duration;
/// use filch::Instant;
/// let t = Instant::from_nanos(1_000) + Duration::from_micros(2);
/// assert_eq!(t.as_nanos(), 3_000);
/// assert_eq!(Instant::MAX + Duration::from_secs(1), Instant::MAX);
/// assert_eq!(Instant::from_nanos(5) - t, Duration::ZERO);
/// assert_eq!(t.after_nanos(7).nanos_since(t), 7);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);
    /// The end of time, for a deadline that never comes.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the clock's origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Nanoseconds from `earlier` to `self`, zero if it is later.
    pub const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// `self` and `nanos` nanoseconds, at most [`Instant::MAX`].
    pub const fn after_nanos(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, d: Duration) -> Self {
        self.after_nanos(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }
}
