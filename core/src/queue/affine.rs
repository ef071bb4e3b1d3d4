//! Tasks that only some workers may run: from any context, for those of them that look.

use super::{
    chain::{Chain, Stack},
    urgent::Ordered,
};
use crate::{
    atomic::maybe_const,
    class::Class,
    instant::Instant,
    lock::Spin,
    platform::{WorkerId, WorkerSet},
    task::header::Ready,
};

/// So many sets of workers have queues of their own at a time.
const GROUPS: usize = if cfg!(filch_loom) { 2 } else { 16 };

/// An unbounded queue without memory of its own, from which a consumer takes the first task of a class that it may run.
///
/// Consumers sort the tasks by their sets of workers, and by class. A look at a queue of one set costs the same however many tasks wait.
/// While tasks of more than 16 sets wait, those of the other sets share one queue, in which a look takes time in proportion to its tasks.
///
/// No worker waits for the lock: one that finds it taken looks again later (`scheduler::placement::affine`).
pub(crate) struct AffineQueue {
    stack: Stack,
    sorted: Spin<Sorted>,
}

/// What a consumer gets.
pub(crate) struct Taken {
    pub(crate) ready: Option<Ready>,
    /// Whether tasks are left that it may run, by class.
    pub(crate) left: [bool; 3],
}

/// Sets of workers.
pub(crate) type Sets = [Option<WorkerSet>; GROUPS];

impl AffineQueue {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { stack: Stack::new(), sorted: Spin::new(Sorted::new()) }
        }
    }

    /// Adds a task. Lock-free, callable from any context.
    pub(crate) fn push(&self, ready: Ready) {
        self.stack.push(ready);
    }

    /// Takes the first task of this class that the worker may run. `None` if another consumer holds the lock.
    pub(crate) fn pop(&self, worker: WorkerId, class: Class) -> Option<Taken> {
        self.sorted.try_with(|sorted| {
            // A swap even of an empty stack, on which `OwnClasses::set_hint` relies.
            sorted.sort(self.stack.take_all());
            let ready = sorted.take(worker, class);
            Taken { ready, left: sorted.left(worker) }
        })
    }

    /// The sets with this worker of which tasks wait. `None` if another consumer holds the lock, or if there are too many to tell.
    pub(crate) fn sets_with(&self, worker: WorkerId) -> Option<Sets> {
        self.sorted.try_with(|sorted| {
            sorted.sort(self.stack.take_all());
            let sets = sorted.groups.each_ref().map(|group| group.set);
            let sets = sets.map(|set| set.filter(|set| set.contains(worker)));
            sorted.rest.is_empty().then_some(sets)
        })?
    }
}

/// A deadline and an age, by which tasks are taken.
type Rank = (Instant, u64);

/// What consumers have put in order.
struct Sorted {
    groups: [Group; GROUPS],
    /// Tasks of further sets.
    rest: Chain,
    /// How many tasks have come.
    tickets: u64,
}

/// The tasks of one set; none if there is no task.
struct Group {
    set: Option<WorkerSet>,
    urgent: Ordered,
    normal: Chain,
    background: Chain,
}

impl Sorted {
    const fn new() -> Self {
        Self { groups: [const { Group::new() }; GROUPS], rest: Chain::new(), tickets: 0 }
    }

    /// Puts tasks in order, behind those that are there.
    fn sort(&mut self, new: Chain) {
        // First what came before them.
        let mut tasks = if self.groups.iter().any(|group| group.set.is_none()) {
            core::mem::replace(&mut self.rest, Chain::new())
        } else {
            Chain::new()
        };
        while let Some(ready) = tasks.pop_front() {
            self.place(ready);
        }
        let mut new = new;
        while let Some(ready) = new.pop_front() {
            self.tickets += 1;
            ready.set_ticket(self.tickets);
            self.place(ready);
        }
    }

    fn place(&mut self, ready: Ready) {
        let set = ready.workers();
        let groups = self.groups.iter_mut();
        let (mut free, mut own) = (None, None);
        for group in groups {
            match group.set {
                None => free = free.or(Some(group)),
                its if its == set => own = Some(group),
                _ => {}
            }
        }
        match own.or(free) {
            Some(group) => {
                group.set = set;
                group.push(ready);
            }
            None => self.rest.push_back(ready),
        }
    }

    /// The first task of all: of those of any set, the oldest, or the one with the earliest deadline.
    fn take(&mut self, worker: WorkerId, class: Class) -> Option<Ready> {
        let groups = self.groups.iter().enumerate();
        let mine = groups.filter(|(_, group)| {
            group.set.is_some_and(|set| set.contains(worker)) && !group.is_empty(class)
        });
        let first = mine.map(|(at, group)| (group.rank(class), at)).min();
        let of_rest = self.first_of_rest(worker, class);
        if of_rest.is_some_and(|(rank, _)| first.is_none_or(|(other, _)| rank < other)) {
            return of_rest.and_then(|(_, at)| self.take_of_rest(at));
        }
        let group = &mut self.groups[first?.1];
        let ready = group.pop(class);
        if Class::ALL.into_iter().all(|class| group.is_empty(class)) {
            group.set = None;
        }
        ready
    }

    /// The first task of the further sets that the worker may run, with its rank.
    fn first_of_rest(&mut self, worker: WorkerId, class: Class) -> Option<(Rank, usize)> {
        let mut first: Option<(Rank, usize)> = None;
        for at in 0..self.rest.len() {
            let ready = self.rest.pop_front()?;
            let deadline = if class == Class::Urgent { ready.deadline() } else { Instant::MAX };
            let rank = (deadline, ready.ticket());
            let may = ready.class() == class && is_for(&ready, worker);
            if may && first.is_none_or(|(least, _)| rank < least) {
                first = Some((rank, at));
            }
            self.rest.push_back(ready);
        }
        first
    }

    fn take_of_rest(&mut self, wanted: usize) -> Option<Ready> {
        let mut taken = None;
        for at in 0..self.rest.len() {
            let ready = self.rest.pop_front()?;
            if at == wanted {
                taken = Some(ready);
            } else {
                self.rest.push_back(ready);
            }
        }
        taken
    }

    /// Whether tasks wait that the worker may run, by class.
    fn left(&mut self, worker: WorkerId) -> [bool; 3] {
        let mut left = [false; 3];
        for group in self.groups.iter().filter(|g| g.set.is_some_and(|set| set.contains(worker))) {
            for class in Class::ALL {
                left[class as usize] |= !group.is_empty(class);
            }
        }
        for _ in 0..self.rest.len() {
            let Some(ready) = self.rest.pop_front() else { break };
            left[ready.class() as usize] |= is_for(&ready, worker);
            self.rest.push_back(ready);
        }
        left
    }
}

fn is_for(ready: &Ready, worker: WorkerId) -> bool {
    ready.workers().is_some_and(|set| set.contains(worker))
}

impl Group {
    const fn new() -> Self {
        Self { set: None, urgent: Ordered::new(), normal: Chain::new(), background: Chain::new() }
    }

    fn is_empty(&self, class: Class) -> bool {
        match class {
            Class::Urgent => self.urgent.is_empty(),
            Class::Normal => self.normal.is_empty(),
            Class::Background => self.background.is_empty(),
        }
    }

    /// The deadline and the age of its first task of this class.
    fn rank(&self, class: Class) -> Rank {
        let age = |chain: &Chain| (Instant::MAX, chain.peek(Ready::ticket).unwrap_or_default());
        match class {
            Class::Urgent => (self.urgent.first_deadline(), self.urgent.first_ticket()),
            Class::Normal => age(&self.normal),
            Class::Background => age(&self.background),
        }
    }

    fn push(&mut self, ready: Ready) {
        match ready.class() {
            Class::Urgent => self.urgent.push(ready),
            Class::Normal => self.normal.push_back(ready),
            Class::Background => self.background.push_back(ready),
        }
    }

    fn pop(&mut self, class: Class) -> Option<Ready> {
        match class {
            Class::Urgent => self.urgent.pop(),
            Class::Normal => self.normal.pop_front(),
            Class::Background => self.background.pop_front(),
        }
    }
}
