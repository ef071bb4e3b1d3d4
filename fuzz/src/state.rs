//! The state word against a ledger of references, of the place of the `Ready`, and of the requests.
//!
//! The ledger knows nothing of words and counts. It says what each holder may expect: a wake leads
//! to a poll; a `Ready` is made when there is none; the last reference frees the slot, and no other
//! does.

use arbitrary::{Arbitrary, Unstructured};
use filch_harness::fuzzing::{Answer, Look, Move, State};

/// At this count of wakes a poll is repeated, for safety.
const MOST_WAKES: u64 = 0xFFFF;

#[derive(Arbitrary)]
enum Op {
    Wake,
    WakeByValue,
    /// More wakes than can be counted.
    Storm,
    Abort,
    AbortOnce,
    CloneWaker,
    Upgrade,
    DropWaker,
    BeginPoll,
    Pending,
    Complete,
    Register,
    Unregister,
    DropHandle,
    Shield,
    Unshield,
}

#[derive(Clone, Copy, PartialEq)]
enum Ready {
    Nowhere,
    Queued,
    Polled { seen: Look, woken: bool },
}

struct Ledger {
    word: State,
    /// Whether the task ends when it is unreachable.
    ends: bool,
    live: bool,
    ready: Ready,
    cancelled: bool,
    handle: bool,
    registered: bool,
    wakers: u64,
    shields: u64,
    freed: bool,
}

pub(crate) fn run(input: &mut Unstructured<'_>) {
    let ends = input.len() % 2 == 0;
    let mut ledger = Ledger {
        word: State::spawned(ends),
        ends,
        live: true,
        ready: Ready::Queued,
        cancelled: false,
        handle: true,
        registered: false,
        wakers: 0,
        shields: 0,
        freed: false,
    };
    let mut storms = 0;
    for op in crate::operations(input, 500) {
        storms += u32::from(matches!(op, Op::Storm));
        if storms <= 4 || !matches!(op, Op::Storm) {
            ledger.step(op);
            ledger.check();
        }
    }
    ledger.finish();
}

impl Ledger {
    fn step(&mut self, op: Op) {
        match op {
            Op::Wake if self.wakers > 0 => self.wake(),
            Op::WakeByValue if self.wakers > 0 => self.wake_by_value(),
            Op::Storm if self.wakers > 0 => (0..=MOST_WAKES).for_each(|_| self.wake()),
            Op::Abort => self.abort(Move::Abort, true),
            Op::AbortOnce => self.abort(Move::AbortOnce, !self.cancelled),
            Op::CloneWaker if self.references() > 0 => {
                assert_eq!(self.word.apply(Move::CloneRef), Answer::None);
                self.wakers += 1;
            }
            Op::Upgrade => {
                let wanted = if self.live { Answer::None } else { Answer::Refused };
                assert_eq!(self.word.apply(Move::Upgrade), wanted);
                self.wakers += u64::from(self.live);
            }
            Op::DropWaker if self.wakers > 0 => {
                self.wakers -= 1;
                let answer = self.word.apply(Move::DropRef);
                self.dropped(answer);
            }
            Op::BeginPoll if self.ready == Ready::Queued => self.begin_poll(),
            Op::Pending => self.pending(),
            Op::Complete if matches!(self.ready, Ready::Polled { .. }) => self.complete(),
            Op::Register if self.handle && !self.registered => self.register(Move::SetJoinWaker),
            Op::Unregister if self.registered => self.register(Move::UnsetJoinWaker),
            Op::DropHandle if self.handle => self.drop_handle(),
            Op::Shield if matches!(self.ready, Ready::Polled { .. }) && self.shields < 100 => {
                assert_eq!(self.word.apply(Move::ShieldEnter), Answer::None);
                self.shields += 1;
            }
            Op::Unshield if self.shields > 0 => self.unshield(),
            // No holder can do this.
            _ => {}
        }
    }

    fn references(&self) -> u64 {
        let ready = u64::from(self.ready != Ready::Nowhere);
        ready + u64::from(self.handle) + self.wakers + self.shields
    }

    fn must_cancel(&self) -> bool {
        self.cancelled && self.shields == 0
    }

    /// A wake asks for a poll, and must schedule the task if the answer says so.
    fn woken(&mut self, answer: Answer) {
        if let Ready::Polled { woken, .. } = &mut self.ready {
            *woken = true;
        }
        if self.live && self.ready == Ready::Nowhere {
            assert_eq!(answer, Answer::Schedule);
            self.ready = Ready::Queued;
        } else {
            assert_eq!(answer, Answer::None);
        }
    }

    /// A reference was dropped.
    fn dropped(&mut self, answer: Answer) {
        let wanted = match (self.references(), self.live) {
            (0, true) if self.ends => Answer::Schedule,
            (0, true) => Answer::None,
            (0, false) => Answer::Free,
            _ => Answer::None,
        };
        assert_eq!(answer, wanted);
        if answer == Answer::Schedule {
            // No waker is left: a worker drops the future.
            (self.ready, self.cancelled) = (Ready::Queued, true);
        }
        self.freed |= answer == Answer::Free;
    }

    fn wake(&mut self) {
        let answer = self.word.apply(Move::Wake);
        self.woken(answer);
    }

    fn wake_by_value(&mut self) {
        self.wakers -= 1;
        let answer = self.word.apply(Move::WakeByValue);
        if self.live { self.woken(answer) } else { self.dropped(answer) }
    }

    fn abort(&mut self, how: Move, counts: bool) {
        let answer = self.word.apply(how);
        if counts && self.live {
            self.cancelled = true;
            self.woken(answer);
        } else {
            assert_eq!(answer, Answer::None);
        }
    }

    fn begin_poll(&mut self) {
        let look = self.word.look();
        assert_eq!(look.must_cancel, self.must_cancel());
        self.ready = Ready::Polled { seen: look, woken: false };
        if look.must_cancel {
            self.complete();
        }
    }

    fn pending(&mut self) {
        let Ready::Polled { seen, woken } = self.ready else { return };
        let at_once = self.word.is_again(seen);
        let answer = self.word.apply(Move::Pending(seen.wakes));
        assert!(!at_once || answer == Answer::Again);
        if self.must_cancel() {
            assert_eq!(answer, Answer::Cancel);
        } else if woken || seen.wakes == MOST_WAKES {
            assert_eq!(answer, Answer::Again, "a wake is lost");
        } else if self.references() == 1 && self.ends {
            assert_eq!(answer, Answer::Cancel);
            self.cancelled = true;
        } else {
            assert_eq!(answer, Answer::Idle);
        }
        match answer {
            Answer::Again => self.ready = Ready::Queued,
            Answer::Idle => self.ready = Ready::Nowhere,
            _ => self.complete(),
        }
    }

    /// The future is dropped, and the `Ready` is used up.
    fn complete(&mut self) {
        self.live = false;
        if !self.handle && self.wakers % 2 == 1 {
            // Either way is correct.
            let answer = self.word.apply(Move::CompleteDetached);
            self.ready = Ready::Nowhere;
            return self.dropped(answer);
        }
        let answer = self.word.apply(Move::Complete);
        let wanted = match (self.handle, self.registered) {
            (true, true) => Answer::WakeJoiner,
            (true, false) => Answer::Released,
            (false, _) => Answer::DropOutput,
        };
        assert_eq!(answer, wanted);
        self.ready = Ready::Nowhere;
        if answer != Answer::Released {
            let answer = self.word.apply(Move::DropRef);
            self.dropped(answer);
        }
    }

    fn register(&mut self, how: Move) {
        let wanted = if self.live { Answer::None } else { Answer::Refused };
        assert_eq!(self.word.apply(how), wanted);
        if self.live {
            self.registered = !self.registered;
        }
    }

    fn drop_handle(&mut self) {
        if self.registered && self.live {
            self.register(Move::UnsetJoinWaker);
        }
        (self.handle, self.registered) = (false, false);
        let answer = self.word.apply(Move::Detach);
        let answer = if self.live {
            answer
        } else {
            assert_eq!(answer, Answer::Refused, "there is an output to drop");
            self.word.drop_complete()
        };
        self.dropped(answer);
    }

    fn unshield(&mut self) {
        self.shields -= 1;
        let answer = self.word.apply(Move::ShieldExit);
        if self.live && self.must_cancel() && self.ready == Ready::Nowhere {
            assert_eq!(answer, Answer::Schedule, "an abort has waited");
            self.ready = Ready::Queued;
        } else {
            self.dropped(answer);
        }
    }

    fn check(&self) {
        if self.freed {
            assert_eq!(self.references(), 0);
            return;
        }
        let look = self.word.look();
        assert_eq!(look.refs, self.references());
        assert_eq!(look.shield, self.shields);
        assert_eq!((look.live, look.cancelled), (self.live, self.cancelled));
        assert_eq!(look.wakes > 0, self.ready != Ready::Nowhere);
        // On a complete task the bit has no meaning.
        if self.live {
            assert_eq!((look.join_interest, look.join_waker), (self.handle, self.registered));
        }
    }

    /// Drops all references, and cancels a task that is left: the slot is freed.
    fn finish(&mut self) {
        while self.shields > 0 {
            self.step(Op::Unshield);
        }
        self.step(Op::DropHandle);
        while self.wakers > 0 {
            self.step(Op::DropWaker);
        }
        while self.live {
            if self.ready == Ready::Nowhere {
                assert!(!self.ends);
                self.step(Op::Abort);
            }
            self.step(Op::BeginPoll);
            self.step(Op::Pending);
            self.check();
        }
        assert!(self.freed, "the slot has leaked");
    }
}
