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

    /// So long from now, or some 30 years, if there is no such time.
    pub(crate) fn after(duration: Duration) -> Self {
        let now = Self::now();
        now.checked_add(duration).unwrap_or_else(|| now + Duration::from_secs(86_400 * 365 * 30))
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

/// So much later; the last time that there is, if there is no such time.
impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, other: Duration) -> Self {
        Self::from_std(later(self.std, other))
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

/// So much earlier; the first time that there is, if there is no such time.
impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self::from_std(self.std.checked_sub(rhs).unwrap_or_else(|| {
            let mut first = self.std;
            steps().for_each(|step| first = first.checked_sub(step).unwrap_or(first));
            first
        }))
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, rhs: Duration) {
        *self = *self - rhs;
    }
}

/// So much later; the last time that there is, if there is no such time.
pub(crate) fn later(time: StdInstant, by: Duration) -> StdInstant {
    time.checked_add(by).unwrap_or_else(|| {
        let mut last = time;
        steps().for_each(|step| last = last.checked_add(step).unwrap_or(last));
        last
    })
}

/// Ever smaller steps, by which the last time is reached from any.
fn steps() -> impl Iterator<Item = Duration> {
    let seconds = (0..u64::BITS).rev().map(|bit| Duration::from_secs(1 << bit));
    let nanos = (0..30).rev().map(|bit| Duration::from_nanos(1 << bit));
    seconds.chain(nanos)
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.std.fmt(f)
    }
}
