//! The fork-join deque against a list.

use std::collections::VecDeque;

use arbitrary::{Arbitrary, Unstructured};
use filch_harness::fuzzing::Jobs;

const CAP: usize = 8;
/// How many jobs there are, each pushed once.
const JOBS: u32 = 4_096;

#[derive(Arbitrary)]
enum Op {
    Push,
    Take,
    PushMany(u8),
    TakeMany(u8),
    Publish(u8),
    Steal,
    Ask(bool),
    WakeUp,
}

struct Trial {
    jobs: Jobs<CAP>,
    /// The jobs that were pushed and not taken back, oldest first; the first `stolen` are gone.
    pushed: VecDeque<u32>,
    stolen: usize,
    /// How many of the jobs that are left are public.
    public: usize,
    asked: bool,
    next: u32,
}

pub(crate) fn run(input: &mut Unstructured<'_>) {
    let from_end: bool = crate::value(input);
    let index = usize::from(crate::value::<u8>(input));
    let index = if from_end { usize::MAX - index % 16 } else { index };
    let jobs = Jobs::new(JOBS, index);
    let mut trial =
        Trial { jobs, pushed: VecDeque::new(), stolen: 0, public: 0, asked: false, next: 0 };
    for op in crate::operations(input, 1_000) {
        trial.step(op);
        assert_eq!(trial.jobs.is_public(), trial.public > 0);
        assert_eq!(trial.jobs.is_asked(), trial.asked);
    }
    while !trial.pushed.is_empty() {
        trial.take();
    }
    assert_eq!(trial.jobs.take(), None);
}

impl Trial {
    fn left(&self) -> usize {
        self.pushed.len() - self.stolen
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Push => self.push(),
            Op::PushMany(n) => (0..n % 16).for_each(|_| self.push()),
            Op::Take => self.take(),
            Op::TakeMany(n) => (0..n % 16).for_each(|_| self.take()),
            Op::Publish(n) => {
                let more = usize::from(n).min(self.left() - self.public);
                assert_eq!(self.jobs.publish(n.into()), more);
                self.public += more;
            }
            Op::Steal => {
                let job = (self.public > 0).then(|| self.pushed[self.stolen]);
                assert_eq!(self.jobs.steal(), job);
                self.stolen += usize::from(job.is_some());
                self.public -= usize::from(job.is_some());
            }
            Op::Ask(on) => {
                self.jobs.ask(on);
                self.asked = on;
            }
            Op::WakeUp => self.jobs.wake_up(),
        }
    }

    fn push(&mut self) {
        let fits = self.left() < CAP && self.next < JOBS;
        if self.next < JOBS {
            assert_eq!(self.jobs.push(self.next), fits);
        }
        self.pushed.extend(fits.then_some(self.next));
        self.next += 1;
    }

    /// The owner takes its newest job back, or finds it stolen.
    fn take(&mut self) {
        let there = self.left() > 0;
        let taken = self.jobs.take();
        assert_eq!(taken, self.pushed.pop_back().map(|_| there));
        if !there {
            self.stolen = self.stolen.min(self.pushed.len());
        } else if self.public > self.left() {
            // The last public job was taken; if it was the very last, the deque must note that
            // thieves want more.
            self.public = self.left();
            self.asked |= self.public == 0;
        }
    }
}
