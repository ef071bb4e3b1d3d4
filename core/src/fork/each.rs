//! Loops that split themselves while somebody is without work.

use core::ops::Range;

use super::handle::Fork;

impl Fork<'_> {
    /// Calls `f` with each index of the range, once, on any worker.
    ///
    /// The range is run through in order for as long as everybody has work, and cut in half, the rest of it, when somebody has
    /// none: no fork is paid for that nobody wants. It looks after each call, which costs one load.
    ///
    /// # Panics
    /// With the first panic of `f` in a half; the other half runs to its end.
    ///
    /// ```
    /// use core::sync::atomic::{AtomicU32, Ordering};
    /// let sum = AtomicU32::new(0);
    /// filch::Fork::alone().for_each(0..10, |i| {
    ///     sum.fetch_add(i as u32, Ordering::Relaxed);
    /// });
    /// assert_eq!(sum.into_inner(), 45);
    /// ```
    pub fn for_each<F>(self, range: Range<usize>, f: F)
    where
        F: Fn(usize) + Sync,
    {
        each(self, range, &f);
    }

    /// As [`for_each`](Self::for_each), over the elements of a slice.
    pub fn for_each_mut<T, F>(self, slice: &mut [T], f: F)
    where
        T: Send,
        F: Fn(&mut T) + Sync,
    {
        each_mut(self, slice, &f);
    }

    /// Maps each index of the range, and reduces the results, in the order of the indices: `reduce` need be associative, and
    /// nothing else. None for an empty range. Split as in [`for_each`](Self::for_each).
    ///
    /// # Panics
    /// As `for_each`.
    ///
    /// ```
    /// let fork = filch::Fork::alone();
    /// let text = fork.map_reduce(0..4, |i| i.to_string(), |a, b| a + &b);
    /// assert_eq!(text.as_deref(), Some("0123"));
    /// ```
    pub fn map_reduce<T, M, R>(self, range: Range<usize>, map: M, reduce: R) -> Option<T>
    where
        T: Send,
        M: Fn(usize) -> T + Sync,
        R: Fn(T, T) -> T + Sync,
    {
        mapped(self, range, &map, &reduce)
    }
}

/// The two halves of a range of two or more.
fn halves(range: Range<usize>) -> (Range<usize>, Range<usize>) {
    let middle = range.start + range.len() / 2;
    (range.start..middle, middle..range.end)
}

fn each<F: Fn(usize) + Sync>(fork: Fork<'_>, mut range: Range<usize>, f: &F) {
    loop {
        if range.len() > 1 && fork.is_wanted() {
            let (left, right) = halves(range);
            fork.join(|fork| each(fork, left, f), |fork| each(fork, right, f));
            return;
        }
        match range.next() {
            Some(i) => f(i),
            None => return,
        }
    }
}

fn each_mut<T: Send, F: Fn(&mut T) + Sync>(fork: Fork<'_>, mut slice: &mut [T], f: &F) {
    loop {
        if slice.len() > 1 && fork.is_wanted() {
            let (left, right) = slice.split_at_mut(slice.len() / 2);
            fork.join(|fork| each_mut(fork, left, f), |fork| each_mut(fork, right, f));
            return;
        }
        match slice.split_first_mut() {
            Some((first, rest)) => {
                f(first);
                slice = rest;
            }
            None => return,
        }
    }
}

fn mapped<T, M, R>(fork: Fork<'_>, mut range: Range<usize>, map: &M, reduce: &R) -> Option<T>
where
    T: Send,
    M: Fn(usize) -> T + Sync,
    R: Fn(T, T) -> T + Sync,
{
    let mut sum = None;
    loop {
        let next = if range.len() > 1 && fork.is_wanted() {
            let (left, right) = halves(core::mem::take(&mut range));
            let (a, b) = fork.join(
                |fork| mapped(fork, left, map, reduce),
                |fork| mapped(fork, right, map, reduce),
            );
            added(a, b, reduce)
        } else {
            match range.next() {
                Some(i) => Some(map(i)),
                None => return sum,
            }
        };
        sum = added(sum, next, reduce);
    }
}

fn added<T>(a: Option<T>, b: Option<T>, reduce: &impl Fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(reduce(a, b)),
        (a, b) => a.or(b),
    }
}
