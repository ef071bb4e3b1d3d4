//! Sleeps of tasks.

use core::{future::Future, pin::Pin, task::Context};

use filch::{Instant, Sleep};

use crate::{
    executor::{Core, core_of},
    filch_status::{self, *},
    layout::{filch_executor, filch_sleep},
    object::{Object, kind},
    status::attempt,
    waker::filch_waker,
};

/// A sleep and its executor.
pub(crate) struct Timed {
    sleep: Sleep,
    core: &'static Core,
}

kind!(filch_sleep, Timed, 4, moves: false);

/// The sleep at `at`, where it may be touched.
///
/// # Safety
/// `at` is null, or points to memory of a `filch_sleep`, which no other context uses meanwhile.
unsafe fn sleep_of<'a>(at: *mut filch_sleep) -> Result<Pin<&'a mut Sleep>, filch_status> {
    // SAFETY: the caller's; INV-OBJECT: an object of this kind stays in its place until it is dropped there.
    unsafe {
        let timed = Object::find(at)?;
        (*timed).core.platform().no_handler()?;
        Ok(Pin::new_unchecked(&mut (*timed).sleep))
    }
}

/// Makes a sleep until `deadline`, in nanoseconds on the platform's clock. It begins with the first `filch_sleep_poll`, and stays in
/// its place until `filch_sleep_drop`, which must come before its memory is freed or used for something else. From a thread or a
/// task; one context uses it at a time.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT (the executor), FILCH_EALIGN; FILCH_EALREADY: there is a sleep in this place;
/// FILCH_ECONTEXT: in a handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_sleep_init(
    sleep: *mut filch_sleep,
    executor: *mut filch_executor,
    deadline: u64,
) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        let core = unsafe { core_of(executor)? };
        core.platform().no_handler()?;
        // SAFETY: the caller's.
        unsafe { Object::vacant(sleep)? };
        let value = Timed { sleep: core.timers().sleep_until(Instant::from_nanos(deadline)), core };
        // SAFETY: the place is free.
        unsafe { Object::make(sleep, value) };
        Ok(FILCH_OK)
    })
}

/// Whether the deadline has passed; if not, `waker` is woken when it has. From a task's `poll`. The last waker counts.
///
/// FILCH_OK: it has; also again and again. FILCH_PENDING: return that from `poll`. FILCH_ENULL, FILCH_EINIT, FILCH_ECONTEXT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_sleep_poll(
    sleep: *mut filch_sleep,
    waker: *const filch_waker,
) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        let (sleep, waker) = unsafe { (sleep_of(sleep)?, filch_waker::borrow(waker)?) };
        let polled = sleep.poll(&mut Context::from_waker(&waker));
        Ok(if polled.is_ready() { FILCH_OK } else { FILCH_PENDING })
    })
}

/// Sets another deadline, whether the old one has passed or not. A task that waits goes on waiting, for the new one.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT, FILCH_ECONTEXT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_sleep_reset(sleep: *mut filch_sleep, deadline: u64) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        unsafe { sleep_of(sleep)? }.reset(Instant::from_nanos(deadline));
        Ok(FILCH_OK)
    })
}

/// Ends the sleep, elapsed or not. Its memory is the program's again. From a thread or a task, or from a task's `drop`.
///
/// FILCH_OK; FILCH_ENULL, FILCH_ECONTEXT; FILCH_EINIT: there is none, which does no harm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_sleep_drop(sleep: *mut filch_sleep) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        unsafe {
            sleep_of(sleep)?;
            Object::drop(sleep)?;
        }
        Ok(FILCH_OK)
    })
}
