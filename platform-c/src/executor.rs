//! The executor: made over memory of the C program, run, and shut down.

use core::{ffi::c_void, ptr::NonNull, time::Duration};

use filch::{
    Config, Instant, Platform, Scheduler, Slots, WorkerId, WorkerSlot,
    parts::{Cores, Metrics, Shutdown, Timers, Waits, Watchdog},
};

use crate::{
    FILCH_MAX_WORKERS,
    filch_status::{self, *},
    layout::{check_memory, filch_executor, filch_worker_slot},
    object::{Object, kind},
    platform::{Table, filch_platform},
    status::attempt,
};

/// The executor behind a `filch_executor`.
pub(crate) type Core = Scheduler<Table, Memory>;
/// What of filch the C interface reaches.
type Inside = (Cores, Timers, Waits, Watchdog, Shutdown, Metrics);
type Slot = WorkerSlot<256, Inside>;

const _: () = assert!(
    size_of::<Slot>() <= size_of::<filch_worker_slot>()
        && align_of::<Slot>() <= align_of::<filch_worker_slot>(),
    "a filch_worker_slot has room for a worker"
);

kind!(filch_executor, Core, 2, moves: false);

/// The worker slots in the memory of the C program.
///
/// INV-MEMORY: `len` structs of the size of `filch_worker_slot` lie at `first` for ever, each begins with a `Slot`, and no other
/// code has access to them. Slots are spread over the memory one after the other, by their own size.
#[derive(Debug)]
pub(crate) struct Memory {
    first: NonNull<Slot>,
    len: usize,
}

// SAFETY: INV-MEMORY: it owns the slots, which may be sent and shared.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

// SAFETY: INV-MEMORY.
unsafe impl Slots<256> for Memory {
    type Parts = Inside;

    fn slots(&self) -> &[Slot] {
        // SAFETY: INV-MEMORY.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl Memory {
    /// # Safety
    /// The memory has room for so many `filch_worker_slot`s, and is given for ever.
    unsafe fn new(memory: *mut c_void, len: usize) -> Result<Self, filch_status> {
        let first = NonNull::new(memory.cast::<Slot>()).ok_or(FILCH_ENULL)?;
        for i in 0..len {
            // SAFETY: the caller's; a slot is not larger than a `filch_worker_slot`.
            unsafe { first.add(i).write(Slot::new()) };
        }
        Ok(Self { first, len })
    }
}

/// The settings of an executor. `filch_config_init` fills in the defaults; change what should be different.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct filch_config {
    /// Whether idle workers steal (default: true). Without it each worker keeps what was woken on it.
    pub stealing: bool,
    /// How many ready operations a task may do in one poll before it gives way (default: 128; at least 1).
    pub budget: u16,
    /// How many polls in a row may come from the LIFO slot, in which the task that was woken last waits (default: 3; 0: none).
    pub lifo_cap: u32,
    /// How often an idle worker looks for work again before it sleeps, at most (default: 32; 0 for kernels that want it).
    pub spin_rounds: u32,
    /// How deep waits in `filch_join` may nest on one worker before it blocks (default: 64).
    pub nesting: u32,
    /// The watchdog's two timeouts in nanoseconds (default: 400,000 and 10,000,000). While a worker is awake, a sleeping one wakes
    /// at the short one (after a long poll was seen) or at the long one, and takes over what a worker stuck in a poll keeps
    /// waiting. Both 0: no watchdog, and no worker wakes for it; then a poll that does not return keeps its worker's timers.
    pub watchdog_short_ns: u64,
    /// See above.
    pub watchdog_long_ns: u64,
    /// The longest sleep of a worker in nanoseconds; 0 (the default): no limit. It helps while a platform is brought up.
    pub park_timeout_ns: u64,
    /// The width of a slot of the timer wheel in nanoseconds (default: 262,144). No timer fires early or late by it.
    pub timer_resolution_ns: u64,
    /// The seed of the workers' choices of which other worker to steal from (default: 0).
    pub seed: u64,
}

/// Fills in the defaults. From any context.
///
/// FILCH_OK; FILCH_ENULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_config_init(config: *mut filch_config) -> filch_status {
    if config.is_null() {
        return FILCH_ENULL;
    }
    let defaults = filch_config {
        stealing: true,
        budget: 128,
        lifo_cap: 3,
        spin_rounds: 32,
        nesting: 64,
        watchdog_short_ns: 400_000,
        watchdog_long_ns: 10_000_000,
        park_timeout_ns: 0,
        timer_resolution_ns: 1 << 18,
        seed: 0,
    };
    // SAFETY: the caller's.
    unsafe { config.write(defaults) };
    FILCH_OK
}

/// # Safety
/// `config` is null, or points to one.
unsafe fn config_of(config: *const filch_config) -> Config {
    // SAFETY: the caller's.
    let Some(c) = (unsafe { config.as_ref() }) else { return Config::new() };
    let watchdog = match (c.watchdog_short_ns, c.watchdog_long_ns) {
        (0, 0) => None,
        (short, long) => Some((Duration::from_nanos(short), Duration::from_nanos(long))),
    };
    let park = (c.park_timeout_ns > 0).then(|| Duration::from_nanos(c.park_timeout_ns));
    Config::new()
        .stealing(c.stealing)
        .budget(c.budget)
        .lifo_cap(c.lifo_cap)
        .spin_rounds(c.spin_rounds)
        .nesting(c.nesting)
        .watchdog(watchdog)
        .park_timeout(park)
        .timer_resolution(Duration::from_nanos(c.timer_resolution_ns))
        .seed(c.seed)
}

/// The executor at `at`.
///
/// # Safety
/// `at` is null, or points to memory of a `filch_executor`.
pub(crate) unsafe fn core_of(at: *const filch_executor) -> Result<&'static Core, filch_status> {
    // SAFETY: INV-OBJECT; an executor is never dropped, and its memory stays for ever.
    unsafe { Object::find(at).map(|core| &*core) }
}

/// The worker of this number, if there can be one.
pub(crate) fn worker_id(number: u32) -> Result<WorkerId, filch_status> {
    let id = u16::try_from(number).ok().filter(|id| *id <= WorkerId::MAX);
    id.map(WorkerId::new).ok_or(FILCH_ENOWORKER)
}

/// Makes an executor over memory of the program: `executor` itself, and at `worker_memory` an array of `workers`
/// `filch_worker_slot`s in `worker_bytes` bytes. Executor and slots belong to the library for ever: both are `static`, or memory
/// that is never freed. They need not be zeroed. `platform` and `config` (null: the defaults) are copied.
///
/// From a thread or a core at boot; not in a handler. Other contexts use the executor after it has returned. It takes about 1 KiB
/// of stack.
///
/// FILCH_OK. FILCH_ENULL: a pointer, or one of the first five functions of the platform, or only one of `block` and `unblock`.
/// FILCH_EABI: `platform->abi`. FILCH_EALIGN, FILCH_ESMALL: the memory. FILCH_EWORKERS: 0, or more than FILCH_MAX_WORKERS.
/// FILCH_EINVAL: one timeout of the watchdog is 0 and the other is not, or the budget is 0. FILCH_ECONTEXT: in a handler. FILCH_EALREADY: it was
/// initialised before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_init(
    executor: *mut filch_executor,
    platform: *const filch_platform,
    config: *const filch_config,
    worker_memory: *mut c_void,
    worker_bytes: usize,
    workers: u32,
) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        let (table, config) = unsafe { (Table::new(platform)?, config_of(config)) };
        // SAFETY: the caller's.
        unsafe { Object::vacant(executor)? };
        table.no_handler()?;
        if workers == 0 || workers > FILCH_MAX_WORKERS {
            return Err(FILCH_EWORKERS);
        }
        let len = workers as usize;
        let slot = (size_of::<filch_worker_slot>(), align_of::<filch_worker_slot>());
        check_memory(worker_memory, worker_bytes, len, slot)?;
        let make = || {
            // SAFETY: checked above; the caller gives the memory for ever.
            let slots = unsafe { Memory::new(worker_memory, len)? };
            Core::over(table, config, slots).map_err(filch_status::from)
        };
        // SAFETY: the caller's.
        unsafe { Object::claim(executor, make)? };
        #[cfg(feature = "panic-handler")]
        // SAFETY: the caller's.
        crate::panic::register(&unsafe { core_of(executor)? }.platform().given);
        Ok(FILCH_OK)
    })
}

/// The calling context becomes worker `worker`, and works until the executor has shut down: the loop of a core or thread.
///
/// FILCH_OK after a shutdown. At once: FILCH_ENULL, FILCH_EINIT; FILCH_ENOWORKER; FILCH_ERUNNING: another context runs this worker;
/// FILCH_EISWORKER; FILCH_ENOTWORKER: `current_worker` gives another number here; FILCH_ESHUTDOWN; FILCH_ECONTEXT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_run(executor: *mut filch_executor, worker: u32) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        unsafe { core_of(executor)? }.run(worker_id(worker)?)?;
        Ok(FILCH_OK)
    })
}

/// Has the platform start worker `worker` in a context of its own (`start` of `filch_platform`). From a thread or a worker.
///
/// FILCH_OK: it was started, or runs already; FILCH_EUNSUPPORTED: the platform has no `start`; FILCH_EREFUSED: `start` did not
/// return 0; FILCH_ENULL, FILCH_EINIT, FILCH_ENOWORKER, FILCH_ECONTEXT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_start(executor: *mut filch_executor, worker: u32) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        let core = unsafe { core_of(executor)? };
        let id = worker_id(worker)?;
        if id.index() >= core.workers() {
            return Err(FILCH_ENOWORKER);
        }
        core.platform().no_handler()?;
        core.start(id)?;
        Ok(FILCH_OK)
    })
}

/// Has `workers` workers take part, those with the lowest numbers: asks the others to leave, and has the platform start those that are
/// missing. Returns at once. A worker that is to leave returns from `filch_run` when no task lives that is pinned to it, and new ones are
/// refused there with FILCH_ENOWORKER; what else it has goes to the others. From a thread or a worker.
///
/// FILCH_OK; FILCH_EWORKERS: 0, or more than `filch_workers`. With all else done: FILCH_EUNSUPPORTED: the platform has no `start`, and
/// missing workers have to come by themselves; FILCH_EREFUSED. FILCH_ENULL, FILCH_EINIT, FILCH_ECONTEXT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_resize(executor: *mut filch_executor, workers: u32) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        let core = unsafe { core_of(executor)? };
        core.platform().no_handler()?;
        core.resize(workers as usize)?;
        Ok(FILCH_OK)
    })
}

/// How many workers the executor has room for; 0 if it was not initialised. From any context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_workers(executor: *const filch_executor) -> u32 {
    // SAFETY: the caller's.
    unsafe { core_of(executor) }.map_or(0, |core| core.workers() as u32)
}

/// The time on the executor's clock, in nanoseconds; 0 if it was not initialised. From any context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_now(executor: *const filch_executor) -> u64 {
    // SAFETY: the caller's.
    unsafe { core_of(executor) }.map_or(0, |core| core.platform().now().as_nanos())
}

/// Ends the sleep of a worker, this one or its next: it looks around, and sleeps again if there is nothing. From any context.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT, FILCH_ENOWORKER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_unpark(executor: *mut filch_executor, worker: u32) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        let core = unsafe { core_of(executor)? };
        let id = worker_id(worker)?;
        if id.index() >= core.workers() {
            return Err(FILCH_ENOWORKER);
        }
        core.unpark_worker(id);
        Ok(FILCH_OK)
    })
}

/// Ends the executor and waits for the end: new tasks are refused; those that are there may finish until `deadline` (on the
/// platform's clock; FILCH_NEVER: they may take any time; 0: none) and are cancelled then; the workers leave. At the end no task is
/// left and no worker runs. Writes to `*survived`, unless null, how many tasks were there at the deadline.
///
/// From a thread or core that is no worker. A task in an endless poll makes it wait for ever. If no worker runs, the caller itself
/// does the work of each worker that it may become (of a core: its own); what only other cores may run, waits until they come.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT; FILCH_EISWORKER; FILCH_ECONTEXT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_shutdown(
    executor: *mut filch_executor,
    deadline: u64,
    survived: *mut usize,
) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        let core = unsafe { core_of(executor)? };
        core.platform().no_handler()?;
        let survivors = core.shutdown(Instant::from_nanos(deadline), |_| {})?;
        // SAFETY: the caller's.
        if let Some(survived) = unsafe { survived.as_mut() } {
            *survived = survivors;
        }
        Ok(FILCH_OK)
    })
}

/// As `filch_shutdown` with a deadline of 0, without waiting: cancels every task, and has the workers leave. From a thread or a worker.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT; FILCH_ECONTEXT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_begin_shutdown(executor: *mut filch_executor) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        let core = unsafe { core_of(executor)? };
        core.platform().no_handler()?;
        core.begin_shutdown();
        Ok(FILCH_OK)
    })
}

/// Whether the executor has shut down: no task is left. False also if it was not initialised. From any context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_is_stopped(executor: *const filch_executor) -> bool {
    // SAFETY: the caller's.
    unsafe { core_of(executor) }.is_ok_and(|core| core.is_stopped())
}

/// Opens an executor again that has shut down and whose workers have left. From a thread, and not while another one is in
/// `filch_shutdown`.
///
/// FILCH_OK; FILCH_ERUNNING: it has not shut down, or workers are there; FILCH_ENULL, FILCH_EINIT; FILCH_ECONTEXT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_reopen(executor: *mut filch_executor) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        let core = unsafe { core_of(executor)? };
        core.platform().no_handler()?;
        if core.reopen() { Ok(FILCH_OK) } else { Err(FILCH_ERUNNING) }
    })
}
