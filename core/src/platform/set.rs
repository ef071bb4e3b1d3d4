//! Sets of workers.

use core::fmt;

use super::worker::WorkerId;

/// Workers that a task may run on, or a fork-join run: [`TaskOptions::workers`](crate::TaskOptions::workers).
///
/// It has at least one worker, and the last is less than [`SPAN`](Self::SPAN) places behind the first: all workers of an executor that
/// has no more than that, or those of one node of a larger machine.
///
/// ```
/// # #[cfg(feature = "classes")]
/// # {
/// use filch::{WorkerId, WorkerSet};
/// // Cores with a large cache, say.
/// const LARGE: WorkerSet = match WorkerSet::new(&[WorkerId::new(2), WorkerId::new(3), WorkerId::new(6)]) {
///     Some(set) => set,
///     None => panic!("too far apart"),
/// };
/// assert!(LARGE.contains(WorkerId::new(6)) && !LARGE.contains(WorkerId::new(4)));
/// assert_eq!(LARGE.iter().count(), 3);
/// assert!(WorkerSet::new(&[]).is_none());
/// let pair = WorkerSet::only(WorkerId::new(2)).with(WorkerId::new(3));
/// assert_eq!(pair, WorkerSet::new(&[WorkerId::new(3), WorkerId::new(2)]));
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WorkerSet {
    first: u16,
    /// Bit `i` is worker `first + i`; the lowest is set.
    mask: u64,
}

impl WorkerSet {
    /// How many places a set can span.
    pub const SPAN: u16 = u64::BITS as u16;

    /// These workers. `None` if there are none, or if two are too far apart.
    pub const fn new(workers: &[WorkerId]) -> Option<Self> {
        let Some((first, rest)) = workers.split_first() else { return None };
        let mut set = Self::only(*first);
        let mut i = 0;
        while i < rest.len() {
            set = match set.with(rest[i]) {
                Some(set) => set,
                None => return None,
            };
            i += 1;
        }
        Some(set)
    }

    /// This worker.
    pub const fn only(worker: WorkerId) -> Self {
        Self { first: worker.index() as u16, mask: 1 }
    }

    /// These workers and one more. `None` if it is too far apart.
    pub const fn with(self, worker: WorkerId) -> Option<Self> {
        let (first, mask, at) = (self.first, self.mask, worker.index() as u16);
        if at >= first {
            return if at - first < Self::SPAN {
                Some(Self { first, mask: mask | 1 << (at - first) })
            } else {
                None
            };
        }
        if self.end() - at < Self::SPAN {
            Some(Self { first: at, mask: mask << (first - at) | 1 })
        } else {
            None
        }
    }

    /// Whether this worker is one of them.
    #[inline]
    pub const fn contains(self, worker: WorkerId) -> bool {
        let at = worker.index() as u16;
        at >= self.first && at <= self.end() && self.mask & 1 << (at - self.first) != 0
    }

    /// The workers, the lowest first.
    pub fn iter(self) -> impl Iterator<Item = WorkerId> {
        (self.first..=self.end()).map(WorkerId::new).filter(move |worker| self.contains(*worker))
    }

    /// The set as numbers, for `from_raw`.
    pub(crate) const fn into_raw(self) -> (u16, u64) {
        (self.first, self.mask)
    }

    /// `None` if the mask is empty.
    pub(crate) const fn from_raw(first: u16, mask: u64) -> Option<Self> {
        if mask == 0 { None } else { Some(Self { first, mask }) }
    }

    /// The first of them.
    pub(crate) const fn first(self) -> WorkerId {
        WorkerId::new(self.first)
    }

    /// Whether all of them are among the first so many workers.
    pub(crate) const fn is_below(self, workers: usize) -> bool {
        let first = self.first as usize;
        first < workers
            && (workers - first >= Self::SPAN as usize || self.mask >> (workers - first) == 0)
    }

    /// The worker, if it is one.
    pub(crate) const fn single(self) -> Option<WorkerId> {
        if self.mask == 1 { Some(WorkerId::new(self.first)) } else { None }
    }

    /// The index of the last.
    const fn end(self) -> u16 {
        // The lowest bit is set in any case; said here, so that nothing can panic.
        self.first + (u64::BITS - 1 - (self.mask | 1).leading_zeros()) as u16
    }
}

impl fmt::Debug for WorkerSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{WorkerId, WorkerSet};

    const fn id(index: u16) -> WorkerId {
        WorkerId::new(index)
    }

    #[test]
    fn a_set_has_what_it_was_given() {
        let set = WorkerSet::new(&[id(70), id(7), id(9), id(7)]).unwrap();
        assert_eq!(set.iter().collect::<std::vec::Vec<_>>(), [id(7), id(9), id(70)]);
        for other in [0, 6, 8, 10, 69, 71, 134] {
            assert!(!set.contains(id(other)), "{other}");
        }
        assert_eq!((set.with(id(6)), set.with(id(71))), (None, None));
        let last = WorkerSet::only(id(WorkerId::MAX));
        assert!(last.contains(id(WorkerId::MAX)) && !last.contains(id(0)));
        assert_eq!(WorkerSet::new(&[id(0), id(64)]), None);
        assert!(WorkerSet::new(&[id(64), id(1)]).is_some());
        for (workers, all) in [(0, false), (7, false), (70, false), (71, true), (200, true)] {
            assert_eq!(set.is_below(workers), all, "{workers}");
        }
        assert!(WorkerSet::only(id(0)).is_below(1) && !WorkerSet::only(id(1)).is_below(1));
    }
}
