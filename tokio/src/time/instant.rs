//! A time of the runtime's clock.

use core::{
    fmt,
    ops::{Add, AddAssign, Sub, SubAssign},
    time::Duration,
};
use std::time::Instant as StdInstant;

/// A time of the runtime's clock, which is the system's unless a test stops it: see [`pause`](super::pause).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    std: StdInstant,
}

impl Instant {
    /// The same time of the system's clock.
    pub fn from_std(std: StdInstant) -> Self {
        Self { std }
    }

    /// The same time of the system's clock.
    pub fn into_std(self) -> StdInstant {
        self.std
    }

    /// Some 30 years from now.
    pub(crate) fn far_future() -> Self {
        Self::now() + Duration::from_secs(86_400 * 365 * 30)
    }

    /// The time since `earlier`, or zero.
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.std.saturating_duration_since(earlier.std)
    }

    /// The time since `earlier`; `None` if that is later.
    pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        self.std.checked_duration_since(earlier.std)
    }

    /// The time since `earlier`, or zero.
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.std.saturating_duration_since(earlier.std)
    }

    /// The time since this one, or zero.
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// So much later; `None` if there is no such time.
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        self.std.checked_add(duration).map(Self::from_std)
    }

    /// So much earlier; `None` if there is no such time.
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        self.std.checked_sub(duration).map(Self::from_std)
    }
}

impl From<StdInstant> for Instant {
    fn from(time: StdInstant) -> Self {
        Self::from_std(time)
    }
}

impl From<Instant> for StdInstant {
    fn from(time: Instant) -> Self {
        time.into_std()
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, other: Duration) -> Self {
        Self::from_std(self.std + other)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, rhs: Self) -> Duration {
        self.std.saturating_duration_since(rhs.std)
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self::from_std(self.std - rhs)
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, rhs: Duration) {
        *self = *self - rhs;
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.std.fmt(f)
    }
}
