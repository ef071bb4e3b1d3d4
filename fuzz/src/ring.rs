//! Two rings that steal from each other, and a thief that stops halfway, against lists.

use std::collections::VecDeque;

use arbitrary::{Arbitrary, Unstructured};
use filch_harness::fuzzing::{Ring, Tasks};

#[derive(Arbitrary)]
enum Op {
    Push(bool),
    Fill(bool),
    Pop(bool),
    Steal(bool),
    BeginSteal { from: bool, room: u8 },
    EndSteal(bool),
}

pub(crate) fn run(input: &mut Unstructured<'_>) {
    // Indices begin anywhere, or just before they wrap.
    let (size, from_end): (u8, bool) = (crate::value(input), crate::value(input));
    let index = u32::from(crate::value::<u16>(input));
    let index = if from_end { u32::MAX - index % 64 } else { index };
    match size % 4 {
        0 => Trial::<2>::new(index).all(input),
        1 => Trial::<4>::new(index).all(input),
        2 => Trial::<8>::new(index).all(input),
        _ => Trial::<64>::new(index).all(input),
    }
}

/// A ring, and its expected content.
struct Pair<const CAP: usize> {
    ring: Ring<CAP>,
    model: VecDeque<usize>,
    /// The tasks that a thief has claimed and not yet copied.
    claimed: Vec<usize>,
    /// How many were popped since: their slots are not free before the thief has finished.
    popped: usize,
}

struct Trial<const CAP: usize> {
    tasks: Tasks,
    pairs: [Pair<CAP>; 2],
    next: usize,
}

impl<const CAP: usize> Trial<CAP> {
    /// More than fit into two rings.
    const TASKS: usize = 4 * CAP;

    fn new(index: u32) -> Self {
        let tasks = Tasks::new(Self::TASKS);
        let pair = |_| Pair {
            ring: Ring::new(&tasks, index),
            model: VecDeque::new(),
            claimed: Vec::new(),
            popped: 0,
        };
        Self { pairs: [0, 1].map(pair), tasks, next: 0 }
    }

    fn all(&mut self, input: &mut Unstructured<'_>) {
        for op in crate::operations(input, 1_000) {
            match op {
                Op::Push(i) => self.push(i),
                Op::Fill(i) => (0..CAP).for_each(|_| self.push(i)),
                Op::Pop(i) => self.pop(i),
                Op::Steal(from) => self.steal(from),
                Op::BeginSteal { from, room } => self.pair(from).begin_steal(room),
                Op::EndSteal(from) => self.pair(from).end_steal(),
            }
            self.pairs.iter_mut().for_each(Pair::check);
        }
        // Nothing is lost.
        for i in [false, true] {
            self.pair(i).end_steal();
            while !self.pair(i).model.is_empty() {
                self.pop(i);
            }
            self.pop(i);
        }
        assert!((0..Self::TASKS).all(|n| !self.tasks.is_queued(n)));
    }

    fn pair(&mut self, i: bool) -> &mut Pair<CAP> {
        &mut self.pairs[usize::from(i)]
    }

    fn push(&mut self, i: bool) {
        let free = |n: &usize| !self.tasks.is_queued(*n);
        let all = (0..Self::TASKS).map(|n| (n + self.next) % Self::TASKS);
        let n = all.clone().find(free).expect("two rings do not hold them all");
        self.next = n + 1;
        let pair = self.pair(i);
        let (full, stolen_from) = (pair.room() == 0, !pair.claimed.is_empty());
        let over = pair.ring.push(n);
        match (full, stolen_from) {
            (false, _) => {
                assert!(over.is_empty());
                pair.model.push_back(n);
            }
            (true, true) => assert_eq!(over, [n], "the new one alone"),
            (true, false) => {
                let wanted: Vec<_> = pair.model.drain(..CAP / 2).chain([n]).collect();
                assert_eq!(over, wanted, "the older half, and the new one");
            }
        }
    }

    fn pop(&mut self, i: bool) {
        let pair = self.pair(i);
        let popped = pair.ring.pop();
        assert_eq!(popped, pair.model.pop_front());
        pair.popped += usize::from(popped.is_some() && !pair.claimed.is_empty());
    }

    fn steal(&mut self, from: bool) {
        let [a, b] = &mut self.pairs;
        let (from, to) = if from { (b, a) } else { (a, b) };
        let room = to.room() + 1;
        let n = if from.claimed.is_empty() { from.share(room) } else { 0 };
        let stolen = to.ring.steal(&mut from.ring);
        assert_eq!(stolen.map_or(0, |(_, n)| n), n);
        let mut wanted = from.model.drain(..n);
        assert_eq!(stolen.map(|(first, _)| first), wanted.next());
        to.model.extend(wanted);
    }
}

impl<const CAP: usize> Pair<CAP> {
    fn room(&self) -> usize {
        CAP - self.model.len() - self.claimed.len() - self.popped
    }

    /// How many a thief with so much room takes.
    fn share(&self, room: usize) -> usize {
        self.model.len().div_ceil(2).min(CAP / 2).min(room)
    }

    fn begin_steal(&mut self, room: u8) {
        let room = usize::from(room) % CAP + 1;
        if self.claimed.is_empty() {
            let n = self.share(room);
            assert_eq!(self.ring.begin_steal(room as u32), (n > 0).then_some(n));
            self.claimed.extend(self.model.drain(..n));
        } else {
            assert_eq!(self.ring.begin_steal(room as u32), None, "one thief at a time");
        }
    }

    fn end_steal(&mut self) {
        assert_eq!(self.ring.end_steal(), core::mem::take(&mut self.claimed));
        self.popped = 0;
    }

    fn check(&mut self) {
        assert_eq!(self.ring.len(), self.model.len());
        assert_eq!(self.ring.is_empty(), self.model.is_empty());
        assert_eq!(self.ring.room(), self.room());
    }
}
