//! Loops that split themselves while somebody is without work.

use core::ops::Range;

use super::handle::Fork;

impl Fork<'_> {
    /// Calls `f` with each index of the range, once, on any worker.
    ///
    /// The range is run through in order for as long as everybody has work, and cut in half, the rest of it, when somebody has
    /// none: no fork is paid for that nobody wants. It looks after each call, which costs one load. A worker that took a piece
    /// gives back what is left of it after a while, if other work waits: see [`Config::job_slice`](crate::Config::job_slice).
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
        Body { map: &f, reduce: &|(), ()| () }.run(self, range, Turn::ENDLESS);
    }

    /// As [`for_each`](Self::for_each), over the elements of a slice.
    pub fn for_each_mut<T, F>(self, slice: &mut [T], f: F)
    where
        T: Send,
        F: Fn(&mut T) + Sync,
    {
        let elements = Elements(slice.as_mut_ptr());
        // SAFETY: the loop calls once with each index; the slice is borrowed until it ends.
        self.for_each(0..slice.len(), |i| f(unsafe { elements.get(i) }));
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
        Body { map: &map, reduce: &reduce }.run(self, range, Turn::ENDLESS).0
    }

    /// As [`map_reduce`](Self::map_reduce), but ends early, after [`Config::job_slice`](crate::Config::job_slice), if other work
    /// waits for the calling worker: the result so far, and the end of the range that is left. It has made some progress, and
    /// nothing of it goes on when it returns.
    ///
    /// For tasks: one that yields whenever something is left shares its worker with others however long the loop is, and
    /// may borrow, and be dropped in between.
    ///
    /// # Panics
    /// As `for_each`.
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
        Body { map: &map, reduce: &reduce }.run(self, range, Turn::new())
    }
}

/// The elements of a slice, for a loop over its indices.
struct Elements<T>(*mut T);

// SAFETY: as a `&mut [T]`: each index is one call's.
unsafe impl<T: Send> Sync for Elements<T> {}

impl<T> Elements<T> {
    /// # Safety
    /// The index is in the slice, whose borrow lives, and nobody else has or will have this element.
    unsafe fn get<'a>(&self, i: usize) -> &'a mut T {
        // SAFETY: the caller's.
        unsafe { &mut *self.0.add(i) }
    }
}

/// What a loop does.
struct Body<'f, M, R> {
    map: &'f M,
    reduce: &'f R,
}

impl<M, R> Clone for Body<'_, M, R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M, R> Copy for Body<'_, M, R> {}

impl<M, R> Body<'_, M, R> {
    /// Runs through the range until it ends or the turn does: the result so far, and the end of the range that is left.
    fn run<T>(
        self,
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

    /// As `run`, of a range of two or more, in halves.
    fn split<T>(self, fork: Fork<'_>, range: Range<usize>, turn: Turn) -> (Option<T>, Range<usize>)
    where
        T: Send,
        M: Fn(usize) -> T + Sync,
        R: Fn(T, T) -> T + Sync,
    {
        let Range { start, end } = range;
        let middle = start + (end - start) / 2;
        let home = fork.worker();
        let ((a, left), (b, right)) = fork.join(
            |fork| self.run(fork, start..middle, turn.of_calls(2)),
            |fork| {
                // What a thief gives back comes to us, whoever we are.
                let turn = match fork.worker() == home {
                    true => turn.of_calls(1),
                    false if fork.is_at_bottom() => Turn::new(),
                    false => Turn::ENDLESS,
                };
                self.run(fork, middle..end, turn)
            },
        );
        if !left.is_empty() && right.start == middle {
            return (a, left.start..right.end);
        }
        // With two parts left, one has to come to its end here; the other may be given back by who stole it. A turn that ends
        // splits no more than a chunk at a time, so that this is soon.
        let rest = self.run(fork, left, Turn::ENDLESS).0;
        (self.add(self.add(a, rest), b), right)
    }

    fn add<T>(self, a: Option<T>, b: Option<T>) -> Option<T>
    where
        R: Fn(T, T) -> T,
    {
        match (a, b) {
            (Some(a), Some(b)) => Some((self.reduce)(a, b)),
            (a, b) => a.or(b),
        }
    }
}

/// How long a worker may stay in a piece of a loop. The time is looked at every so many calls, from 1 to 2^16, for the looks to be
/// about `STRIDE` apart.
#[derive(Clone, Copy)]
struct Turn {
    /// Calls until the next look.
    calls: u32,
    /// Calls from look to look; zero for a turn without end.
    stride: u32,
    /// When it began, in nanoseconds: with the first look.
    since: u64,
    looked: u64,
    /// How many calls are split among workers at a time, for that to take about `CHUNK`.
    chunk: usize,
}

/// Nanoseconds.
const STRIDE: u64 = 20_000;
const CHUNK: u64 = 500_000;

impl Turn {
    const ENDLESS: Self = Self { calls: 0, stride: 0, since: 0, looked: 0, chunk: usize::MAX };

    /// The first look comes after the first call, for there to be some progress in any case.
    fn new() -> Self {
        Self { calls: 2, stride: 1, since: u64::MAX, looked: 0, chunk: 16 }
    }

    /// How many calls are to be split now. The turn has begun by then.
    fn begin_chunk(&mut self, fork: Fork<'_>) -> usize {
        if self.stride > 0 {
            self.look(fork);
        }
        self.chunk
    }

    /// They are over: the time is looked at before the next call.
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

    /// The same turn, for a part: 2 for some progress in any case, 1 for none if it is over.
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
