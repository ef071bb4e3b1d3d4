//! `Worker::run`: one pass of the loop, its search, its way to sleep.

use crate::{Action, Notify, State, Variant};

/// A worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Worker {
    /// Its next step.
    pub at: At,
    /// `Local::searching`.
    pub searching: bool,
}

/// The next step of a worker. A queue is the injector, number 0, or the ring of the worker with the
/// next lower number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// `Worker::find`: the own ring, the inbox.
    Find,
    /// `Worker::take_injector`; whether after a search.
    TakeInjector(bool),
    /// `Idle::try_search`: are there too many searchers?
    TrySearch,
    /// `Idle::try_search`: counts itself.
    CountUp,
    /// `Worker::steal`: the ring, and how many are left to check.
    Steal(usize, usize),
    /// `Worker::take_batch`, `Ring::steal_into`: of so many tasks taken, all but the first go to
    /// the own ring.
    Keep(u8),
    /// `Worker::stop_searching`: decrements the count, before it polls a task.
    StopSearching,
    /// `Worker::stop_searching` of the last searcher: is there a task in this queue?
    Look(usize),
    /// Notifying; whether inside a poll.
    Notify(Notify, bool),
    /// In a poll.
    Poll,
    /// `Idle::announce`: sets its bit.
    Announce,
    /// `Idle::announce` of a searcher: decrements the count.
    CountDown,
    /// `Idle::announce`: is there no searcher? Whether it was one itself.
    Announced(bool),
    /// `Scheduler::has_work` after the announcement: is there a task in this queue?
    Recheck(usize),
    /// `Worker::must_stay`.
    MustStay,
    /// `Idle::retract`; whether it has seen work.
    Retract(bool),
    /// `Idle::search_on`.
    SearchOn,
    /// `ParkWord::park`.
    Asleep,
}

/// The possible actions of worker `me`.
pub(crate) fn choices<const WORKERS: usize>(
    state: &State<WORKERS>,
    me: usize,
    actions: &mut Vec<Action>,
) {
    let at = state.workers[me].at;
    let told = state.notified & 1 << me != 0;
    match at {
        At::Notify(notify, _) => notify.choices(state, me, Action::Step(me), actions),
        At::Asleep if !told => {}
        _ => actions.push(Action::Step(me)),
    }
    let (may, other) = match at {
        At::Asleep => (state.left.spurious > 0, Action::Spurious(me)),
        At::Find => (state.inboxes[me] > 0, Action::InboxFirst(me)),
        At::TakeInjector(_) => (state.injector > 1, Action::Batch(me)),
        At::Poll => (state.left.spawns > 0, Action::Spawn(me)),
        _ => return,
    };
    actions.extend(may.then_some(other));
}

/// Does the worker's next step.
pub(crate) fn step<const WORKERS: usize>(
    variant: Variant,
    state: &mut State<WORKERS>,
    me: usize,
    action: Action,
) {
    let mut worker = state.workers[me];
    worker.at = match worker.at {
        At::Find
        | At::TakeInjector(_)
        | At::TrySearch
        | At::CountUp
        | At::Steal(..)
        | At::Keep(_) => search(state, me, &mut worker, action),
        At::StopSearching | At::Look(_) => stop_searching(variant, state, &mut worker),
        At::Notify(notify, in_poll) => match notify.step(variant, state) {
            Some(next) => At::Notify(next, in_poll),
            None => At::Poll,
        },
        At::Poll if matches!(action, Action::Spawn(_)) => {
            state.left.spawns -= 1;
            state.rings[me] += 1;
            At::Notify(Notify::MustNotify, true)
        }
        At::Poll => find(state, me),
        _ => sleep(variant, state, me, &mut worker, action),
    };
    state.workers[me] = worker;
}

/// [`At::Find`], unless it would find nothing: then it need not be a step of its own.
fn find<const WORKERS: usize>(state: &State<WORKERS>, me: usize) -> At {
    let nothing = state.rings[me] + state.inboxes[me] + state.left.mail == 0;
    if nothing { At::TakeInjector(false) } else { At::Find }
}

/// [`At::Keep`], unless there is nothing to keep, and no notification due.
fn keep(worker: &Worker, taken: u8) -> At {
    if worker.searching && taken == 1 { rest(worker) } else { At::Keep(taken) }
}

/// `Worker::find`: the next step.
fn search<const WORKERS: usize>(
    state: &mut State<WORKERS>,
    me: usize,
    worker: &mut Worker,
    action: Action,
) -> At {
    let steal = At::Steal((me + 1) % WORKERS, WORKERS - 1);
    match worker.at {
        At::Find => {
            let mail_first = matches!(action, Action::InboxFirst(_));
            if state.rings[me] > 0 && !mail_first {
                state.rings[me] -= 1;
            } else if state.inboxes[me] > 0 {
                state.inboxes[me] -= 1;
            } else {
                return At::TakeInjector(false);
            }
            rest(worker)
        }
        At::TakeInjector(_) if state.injector > 0 => {
            let taken = if matches!(action, Action::Batch(_)) { state.injector } else { 1 };
            state.injector -= taken;
            keep(worker, taken)
        }
        At::TakeInjector(true) => At::Announce,
        At::TakeInjector(false) if worker.searching => steal,
        At::TakeInjector(false) => At::TrySearch,
        At::TrySearch if 2 * usize::from(state.searching) >= WORKERS => At::Announce,
        At::TrySearch => At::CountUp,
        At::CountUp => {
            state.searching += 1;
            worker.searching = true;
            steal
        }
        At::Steal(victim, _) if state.rings[victim] > 0 => {
            let taken = state.rings[victim].div_ceil(2);
            state.rings[victim] -= taken;
            keep(worker, taken)
        }
        At::Steal(_, 1) => At::TakeInjector(true),
        At::Steal(victim, left) => At::Steal((victim + 1) % WORKERS, left - 1),
        At::Keep(taken) => {
            state.rings[me] += taken - 1;
            let others_may = taken > 1 || state.injector > 0;
            if !worker.searching && others_may {
                At::Notify(Notify::MustNotify, false)
            } else {
                rest(worker)
            }
        }
        at => at,
    }
}

/// `Worker::rest`: it is about to poll.
fn rest(worker: &Worker) -> At {
    if worker.searching { At::StopSearching } else { At::Poll }
}

/// `Worker::stop_searching`.
fn stop_searching<const WORKERS: usize>(
    variant: Variant,
    state: &mut State<WORKERS>,
    worker: &mut Worker,
) -> At {
    match worker.at {
        At::Look(queue) if state.has_task(queue) => At::Notify(Notify::MustNotify, false),
        At::Look(queue) if queue < WORKERS => At::Look(queue + 1),
        At::Look(_) => At::Poll,
        _ => {
            worker.searching = false;
            state.count_down();
            let look = state.searching == 0 && variant != Variant::NoLookOnStop;
            if look { At::Look(0) } else { At::Poll }
        }
    }
}

/// `Worker::park`, from the announcement to the end of the sleep.
fn sleep<const WORKERS: usize>(
    variant: Variant,
    state: &mut State<WORKERS>,
    me: usize,
    worker: &mut Worker,
    action: Action,
) -> At {
    let bit = 1 << me;
    match worker.at {
        At::Announce => {
            state.parked |= bit;
            if worker.searching { At::CountDown } else { At::Announced(false) }
        }
        At::CountDown => {
            worker.searching = false;
            state.count_down();
            At::Announced(true)
        }
        At::Announced(searched) => {
            let look = match variant {
                Variant::NoRecheck => false,
                Variant::SearchersRecheck => searched && state.searching == 0,
                _ => state.searching == 0,
            };
            if look { At::Recheck(0) } else { At::MustStay }
        }
        At::Recheck(queue) if state.has_task(queue) => At::Retract(true),
        // `must_stay` checks the own ring.
        At::Recheck(queue) => match queue + 1 + usize::from(queue == me) {
            next if next > WORKERS => At::MustStay,
            next => At::Recheck(next),
        },
        At::MustStay if state.rings[me] > 0 => At::Retract(false),
        At::MustStay if state.inboxes[me] > 0 && variant != Variant::NoMailLook => {
            At::Retract(false)
        }
        At::MustStay => At::Asleep,
        At::Asleep => {
            state.notified &= !bit;
            state.left.spurious -= u8::from(matches!(action, Action::Spurious(_)));
            At::Retract(false)
        }
        At::Retract(found) => {
            let claimed = state.parked & bit == 0;
            state.parked &= !bit;
            worker.searching = claimed && variant != Variant::ClaimForgotten;
            let search_on = found && !worker.searching && variant != Variant::NoSearcher;
            if search_on { At::SearchOn } else { find(state, me) }
        }
        At::SearchOn => {
            state.searching += 1;
            worker.searching = true;
            find(state, me)
        }
        at => at,
    }
}
