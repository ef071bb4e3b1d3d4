// filch: tasks on all cores of a kernel or program in C.
//
// This file is made of platform-c/src/ by a test of that crate: see cbindgen.toml there. docs/embedding.md is the manual.
//
// What all functions have in common:
//
// - Contexts. A *worker* is a context (a core, a thread) inside filch_run or filch_worker_step, and so is what it calls: the `poll`
//   and `drop` of tasks. A *thread* is any other context that may wait. A *handler* is an interrupt or signal handler; a
//   non-maskable one may only call filch_waker_wake_by_ref. Each function says which of them may call it.
// - Errors. They are negative, and nothing was done. A null pointer, memory that is not aligned, an object that was not
//   initialised, that was dropped, or that was moved although it must stay in its place, are errors and no more: objects
//   begin with a number that says so. Chance can imitate the number in memory that was never initialised; nothing else can.
// - Undefined behaviour is only this: a pointer that is neither null nor to an object of its type, or to memory that has been
//   freed; an object that is freed or used for something else before its drop function was called (or, where the library owns it
//   for ever, at all); two contexts that use one object at once where its type does not allow it; the use of both copies of an
//   object that was copied; a waker that is used after `poll` has returned without having been cloned; and a platform that breaks
//   what is said at filch_platform.
// - The library does not allocate, uses no thread-local storage and no floating point, and never unwinds. It is built so that a
//   panic, which is a defect of the library, calls `panic` of the platform. Nor may functions of the program unwind, or leave by
//   longjmp, through a function of the library.


#ifndef FILCH_H
#define FILCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if UINTPTR_MAX == 0xFFFFFFFFu
#define FILCH_32
#else
#define FILCH_64
#endif

#if defined(_MSC_VER) && !defined(__clang__)
#define FILCH_ALIGNED(n) __declspec(align(n))
#else
#define FILCH_ALIGNED(n) __attribute__((aligned(n)))
#endif


// The version of this interface. A program says in `filch_platform` which one it was compiled for.
#define FILCH_ABI 1

// Bytes of a `filch_executor`.
#define FILCH_EXECUTOR_SIZE 1024

// Bytes of a `filch_pool`.
#define FILCH_POOL_SIZE 384

// The alignment of `filch_executor`, `filch_worker_slot` and `filch_pool`.
#define FILCH_LINE 128

// The alignment of a `filch_task_slot`.
#define FILCH_TASK_ALIGN 16

#if defined(FILCH_64)
// Bytes of a `filch_worker_slot`.
#define FILCH_WORKER_SIZE 6400
#endif

#if defined(FILCH_32)
// Bytes of a `filch_worker_slot`.
#define FILCH_WORKER_SIZE 3840
#endif

#if defined(FILCH_64)
// Bytes of a `filch_task_slot`.
#define FILCH_TASK_SIZE 112
#endif

#if defined(FILCH_32)
// Bytes of a `filch_task_slot`.
#define FILCH_TASK_SIZE 64
#endif

#if defined(FILCH_64)
// Bytes of a `filch_sleep`.
#define FILCH_SLEEP_SIZE 128
#endif

#if defined(FILCH_32)
// Bytes of a `filch_sleep`.
#define FILCH_SLEEP_SIZE 96
#endif

#if defined(FILCH_64)
// Bytes of a `filch_readiness`.
#define FILCH_READINESS_SIZE 80
#endif

#if defined(FILCH_32)
// Bytes of a `filch_readiness`.
#define FILCH_READINESS_SIZE 48
#endif

#if defined(FILCH_64)
// Bytes of a `filch_wait`.
#define FILCH_WAIT_SIZE 80
#endif

#if defined(FILCH_32)
// Bytes of a `filch_wait`.
#define FILCH_WAIT_SIZE 48
#endif

#if defined(FILCH_64)
// The most workers that an executor can have.
#define FILCH_MAX_WORKERS 4096
#endif

#if defined(FILCH_32)
// The most workers that an executor can have.
#define FILCH_MAX_WORKERS 1024
#endif

// A deadline that never comes.
#define FILCH_NEVER 18446744073709551615ull

// What `current_worker` returns in a context that is no worker.
#define FILCH_NO_WORKER -1

// What `context` returns where the code may wait for other contexts: a thread, a core outside of its handlers.
#define FILCH_THREAD 0

// What `context` returns in an interrupt or signal handler.
#define FILCH_HANDLER 1

// A read will not block.
#define FILCH_READABLE 1

// A write will not block.
#define FILCH_WRITABLE 2

// There is priority data.
#define FILCH_PRIORITY 4

// No more data will come. Never cleared; sets `FILCH_READABLE` too.
#define FILCH_READ_CLOSED 8

// A write fails. Never cleared; sets `FILCH_WRITABLE` too.
#define FILCH_WRITE_CLOSED 16

// The source has an error. Sets `FILCH_READABLE` and `FILCH_WRITABLE` too.
#define FILCH_ERROR 32

// What a function returns. Zero and above: it did what it says. Below zero: an error, and nothing was done unless the function
// says otherwise. The numbers are stable.
enum filch_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Done. Of a function that a task polls: ready.
    FILCH_OK = 0,
    // Not ready: the waker will be woken. A task's `poll` returns it to be polled again after a wake.
    FILCH_PENDING = 1,
    // There was nothing to do.
    FILCH_IDLE = 2,
    // The executor has shut down.
    FILCH_STOPPED = 3,
    // There is work: do not sleep.
    FILCH_BUSY = 4,
    // A pointer is null that must not be, or a function that the platform must have.
    FILCH_ENULL = -1,
    // Memory is not aligned as its type asks.
    FILCH_EALIGN = -2,
    // The memory is smaller than what it is to hold.
    FILCH_ESMALL = -3,
    // No worker, or more than FILCH_MAX_WORKERS.
    FILCH_EWORKERS = -4,
    // Header and library are of different versions.
    FILCH_EABI = -5,
    // The object was not initialised, or was dropped, or was moved although it must stay in its place.
    FILCH_EINIT = -6,
    // The object was initialised before.
    FILCH_EALREADY = -7,
    // An argument has a value that it cannot have.
    FILCH_EINVAL = -8,
    // The executor has no worker of that number.
    FILCH_ENOWORKER = -9,
    // Another context runs this worker, or workers run that must have left.
    FILCH_ERUNNING = -10,
    // The calling context is a worker of the executor, and must not be one here.
    FILCH_EISWORKER = -11,
    // The calling context must not do this: wait in an interrupt handler; leave in a poll of the very worker.
    FILCH_ECONTEXT = -12,
    // The platform says that the calling context is not that worker.
    FILCH_ENOTWORKER = -13,
    // No slot is free for the task.
    FILCH_EFULL = -14,
    // The pool serves another executor.
    FILCH_EFOREIGN = -15,
    // The executor is shutting down.
    FILCH_ESHUTDOWN = -16,
    // The task was aborted, or its executor shut down.
    FILCH_ECANCELED = -17,
    // A task cannot wait for itself.
    FILCH_EITSELF = -18,
    // Waits are nested too deep on this worker.
    FILCH_EDEEP = -19,
    // The task has as many references as can be counted.
    FILCH_EREFS = -20,
    // The platform cannot do this.
    FILCH_EUNSUPPORTED = -21,
    // The platform refused to start the worker.
    FILCH_EREFUSED = -22,
    // The library broke its own rules.
    FILCH_EBUG = -23,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum filch_status filch_status;
#else
typedef int32_t filch_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The structs whose size and alignment `filch_size` and `filch_align` tell.
enum filch_object
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // `filch_executor`.
    FILCH_EXECUTOR = 0,
    // `filch_worker_slot`.
    FILCH_WORKER_SLOT = 1,
    // `filch_pool`.
    FILCH_POOL = 2,
    // `filch_task_slot`.
    FILCH_TASK_SLOT = 3,
    // `filch_sleep`.
    FILCH_SLEEP = 4,
    // `filch_readiness`.
    FILCH_READINESS = 5,
    // `filch_wait`.
    FILCH_WAIT = 6,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum filch_object filch_object;
#else
typedef int32_t filch_object;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The word that a worker or a thread sleeps on. Other contexts change it: read it by `filch_load`, or atomically with acquire.
typedef struct filch_word {
    // Its value.
    uint32_t value;
} filch_word;

// A worker to be started: see `start` of `filch_platform`. It is passed on by copying it; one of the copies is used, once.
typedef struct filch_entry {
    size_t _opaque[5];
} filch_entry;

// The settings of an executor. `filch_config_init` fills in the defaults; change what should be different.
typedef struct filch_config {
    // Whether idle workers steal (default: true). Without it each worker keeps what was woken on it.
    bool stealing;
    // How many ready operations a task may do in one poll before it gives way (default: 128; at least 1).
    uint16_t budget;
    // How many polls in a row may come from the LIFO slot, in which the task that was woken last waits (default: 3; 0: none).
    uint32_t lifo_cap;
    // How often an idle worker looks for work again before it sleeps, at most (default: 32; 0 for kernels that want it).
    uint32_t spin_rounds;
    // How deep waits in `filch_join` may nest on one worker before it blocks (default: 64).
    uint32_t nesting;
    // The watchdog's two timeouts in nanoseconds (default: 400,000 and 10,000,000). While a worker is awake, a sleeping one wakes
    // at the short one (after a long poll was seen) or at the long one, and takes over what a worker stuck in a poll keeps
    // waiting. Both 0: no watchdog, and no worker wakes for it; then a poll that does not return keeps its worker's timers.
    uint64_t watchdog_short_ns;
    // See above.
    uint64_t watchdog_long_ns;
    // The longest sleep of a worker in nanoseconds; 0 (the default): no limit. It helps while a platform is brought up.
    uint64_t park_timeout_ns;
    // The width of a slot of the timer wheel in nanoseconds (default: 262,144). No timer fires early or late by it.
    uint64_t timer_resolution_ns;
    // The seed of the workers' choices of which other worker to steal from (default: 0).
    uint64_t seed;
} filch_config;

// An executor. It stays where `filch_init` finds it, for ever: tasks and wakers refer to it.
typedef struct FILCH_ALIGNED(128) filch_executor {
    uint8_t _opaque[FILCH_EXECUTOR_SIZE];
} filch_executor;

// What the program does for the executor: its clock, the current worker, sleeping and waking. `filch_init` copies the table.
//
// The first five functions must be there, the others may be null. `data` is passed to each. All may be called by several contexts
// at once. No function may leave by `longjmp` or by a C++ exception.
//
// Memory safety rests on `current_worker` and `set_worker`, and that no wake-up is lost rests on `wait` and `wake`.
typedef struct filch_platform {
    // `FILCH_ABI`.
    uint32_t abi;
    // Passed to each function; the executor does not look at it.
    void *data;
    // Monotonic time in nanoseconds, from any origin. It never goes back, as seen by one context. From any context.
    uint64_t (*now)(void *data);
    // The number of the worker that the calling context may be (of a core: its number), or `FILCH_NO_WORKER`. Two contexts never
    // get the same number at the same time; an interrupt handler may get the number of what it interrupted. From any context, on
    // each wake and spawn.
    int32_t (*current_worker)(void *data);
    // `FILCH_THREAD` or `FILCH_HANDLER`. From any context.
    int32_t (*context)(void *data);
    // Sleeps, in the context of this worker, while the word has the value `expected`, until a `wake` for the worker or until
    // `deadline` (`FILCH_NEVER`: none). Returns at once if the word has another value. It may return early for no reason. A `wake`
    // after a change of the word always ends a `wait` that saw the old value: check the word with interrupts masked, and halt so
    // that a pending interrupt ends the halt.
    void (*wait)(void *data,
                 uint32_t worker,
                 const struct filch_word *word,
                 uint32_t expected,
                 uint64_t deadline);
    // Ends the `wait` of this worker; its word has changed before the call. From any context: it waits for nothing.
    void (*wake)(void *data, uint32_t worker, const struct filch_word *word);
    // The calling context becomes this worker, or, with `FILCH_NO_WORKER`, stops being the one that it is. Null if a context is
    // one worker for ever, as a core is.
    void (*set_worker)(void *data, int32_t worker);
    // Starts a context (a thread, a core) that calls `filch_entry_run` on a copy of the entry, once, and returns 0. Or does not,
    // and returns another number; then the entry is no longer valid. Null if contexts come by themselves and call `filch_run`.
    int32_t (*start)(void *data, uint32_t worker, const struct filch_entry *entry);
    // Called between two looks for work: a hint to the processor in rounds 0 to 5, a yield of the core in later ones. Null: a hint.
    void (*relax)(void *data, uint32_t round);
    // As `wait`, for a thread that is no worker and waits in `filch_join` or `filch_shutdown`. Null: it spins.
    void (*block)(void *data, const struct filch_word *word, uint32_t expected, uint64_t deadline);
    // Ends every `block` on this word, which has changed. From any context: it waits for nothing. Null if `block` is null.
    void (*unblock)(void *data, const struct filch_word *word);
    // The library has found a defect of its own: prints the message and ends the program. It must not return. Called if the
    // library has its panic handler (the one that `build.sh` builds has); of several executors, that of the first one.
    void (*panic)(void *data, const char *message);
} filch_platform;

// A pool of slots for tasks. It stays where `filch_pool_init` finds it, for ever.
typedef struct FILCH_ALIGNED(128) filch_pool {
    uint8_t _opaque[FILCH_POOL_SIZE];
} filch_pool;

// Wakes one task. A `poll` gets one that it may use until it returns; to keep it, it makes a clone. A clone is woken or dropped
// once. A waker that was, is empty; all zeros are an empty waker too.
//
// To copy the struct is to move the waker: the old copy is not used again. That, and the use of a clone after it was dropped by
// another copy, is undefined behaviour, which the library cannot see.
typedef struct filch_waker {
    const void *data;
    const void *table;
} filch_waker;

// Polls a task: goes on with its work as far as it can. Returns FILCH_PENDING if it has to wait for something, after it has seen
// to it that its waker will be woken; it is called again then. Any other value ends the task, and is its result.
//
// `waker` is valid until `poll` returns; `filch_waker_clone` makes one that lasts. A task that returns FILCH_PENDING without any
// waker kept anywhere, and that no handle refers to, is cancelled, as nothing could wake it. To give way to other tasks, wake
// the waker and return FILCH_PENDING.
//
// It may run on any worker (unless the task is pinned), on one at a time, and sees what earlier calls wrote. It does not block.
typedef int32_t (*filch_poll)(void *state, const struct filch_waker *waker);

// Called once when the task is over, by its end or by its cancellation, before its result is seen: from here on `state` is the
// program's again. Runs on a worker (at the end of a shutdown on the thread in `filch_shutdown`), and drops what is alive in
// `state`: sleeps, waits, wakers, handles.
typedef void (*filch_drop)(void *state);

// A task to be spawned: a state machine of the program.
typedef struct filch_job {
    // Must be there.
    filch_poll poll;
    // Null: nothing needs to be done at the end.
    filch_drop drop;
    // Passed to both. It belongs to the task from a spawn that has returned FILCH_OK until `drop`.
    void *state;
    // For `filch_tasks`, in UTF-8, or null. It lives for ever.
    const char *name;
} filch_job;

// A handle to a task, by which its result is awaited. It may be copied to another place, and used there in place of the old one.
// One context uses it at a time.
typedef struct filch_task {
    size_t _opaque[2];
} filch_task;

// A handle that can abort a task. Any number of contexts may use it at once, but for its drop.
typedef struct filch_aborter {
    size_t _opaque[2];
} filch_aborter;

// A sleep of a task. It stays in its place from `filch_sleep_init` to `filch_sleep_drop`.
typedef struct FILCH_ALIGNED(8) filch_sleep {
    uint8_t _opaque[FILCH_SLEEP_SIZE];
} filch_sleep;

// What a source of events is ready for, and the tasks that wait for it. It stays in its place from `filch_readiness_init` to
// `filch_readiness_drop`.
typedef struct FILCH_ALIGNED(8) filch_readiness {
    uint8_t _opaque[FILCH_READINESS_SIZE];
} filch_readiness;

// What was seen of a `filch_readiness`: bits, and as of which of its edges.
typedef struct filch_event {
    // The bits that were set.
    uint32_t ready;
    uint64_t _seen[2];
} filch_event;

// The wait of one task for a `filch_readiness`. It stays in its place from `filch_wait_init` to `filch_wait_drop`.
typedef struct FILCH_ALIGNED(8) filch_wait {
    uint8_t _opaque[FILCH_WAIT_SIZE];
} filch_wait;

// The calling context as a worker, for programs with a loop of their own. It may be copied to another place, and used there in
// place of the old one, in the same context.
typedef struct filch_worker {
    size_t _opaque[6];
} filch_worker;

// What an executor has done since it began. Counters wrap where a pointer has 32 bits: use differences.
typedef struct filch_totals {
    // Tasks spawned.
    size_t spawned;
    // Tasks that have ended or were cancelled.
    size_t completed;
    // Tasks that are alive now.
    size_t live;
    // Tasks that wait for any worker now.
    size_t injector_depth;
    // Workers that sleep now.
    size_t parked;
    // Workers that look for work now.
    size_t searching;
} filch_totals;

// What one worker has done since the executor began. Counters wrap where a pointer has 32 bits: use differences.
typedef struct filch_worker_totals {
    // Polls of tasks.
    size_t polls;
    // Successful steals from other workers.
    size_t steals;
    // Tasks that came by them.
    size_t stolen;
    // How often the worker went to sleep.
    size_t parks;
    // Timers that it has fired.
    size_t timers;
    // Time spent in polls, in microseconds, up to its last idle moment.
    size_t busy_us;
    // Tasks in its queue now.
    size_t queue_depth;
    // Whether a context runs it now.
    bool online;
} filch_worker_totals;

// What is known of a task.
typedef struct filch_task_info {
    // Its number, unique among the tasks that are alive.
    size_t id;
    // Its name, or null.
    const char *name;
    // The worker that it is pinned to, if its spawn said so, or FILCH_NO_WORKER.
    int32_t worker;
    // Whether it is queued or being polled. If not, it waits for a wake.
    bool scheduled;
    // Whether it was asked to end.
    bool cancelled;
    // How many handles, wakers and queues refer to it.
    size_t references;
} filch_task_info;

// Sees one task of `filch_tasks`. `info` is valid until it returns.
typedef void (*filch_visit)(void *data, const struct filch_task_info *info);

// Room for one worker: its queues, its timers, its counters. `filch_init` takes an array of them, for ever.
typedef struct FILCH_ALIGNED(128) filch_worker_slot {
    uint8_t _opaque[FILCH_WORKER_SIZE];
} filch_worker_slot;

// Room for one task. `filch_pool_init` takes an array of them, for ever. The state of a task is not in it: that is memory of the
// program, to which the task has a pointer.
typedef struct FILCH_ALIGNED(16) filch_task_slot {
    uint8_t _opaque[FILCH_TASK_SIZE];
} filch_task_slot;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The bytes that this library takes for an object (a `filch_object`); 0 for a number that is none. From any context.
//
// For programs that get their memory at run time, or that are written in another language.
size_t filch_size(int32_t object);

// The alignment that this library asks of an object (a `filch_object`); 0 for a number that is none. From any context.
size_t filch_align(int32_t object);

// The `FILCH_ABI` of this library. From any context.
uint32_t filch_abi(void);

// What a status means, in English: a string that lives for ever, also for numbers that are no status. From any context.
const char *filch_strerror(int32_t status);

// The value of a word that the executor has passed to a function of the platform, read with acquire; 0 for null. From any context.
uint32_t filch_load(const struct filch_word *word);

// The calling context becomes the worker of the entry, and works until the executor has shut down. From the context that `start`
// of the platform has started; the entry is used up.
//
// FILCH_OK at the end; FILCH_ENULL, FILCH_EINIT (run before).
filch_status filch_entry_run(struct filch_entry *entry);

// Fills in the defaults. From any context.
//
// FILCH_OK; FILCH_ENULL.
filch_status filch_config_init(struct filch_config *config);

// Makes an executor over memory of the program: `executor` itself, and at `worker_memory` an array of `workers`
// `filch_worker_slot`s in `worker_bytes` bytes. Executor and slots belong to the library for ever: both are `static`, or memory
// that is never freed. They need not be zeroed. `platform` and `config` (null: the defaults) are copied.
//
// From a thread or a core at boot; not in a handler. Other contexts use the executor after it has returned. It takes about 1 KiB
// of stack.
//
// FILCH_OK. FILCH_ENULL: a pointer, or one of the first five functions of the platform, or only one of `block` and `unblock`.
// FILCH_EABI: `platform->abi`. FILCH_EALIGN, FILCH_ESMALL: the memory. FILCH_EWORKERS: 0, or more than FILCH_MAX_WORKERS.
// FILCH_EINVAL: one timeout of the watchdog is 0 and the other is not, or the budget is 0. FILCH_ECONTEXT: in a handler. FILCH_EALREADY: it was
// initialised before.
filch_status filch_init(struct filch_executor *executor,
                        const struct filch_platform *platform,
                        const struct filch_config *config,
                        void *worker_memory,
                        size_t worker_bytes,
                        uint32_t workers);

// The calling context becomes worker `worker`, and works until the executor has shut down: the loop of a core or thread.
//
// FILCH_OK after a shutdown. At once: FILCH_ENULL, FILCH_EINIT; FILCH_ENOWORKER; FILCH_ERUNNING: another context runs this worker;
// FILCH_EISWORKER; FILCH_ENOTWORKER: `current_worker` gives another number here; FILCH_ESHUTDOWN; FILCH_ECONTEXT.
filch_status filch_run(struct filch_executor *executor,
                       uint32_t worker);

// Has the platform start worker `worker` in a context of its own (`start` of `filch_platform`). From a thread or a worker.
//
// FILCH_OK: it was started, or runs already; FILCH_EUNSUPPORTED: the platform has no `start`; FILCH_EREFUSED: `start` did not
// return 0; FILCH_ENULL, FILCH_EINIT, FILCH_ENOWORKER, FILCH_ECONTEXT.
filch_status filch_start(struct filch_executor *executor,
                         uint32_t worker);

// Has `workers` workers take part, those with the lowest numbers: asks the others to leave, and has the platform start those that are
// missing. Returns at once. A worker that is to leave returns from `filch_run` when no task lives that is pinned to it, and new ones are
// refused there with FILCH_ENOWORKER; what else it has goes to the others. From a thread or a worker.
//
// FILCH_OK; FILCH_EWORKERS: 0, or more than `filch_workers`. With all else done: FILCH_EUNSUPPORTED: the platform has no `start`, and
// missing workers have to come by themselves; FILCH_EREFUSED. FILCH_ENULL, FILCH_EINIT, FILCH_ECONTEXT.
filch_status filch_resize(struct filch_executor *executor,
                          uint32_t workers);

// How many workers the executor has room for; 0 if it was not initialised. From any context.
uint32_t filch_workers(const struct filch_executor *executor);

// The time on the executor's clock, in nanoseconds; 0 if it was not initialised. From any context.
uint64_t filch_now(const struct filch_executor *executor);

// Ends the sleep of a worker, this one or its next: it looks around, and sleeps again if there is nothing. From any context.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT, FILCH_ENOWORKER.
filch_status filch_unpark(struct filch_executor *executor,
                          uint32_t worker);

// Ends the executor and waits for the end: new tasks are refused; those that are there may finish until `deadline` (on the
// platform's clock; FILCH_NEVER: they may take any time; 0: none) and are cancelled then; the workers leave. At the end no task is
// left and no worker runs. Writes to `*survived`, unless null, how many tasks were there at the deadline.
//
// From a thread or core that is no worker. A task in an endless poll makes it wait for ever. If no worker runs, the caller itself
// does the work of each worker that it may become (of a core: its own); what only other cores may run, waits until they come.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT; FILCH_EISWORKER; FILCH_ECONTEXT.
filch_status filch_shutdown(struct filch_executor *executor,
                            uint64_t deadline,
                            size_t *survived);

// As `filch_shutdown` with a deadline of 0, without waiting: cancels every task, and has the workers leave. From a thread or a worker.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT; FILCH_ECONTEXT.
filch_status filch_begin_shutdown(struct filch_executor *executor);

// Whether the executor has shut down: no task is left. False also if it was not initialised. From any context.
bool filch_is_stopped(const struct filch_executor *executor);

// Opens an executor again that has shut down and whose workers have left. From a thread, and not while another one is in
// `filch_shutdown`.
//
// FILCH_OK; FILCH_ERUNNING: it has not shut down, or workers are there; FILCH_ENULL, FILCH_EINIT; FILCH_ECONTEXT.
filch_status filch_reopen(struct filch_executor *executor);

// Makes a pool of `tasks` slots in `bytes` bytes at `memory`, an array of `filch_task_slot`s. Pool and slots belong to the library
// for ever. The pool serves the executor that first spawns into it. All workers share it, so where many workers spawn, give each a
// pool of its own. From a thread or core; others use the pool after this has returned.
//
// FILCH_OK; FILCH_ENULL, FILCH_EALIGN, FILCH_ESMALL; FILCH_EINVAL: 0 tasks; FILCH_EALREADY.
filch_status filch_pool_init(struct filch_pool *pool,
                             void *memory,
                             size_t bytes,
                             uint32_t tasks);

// Spawns a task, which runs on whatever worker comes first. Its handle is written to `*task`; with a null `task` it is detached. A
// handle that was there must have been joined or detached before. `*job` is copied.
//
// From any context, handlers included (not from a non-maskable interrupt). It allocates nothing and waits for nothing.
//
// FILCH_OK. In all other cases the state is still the caller's, and `drop` is not called: FILCH_EFULL; FILCH_ESHUTDOWN;
// FILCH_EFOREIGN: the pool serves another executor; FILCH_ENULL (also of `job->poll`), FILCH_EINIT, FILCH_EALIGN; FILCH_EINVAL: the
// name is not UTF-8.
filch_status filch_spawn(struct filch_executor *executor,
                         struct filch_pool *pool,
                         const struct filch_job *job,
                         struct filch_task *task);

// As `filch_spawn`, for a task that runs on one worker only. It waits while that worker is not there.
//
// As `filch_spawn`; FILCH_ENOWORKER.
filch_status filch_spawn_pinned(struct filch_executor *executor,
                                struct filch_pool *pool,
                                uint32_t worker,
                                const struct filch_job *job,
                                struct filch_task *task);

// Waits in a task for the end of another: if it has ended, writes its result to `*result`, unless null, and the handle is used up.
// If not, `waker` is woken at its end. From a task's `poll`.
//
// FILCH_OK; FILCH_PENDING: return that from `poll`. FILCH_ECANCELED: it was aborted, and the handle is used up. FILCH_ENULL,
// FILCH_EINIT (also of a handle that is used up).
filch_status filch_join_poll(struct filch_task *task,
                             const struct filch_waker *waker,
                             int32_t *result);

// Waits for the end of a task, writes its result to `*result`, unless null, and uses the handle up. From a thread, a core's main
// function, or a task that cannot wait by `filch_join_poll`: a worker runs other tasks meanwhile, so hold no lock. On a thread
// that is no worker it sleeps in the platform's `block`; workers must run elsewhere.
//
// FILCH_OK; FILCH_ECANCELED: it was aborted, and the handle is used up. The handle stays valid: FILCH_ECONTEXT: in a handler;
// FILCH_EITSELF: the task waits for itself; FILCH_EDEEP: too many such waits on this worker. FILCH_ENULL, FILCH_EINIT (also of a
// handle that is used up).
filch_status filch_join(struct filch_task *task,
                        int32_t *result);

// Asks the task to end. A worker drops it, a little later, unless it ends by itself before. From any context, at a moment when no
// other one uses the handle (see `filch_aborter_init`).
//
// FILCH_OK, also if the task has ended; FILCH_ENULL, FILCH_EINIT.
filch_status filch_abort(const struct filch_task *task);

// Whether the task has ended, by its end or cancelled; true also for a handle that is used up. From any context, at a moment when
// no other one uses the handle.
bool filch_is_finished(const struct filch_task *task);

// Gives the handle up. The task goes on, and its result is dropped. From any context but a handler.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT (also of a handle that is used up).
filch_status filch_detach(struct filch_task *task);

// Makes a handle that can abort the task while another context waits for it. From any context.
//
// FILCH_OK; FILCH_EREFS; FILCH_ENULL, FILCH_EALIGN, FILCH_EINIT.
filch_status filch_aborter_init(struct filch_aborter *aborter, const struct filch_task *task);

// As `filch_abort`. From any context, several at once.
//
// FILCH_OK, also if the task has ended; FILCH_ENULL, FILCH_EINIT.
filch_status filch_aborter_abort(const struct filch_aborter *aborter);

// Gives the aborter up; the task goes on. It keeps the task's slot until then. From any context, when no other one uses it.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT.
filch_status filch_aborter_drop(struct filch_aborter *aborter);

// Makes `*clone` a second waker of the same task, to be woken or dropped later. From any context.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT (`waker` is empty).
filch_status filch_waker_clone(const struct filch_waker *waker, struct filch_waker *clone);

// Wakes the task, and leaves the waker as it is. From any context: interrupt handlers, other cores, other threads.
//
// FILCH_OK, also if the task has ended; FILCH_ENULL, FILCH_EINIT (empty).
filch_status filch_waker_wake_by_ref(const struct filch_waker *waker);

// Wakes the task and drops the clone, which is empty then. From any context.
//
// FILCH_OK, also if the task has ended; FILCH_ENULL, FILCH_EINIT (empty).
filch_status filch_waker_wake(struct filch_waker *waker);

// Drops the clone, which is empty then. From any context. A detached task without any waker left is cancelled.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT (empty).
filch_status filch_waker_drop(struct filch_waker *waker);

// Makes a sleep until `deadline`, in nanoseconds on the platform's clock. It begins with the first `filch_sleep_poll`, and stays in
// its place until `filch_sleep_drop`, which must come before its memory is freed or used for something else. From a thread or a
// task; one context uses it at a time.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT (the executor), FILCH_EALIGN; FILCH_EALREADY: there is a sleep in this place;
// FILCH_ECONTEXT: in a handler.
filch_status filch_sleep_init(struct filch_sleep *sleep,
                              struct filch_executor *executor,
                              uint64_t deadline);

// Whether the deadline has passed; if not, `waker` is woken when it has. From a task's `poll`. The last waker counts.
//
// FILCH_OK: it has; also again and again. FILCH_PENDING: return that from `poll`. FILCH_ENULL, FILCH_EINIT, FILCH_ECONTEXT.
filch_status filch_sleep_poll(struct filch_sleep *sleep,
                              const struct filch_waker *waker);

// Sets another deadline, whether the old one has passed or not. A task that waits goes on waiting, for the new one.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT, FILCH_ECONTEXT.
filch_status filch_sleep_reset(struct filch_sleep *sleep,
                               uint64_t deadline);

// Ends the sleep, elapsed or not. Its memory is the program's again. From a thread or a task, or from a task's `drop`.
//
// FILCH_OK; FILCH_ENULL, FILCH_ECONTEXT; FILCH_EINIT: there is none, which does no harm.
filch_status filch_sleep_drop(struct filch_sleep *sleep);

// Makes the cell of a source that is not ready. It stays in its place. From any context; others use it after this has returned.
//
// FILCH_OK; FILCH_ENULL, FILCH_EALIGN, FILCH_EALREADY.
filch_status filch_readiness_init(struct filch_readiness *readiness);

// Adds bits, as a new edge, and wakes the tasks that wait for one of them. From any context: it waits for nothing, and is made for
// interrupt handlers. A handler of a level-triggered interrupt masks it, or takes the data, before it returns.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT; FILCH_EINVAL: unknown bits.
filch_status filch_readiness_set(struct filch_readiness *readiness,
                                 uint32_t ready);

// Writes to `*event` what is ready now, which may be nothing. From any context.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT.
filch_status filch_readiness_get(const struct filch_readiness *readiness, struct filch_event *event);

// Takes the bits of the event back, because the operation found nothing; does nothing if there was an edge since, so that none is
// lost. Try the operation before: get the event, try, clear, wait. From any context.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT; FILCH_EINVAL: unknown bits.
filch_status filch_readiness_clear(struct filch_readiness *readiness,
                                   const struct filch_event *event);

// Drops the cell. No other context uses it, and no `filch_wait` on it is alive: else undefined behaviour. From a thread or a task.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT.
filch_status filch_readiness_drop(struct filch_readiness *readiness);

// Makes a wait of one task until a bit of `interest` is set in the cell. It begins with the first `filch_wait_poll`, and stays in
// its place until `filch_wait_drop`, which must come before its memory is freed or used for something else, and before the cell is
// dropped. Any number of tasks may wait for one cell. From a thread or a task, not from a handler; one context uses it at a time.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT (the cell), FILCH_EALIGN; FILCH_EALREADY; FILCH_EINVAL: unknown bits.
filch_status filch_wait_init(struct filch_wait *wait,
                             struct filch_readiness *readiness,
                             uint32_t interest);

// Whether a bit of the interest is set; then `*event`, unless null, says which. If not, `waker` is woken when one is. After it was
// ready, the next call waits for the bits anew. From a task's `poll`, never in a handler: it would wait for the code that it has
// interrupted.
//
// FILCH_OK: it is; FILCH_PENDING: return that from `poll`. FILCH_ENULL, FILCH_EINIT.
filch_status filch_wait_poll(struct filch_wait *wait,
                             const struct filch_waker *waker,
                             struct filch_event *event);

// Ends the wait. Its memory is the program's again. From a thread or a task, or from a task's `drop`; not from a handler.
//
// FILCH_OK; FILCH_ENULL; FILCH_EINIT: there is none, which does no harm.
filch_status filch_wait_drop(struct filch_wait *wait);

// The calling context becomes worker `number`, to be stepped by the program's own loop, until `filch_worker_leave`.
//
// FILCH_OK; the errors are those of `filch_run`.
filch_status filch_worker_enter(struct filch_executor *executor,
                                uint32_t number,
                                struct filch_worker *worker);

// One pass of the loop: finds one task and polls it. Does not sleep. In the context that has entered.
//
// FILCH_OK: it has polled a task; FILCH_IDLE: there was none; FILCH_STOPPED: the executor has shut down, or the worker is to leave
// (filch_resize). FILCH_ENULL, FILCH_EINIT; FILCH_ENOTWORKER: in another context.
filch_status filch_worker_step(struct filch_worker *worker);

// Sleeps by the platform's `wait` until there may be something to do; returns at once if there is. In the context that has entered.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT, FILCH_ENOTWORKER.
filch_status filch_worker_park(struct filch_worker *worker);

// A turn in the program's own loop: at most `polls` steps, and then, if there is nothing to do, the first half of a sleep, of which the
// next turn is the second. In the context that has entered.
//
// FILCH_OK: sleep, until `*deadline` at the latest or until the platform's `wake` is called for this worker, and give it a turn then.
// FILCH_BUSY: there is more to do, give it a turn soon. FILCH_STOPPED: the executor has shut down, or the worker is to leave (filch_resize). FILCH_ENULL, FILCH_EINIT,
// FILCH_ENOTWORKER.
filch_status filch_worker_turn(struct filch_worker *worker,
                               uint32_t polls,
                               uint64_t *deadline);

// The first half of a sleep that the program does itself: says to the other workers that this one sleeps, and looks for work once
// more. From here to `filch_worker_end_park` the platform's `wake` is called for this worker if it has to wake: it must end the
// program's sleep, also if it comes before the sleep begins. In the context that has entered.
//
// FILCH_OK: sleep, until `*deadline` at the latest, and call `filch_worker_end_park` then. FILCH_BUSY: there is work, do not sleep.
// FILCH_ENULL, FILCH_EINIT, FILCH_ENOTWORKER.
filch_status filch_worker_begin_park(struct filch_worker *worker,
                                     uint64_t *deadline);

// The second half: the worker is awake. In the context that has entered.
//
// FILCH_OK, also if it did not sleep; FILCH_ENULL, FILCH_EINIT, FILCH_ENOTWORKER.
filch_status filch_worker_end_park(struct filch_worker *worker);

// The calling context is a worker no longer: the tasks in its queue go to the others, those pinned to it wait until it comes back.
// In the context that has entered.
//
// FILCH_OK; FILCH_ECONTEXT: in a poll of this worker; FILCH_ENULL, FILCH_EINIT, FILCH_ENOTWORKER.
filch_status filch_worker_leave(struct filch_worker *worker);

// Writes the executor's counters to `*totals`. From any context.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT.
filch_status filch_metrics(const struct filch_executor *executor, struct filch_totals *totals);

// Writes a worker's counters to `*totals`. From any context.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT, FILCH_ENOWORKER.
filch_status filch_worker_metrics(const struct filch_executor *executor,
                                  uint32_t worker,
                                  struct filch_worker_totals *totals);

// Shows every task that is alive to `visit`, in no order. Tasks that come and go meanwhile may or may not be shown. From a thread
// or a task.
//
// FILCH_OK; FILCH_ENULL, FILCH_EINIT.
filch_status filch_tasks(const struct filch_executor *executor,
                         filch_visit visit,
                         void *data);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FILCH_H */
