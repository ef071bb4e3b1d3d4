// The checks on threads of Linux: each worker is a thread, which sleeps on its word by a futex. Signals are its interrupts.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "checks.h"

enum { WORKERS = 4 };

static _Thread_local int32_t this_worker = FILCH_NO_WORKER;
static _Thread_local volatile sig_atomic_t this_handler;
static size_t halts;

static uint64_t now(void *data)
{
    (void)data;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int32_t current_worker(void *data)
{
    (void)data;
    return this_worker;
}

static void set_worker(void *data, int32_t worker)
{
    (void)data;
    this_worker = worker;
}

static int32_t context(void *data)
{
    (void)data;
    return this_handler ? FILCH_HANDLER : FILCH_THREAD;
}

// The kernel compares the word and goes to sleep in one step, so that no wake is lost in between.
static void sleep_on(const filch_word *word, uint32_t expected, uint64_t deadline)
{
    struct timespec end = {(time_t)(deadline / 1000000000), (long)(deadline % 1000000000)};
    syscall(SYS_futex, &word->value, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
        deadline == FILCH_NEVER ? NULL : &end, NULL, FUTEX_BITSET_MATCH_ANY);
    __atomic_fetch_add(&halts, 1, __ATOMIC_RELAXED);
}

static void rouse(const filch_word *word)
{
    syscall(SYS_futex, &word->value, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT32_MAX);
}

static void wait(void *data, uint32_t worker, const filch_word *word, uint32_t expected, uint64_t deadline)
{
    (void)data, (void)worker;
    sleep_on(word, expected, deadline);
}

static void wake(void *data, uint32_t worker, const filch_word *word)
{
    (void)data, (void)worker;
    rouse(word);
}

static void relax(void *data, uint32_t round)
{
    (void)data;
    if (round > 5) {
        sched_yield();
    }
}

static void block(void *data, const filch_word *word, uint32_t expected, uint64_t deadline)
{
    (void)data;
    sleep_on(word, expected, deadline);
}

static void unblock(void *data, const filch_word *word)
{
    (void)data;
    rouse(word);
}

static void die(void *data, const char *message)
{
    (void)data;
    fprintf(stderr, "%s\n", message);
    abort();
}

static void print(const char *line)
{
    puts(line);
    fflush(stdout);
}

static const filch_platform platform = {
    .abi = FILCH_ABI,
    .now = now,
    .current_worker = current_worker,
    .context = context,
    .wait = wait,
    .wake = wake,
    .set_worker = set_worker,
    .relax = relax,
    .block = block,
    .unblock = unblock,
    .panic = die,
};

static filch_executor executor;
static filch_worker_slot slots[WORKERS];
static filch_pool pool;
static filch_task_slot tasks[CHECKS_TASKS];

static void raise_interrupt(void)
{
    pthread_kill(pthread_self(), SIGUSR1);
}

#ifndef NO_ALARM
// A timer of the calling thread's. Not under ThreadSanitizer, which keeps signals back while a thread is in a futex.
static void alarm_in(uint32_t nanos)
{
    static _Thread_local timer_t timer;
    static _Thread_local bool is_made;
    if (!is_made) {
        struct sigevent event;
        memset(&event, 0, sizeof event);
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = SIGUSR1;
        event._sigev_un._tid = gettid();
        if (timer_create(CLOCK_MONOTONIC, &event, &timer)) {
            abort();
        }
        is_made = true;
    }
    struct itimerspec in = {{0, 0}, {0, (long)nanos + 1}};
    timer_settime(timer, 0, &in, NULL);
}
#endif

static size_t count_halts(void)
{
    return __atomic_load_n(&halts, __ATOMIC_RELAXED);
}

static const checks_port port = {
    .executor = &executor,
    .platform = &platform,
    .workers = WORKERS,
    .pool = &pool,
    .print = print,
    .raise = raise_interrupt,
#ifndef NO_ALARM
    .alarm = alarm_in,
#endif
    .halts = count_halts,
    .wakes = 4000,
};

static void on_signal(int number)
{
    (void)number;
    this_handler = 1;
    checks_on_interrupt(&port);
    this_handler = 0;
}

static void *worker_main(void *number)
{
    uint32_t me = (uint32_t)(uintptr_t)number;
    checks_contracts(&port, me);
    filch_status status = filch_run(&executor, me);
    if (status != FILCH_OK) {
        printf("worker %u: %s\n", (unsigned)me, filch_strerror(status));
        abort();
    }
    return NULL;
}

int main(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, NULL);

    checks_misuse(&port);
    filch_config config;
    (void)filch_config_init(&config);
    // A lost wake-up stays lost.
    config.watchdog_short_ns = config.watchdog_long_ns = 0;
    config.spin_rounds = 0;
    if (filch_init(&executor, &platform, &config, slots, sizeof slots, WORKERS) != FILCH_OK ||
        filch_pool_init(&pool, tasks, sizeof tasks, CHECKS_TASKS) != FILCH_OK) {
        return 1;
    }
    pthread_t threads[WORKERS];
    for (uintptr_t i = 0; i < WORKERS; i++) {
        if (pthread_create(&threads[i], NULL, worker_main, (void *)i)) {
            return 1;
        }
    }
    checks_tasks(&port);
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
    }
    return checks_verdict(&port) != 0;
}
