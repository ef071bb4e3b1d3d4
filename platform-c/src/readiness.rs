//! Readiness cells: a handler tells tasks that there is something to do.

use core::{
    future::Future,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll},
};

use filch::io::{Event, Readiness, Ready, WaitReady};

use crate::{
    filch_status::{self, *},
    layout::{filch_readiness, filch_wait},
    object::{Object, kind},
    status::attempt,
    waker::filch_waker,
};

/// A read will not block.
pub const FILCH_READABLE: u32 = 1;
/// A write will not block.
pub const FILCH_WRITABLE: u32 = 2;
/// There is priority data.
pub const FILCH_PRIORITY: u32 = 4;
/// No more data will come. Never cleared; sets `FILCH_READABLE` too.
pub const FILCH_READ_CLOSED: u32 = 8;
/// A write fails. Never cleared; sets `FILCH_WRITABLE` too.
pub const FILCH_WRITE_CLOSED: u32 = 16;
/// The source has an error. Sets `FILCH_READABLE` and `FILCH_WRITABLE` too.
pub const FILCH_ERROR: u32 = 32;

const BITS: [(u32, Ready); 6] = [
    (FILCH_READABLE, Ready::READABLE),
    (FILCH_WRITABLE, Ready::WRITABLE),
    (FILCH_PRIORITY, Ready::PRIORITY),
    (FILCH_READ_CLOSED, Ready::READ_CLOSED),
    (FILCH_WRITE_CLOSED, Ready::WRITE_CLOSED),
    (FILCH_ERROR, Ready::ERROR),
];

kind!(filch_readiness, Readiness, 5, moves: false);
kind!(filch_wait, WaitReady<'static>, 6, moves: false);

/// What was seen of a `filch_readiness`: bits, and as of which of its edges.
#[repr(C)]
#[derive(Debug)]
pub struct filch_event {
    /// The bits that were set.
    pub ready: u32,
    _seen: MaybeUninit<[u64; 2]>,
}

const _: () = assert!(
    size_of::<Event>() <= size_of::<[u64; 2]>() && align_of::<Event>() <= align_of::<u64>(),
    "an event has room in a filch_event"
);

impl filch_event {
    fn new(event: Event) -> Self {
        let ready = BITS.iter().filter(|(_, bit)| event.ready.contains(*bit));
        let mut seen = MaybeUninit::<[u64; 2]>::zeroed();
        // SAFETY: an event has room there.
        unsafe { seen.as_mut_ptr().cast::<Event>().write(event) };
        Self { ready: ready.fold(0, |all, (number, _)| all | number), _seen: seen }
    }

    /// The event, reduced to what `ready` says now.
    ///
    /// # Safety
    /// `this` is null, or points to what `new` has made, or to zeros.
    unsafe fn get(this: *const Self) -> Result<Event, filch_status> {
        // SAFETY: the caller's.
        let this = unsafe { this.as_ref() }.ok_or(FILCH_ENULL)?;
        // SAFETY: it consists of integers, of which zero is a value.
        let event = unsafe { this._seen.as_ptr().cast::<Event>().read() };
        Ok(event.only(bits(this.ready)?))
    }
}

fn bits(numbers: u32) -> Result<Ready, filch_status> {
    if numbers >> BITS.len() != 0 {
        return Err(FILCH_EINVAL);
    }
    let set = BITS.iter().filter(|(number, _)| numbers & number != 0);
    Ok(set.fold(Ready::EMPTY, |all, (_, bit)| all | *bit))
}

/// # Safety
/// `at` is null, or points to memory of a `filch_readiness`, which is dropped only when no context uses it.
unsafe fn cell<'a>(at: *const filch_readiness) -> Result<&'a Readiness, filch_status> {
    // SAFETY: the caller's; any context may share it.
    unsafe { Object::find(at).map(|cell| &*cell) }
}

/// Makes the cell of a source that is not ready. It stays in its place. From any context; others use it after this has returned.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EALIGN, FILCH_EALREADY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_readiness_init(readiness: *mut filch_readiness) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        unsafe { Object::claim(readiness, || Ok(Readiness::new()))? };
        Ok(FILCH_OK)
    })
}

/// Adds bits, as a new edge, and wakes the tasks that wait for one of them. From any context: it waits for nothing, and is made for
/// interrupt handlers. A handler of a level-triggered interrupt masks it, or takes the data, before it returns.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT; FILCH_EINVAL: unknown bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_readiness_set(
    readiness: *mut filch_readiness,
    ready: u32,
) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        unsafe { cell(readiness)? }.set(bits(ready)?);
        Ok(FILCH_OK)
    })
}

/// Writes to `*event` what is ready now, which may be nothing. From any context.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_readiness_get(
    readiness: *const filch_readiness,
    event: *mut filch_event,
) -> filch_status {
    attempt(|| {
        if event.is_null() {
            return Err(FILCH_ENULL);
        }
        // SAFETY: the caller's.
        unsafe { event.write(filch_event::new(cell(readiness)?.get())) };
        Ok(FILCH_OK)
    })
}

/// Takes the bits of the event back, because the operation found nothing; does nothing if there was an edge since, so that none is
/// lost. Try the operation before: get the event, try, clear, wait. From any context.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT; FILCH_EINVAL: unknown bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_readiness_clear(
    readiness: *mut filch_readiness,
    event: *const filch_event,
) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        unsafe { cell(readiness)?.clear(filch_event::get(event)?) };
        Ok(FILCH_OK)
    })
}

/// Drops the cell. No other context uses it, and no `filch_wait` on it is alive: else undefined behaviour. From a thread or a task.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_readiness_drop(readiness: *mut filch_readiness) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        unsafe { Object::drop(readiness)? };
        Ok(FILCH_OK)
    })
}

/// Makes a wait of one task until a bit of `interest` is set in the cell. It begins with the first `filch_wait_poll`, and stays in
/// its place until `filch_wait_drop`, which must come before its memory is freed or used for something else, and before the cell is
/// dropped. Any number of tasks may wait for one cell. From a thread or a task, not from a handler; one context uses it at a time.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT (the cell), FILCH_EALIGN; FILCH_EALREADY; FILCH_EINVAL: unknown bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_wait_init(
    wait: *mut filch_wait,
    readiness: *mut filch_readiness,
    interest: u32,
) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's: the wait is dropped before the cell.
        let cell: &'static Readiness = unsafe { cell(readiness)? };
        let interest = bits(interest)?;
        // SAFETY: the caller's; the place is free.
        unsafe {
            Object::vacant(wait)?;
            Object::make(wait, cell.ready(interest));
        }
        Ok(FILCH_OK)
    })
}

/// Whether a bit of the interest is set; then `*event`, unless null, says which. If not, `waker` is woken when one is. After it was
/// ready, the next call waits for the bits anew. From a task's `poll`, never in a handler: it would wait for the code that it has
/// interrupted.
///
/// FILCH_OK: it is; FILCH_PENDING: return that from `poll`. FILCH_ENULL, FILCH_EINIT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_wait_poll(
    wait: *mut filch_wait,
    waker: *const filch_waker,
    event: *mut filch_event,
) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's; INV-OBJECT: it stays in its place.
        let (wait, waker) =
            unsafe { (Pin::new_unchecked(&mut *Object::find(wait)?), filch_waker::borrow(waker)?) };
        match wait.poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => Ok(FILCH_PENDING),
            Poll::Ready(_) if event.is_null() => Ok(FILCH_OK),
            Poll::Ready(seen) => {
                // SAFETY: the caller's.
                unsafe { event.write(filch_event::new(seen)) };
                Ok(FILCH_OK)
            }
        }
    })
}

/// Ends the wait. Its memory is the program's again. From a thread or a task, or from a task's `drop`; not from a handler.
///
/// FILCH_OK; FILCH_ENULL; FILCH_EINIT: there is none, which does no harm.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_wait_drop(wait: *mut filch_wait) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        unsafe { Object::drop(wait)? };
        Ok(FILCH_OK)
    })
}
