//! A worker that is stepped by a loop of the C program.

use core::cell::Cell;

use filch::{Platform, Step, Turn, Worker};

use crate::{
    FILCH_NEVER,
    executor::{Core, Memory, core_of, worker_id},
    filch_status::{self, *},
    layout::{filch_executor, filch_worker},
    object::{Object, kind},
    platform::Table,
    status::attempt,
};

type Entered = Worker<Table, Memory>;

/// A worker and its executor.
pub(crate) struct Stepped {
    worker: Entered,
    core: &'static Core,
    /// How many steps are on the stack, each in a poll of the one before.
    steps: Cell<u32>,
}

kind!(filch_worker, Stepped, 3, moves: true);

/// The worker at `at`, if the calling context is it.
///
/// # Safety
/// `at` is null, or points to memory of a `filch_worker`, which only one context uses.
unsafe fn entered<'a>(at: *mut filch_worker) -> Result<&'a Stepped, filch_status> {
    // SAFETY: the caller's.
    let stepped = unsafe { &*Object::find(at)? };
    if stepped.core.platform().current_worker() == Some(stepped.worker.id()) {
        Ok(stepped)
    } else {
        Err(FILCH_ENOTWORKER)
    }
}

impl Stepped {
    /// Runs what may call the program's code: the object must not go meanwhile.
    fn stay<R>(&self, f: impl FnOnce(&Entered) -> R) -> R {
        self.steps.set(self.steps.get() + 1);
        let result = f(&self.worker);
        self.steps.set(self.steps.get() - 1);
        result
    }
}

/// The calling context becomes worker `number`, to be stepped by the program's own loop, until `filch_worker_leave`.
///
/// FILCH_OK; the errors are those of `filch_run`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_worker_enter(
    executor: *mut filch_executor,
    number: u32,
    worker: *mut filch_worker,
) -> filch_status {
    attempt(|| {
        let at = Object::place(worker)?;
        // SAFETY: the caller's.
        let core = unsafe { core_of(executor)? };
        let worker = core.worker(worker_id(number)?)?;
        // SAFETY: the caller's: the place is free.
        unsafe { Object::make(at, Stepped { worker, core, steps: Cell::new(0) }) };
        Ok(FILCH_OK)
    })
}

/// One pass of the loop: finds one task and polls it. Does not sleep. In the context that has entered.
///
/// FILCH_OK: it has polled a task; FILCH_IDLE: there was none; FILCH_STOPPED: the executor has shut down, or the worker is to leave
/// (filch_resize). FILCH_ENULL, FILCH_EINIT; FILCH_ENOTWORKER: in another context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_worker_step(worker: *mut filch_worker) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        Ok(match unsafe { entered(worker)? }.stay(Entered::step) {
            Step::Polled => FILCH_OK,
            Step::Idle => FILCH_IDLE,
            Step::Stopped => FILCH_STOPPED,
        })
    })
}

/// Sleeps by the platform's `wait` until there may be something to do; returns at once if there is. In the context that has entered.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT, FILCH_ENOTWORKER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_worker_park(worker: *mut filch_worker) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        unsafe { entered(worker)? }.stay(Entered::park);
        Ok(FILCH_OK)
    })
}

/// A turn in the program's own loop: at most `polls` steps, and then, if there is nothing to do, the first half of a sleep, of which the
/// next turn is the second. In the context that has entered.
///
/// FILCH_OK: sleep, until `*deadline` at the latest or until the platform's `wake` is called for this worker, and give it a turn then.
/// FILCH_BUSY: there is more to do, give it a turn soon. FILCH_STOPPED: the executor has shut down, or the worker is to leave (filch_resize). FILCH_ENULL, FILCH_EINIT,
/// FILCH_ENOTWORKER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_worker_turn(
    worker: *mut filch_worker,
    polls: u32,
    deadline: *mut u64,
) -> filch_status {
    attempt(|| {
        if deadline.is_null() {
            return Err(FILCH_ENULL);
        }
        // SAFETY: the caller's.
        let turn = unsafe { entered(worker)? }.stay(|worker| worker.turn(polls as usize));
        Ok(match turn {
            Turn::Again => FILCH_BUSY,
            Turn::Stopped => FILCH_STOPPED,
            Turn::Rests(end) => {
                // SAFETY: the caller's.
                unsafe { deadline.write(end.map_or(FILCH_NEVER, filch::Instant::as_nanos)) };
                FILCH_OK
            }
        })
    })
}

/// The first half of a sleep that the program does itself: says to the other workers that this one sleeps, and looks for work once
/// more. From here to `filch_worker_end_park` the platform's `wake` is called for this worker if it has to wake: it must end the
/// program's sleep, also if it comes before the sleep begins. In the context that has entered.
///
/// FILCH_OK: sleep, until `*deadline` at the latest, and call `filch_worker_end_park` then. FILCH_BUSY: there is work, do not sleep.
/// FILCH_ENULL, FILCH_EINIT, FILCH_ENOTWORKER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_worker_begin_park(
    worker: *mut filch_worker,
    deadline: *mut u64,
) -> filch_status {
    attempt(|| {
        if deadline.is_null() {
            return Err(FILCH_ENULL);
        }
        // SAFETY: the caller's.
        let begun = unsafe { entered(worker)? }.stay(Entered::begin_park);
        let Some(end) = begun else { return Ok(FILCH_BUSY) };
        // SAFETY: the caller's.
        unsafe { deadline.write(end.map_or(FILCH_NEVER, filch::Instant::as_nanos)) };
        Ok(FILCH_OK)
    })
}

/// The second half: the worker is awake. In the context that has entered.
///
/// FILCH_OK, also if it did not sleep; FILCH_ENULL, FILCH_EINIT, FILCH_ENOTWORKER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_worker_end_park(worker: *mut filch_worker) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        unsafe { entered(worker)? }.stay(Entered::end_park);
        Ok(FILCH_OK)
    })
}

/// The calling context is a worker no longer: the tasks in its queue go to the others, those pinned to it wait until it comes back.
/// In the context that has entered.
///
/// FILCH_OK; FILCH_ECONTEXT: in a poll of this worker; FILCH_ENULL, FILCH_EINIT, FILCH_ENOTWORKER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_worker_leave(worker: *mut filch_worker) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        unsafe {
            if entered(worker)?.steps.get() > 0 {
                return Err(FILCH_ECONTEXT);
            }
            Object::drop(worker)?;
        }
        Ok(FILCH_OK)
    })
}
