//! The injector and an inbox against lists.

use std::collections::VecDeque;

use arbitrary::{Arbitrary, Unstructured};
use filch_harness::fuzzing::{Inbox, Injector, Tasks};

const TASKS: usize = 256;

#[derive(Arbitrary)]
enum Op {
    Push,
    PushChain(u8),
    PopBatch { workers: u8, room: u8 },
    Mail,
    ReadMail,
    Leave,
}

struct Trial {
    tasks: Tasks,
    injector: Injector,
    queue: VecDeque<usize>,
    inbox: Inbox,
    /// The tasks that came in since the worker last took them, and those that it has put in order.
    mail: VecDeque<usize>,
    ordered: VecDeque<usize>,
}

pub(crate) fn run(input: &mut Unstructured<'_>) {
    let tasks = Tasks::new(TASKS);
    let mut trial = Trial {
        injector: Injector::new(&tasks),
        inbox: Inbox::new(&tasks),
        tasks,
        queue: VecDeque::new(),
        mail: VecDeque::new(),
        ordered: VecDeque::new(),
    };
    for op in crate::operations(input, 1_000) {
        trial.step(op);
        trial.check();
    }
    trial.step(Op::Leave);
    while !trial.queue.is_empty() {
        trial.step(Op::PopBatch { workers: 1, room: 63 });
    }
    while !trial.inbox.is_empty() {
        trial.step(Op::ReadMail);
    }
    assert!((0..TASKS).all(|n| !trial.tasks.is_queued(n)));
}

impl Trial {
    fn free(&self, n: usize) -> Vec<usize> {
        (0..TASKS).filter(|i| !self.tasks.is_queued(*i)).take(n).collect()
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Push => self.free(1).into_iter().for_each(|n| {
                self.injector.push(n);
                self.queue.push_back(n);
            }),
            Op::PushChain(n) => {
                let all = self.free(usize::from(n));
                self.injector.push_chain(&all);
                self.queue.extend(all);
            }
            Op::PopBatch { workers, room } => self.pop_batch(usize::from(workers), room.into()),
            Op::Mail => self.free(1).into_iter().for_each(|n| {
                self.inbox.push(n);
                self.mail.push_back(n);
            }),
            Op::ReadMail => {
                if self.ordered.is_empty() {
                    self.ordered = core::mem::take(&mut self.mail);
                }
                assert_eq!(self.inbox.pop(), self.ordered.pop_front());
            }
            Op::Leave => {
                // What it has put in order stays before what came later.
                self.inbox.put_back();
                self.ordered.append(&mut self.mail);
                core::mem::swap(&mut self.ordered, &mut self.mail);
            }
        }
    }

    fn pop_batch(&mut self, workers: usize, room: usize) {
        let batch = self.injector.pop_batch(workers, room);
        let most = self.queue.len().min(room + 1).min(64);
        assert!((most.min(4)..=most).contains(&batch.len()), "{} of {most}", batch.len());
        assert!(self.queue.drain(..batch.len()).eq(batch), "oldest first");
    }

    fn check(&mut self) {
        assert_eq!(self.injector.len(), self.queue.len());
        assert_eq!(self.injector.is_empty(), self.queue.is_empty());
        assert_eq!(self.inbox.is_empty(), self.mail.is_empty() && self.ordered.is_empty());
        assert_eq!(self.inbox.has_mail(), !self.mail.is_empty());
    }
}
