//! Tasks: state machines of the C program, spawned into a pool, joined and aborted.

use core::{
    ffi::{CStr, c_char, c_void},
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use filch::{
    AbortHandle, JoinError, JoinHandle, SpawnError, TaskOptions, TaskSlot, TaskSlots, WorkerId,
};

use crate::{
    FILCH_TASK_SIZE,
    executor::{core_of, worker_id},
    filch_status::{self, *},
    layout::{
        check_memory, filch_aborter, filch_executor, filch_pool, filch_task, filch_task_slot,
    },
    object::{Object, kind},
    status::{Outcome, attempt},
    waker::filch_waker,
};

kind!(filch_pool, TaskSlots<FILCH_TASK_SIZE>, 7, moves: false);
kind!(filch_task, JoinHandle<i32>, 8, moves: true);
kind!(filch_aborter, AbortHandle, 9, moves: true);

type Slot = TaskSlot<FILCH_TASK_SIZE>;
const _: () = assert!(
    size_of::<Slot>() == size_of::<filch_task_slot>()
        && align_of::<Slot>() == align_of::<filch_task_slot>(),
    "a filch_task_slot is a slot"
);

/// Polls a task: goes on with its work as far as it can. Returns FILCH_PENDING if it has to wait for something, after it has seen
/// to it that its waker will be woken; it is called again then. Any other value ends the task, and is its result.
///
/// `waker` is valid until `poll` returns; `filch_waker_clone` makes one that lasts. A task that returns FILCH_PENDING without any
/// waker kept anywhere, and that no handle refers to, is cancelled, as nothing could wake it. To give way to other tasks, wake
/// the waker and return FILCH_PENDING.
///
/// It may run on any worker (unless the task is pinned), on one at a time, and sees what earlier calls wrote. It does not block.
pub type filch_poll =
    Option<unsafe extern "C" fn(state: *mut c_void, waker: *const filch_waker) -> i32>;

/// Called once when the task is over, by its end or by its cancellation, before its result is seen: from here on `state` is the
/// program's again. Runs on a worker (at the end of a shutdown on the thread in `filch_shutdown`), and drops what is alive in
/// `state`: sleeps, waits, wakers, handles.
pub type filch_drop = Option<unsafe extern "C" fn(state: *mut c_void)>;

/// A task to be spawned: a state machine of the program.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct filch_job {
    /// Must be there.
    pub poll: filch_poll,
    /// Null: nothing needs to be done at the end.
    pub drop: filch_drop,
    /// Passed to both. It belongs to the task from a spawn that has returned FILCH_OK until `drop`.
    pub state: *mut c_void,
    /// For `filch_tasks`, in UTF-8, or null. It lives for ever.
    pub name: *const c_char,
}

/// The future of a C task.
struct Machine {
    poll: unsafe extern "C" fn(*mut c_void, *const filch_waker) -> i32,
    drop: filch_drop,
    state: *mut c_void,
}

// SAFETY: the C program promises that any worker may poll and drop it.
unsafe impl Send for Machine {}

impl Future for Machine {
    type Output = i32;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<i32> {
        let waker = filch_waker::lend(cx.waker());
        // SAFETY: the C program's promise.
        let result = unsafe { (self.poll)(self.state, &raw const waker) };
        if result == FILCH_PENDING as i32 { Poll::Pending } else { Poll::Ready(result) }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: the C program's promise.
            unsafe { drop(self.state) };
        }
    }
}

/// Makes a pool of `tasks` slots in `bytes` bytes at `memory`, an array of `filch_task_slot`s. Pool and slots belong to the library
/// for ever. The pool serves the executor that first spawns into it. All workers share it, so where many workers spawn, give each a
/// pool of its own. From a thread or core; others use the pool after this has returned.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EALIGN, FILCH_ESMALL; FILCH_EINVAL: 0 tasks; FILCH_EALREADY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_pool_init(
    pool: *mut filch_pool,
    memory: *mut c_void,
    bytes: usize,
    tasks: u32,
) -> filch_status {
    attempt(|| {
        let len = tasks as usize;
        check_memory(memory, bytes, len, (size_of::<Slot>(), align_of::<Slot>()))?;
        if tasks == 0 {
            return Err(FILCH_EINVAL);
        }
        let make = || {
            let first = memory.cast::<Slot>();
            // SAFETY: checked above, and the caller gives the memory for ever.
            let slots: &'static mut [Slot] = unsafe {
                (0..len).for_each(|i| first.add(i).write(Slot::new()));
                core::slice::from_raw_parts_mut(first, len)
            };
            Ok(TaskSlots::over(slots))
        };
        // SAFETY: the caller's.
        unsafe { Object::claim(pool, make)? };
        Ok(FILCH_OK)
    })
}

/// # Safety
/// As for `filch_spawn`.
unsafe fn spawn(
    executor: *mut filch_executor,
    pool: *mut filch_pool,
    worker: Option<u32>,
    job: *const filch_job,
    task: *mut filch_task,
) -> Outcome {
    // SAFETY: the caller's; a pool is never dropped.
    let (core, pool, job) = unsafe {
        let pool: &'static _ = &*Object::find(pool)?;
        (core_of(executor)?, pool, job.as_ref().ok_or(FILCH_ENULL)?)
    };
    if !task.is_null() {
        Object::place(task)?;
    }
    let worker: Option<WorkerId> = worker.map(worker_id).transpose()?;
    // SAFETY: the caller's.
    let name = unsafe { name(job.name)? };
    let machine = Machine { poll: job.poll.ok_or(FILCH_ENULL)?, drop: job.drop, state: job.state };
    let spawner = core.spawner();
    let spawned = match (name, worker) {
        (None, worker) => spawner.spawn_ending(pool, worker, machine),
        (Some(name), worker) => {
            let options = TaskOptions::new().name(name).end_unreachable();
            let options = worker.map_or(options, |worker| options.pinned(worker));
            spawner.spawn_with(options, pool, machine)
        }
    };
    let handle = spawned.map_err(|SpawnError { kind, future }| {
        // The state is still the program's: it was not spawned.
        core::mem::forget(future);
        filch_status::from(kind)
    })?;
    if task.is_null() {
        handle.detach();
    } else {
        // SAFETY: the caller's: the place is free.
        unsafe { Object::make(task, handle) };
    }
    Ok(FILCH_OK)
}

/// # Safety
/// `name` is null, or a string that lives for ever.
unsafe fn name(name: *const c_char) -> Result<Option<&'static str>, filch_status> {
    if name.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's.
    unsafe { CStr::from_ptr(name) }.to_str().map(Some).map_err(|_| FILCH_EINVAL)
}

/// Spawns a task, which runs on whatever worker comes first. Its handle is written to `*task`; with a null `task` it is detached. A
/// handle that was there must have been joined or detached before. `*job` is copied.
///
/// From any context, handlers included (not from a non-maskable interrupt). It allocates nothing and waits for nothing.
///
/// FILCH_OK. In all other cases the state is still the caller's, and `drop` is not called: FILCH_EFULL; FILCH_ESHUTDOWN;
/// FILCH_EFOREIGN: the pool serves another executor; FILCH_ENULL (also of `job->poll`), FILCH_EINIT, FILCH_EALIGN; FILCH_EINVAL: the
/// name is not UTF-8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_spawn(
    executor: *mut filch_executor,
    pool: *mut filch_pool,
    job: *const filch_job,
    task: *mut filch_task,
) -> filch_status {
    // SAFETY: the caller's.
    attempt(|| unsafe { spawn(executor, pool, None, job, task) })
}

/// As `filch_spawn`, for a task that runs on one worker only. It waits while that worker is not there.
///
/// As `filch_spawn`; FILCH_ENOWORKER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_spawn_pinned(
    executor: *mut filch_executor,
    pool: *mut filch_pool,
    worker: u32,
    job: *const filch_job,
    task: *mut filch_task,
) -> filch_status {
    // SAFETY: the caller's.
    attempt(|| unsafe { spawn(executor, pool, Some(worker), job, task) })
}

/// The handle at `at`, where it was not joined or detached before.
///
/// # Safety
/// `at` is null, or points to memory of a `filch_task`.
unsafe fn handle(at: *const filch_task) -> Result<*mut JoinHandle<i32>, filch_status> {
    // SAFETY: the caller's.
    unsafe { Object::find(at) }
}

/// The end of a join: gives the result, and the handle is used up, unless the error leaves it valid.
///
/// # Safety
/// As for `filch_join`.
unsafe fn finish(
    task: *mut filch_task,
    outcome: Result<i32, JoinError>,
    result: *mut i32,
) -> Outcome {
    let still_valid =
        matches!(outcome, Err(JoinError::OnItself | JoinError::TooDeep | JoinError::MustNotWait));
    if !still_valid {
        // SAFETY: the caller's. What is left of a handle whose output was taken.
        drop(unsafe { Object::take(task)? });
    }
    let output = outcome?;
    // SAFETY: the caller's.
    if let Some(result) = unsafe { result.as_mut() } {
        *result = output;
    }
    Ok(FILCH_OK)
}

/// Waits in a task for the end of another: if it has ended, writes its result to `*result`, unless null, and the handle is used up.
/// If not, `waker` is woken at its end. From a task's `poll`.
///
/// FILCH_OK; FILCH_PENDING: return that from `poll`. FILCH_ECANCELED: it was aborted, and the handle is used up. FILCH_ENULL,
/// FILCH_EINIT (also of a handle that is used up).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_join_poll(
    task: *mut filch_task,
    waker: *const filch_waker,
    result: *mut i32,
) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's: no other context uses the handle.
        let (handle, waker) =
            unsafe { (Pin::new(&mut *handle(task)?), filch_waker::borrow(waker)?) };
        match handle.poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => Ok(FILCH_PENDING),
            // SAFETY: the caller's.
            Poll::Ready(outcome) => unsafe { finish(task, outcome, result) },
        }
    })
}

/// Waits for the end of a task, writes its result to `*result`, unless null, and uses the handle up. From a thread, a core's main
/// function, or a task that cannot wait by `filch_join_poll`: a worker runs other tasks meanwhile, so hold no lock. On a thread
/// that is no worker it sleeps in the platform's `block`; workers must run elsewhere.
///
/// FILCH_OK; FILCH_ECANCELED: it was aborted, and the handle is used up. The handle stays valid: FILCH_ECONTEXT: in a handler;
/// FILCH_EITSELF: the task waits for itself; FILCH_EDEEP: too many such waits on this worker. FILCH_ENULL, FILCH_EINIT (also of a
/// handle that is used up).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_join(task: *mut filch_task, result: *mut i32) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's: no other context uses the handle.
        unsafe {
            let outcome = (*handle(task)?).join();
            finish(task, outcome, result)
        }
    })
}

/// Asks the task to end. A worker drops it, a little later, unless it ends by itself before. From any context, at a moment when no
/// other one uses the handle (see `filch_aborter_init`).
///
/// FILCH_OK, also if the task has ended; FILCH_ENULL, FILCH_EINIT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_abort(task: *const filch_task) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        unsafe { (*handle(task)?).abort() };
        Ok(FILCH_OK)
    })
}

/// Whether the task has ended, by its end or cancelled; true also for a handle that is used up. From any context, at a moment when
/// no other one uses the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_is_finished(task: *const filch_task) -> bool {
    // SAFETY: the caller's.
    unsafe { handle(task) }.map_or(true, |handle| unsafe { (*handle).is_finished() })
}

/// Gives the handle up. The task goes on, and its result is dropped. From any context but a handler.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT (also of a handle that is used up).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_detach(task: *mut filch_task) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        unsafe { Object::take(task)? }.detach();
        Ok(FILCH_OK)
    })
}

/// Makes a handle that can abort the task while another context waits for it. From any context.
///
/// FILCH_OK; FILCH_EREFS; FILCH_ENULL, FILCH_EALIGN, FILCH_EINIT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_aborter_init(
    aborter: *mut filch_aborter,
    task: *const filch_task,
) -> filch_status {
    attempt(|| {
        let at = Object::place(aborter)?;
        // SAFETY: the caller's.
        let handle = unsafe { (*handle(task)?).abort_handle() };
        // SAFETY: the caller's: the place is free.
        unsafe { Object::make(at, handle.map_err(|_| FILCH_EREFS)?) };
        Ok(FILCH_OK)
    })
}

/// As `filch_abort`. From any context, several at once.
///
/// FILCH_OK, also if the task has ended; FILCH_ENULL, FILCH_EINIT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_aborter_abort(aborter: *const filch_aborter) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        unsafe { (*Object::find(aborter)?).abort() };
        Ok(FILCH_OK)
    })
}

/// Gives the aborter up; the task goes on. It keeps the task's slot until then. From any context, when no other one uses it.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_aborter_drop(aborter: *mut filch_aborter) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        drop(unsafe { Object::take(aborter)? });
        Ok(FILCH_OK)
    })
}
