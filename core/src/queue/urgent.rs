//! Urgent tasks: from any context, the earliest deadline first.

use crate::{
    atomic::{AtomicUsize, Ordering, maybe_const},
    instant::Instant,
    lock::Spin,
    queue::chain::{Chain, Stack},
    task::header::Ready,
};

/// An unbounded queue without memory of its own: a stack that any context pushes to, and a heap and a FIFO that its consumers keep
/// in order. Tasks with deadlines come first, the earliest first, then the others in the order in which they came.
///
/// The heap is a pairing heap (Fredman, Sedgewick, Sleator and Tarjan) in the tasks' own slots: a push is one compare-and-swap, and
/// cannot fail; `pop` takes logarithmic time for each task in the mean.
///
/// No worker waits for the lock: a worker that finds it taken goes on, and the holder notifies another worker if it leaves tasks behind
/// (`Worker::take_first`).
pub(crate) struct Urgent {
    stack: Stack,
    ordered: Spin<Ordered>,
    /// How many tasks are in `ordered`.
    waiting: AtomicUsize,
}

impl Urgent {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self {
                stack: Stack::new(),
                ordered: Spin::new(Ordered::new()),
                waiting: AtomicUsize::new(0),
            }
        }
    }

    /// Adds a task. Lock-free, callable from any context.
    pub(crate) fn push(&self, ready: Ready) {
        self.stack.push(ready);
    }

    /// Whether no task waits. False also while a consumer is at work: it may leave some.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        // Ordering: the stack's Acquire comes first. Acquire of `waiting` pairs with its Release in `pop`.
        self.stack.is_empty() && self.waiting.load(Ordering::Acquire) == 0
    }

    /// Takes the first task. `None` if there is none, or if another consumer holds the lock.
    #[inline]
    pub(crate) fn pop(&self) -> Option<Ready> {
        if self.is_empty() { None } else { self.pop_first() }
    }

    #[inline(never)]
    fn pop_first(&self) -> Option<Ready> {
        let take = |ordered: &mut Ordered| {
            self.put_in_order(ordered);
            let first = ordered.pop();
            // Ordering: Release pairs with the Acquire in `is_empty`.
            self.waiting.store(ordered.len, Ordering::Release);
            first
        };
        self.ordered.try_with(take)?
    }

    /// Moves what contexts have pushed. The caller stores `waiting` afterwards.
    #[inline(always)]
    fn put_in_order(&self, ordered: &mut Ordered) {
        // Before the stack is empty: no context is to find the queue empty as long as tasks are on their way into `ordered`.
        // Ordering: before the Release of the swap in `take_all`.
        self.waiting.store(ordered.len.max(1), Ordering::Relaxed);
        let mut new = self.stack.take_all();
        while let Some(ready) = new.pop_front() {
            ordered.push(ready);
        }
    }

    /// The earliest deadline of all that wait.
    #[cfg(feature = "classes")]
    pub(crate) fn first_deadline(&self) -> Option<Instant> {
        let look = |ordered: &mut Ordered| {
            self.put_in_order(ordered);
            // Ordering: as in `pop_first`.
            self.waiting.store(ordered.len, Ordering::Release);
            ordered.heap.first_deadline()
        };
        self.ordered.try_with(look)?
    }
}

/// Tasks in order: the earliest deadline first, then those without one as they came.
pub(super) struct Ordered {
    #[cfg(feature = "classes")]
    heap: heap::Heap,
    /// Tasks without a deadline.
    others: Chain,
    len: usize,
}

impl Ordered {
    pub(super) const fn new() -> Self {
        Self {
            #[cfg(feature = "classes")]
            heap: heap::Heap::new(),
            others: Chain::new(),
            len: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The deadline of the first task; `Instant::MAX` if it has none.
    pub(super) fn first_deadline(&self) -> Instant {
        #[cfg(feature = "classes")]
        if let Some(at) = self.heap.first_deadline() {
            return at;
        }
        Instant::MAX
    }

    /// The number of the oldest task without a deadline; zero if there is none.
    pub(super) fn first_ticket(&self) -> u64 {
        self.others.peek(Ready::ticket).unwrap_or_default()
    }

    pub(super) fn push(&mut self, ready: Ready) {
        self.len += 1;
        #[cfg(feature = "classes")]
        let Some(ready) = self.heap.push(ready) else { return };
        self.others.push_back(ready);
    }

    pub(super) fn pop(&mut self) -> Option<Ready> {
        #[cfg(feature = "classes")]
        let first = self.heap.pop();
        #[cfg(not(feature = "classes"))]
        let first = None;
        let first = first.or_else(|| self.others.pop_front())?;
        self.len -= 1;
        Some(first)
    }
}

#[cfg(feature = "classes")]
mod heap {
    use core::ptr::{NonNull, null_mut};

    use crate::{
        atomic::Ordering,
        instant::Instant,
        task::{
            due::Due,
            header::{Header, Ready},
        },
    };

    /// Tasks with deadlines. Each has its first child in its `Due`, and its next sibling in its link.
    ///
    /// INV-HEAP: whatever is in the heap was pushed with a deadline, as a `Ready` that is the heap's. A task goes before those below
    /// it.
    pub(super) struct Heap {
        root: *mut Header,
        /// Tasks that have come.
        tickets: u64,
    }

    // SAFETY: INV-HEAP: it holds `Ready`s, which are `Send`.
    unsafe impl Send for Heap {}

    impl Heap {
        pub(super) const fn new() -> Self {
            Self { root: null_mut(), tickets: 0 }
        }

        /// Adds a task, or gives it back if it has no deadline.
        pub(super) fn push(&mut self, ready: Ready) -> Option<Ready> {
            let Some(due) = ready.due().filter(|due| due.at().is_some()) else {
                return Some(ready);
            };
            due.ticket.set(self.tickets);
            due.child.set(null_mut());
            self.tickets += 1;
            let task = ready.into_raw();
            // SAFETY: INV-HEAP: the task has a deadline, and its `Ready` is ours.
            self.root = unsafe { meld(self.root, task.as_ptr()) };
            None
        }

        /// The deadline of the first task.
        pub(super) fn first_deadline(&self) -> Option<Instant> {
            // SAFETY: INV-HEAP.
            NonNull::new(self.root).and_then(|first| unsafe { due(first) }.at())
        }

        /// Takes the first task.
        pub(super) fn pop(&mut self) -> Option<Ready> {
            let first = NonNull::new(self.root)?;
            // SAFETY: INV-HEAP.
            unsafe {
                self.root = pair(due(first).child.get());
                Some(Ready::from_raw(first))
            }
        }
    }

    /// # Safety
    /// INV-HEAP: the task is in the heap.
    unsafe fn due<'a>(task: NonNull<Header>) -> &'a Due {
        // SAFETY: the heap's `Ready` keeps the task; it has a deadline.
        unsafe { (task.as_ref().vtable().due)(task).unwrap_unchecked().as_ref() }
    }

    /// # Safety
    /// As `due`.
    unsafe fn set_next(task: NonNull<Header>, next: *mut Header) {
        // Ordering: Relaxed, as all uses of links: passing the `Ready` on publishes them.
        // SAFETY: the heap's `Ready` keeps the task.
        unsafe { task.as_ref() }.link.store(next, Ordering::Relaxed);
    }

    /// Makes one heap of two; gives its root.
    ///
    /// # Safety
    /// Both are null, or roots of heaps by INV-HEAP.
    unsafe fn meld(a: *mut Header, b: *mut Header) -> *mut Header {
        let (Some(a), Some(b)) = (NonNull::new(a), NonNull::new(b)) else {
            return if a.is_null() { b } else { a };
        };
        // SAFETY: INV-HEAP.
        unsafe {
            let (first, second) = if due(a).order() <= due(b).order() { (a, b) } else { (b, a) };
            set_next(second, due(first).child.get());
            due(first).child.set(second.as_ptr());
            first.as_ptr()
        }
    }

    /// Makes one heap of a list of siblings: melds them in pairs, then the pairs from the last to the first.
    ///
    /// # Safety
    /// The list is null, or one of roots of heaps by INV-HEAP.
    unsafe fn pair(mut list: *mut Header) -> *mut Header {
        // SAFETY: INV-HEAP; each task is taken out of its list before it is melded.
        unsafe {
            let take = |list: &mut *mut Header| {
                let task = NonNull::new(*list)?;
                *list = task.as_ref().link.load(Ordering::Relaxed);
                set_next(task, null_mut());
                Some(task)
            };
            let mut pairs = null_mut();
            while let Some(one) = take(&mut list) {
                let other = take(&mut list).map_or(null_mut(), NonNull::as_ptr);
                let pair = meld(one.as_ptr(), other);
                set_next(NonNull::new_unchecked(pair), pairs);
                pairs = pair;
            }
            let mut root = null_mut();
            while let Some(pair) = take(&mut pairs) {
                root = meld(root, pair.as_ptr());
            }
            root
        }
    }
}
