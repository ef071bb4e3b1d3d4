//! Loops that split themselves while a worker is without work.

use core::ops::Range;

use super::handle::Fork;

impl Fork<'_> {
    /// Calls `f` once with each index of the range, on any worker.
    ///
    /// While every worker has work, the range runs in order on this one. When a worker has none, the rest of the range
    /// is cut in half, so that the loop pays for no fork that is not wanted. It checks after each call, which costs one
    /// load. If other work waits, a worker that took a part gives the rest of it back after a while: see
    /// [`Config::job_slice`](crate::Config::job_slice).
    ///
    /// # Panics
    /// With the first panic of `f` in a half. The other half runs to its end.
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
        Body { map: f, reduce: |(), ()| () }.run(self, range, Turn::ENDLESS);
    }

    /// As [`for_each`](Self::for_each), over the elements of a slice.
    ///
    /// ```
    /// let mut numbers = [1, 2, 3];
    /// filch::Fork::alone().for_each_mut(&mut numbers, |n| *n *= 2);
    /// assert_eq!(numbers, [2, 4, 6]);
    /// ```
    pub fn for_each_mut<T, F>(self, slice: &mut [T], f: F)
    where
        T: Send,
        F: Fn(&mut T) + Sync,
    {
        let elements = Elements(slice.as_mut_ptr());
        // SAFETY: the loop passes each index once, and the slice stays borrowed until the loop ends.
        self.for_each(0..slice.len(), |i| f(unsafe { elements.get(i) }));
    }

    /// Maps each index of the range and reduces the results in the order of the indices. `reduce` must be associative;
    /// it need not be commutative. `None` for an empty range. Splits as [`for_each`](Self::for_each) does.
    ///
    /// # Panics
    /// With the first panic of `map` or `reduce` in a half. The other half runs to its end.
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
        Body { map, reduce }.run(self, range, Turn::ENDLESS).0
    }

    /// As [`map_reduce`](Self::map_reduce), but if other work waits for the calling worker it ends early, after
    /// [`Config::job_slice`](crate::Config::job_slice). Returns the result so far and the rest of the range. Each call
    /// makes some progress, and nothing of the loop goes on after it returns.
    ///
    /// For loops in tasks. A task that yields whenever something is left shares its worker with others, however long
    /// the loop is. It may borrow, and it may be dropped between two calls.
    ///
    /// # Panics
    /// With the first panic of `map` or `reduce` in a half. The other half runs to its end.
    ///
    /// ```
    /// let (sum, left) = filch::Fork::alone().map_reduce_slice(1..5, |i| i, |a, b| a + b);
    /// assert_eq!((sum, left.len()), (Some(10), 0));
    /// ```
    pub fn map_reduce_slice<T, M, R>(
        self,
        range: Range<usize>,
        map: M,
        reduce: R,
    ) -> (Option<T>, Range<usize>)
    where
        T: Send,
        M: Fn(usize) -> T + Sync,
        R: Fn(T, T) -> T + Sync,
    {
        Body { map, reduce }.run(self, range, Turn::new())
    }
}

/// The elements of a slice, for a loop over its indices.
struct Elements<T>(*mut T);

// SAFETY: like a `&mut [T]`: each element is passed to one call only.
unsafe impl<T: Send> Sync for Elements<T> {}

impl<T> Elements<T> {
    /// # Safety
    /// The index is in the slice, the slice is still borrowed, and no other call gets this element.
    unsafe fn get<'a>(&self, i: usize) -> &'a mut T {
        // SAFETY: the index is in the borrowed slice, and no other call has this element.
        unsafe { &mut *self.0.add(i) }
    }
}

/// The closures of a loop.
struct Body<M, R> {
    map: M,
    reduce: R,
}

impl<M, R> Body<M, R> {
    /// Runs the range until it or the turn ends. Returns the result so far and the rest of the range.
    fn run<T>(
        &self,
        fork: Fork<'_>,
        mut range: Range<usize>,
        mut turn: Turn,
    ) -> (Option<T>, Range<usize>)
    where
        T: Send,
        M: Fn(usize) -> T + Sync,
        R: Fn(T, T) -> T + Sync,
    {
        let mut sum = None;
        loop {
            if turn.is_over(fork) {
                return (sum, range);
            }
            let next;
            if range.len() > 1 && fork.is_wanted() {
                let end = range.start.saturating_add(turn.begin_chunk(fork)).min(range.end);
                let left;
                (next, left) = self.split(fork, range.start..end, turn);
                range.start = left.start;
                turn.end_chunk(fork);
            } else {
                match range.next() {
                    Some(i) => next = Some((self.map)(i)),
                    None => return (sum, range),
                }
            }
            sum = self.add(sum, next);
        }
    }

    /// As `run`, for a range of two or more indices, in halves.
    fn split<T>(&self, fork: Fork<'_>, range: Range<usize>, turn: Turn) -> (Option<T>, Range<usize>)
    where
        T: Send,
        M: Fn(usize) -> T + Sync,
        R: Fn(T, T) -> T + Sync,
    {
        let Range { start, end } = range;
        let middle = start + (end - start) / 2;
        let home = fork.home();
        let ((a, left), (b, right)) = fork.join(
            |fork| self.run(fork, start..middle, turn.of_calls(2)),
            |fork| {
                // What a thief gives back returns to the worker that forked it. A thief with nothing else on its stack
                // gets a turn of its own. Any other could not go on to other work, so it runs to the end.
                let turn = match fork.home() == home {
                    true => turn.of_calls(1),
                    false if fork.is_at_loop_level() => Turn::new(),
                    false => Turn::ENDLESS,
                };
                self.run(fork, middle..end, turn)
            },
        );
        if !left.is_empty() && right.start == middle {
            return (a, left.start..right.end);
        }
        // If both halves have a rest, the first must be finished here; the second may be one that a thief gave back. A
        // turn that can end splits no more than a chunk at a time, so that this takes little time.
        let rest = self.run(fork, left, Turn::ENDLESS).0;
        (self.add(self.add(a, rest), b), right)
    }

    fn add<T>(&self, a: Option<T>, b: Option<T>) -> Option<T>
    where
        R: Fn(T, T) -> T,
    {
        match (a, b) {
            (Some(a), Some(b)) => Some((self.reduce)(a, b)),
            (a, b) => a.or(b),
        }
    }
}

/// How long a worker may stay in a part of a loop. It reads the clock after every `stride` calls, from 1 to 2^16, so
/// that the reads are about `STRIDE` apart.
#[derive(Clone, Copy)]
struct Turn {
    /// Calls until the next read of the clock.
    calls: u32,
    /// Calls between two reads of the clock. Zero for a turn without an end.
    stride: u32,
    /// When the turn began, in nanoseconds: the first read of the clock.
    since: u64,
    looked: u64,
    /// How many calls are split among workers at once, chosen so that they take about `CHUNK`.
    chunk: usize,
}

/// Nanoseconds between two reads of the clock.
const STRIDE: u64 = 20_000;
const CHUNK: u64 = 500_000;

impl Turn {
    const ENDLESS: Self = Self { calls: 0, stride: 0, since: 0, looked: 0, chunk: usize::MAX };

    /// The first read of the clock comes after the first call, so that every turn makes some progress.
    fn new() -> Self {
        Self { calls: 2, stride: 1, since: u64::MAX, looked: 0, chunk: 16 }
    }

    /// How many calls to split now. The turn has begun when it returns.
    fn begin_chunk(&mut self, fork: Fork<'_>) -> usize {
        if self.stride > 0 {
            self.look(fork);
        }
        self.chunk
    }

    /// The chunk is complete. The next call is preceded by a read of the clock.
    fn end_chunk(&mut self, fork: Fork<'_>) {
        if self.stride == 0 {
            return;
        }
        let took = fork.is_due(self.since).1.saturating_sub(self.looked);
        if took < CHUNK {
            self.chunk = self.chunk.saturating_mul(2);
        } else if took > 2 * CHUNK {
            self.chunk = (self.chunk / 2).max(2);
        }
        self.calls = 1;
    }

    /// The same turn for a part of the range. With `calls` 2 the part makes some progress in any case; with 1 it makes
    /// none if the turn is over.
    fn of_calls(self, calls: u32) -> Self {
        Self { calls, stride: self.stride.min(1), ..self }
    }

    #[inline(always)]
    fn is_over(&mut self, fork: Fork<'_>) -> bool {
        if self.stride == 0 {
            return false;
        }
        self.calls -= 1;
        self.calls == 0 && self.look(fork)
    }

    #[cold]
    fn look(&mut self, fork: Fork<'_>) -> bool {
        let (over, now) = fork.is_due(self.since);
        let slow = now.saturating_sub(self.looked) > STRIDE;
        self.stride = if slow { (self.stride / 2).max(1) } else { (self.stride * 2).min(1 << 16) };
        (self.calls, self.looked) = (self.stride, now);
        self.since = self.since.min(now);
        over
    }
}
