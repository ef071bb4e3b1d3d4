//! How long things lasted: counts of times, in buckets.
//!
//! Idea: HdrHistogram's buckets, eight for each doubling.

use core::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Buckets for each doubling of the time: a quantile is at most an eighth too large.
const PARTS: usize = 8;
const BUCKETS: usize = 61 * PARTS;

/// How long polls or waits were. A snapshot, in [`ClassMetrics`](crate::runtime::ClassMetrics).
///
/// The times are in 488 buckets, from nanoseconds to centuries, each an eighth longer than the one before or less.
///
/// ```
/// # use core::time::Duration;
/// # use filch_std::task::Class;
/// let runtime = filch_std::Runtime::builder().workers(1).class_metrics(true).build()?;
/// runtime.block_on(async { filch_std::spawn(async {}).await }).unwrap();
/// let waits = runtime.handle().class_metrics(Class::Normal).waits;
/// assert!(waits.count() >= 1 && waits.quantile(0.5) <= waits.quantile(0.99));
/// assert!(waits.longest() <= waits.sum() && waits.since(&waits).count() == 0);
/// assert_eq!(waits.buckets().map(|(_, n)| n).sum::<u64>(), waits.count());
/// for (end, n) in waits.buckets() {
///     println!("{n} were not longer than {end:?}, but longer than those before");
/// }
/// # Ok::<(), filch_std::runtime::BuildError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64]>,
    /// In nanoseconds.
    sum: u64,
    longest: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS].into(), sum: 0, longest: 0 }
    }

    /// How many times there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All of them together; to the nanosecond, unlike the buckets.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// The longest since the runtime began.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest)
    }

    /// The time that this part of them were shorter than, or at most an eighth more: 0.5 is the median. 0 if there is none; a part
    /// below 0 counts as 0, one above 1 as 1.
    pub fn quantile(&self, part: f64) -> Duration {
        let rank = ((self.count() as f64 * part.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        let reaches = |n: &u64| {
            seen += n;
            seen >= rank
        };
        match self.counts.iter().position(reaches) {
            Some(bucket) => Duration::from_nanos(upper(bucket).min(self.longest)),
            None => Duration::ZERO,
        }
    }

    /// The buckets that are not empty, shortest times first: the longest time that belongs into it, and how many are in it and not in those
    /// before.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let counts = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        counts.map(|(bucket, n)| (Duration::from_nanos(upper(bucket)), *n))
    }

    /// What has come since an earlier snapshot. The longest is still that since the runtime began.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts = self.counts.iter().zip(&earlier.counts);
        Self {
            counts: counts.map(|(now, then)| now.saturating_sub(*then)).collect(),
            sum: self.sum.saturating_sub(earlier.sum),
            longest: self.longest,
        }
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("sum", &self.sum())
            .field("median", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("longest", &self.longest())
            .finish_non_exhaustive()
    }
}

fn bucket(nanos: u64) -> usize {
    let nanos = nanos.max(PARTS as u64);
    let log = nanos.ilog2() as usize;
    let part = (nanos >> (log - PARTS.ilog2() as usize)) as usize % PARTS;
    ((log - PARTS.ilog2() as usize) * PARTS + part).min(BUCKETS - 1)
}

/// The end of a bucket.
fn upper(bucket: usize) -> u64 {
    let (log, part) = (bucket / PARTS, bucket % PARTS);
    let next = (PARTS + part + 1) as u128;
    u64::try_from((next << log) - 1).unwrap_or(u64::MAX)
}

/// The times that one thread adds and others read.
pub(crate) struct Recorded {
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
    longest: AtomicU64,
}

/// Ordering: one writer, or counts that are read as a snapshot: none is in an order with others.
const LOOSE: Ordering = Ordering::Relaxed;

/// The calling thread is the only writer.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(LOOSE).wrapping_add(n), LOOSE);
}

impl Default for Recorded {
    fn default() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
            longest: AtomicU64::new(0),
        }
    }
}

impl Recorded {
    #[inline]
    pub(crate) fn add(&self, nanos: u64) {
        if let Some(count) = self.counts.get(bucket(nanos)) {
            add(count, 1);
        }
        add(&self.sum, nanos);
        self.longest.store(self.longest.load(LOOSE).max(nanos), LOOSE);
    }

    pub(crate) fn clear(&self) {
        let all = self.counts.iter().chain([&self.sum, &self.longest]);
        all.for_each(|count| count.store(0, LOOSE));
    }

    pub(crate) fn add_to(&self, all: &mut Histogram) {
        for (all, mine) in all.counts.iter_mut().zip(&self.counts) {
            *all += mine.load(LOOSE);
        }
        all.sum = all.sum.saturating_add(self.sum.load(LOOSE));
        all.longest = all.longest.max(self.longest.load(LOOSE));
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::{BUCKETS, Histogram, PARTS, Recorded, bucket, upper};

    #[test]
    fn a_time_is_in_the_bucket_that_ends_at_or_after_it() {
        let times = (0..63).flat_map(|log| [0, 1, 7].map(|more| (1_u64 << log) + more));
        for nanos in times {
            let at = bucket(nanos);
            assert!(at < BUCKETS && upper(at) >= nanos, "{nanos} {at}");
            let begins = if at == 0 { 0 } else { upper(at - 1) + 1 };
            assert!(begins <= nanos.max(PARTS as u64), "{nanos} {at}");
            assert!(nanos < 16 || upper(at) - nanos <= nanos / PARTS as u64, "{nanos} {at}");
        }
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn times_add_up() {
        let recorded = Recorded::default();
        let snapshot = || {
            let mut all = Histogram::new();
            recorded.add_to(&mut all);
            all
        };
        assert_eq!((snapshot().count(), snapshot().quantile(0.5)), (0, Duration::ZERO));
        (1..=100).for_each(|micros| recorded.add(micros * 1_000));
        let all = snapshot();
        assert_eq!((all.count(), all.sum()), (100, Duration::from_micros(5_050)));
        assert_eq!(all.longest(), Duration::from_micros(100));
        assert_eq!(all.quantile(2.0), all.longest(), "no quantile is above the longest");
        let median = all.quantile(0.5).as_nanos();
        assert!((50_000..=50_000 * 9 / 8).contains(&median), "{median}");
        assert_eq!(all.buckets().map(|(_, n)| n).sum::<u64>(), 100);
        assert!(all.buckets().is_sorted());
        recorded.add(7);
        let later = snapshot().since(&all);
        assert_eq!((later.count(), later.sum()), (1, Duration::from_nanos(7)));
        recorded.clear();
        assert_eq!(snapshot(), Histogram::new());
    }
}
