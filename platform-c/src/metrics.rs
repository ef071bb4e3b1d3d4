//! Looking at an executor: counters, and the list of its tasks.

use core::ffi::{c_char, c_void};

use crate::{
    FILCH_NO_WORKER,
    executor::{core_of, worker_id},
    filch_status::{self, *},
    layout::filch_executor,
    status::attempt,
};

/// What an executor has done since it began. Counters wrap where a pointer has 32 bits: use differences.
#[repr(C)]
#[derive(Debug)]
pub struct filch_totals {
    /// Tasks spawned.
    pub spawned: usize,
    /// Tasks that have ended or were cancelled.
    pub completed: usize,
    /// Tasks that are alive now.
    pub live: usize,
    /// Tasks that wait for any worker now.
    pub injector_depth: usize,
    /// Workers that sleep now.
    pub parked: usize,
    /// Workers that look for work now.
    pub searching: usize,
}

/// What one worker has done since the executor began. Counters wrap where a pointer has 32 bits: use differences.
#[repr(C)]
#[derive(Debug)]
pub struct filch_worker_totals {
    /// Polls of tasks.
    pub polls: usize,
    /// Successful steals from other workers.
    pub steals: usize,
    /// Tasks that came by them.
    pub stolen: usize,
    /// How often the worker went to sleep.
    pub parks: usize,
    /// Timers that it has fired.
    pub timers: usize,
    /// Time spent in polls, in microseconds, up to its last idle moment.
    pub busy_us: usize,
    /// Tasks in its queue now.
    pub queue_depth: usize,
    /// Whether a context runs it now.
    pub online: bool,
}

/// What is known of a task.
#[repr(C)]
#[derive(Debug)]
pub struct filch_task_info {
    /// Its number, unique among the tasks that are alive.
    pub id: usize,
    /// Its name, or null.
    pub name: *const c_char,
    /// The worker that it is pinned to, if its spawn said so, or FILCH_NO_WORKER.
    pub worker: i32,
    /// Whether it is queued or being polled. If not, it waits for a wake.
    pub scheduled: bool,
    /// Whether it was asked to end.
    pub cancelled: bool,
    /// How many handles, wakers and queues refer to it.
    pub references: usize,
}

/// Sees one task of `filch_tasks`. `info` is valid until it returns.
pub type filch_visit =
    Option<unsafe extern "C" fn(data: *mut c_void, info: *const filch_task_info)>;

/// Writes the executor's counters to `*totals`. From any context.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_metrics(
    executor: *const filch_executor,
    totals: *mut filch_totals,
) -> filch_status {
    attempt(|| {
        if totals.is_null() {
            return Err(FILCH_ENULL);
        }
        // SAFETY: the caller's.
        let now = unsafe { core_of(executor)? }.metrics().totals();
        let value = filch_totals {
            spawned: now.spawned,
            completed: now.completed,
            live: now.live,
            injector_depth: now.injector_depth,
            parked: now.parked,
            searching: now.searching,
        };
        // SAFETY: the caller's.
        unsafe { totals.write(value) };
        Ok(FILCH_OK)
    })
}

/// Writes a worker's counters to `*totals`. From any context.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT, FILCH_ENOWORKER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_worker_metrics(
    executor: *const filch_executor,
    worker: u32,
    totals: *mut filch_worker_totals,
) -> filch_status {
    attempt(|| {
        if totals.is_null() {
            return Err(FILCH_ENULL);
        }
        // SAFETY: the caller's.
        let core = unsafe { core_of(executor)? };
        let id = worker_id(worker)?;
        let (_, now) = core.metrics().workers().nth(id.index()).ok_or(FILCH_ENOWORKER)?;
        let value = filch_worker_totals {
            polls: now.polls,
            steals: now.steals,
            stolen: now.stolen,
            parks: now.parks,
            timers: now.timers,
            busy_us: now.busy_micros,
            queue_depth: now.queue_depth,
            online: now.online,
        };
        // SAFETY: the caller's.
        unsafe { totals.write(value) };
        Ok(FILCH_OK)
    })
}

/// Shows every task that is alive to `visit`, in no order. Tasks that come and go meanwhile may or may not be shown. From a thread
/// or a task.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_tasks(
    executor: *const filch_executor,
    visit: filch_visit,
    data: *mut c_void,
) -> filch_status {
    attempt(|| {
        let visit = visit.ok_or(FILCH_ENULL)?;
        // SAFETY: the caller's.
        unsafe { core_of(executor)? }.tasks(|task| {
            let info = filch_task_info {
                id: task.id.get(),
                // A name comes from a C string (`filch_job`), and ends like one.
                name: task.name.map_or(core::ptr::null(), |name| name.as_ptr().cast()),
                worker: task.worker.map_or(FILCH_NO_WORKER, |id| id.index() as i32),
                scheduled: task.scheduled,
                cancelled: task.cancelled,
                references: task.references,
            };
            // SAFETY: the caller's.
            unsafe { visit(data, &raw const info) };
        });
        Ok(FILCH_OK)
    })
}
