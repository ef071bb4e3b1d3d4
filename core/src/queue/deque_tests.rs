//! The deque on one thread, against a list.

use std::collections::VecDeque;

use super::*;

const CAP: usize = 8;

/// The deque and the expected content: indices with the numbers of jobs, and how many are public.
struct Pair {
    deque: Deque<u32, CAP>,
    model: VecDeque<(usize, u32)>,
    public: usize,
    jobs: Vec<u32>,
}

impl Pair {
    fn new() -> Self {
        Self {
            deque: Deque::new(),
            model: VecDeque::new(),
            public: 0,
            jobs: (0..100_000).collect(),
        }
    }

    fn push(&mut self, n: u32) {
        // SAFETY: one thread; the jobs stay.
        unsafe {
            let at = self.deque.bottom();
            let pushed = self.deque.push(at, NonNull::from(&mut self.jobs[n as usize]));
            assert_eq!(pushed, self.model.len() < CAP);
            if pushed {
                self.model.push_back((at, n));
            }
        }
    }

    fn take(&mut self) {
        if let Some((at, _)) = self.model.pop_back() {
            // SAFETY: one thread; the newest job.
            assert!(unsafe { self.deque.take(at, true) });
            self.public = self.public.min(self.model.len());
        }
    }

    fn steal(&mut self) -> Option<usize> {
        let stolen = self.deque.steal();
        if self.public == 0 {
            assert_eq!(stolen, Steal::Empty);
            return None;
        }
        self.public -= 1;
        let (at, n) = self.model.pop_front().unwrap();
        let Steal::Success(job) = stolen else { panic!("{stolen:?}") };
        // SAFETY: it points into `jobs`.
        assert_eq!(unsafe { job.read() }, n);
        Some(at)
    }

    fn publish(&mut self, n: usize) {
        // SAFETY: one thread.
        let more = unsafe { self.deque.publish(n) };
        assert_eq!(more, n.min(self.model.len() - self.public));
        self.public += more;
        assert_eq!(self.deque.is_public(), self.public > 0);
    }
}

#[test]
fn a_deque_does_what_a_list_does() {
    for seed in 1..=64_u64 {
        let mut pair = Pair::new();
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for n in 0..2_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            match random >> 32 & 7 {
                0..=2 => pair.push(n),
                3..=4 => pair.take(),
                5 => drop(pair.steal()),
                _ => pair.publish((random >> 40 & 3) as usize),
            }
        }
    }
}

#[test]
fn jobs_are_taken_in_any_order() {
    for seed in 1..=64_u64 {
        let deque = Deque::<u32, CAP>::starting_at(usize::MAX - 3);
        let jobs: Vec<u32> = (0..2_000).collect();
        let push = |job: &u32| {
            // SAFETY: one thread; the jobs stay.
            let (at, fits) = unsafe {
                let at = deque.bottom();
                (at, deque.push(at, NonNull::from(job)))
            };
            fits.then_some(at)
        };
        // SAFETY: one thread; each job is taken once.
        let take = |at| unsafe { deque.take(at, true) };
        // SAFETY: one thread.
        let publish = |n| unsafe { deque.publish(n) };
        // SAFETY: one thread.
        let unsettled = || unsafe { deque.unsettled() };
        // Those that are in the deque, oldest first; and how many slots may be empty.
        let (mut left, mut empty) = (VecDeque::new(), 0);
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for job in &jobs {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let which = (random >> 40) as usize;
            match random >> 32 & 7 {
                // The first push may find that empty slots have gone, and the bottom is lower.
                0..=3 => match push(job).or_else(|| push(job)) {
                    Some(at) => left.push_back((at, job)),
                    None => assert!(left.len() + empty >= CAP),
                },
                4..=5 if !left.is_empty() => {
                    let which = which % left.len();
                    empty += usize::from(which + 1 < left.len());
                    let (at, _) = left.remove(which).unwrap();
                    assert!(take(at));
                }
                6 => drop(publish(which % 4)),
                _ => match deque.steal() {
                    Steal::Success(stolen) => {
                        let oldest = left.pop_front().map(|(_, job)| NonNull::from(job));
                        assert_eq!(Some(stolen), oldest);
                        // SAFETY: one thread; once for this job.
                        unsafe { deque.settle() };
                    }
                    Steal::Retry => empty = empty.checked_sub(1).expect("an empty slot"),
                    Steal::Empty => {}
                },
            }
            assert_eq!(unsettled(), left.len());
        }
        assert!(left.into_iter().all(|(at, _)| take(at)));
        assert_eq!(unsettled(), 0);
        // No room is lost.
        publish(CAP);
        while deque.steal() == Steal::Retry {}
        assert_eq!(jobs.iter().map_while(push).count(), CAP);
    }
}

#[test]
fn a_job_that_was_stolen_is_not_taken_back() {
    let mut pair = Pair::new();
    (0..4).for_each(|n| pair.push(n));
    pair.publish(3);
    assert_eq!([pair.steal(), pair.steal(), pair.steal()], [Some(0), Some(1), Some(2)]);
    pair.take();
    // SAFETY: one thread, newest first.
    unsafe {
        assert!((0..3).rev().all(|at| !pair.deque.take(at, true)));
        assert_eq!(pair.deque.bottom(), 3);
    }
    pair.push(4);
    pair.publish(1);
    assert_eq!(pair.steal(), Some(3));
}

#[test]
fn a_deque_is_deep_after_many_pushes_that_nobody_asked_for() {
    let deque = Deque::<u32, 64>::new();
    let mut job = 0;
    let job = NonNull::from(&mut job);
    let fill = || {
        let mut most = 0;
        while most < 64 && !deque.is_deep(most) {
            // SAFETY: one thread; the job stays.
            assert!(unsafe { deque.push(most, job) });
            most += 1;
        }
        // SAFETY: as above, newest first.
        assert!((0..most).rev().all(|at| unsafe { deque.take(at, true) }));
        most
    };
    assert_eq!([fill(), fill(), fill()], [64; 3], "a few jobs all wait");
    let rounds = (0..).take_while(|_| fill() == 64).count();
    assert!(rounds < SPILLS as usize, "{rounds}");
    assert_eq!([fill(), fill()], [8; 2]);
    deque.wake_up();
    assert_eq!(fill(), 64, "somebody has asked");
}

#[test]
fn who_asks_is_heard_once() {
    let deque = Deque::<u32, CAP>::new();
    assert!(!deque.is_asked());
    deque.ask();
    deque.ask();
    assert!(deque.is_asked());
    deque.unask();
    assert!(!deque.is_asked());
}
