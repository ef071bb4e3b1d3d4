//! The queues of tasks and jobs. Tasks and jobs are numbers here.

use alloc::{boxed::Box, rc::Rc, vec::Vec};
use core::{cell::Cell, ptr::NonNull};

use crate::{
    queue::{
        chain::Chain,
        deque::{Deque, Steal},
        inbox, injector,
        ring::{Overflow, Ring as Queue},
    },
    task::header::{Header, Ready},
};

/// Tasks by number: headers without futures.
#[derive(Clone)]
pub struct Tasks(Rc<[(Header, Cell<bool>)]>);

impl Tasks {
    /// `n` tasks, which no queue holds.
    pub fn new(n: usize) -> Self {
        Self((0..n).map(|_| (Header::vacant(), Cell::new(false))).collect())
    }

    /// Whether a queue holds the task.
    pub fn is_queued(&self, n: usize) -> bool {
        self.0[n].1.get()
    }

    fn ready(&self, n: usize) -> Ready {
        assert!(!self.0[n].1.replace(true), "a task is in one queue");
        // SAFETY: at most one per header, which the flag ensures; the queues that take it keep the headers by a clone of `self`.
        unsafe { Ready::from_raw(NonNull::from(&self.0[n].0)) }
    }

    fn number(&self, ready: Ready) -> usize {
        let header = ready.into_raw().as_ptr().cast_const();
        let n = self.0.iter().position(|(each, _)| core::ptr::eq(each, header));
        let Some(n) = n else { panic!("a task of another test") };
        assert!(self.0[n].1.replace(false), "a queue gave a task twice");
        n
    }

    fn numbers(&self, mut chain: Chain) -> Vec<usize> {
        let len = chain.len();
        let all: Vec<_> =
            core::iter::from_fn(|| chain.pop_front()).map(|r| self.number(r)).collect();
        assert_eq!(all.len(), len);
        all
    }

    fn chain(&self, all: &[usize]) -> Chain {
        let mut chain = Chain::new();
        all.iter().for_each(|n| chain.push_back(self.ready(*n)));
        chain
    }
}

/// A worker's ring.
pub struct Ring<const CAP: usize> {
    ring: Queue<CAP>,
    tasks: Tasks,
    /// The steal that has begun: its first index, and the number of its tasks.
    claimed: Option<(u32, u32)>,
}

impl<const CAP: usize> Ring<CAP> {
    /// An empty ring whose indices begin at `index`.
    pub fn new(tasks: &Tasks, index: u32) -> Self {
        Self { ring: Queue::starting_at(index), tasks: tasks.clone(), claimed: None }
    }
    /// How many tasks may be popped.
    pub fn len(&self) -> usize {
        self.ring.len()
    }
    /// Whether no task may be popped.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
    /// How many tasks fit.
    pub fn room(&mut self) -> usize {
        // SAFETY: INV-RING-OWNER: the ring is ours, and borrowed mutably.
        unsafe { self.ring.room() }
    }
    /// Adds a task. Returns what had no room: nothing, one task, or a chain.
    pub fn push(&mut self, n: usize) -> Vec<usize> {
        // SAFETY: as in `room`.
        match unsafe { self.ring.push(self.tasks.ready(n)) } {
            Overflow::None => Vec::new(),
            Overflow::One(ready) => [self.tasks.number(ready)].into(),
            Overflow::Chain(chain) => self.tasks.numbers(chain),
        }
    }
    /// Takes the oldest task.
    pub fn pop(&mut self) -> Option<usize> {
        // SAFETY: as in `room`.
        unsafe { self.ring.pop() }.map(|ready| self.tasks.number(ready))
    }
    /// Steals half of another ring. Returns the first task, and the number of all.
    pub fn steal(&mut self, from: &mut Self) -> Option<(usize, usize)> {
        // SAFETY: as in `room`; the rings are two.
        let (first, n) = unsafe { from.ring.steal_into(&self.ring) }?;
        Some((self.tasks.number(first), n))
    }
    /// Begins a steal by a thief that has this room. Returns how many tasks it claims. `end_steal` ends it.
    pub fn begin_steal(&mut self, room: u32) -> Option<usize> {
        let claimed = self.ring.claim(room)?;
        assert!(self.claimed.replace(claimed).is_none(), "one thief at a time");
        Some(claimed.1 as usize)
    }
    /// The thief copies the tasks that it has claimed, and releases the ring.
    pub fn end_steal(&mut self) -> Vec<usize> {
        let Some((first, n)) = self.claimed.take() else { return Vec::new() };
        // SAFETY: INV-RING-SLOT: the tasks have been claimed, and not yet released.
        let read = |i| self.tasks.number(unsafe { self.ring.read(first.wrapping_add(i)) });
        let stolen = (0..n).map(read).collect();
        self.ring.release();
        stolen
    }
}

/// The injector.
pub struct Injector(injector::Injector, Tasks);

impl Injector {
    /// An empty injector.
    pub fn new(tasks: &Tasks) -> Self {
        Self(injector::Injector::new(), tasks.clone())
    }
    /// Whether no task waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// How many tasks wait.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Adds a task.
    pub fn push(&self, n: usize) {
        self.0.push(self.1.ready(n));
    }
    /// Adds a chain of tasks.
    pub fn push_chain(&self, all: &[usize]) {
        self.0.push_chain(self.1.chain(all));
    }
    /// Takes a batch.
    pub fn pop_batch(&self, workers: usize, room: usize) -> Vec<usize> {
        let mut rest = Vec::new();
        let first = self.0.pop_batch(workers, room, |ready| rest.push(self.1.number(ready)));
        assert!(first.is_some() || rest.is_empty());
        first.map(|ready| self.1.number(ready)).into_iter().chain(rest).collect()
    }
}

/// A worker's inbox.
pub struct Inbox(inbox::Inbox, Tasks);

impl Inbox {
    /// An empty inbox.
    pub fn new(tasks: &Tasks) -> Self {
        Self(inbox::Inbox::new(), tasks.clone())
    }
    /// Adds a task.
    pub fn push(&self, n: usize) {
        self.0.push(self.1.ready(n));
    }
    /// Whether no task waits.
    pub fn is_empty(&mut self) -> bool {
        // SAFETY: the inbox is borrowed mutably, so that we are its worker.
        unsafe { self.0.is_empty() }
    }
    /// Whether there are tasks that have not yet been put in order.
    pub fn has_mail(&self) -> bool {
        self.0.has_mail()
    }
    /// Puts the ordered tasks back, as a worker that leaves does.
    pub fn put_back(&mut self) {
        // SAFETY: as in `is_empty`.
        unsafe { self.0.put_back() };
    }
    /// Takes the oldest task.
    pub fn pop(&mut self) -> Option<usize> {
        // SAFETY: as in `is_empty`.
        unsafe { self.0.pop() }.map(|ready| self.1.number(ready))
    }
}

/// A deque of jobs. Each job is a number.
pub struct Jobs<const CAP: usize> {
    deque: Deque<u32, CAP>,
    jobs: Box<[u32]>,
    /// The indices of the jobs that were not taken back.
    pushed: Vec<usize>,
}

impl<const CAP: usize> Jobs<CAP> {
    /// An empty deque for numbers below `jobs`, whose indices begin at `index`.
    pub fn new(jobs: u32, index: usize) -> Self {
        Self { deque: Deque::starting_at(index), jobs: (0..jobs).collect(), pushed: Vec::new() }
    }
    /// Adds a job, if there is room.
    pub fn push(&mut self, n: u32) -> bool {
        let job = NonNull::from(&self.jobs[n as usize]);
        // SAFETY: INV-DEQUE-OWNER: the deque is ours, and borrowed mutably. The jobs live as long as the deque.
        unsafe {
            let at = self.deque.bottom();
            let room = self.deque.push(at, job);
            self.pushed.extend(room.then_some(at));
            room
        }
    }
    /// Takes the last push back. Returns whether the job was still there.
    pub fn take(&mut self) -> Option<bool> {
        let at = self.pushed.pop()?;
        // SAFETY: as in `push`; the job was pushed there, and is taken once.
        Some(unsafe { self.deque.take(at, true) })
    }
    /// Makes up to `n` jobs public. Returns how many.
    pub fn publish(&mut self, n: usize) -> usize {
        // SAFETY: as in `push`.
        unsafe { self.deque.publish(n) }
    }
    /// Takes the oldest public job.
    pub fn steal(&self) -> Option<u32> {
        match self.deque.steal_if(|| true) {
            Steal::Empty => None,
            // SAFETY: the pointer is to one of `jobs`.
            Steal::Success(job) => Some(unsafe { job.read() }),
            Steal::Retry => panic!("another thief was faster, and there is none"),
        }
    }
    /// Whether a job is public.
    pub fn is_public(&self) -> bool {
        self.deque.is_public()
    }
    /// Whether a thief has asked.
    pub fn is_asked(&self) -> bool {
        self.deque.is_asked()
    }
    /// Asks for public jobs, or stops asking.
    pub fn ask(&mut self, on: bool) {
        if on { self.deque.ask() } else { self.deque.unask() }
    }
    /// The owner has seen that a thief asked.
    pub fn wake_up(&mut self) {
        self.deque.wake_up();
    }
}
