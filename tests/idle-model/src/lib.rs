//! The idle protocol of filch as a formal model: every state that a few workers and a pusher can
//! reach.
//!
//! Each step has the name of its function in `core/src/scheduler/`, and is one access to shared
//! state: the word of a bitmap, the count of searchers, a queue. All accesses are sequentially
//! consistent here; loom and `filch-weakmem` check the orderings. The model leaves out the LIFO
//! slot, timers and I/O, the bitmap's second level, fork-join jobs, and every timeout.
//!
//! The tests check two workers with two tasks from outside, one pinned and one that a poll queues;
//! the same with one task from outside and a spurious wake; three workers with a task from outside
//! and one that a poll queues. A test that takes minutes checks more.
//!
//! A poll may last for ever, and so may the code of a context that has queued a task and not yet
//! notified. So nothing must happen "in the end": the [properties](Idle::properties) say for each
//! state what must be true if all user code in it never goes on. The scheduler's own code is
//! assumed to go on, claims included: a thread that is stopped between the two halves of a claim
//! delays those that relied on its count.

mod notify;
mod worker;

use core::fmt::Write as _;

use stateright::{Model, Path, Property};

pub use notify::{Notify, Target};
pub use worker::{At, Worker};

/// A part that is left out of the protocol, or a bug that is planted in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// As it is in `core/src/scheduler/`.
    Sound,
    /// No re-check after the announcement (`idle_recheck` in `core/mutants.sh`).
    NoRecheck,
    /// Only the last searcher re-checks after its announcement, as in Tokio (`idle_gap`).
    SearchersRecheck,
    /// A worker that sees work on its way to sleep does not become a searcher (`idle_lapse`).
    NoSearcher,
    /// The last searcher that found work does not check again (half of rule 2).
    NoLookOnStop,
    /// A claim is counted after the bit is cleared (`idle_early`).
    CountedLate,
    /// A worker whose bit is gone when it wakes does not know that it searches.
    ClaimForgotten,
    /// A claimer that finds its worker awake leaves, though its count may have turned another
    /// pusher away.
    MissedForgotten,
    /// It checks all queues except that worker's ring (`call_own`).
    MissedOwn,
    /// No check of the inbox after the announcement.
    NoMailLook,
    /// A claimer does not unpark its worker.
    NoUnpark,
}

/// The model: the contexts, and how much may happen.
#[derive(Clone, Copy, Debug)]
pub struct Idle<const WORKERS: usize> {
    /// The planted bug.
    pub variant: Variant,
    /// Tasks that the pusher, a thread that is no worker, queues in the injector.
    pub pushes: u8,
    /// Pinned tasks that the pusher queues in any worker's inbox.
    pub mail: u8,
    /// Tasks that polls queue in their workers' rings.
    pub spawns: u8,
    /// Spurious wakes.
    pub spurious: u8,
}

/// The shared state, and the position of each context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State<const WORKERS: usize> {
    /// Tasks in the injector.
    pub injector: u8,
    /// Tasks in each worker's ring.
    pub rings: [u8; WORKERS],
    /// Pinned tasks in each worker's inbox.
    pub inboxes: [u8; WORKERS],
    /// `Idle::searching`.
    pub searching: u8,
    /// `Idle::top`: a bit for each worker that sleeps or is about to.
    pub parked: u8,
    /// The workers whose park word makes the next sleep end at once.
    pub notified: u8,
    /// The workers.
    pub workers: [Worker; WORKERS],
    /// The pusher's position, while it notifies.
    pub pusher: Option<Notify>,
    /// What may still happen.
    pub left: Left,
}

/// How many of each may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "as in `Idle`")]
pub struct Left {
    pub pushes: u8,
    pub mail: u8,
    pub spawns: u8,
    pub spurious: u8,
}

/// The context that runs next, and its choice if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The pusher queues a task that any worker may take.
    Push,
    /// The pusher queues a task for this worker alone.
    PushPinned(usize),
    /// The pusher goes on with its notification.
    Pusher,
    /// This worker, or the pusher if no worker has that number, claims that sleeper. Any sleeper:
    /// the real claim avoids the last one that it claimed, and another context may have come
    /// between its check and its choice.
    Claim(usize, usize),
    /// The worker does its next step.
    Step(usize),
    /// The worker takes the whole injector, not one task.
    Batch(usize),
    /// The worker checks its inbox before its ring and the injector, as in every second pass.
    InboxFirst(usize),
    /// Its poll queues a task.
    Spawn(usize),
    /// Its sleep ends spuriously.
    Spurious(usize),
}

impl<const WORKERS: usize> Model for Idle<WORKERS> {
    type State = State<WORKERS>;
    type Action = Action;

    fn init_states(&self) -> Vec<Self::State> {
        let Self { pushes, mail, spawns, spurious, .. } = *self;
        vec![State {
            injector: 0,
            rings: [0; WORKERS],
            inboxes: [0; WORKERS],
            searching: 0,
            parked: 0,
            notified: 0,
            workers: [Worker { at: At::Find, searching: false }; WORKERS],
            pusher: None,
            left: Left { pushes, mail, spawns, spurious },
        }]
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Action>) {
        match state.pusher {
            Some(notify) => notify.choices(state, WORKERS, Action::Pusher, actions),
            None => {
                actions.extend((state.left.pushes > 0).then_some(Action::Push));
                let mail = 0..if state.left.mail > 0 { WORKERS } else { 0 };
                actions.extend(mail.map(Action::PushPinned));
            }
        }
        (0..WORKERS).for_each(|me| worker::choices(state, me, actions));
    }

    fn next_state(&self, before: &Self::State, action: Action) -> Option<Self::State> {
        let mut state = *before;
        match action {
            Action::Push => {
                state.left.pushes -= 1;
                state.injector += 1;
                state.pusher = Some(Notify::MustNotify);
            }
            Action::PushPinned(worker) => {
                state.left.mail -= 1;
                state.inboxes[worker] += 1;
                state.pusher = Some(Notify::call(worker));
            }
            Action::Pusher => {
                let at =
                    state.pusher.expect("it is asked for in the midst of a notification alone");
                state.pusher = at.step(self.variant, &mut state);
            }
            Action::Claim(by, sleeper) => {
                let notify = Notify::IsParked(Target::Any(sleeper));
                match state.workers.get_mut(by) {
                    Some(Worker { at: At::Notify(at, _), .. }) => *at = notify,
                    _ => state.pusher = Some(notify),
                }
            }
            Action::Step(me)
            | Action::Batch(me)
            | Action::InboxFirst(me)
            | Action::Spawn(me)
            | Action::Spurious(me) => worker::step(self.variant, &mut state, me, action),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(STRANDED, |_, state: &State<WORKERS>| !state.strands_a_task()),
            Property::always(MAIL, |_, state: &State<WORKERS>| !state.strands_mail()),
            Property::always(COUNT, |_, state: &State<WORKERS>| state.counts_right()),
            Property::always(CLAIMED, |_, state: &State<WORKERS>| !state.forgets_a_claim()),
            Property::always(DEADLOCK, |model: &Self, state| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                !actions.is_empty() || state.waiting() + state.inboxes.iter().sum::<u8>() == 0
            }),
            // Without these, the model could be vacuous.
            Property::sometimes("all is done and all sleep", |model: &Self, state| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                actions.is_empty()
            }),
            Property::sometimes(
                "a poll holds up every worker but one that sleeps",
                |_, state: &State<WORKERS>| {
                    let polls = state.workers.iter().filter(|w| w.at == At::Poll).count();
                    polls + 1 == WORKERS && state.asleep() != 0
                },
            ),
            Property::sometimes(
                "a worker is claimed that has woken by itself",
                |_, state: &State<WORKERS>| {
                    state.workers.iter().any(|w| w.at == At::Recheck(0))
                        && matches!(state.pusher, Some(Notify::CountDown(_)))
                },
            ),
        ]
    }
}

/// The proof obligation: no task waits in the injector or a ring while a worker sleeps, unless a
/// worker searches or a notification is in progress.
pub const STRANDED: &str = "no task waits while a worker sleeps and nobody is on its way";
/// A worker with a pinned task wakes up.
pub const MAIL: &str = "no worker sleeps over its mail";
/// INV-IDLE-COUNT: the count is that of the searchers, of the workers that will find their bit
/// cleared, and of the claims in progress.
pub const COUNT: &str = "as many are counted as searching as search";
/// INV-IDLE-BIT: the context that clears a sleeper's bit unparks the sleeper.
pub const CLAIMED: &str = "no claim is forgotten";
/// If no context can do anything more, no task is left.
pub const DEADLOCK: &str = "all sleep for ever only if no task is left";

impl<const WORKERS: usize> State<WORKERS> {
    /// `Idle::count_down`.
    fn count_down(&mut self) {
        // Wraps as the real counter does, if a planted bug allows it.
        self.searching = self.searching.wrapping_sub(1);
    }

    /// Whether there is a task in a queue, with the numbers of [`At`].
    fn has_task(&self, queue: usize) -> bool {
        queue.checked_sub(1).map_or(self.injector, |ring| self.rings[ring]) > 0
    }

    /// Tasks that any worker may take.
    fn waiting(&self) -> u8 {
        self.injector + self.rings.iter().sum::<u8>()
    }

    /// The workers that sleep, and have not been notified.
    fn asleep(&self) -> u8 {
        let sleeps = |me: usize| self.workers[me].at == At::Asleep && self.notified & 1 << me == 0;
        (0..WORKERS).filter(|me| sleeps(*me)).fold(0, |all, me| all | 1 << me)
    }

    /// Only user code is in progress, which may never go on: it may be inside a wake, if it has
    /// queued its task and done nothing more.
    fn stands_still(&self) -> bool {
        let stands = |me: usize| match self.workers[me].at {
            At::Poll => true,
            At::Notify(notify, true) => notify.is_first(),
            At::Asleep => self.asleep() & 1 << me != 0,
            _ => false,
        };
        (0..WORKERS).all(stands) && self.pusher.is_none_or(Notify::is_first)
    }

    fn counts_right(&self) -> bool {
        let announced = |at: At| {
            matches!(at, At::CountDown | At::Announced(_) | At::Recheck(_))
                || matches!(at, At::MustStay | At::Asleep | At::Retract(_))
        };
        let counted = |me: usize| {
            let Worker { at, searching } = self.workers[me];
            u8::from(searching) + u8::from(announced(at) && self.parked & 1 << me == 0)
        };
        let claims = self.notifying().filter(|notify| notify.is_counted()).count() as u8;
        self.searching == (0..WORKERS).map(counted).sum::<u8>() + claims
    }

    fn strands_a_task(&self) -> bool {
        let unheard = self.notifying().filter(|notify| *notify == Notify::MustNotify).count() as u8;
        self.stands_still() && self.asleep() != 0 && self.waiting() > unheard
    }

    fn strands_mail(&self) -> bool {
        let calls = self.pusher.is_some();
        let parked = self.parked & self.asleep();
        !calls && (0..WORKERS).any(|me| self.inboxes[me] > 0 && parked & 1 << me != 0)
    }

    fn forgets_a_claim(&self) -> bool {
        let claimed = self.asleep() & !self.parked;
        let unparks = |me| self.notifying().any(|notify| notify.claims(me));
        (0..WORKERS).any(|me| claimed & 1 << me != 0 && !unparks(me))
    }

    /// The contexts that are notifying.
    fn notifying(&self) -> impl Iterator<Item = Notify> {
        let of = |worker: &Worker| match worker.at {
            At::Notify(notify, _) => Some(notify),
            _ => None,
        };
        self.workers.iter().filter_map(of).chain(self.pusher)
    }
}

/// A path in words: each step by its context and its name, and the shared state after it.
pub fn tell<const WORKERS: usize>(path: Path<State<WORKERS>, Action>) -> String {
    let mut text = String::new();
    let steps = path.into_vec();
    for pair in steps.windows(2) {
        let [(before, Some(action)), (after, _)] = pair else { continue };
        let what = match action {
            Action::Pusher => {
                before.pusher.map_or_else(String::new, |at| format!("pusher: {at:?}"))
            }
            Action::Step(me) => format!("worker {me}: {:?}", before.workers[*me].at),
            Action::Claim(by, sleeper) if *by == WORKERS => format!("pusher: ClaimAny: {sleeper}"),
            Action::Claim(by, sleeper) => format!("worker {by}: ClaimAny: {sleeper}"),
            other => format!("{other:?}"),
        };
        let State { injector, rings, inboxes, searching, parked, .. } = after;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{what:<48} injector {injector} rings {rings:?} inboxes {inboxes:?} searching {searching} parked {parked:03b}"
        );
    }
    text
}
