// What is wrong with arguments, objects and memory gets a code, and nothing is done.
#include "common.h"

static filch_executor one, two, moved;
static filch_worker_slot slots[2];
static filch_task_slot task_slots[2];
static filch_pool pool;

static int32_t ends(void *state, const filch_waker *waker)
{
    (void)state, (void)waker;
    return 7;
}

static void never_called(void *state)
{
    *(bool *)state = true;
}

static bool sizes(void)
{
    return filch_abi() == FILCH_ABI && filch_size(FILCH_EXECUTOR) == sizeof(filch_executor) &&
        filch_size(FILCH_WORKER_SLOT) == sizeof(filch_worker_slot) && filch_size(FILCH_POOL) == sizeof(filch_pool) &&
        filch_size(FILCH_TASK_SLOT) == sizeof(filch_task_slot) && filch_size(FILCH_SLEEP) == sizeof(filch_sleep) &&
        filch_size(FILCH_READINESS) == sizeof(filch_readiness) && filch_size(FILCH_WAIT) == sizeof(filch_wait) &&
        filch_align(FILCH_EXECUTOR) == FILCH_LINE && filch_align(FILCH_WORKER_SLOT) == FILCH_LINE &&
        filch_align(FILCH_TASK_SLOT) == FILCH_TASK_ALIGN && filch_size(99) == 0 && filch_align(-1) == 0 &&
        sizeof(filch_worker_slot) == FILCH_WORKER_SIZE && sizeof(filch_task_slot) == FILCH_TASK_SIZE;
}

static bool texts(void)
{
    for (int32_t status = FILCH_EBUG - 1; status <= FILCH_BUSY + 1; status++) {
        const char *text = filch_strerror(status);
        bool known = text[0] != 'n' || text[1] != 'o' || text[2] != ' ' || text[3] != 's' || text[4] != 'u';
        if (known != (status >= FILCH_EBUG && status <= FILCH_BUSY)) {
            return false;
        }
    }
    return true;
}

static filch_status init(const filch_platform *platform, void *memory, size_t bytes, uint32_t workers)
{
    return filch_init(&one, platform, NULL, memory, bytes, workers);
}

static bool tables(const checks_port *port)
{
    filch_platform p = *port->platform;
    bool sound = init(NULL, slots, sizeof slots, 2) == FILCH_ENULL &&
        filch_init(NULL, &p, NULL, slots, sizeof slots, 2) == FILCH_ENULL && init(&p, NULL, sizeof slots, 2) == FILCH_ENULL;
    p.abi = FILCH_ABI + 1;
    sound &= init(&p, slots, sizeof slots, 2) == FILCH_EABI;
    p = *port->platform, p.now = NULL;
    sound &= init(&p, slots, sizeof slots, 2) == FILCH_ENULL;
    p = *port->platform, p.current_worker = NULL;
    sound &= init(&p, slots, sizeof slots, 2) == FILCH_ENULL;
    p = *port->platform, p.context = NULL;
    sound &= init(&p, slots, sizeof slots, 2) == FILCH_ENULL;
    p = *port->platform, p.wait = NULL;
    sound &= init(&p, slots, sizeof slots, 2) == FILCH_ENULL;
    p = *port->platform, p.wake = NULL;
    sound &= init(&p, slots, sizeof slots, 2) == FILCH_ENULL;
    p = *port->platform, p.block = NULL;
    return sound && (!p.unblock || init(&p, slots, sizeof slots, 2) == FILCH_ENULL);
}

static bool memory(const checks_port *port)
{
    const filch_platform *p = port->platform;
    char *bytes = (char *)slots;
    filch_executor *crooked = (filch_executor *)(void *)((char *)&moved + 8);
    return init(p, bytes + 8, sizeof slots - 8, 1) == FILCH_EALIGN && init(p, slots, sizeof slots - 1, 2) == FILCH_ESMALL &&
        init(p, slots, 0, 1) == FILCH_ESMALL && init(p, slots, sizeof slots, FILCH_MAX_WORKERS) == FILCH_ESMALL &&
        filch_init(crooked, p, NULL, slots, sizeof slots, 2) == FILCH_EALIGN && init(p, slots, sizeof slots, 0) == FILCH_EWORKERS &&
        init(p, slots, sizeof slots, FILCH_MAX_WORKERS + 1) == FILCH_EWORKERS &&
        init(p, slots, sizeof slots, UINT32_MAX) == FILCH_EWORKERS &&
        filch_pool_init(&pool, (char *)task_slots + 8, sizeof task_slots - 8, 1) == FILCH_EALIGN &&
        filch_pool_init(&pool, task_slots, sizeof task_slots - 1, 2) == FILCH_ESMALL &&
        filch_pool_init(&pool, task_slots, sizeof task_slots, UINT32_MAX) == FILCH_ESMALL &&
        filch_pool_init(&pool, task_slots, sizeof task_slots, 0) == FILCH_EINVAL &&
        filch_pool_init(NULL, task_slots, sizeof task_slots, 2) == FILCH_ENULL &&
        filch_pool_init(&pool, NULL, sizeof task_slots, 2) == FILCH_ENULL;
}

static bool before_init(void)
{
    filch_job job = {ends, NULL, NULL, NULL};
    filch_task task = {0};
    filch_sleep sleep = {0};
    filch_readiness cell = {0};
    filch_wait wait = {0};
    filch_worker worker = {0};
    filch_aborter aborter = {0};
    filch_entry entry = {0};
    filch_waker waker = {0}, clone = {0};
    filch_event event = {0};
    filch_totals totals;
    filch_worker_totals figures;
    uint64_t deadline;
    return filch_run(&one, 0) == FILCH_EINIT && filch_start(&one, 0) == FILCH_EINIT && filch_unpark(&one, 0) == FILCH_EINIT &&
        filch_worker_enter(&one, 0, &worker) == FILCH_EINIT && filch_workers(&one) == 0 && filch_now(&one) == 0 &&
        filch_shutdown(&one, 0, NULL) == FILCH_EINIT && filch_begin_shutdown(&one) == FILCH_EINIT && !filch_is_stopped(&one) &&
        filch_reopen(&one) == FILCH_EINIT && filch_spawn(&one, &pool, &job, &task) == FILCH_EINIT &&
        filch_metrics(&one, &totals) == FILCH_EINIT && filch_worker_metrics(&one, 0, &figures) == FILCH_EINIT &&
        filch_join(&task, NULL) == FILCH_EINIT && filch_abort(&task) == FILCH_EINIT && filch_detach(&task) == FILCH_EINIT &&
        filch_is_finished(&task) && filch_aborter_init(&aborter, &task) == FILCH_EINIT &&
        filch_aborter_abort(&aborter) == FILCH_EINIT && filch_aborter_drop(&aborter) == FILCH_EINIT &&
        filch_entry_run(&entry) == FILCH_EINIT && filch_worker_step(&worker) == FILCH_EINIT &&
        filch_worker_park(&worker) == FILCH_EINIT && filch_worker_begin_park(&worker, &deadline) == FILCH_EINIT &&
        filch_worker_end_park(&worker) == FILCH_EINIT && filch_worker_leave(&worker) == FILCH_EINIT &&
        filch_sleep_init(&sleep, &one, 0) == FILCH_EINIT && filch_sleep_reset(&sleep, 0) == FILCH_EINIT &&
        filch_sleep_poll(&sleep, &waker) == FILCH_EINIT && filch_sleep_drop(&sleep) == FILCH_EINIT &&
        filch_readiness_set(&cell, FILCH_READABLE) == FILCH_EINIT && filch_readiness_get(&cell, &event) == FILCH_EINIT &&
        filch_readiness_clear(&cell, &event) == FILCH_EINIT && filch_readiness_drop(&cell) == FILCH_EINIT &&
        filch_wait_init(&wait, &cell, FILCH_READABLE) == FILCH_EINIT && filch_wait_poll(&wait, &waker, NULL) == FILCH_EINIT &&
        filch_wait_drop(&wait) == FILCH_EINIT && filch_waker_wake(&waker) == FILCH_EINIT &&
        filch_waker_wake_by_ref(&waker) == FILCH_EINIT && filch_waker_drop(&waker) == FILCH_EINIT &&
        filch_waker_clone(&waker, &clone) == FILCH_EINIT && filch_waker_clone(&waker, NULL) == FILCH_ENULL &&
        filch_load(NULL) == 0 && filch_waker_wake(NULL) == FILCH_ENULL && filch_join(NULL, NULL) == FILCH_ENULL &&
        filch_sleep_drop(NULL) == FILCH_ENULL && filch_config_init(NULL) == FILCH_ENULL;
}

static bool after_init(const checks_port *port)
{
    filch_config config;
    bool sound = filch_config_init(&config) == FILCH_OK;
    config.watchdog_long_ns = 0;
    sound &= filch_init(&one, port->platform, &config, slots, sizeof slots, 2) == FILCH_EINVAL;
    sound &= filch_workers(&one) == 0;
    config.watchdog_short_ns = 0;
    sound &= filch_init(&one, port->platform, &config, slots, sizeof slots, 2) == FILCH_OK && filch_workers(&one) == 2;
    sound &= filch_init(&one, port->platform, &config, slots, sizeof slots, 2) == FILCH_EALREADY;
    sound &= filch_pool_init(&pool, task_slots, sizeof task_slots, 2) == FILCH_OK;
    sound &= filch_pool_init(&pool, task_slots, sizeof task_slots, 2) == FILCH_EALREADY;
    // A copy is no executor, as tasks refer to the place.
    moved = one;
    return sound && filch_workers(&moved) == 0 && filch_run(&moved, 0) == FILCH_EINIT &&
        (port->platform->start || filch_start(&one, 1) == FILCH_EUNSUPPORTED) && filch_start(&one, 2) == FILCH_ENOWORKER &&
        filch_resize(&moved, 1) == FILCH_EINIT && filch_resize(&one, 0) == FILCH_EWORKERS && filch_resize(&one, 3) == FILCH_EWORKERS &&
        (port->platform->start || filch_resize(&one, 2) == FILCH_EUNSUPPORTED) &&
        filch_unpark(&one, 2) == FILCH_ENOWORKER;
}

static bool full_and_foreign(const checks_port *port)
{
    bool dropped = false;
    filch_job job = {ends, never_called, &dropped, NULL}, empty = {NULL, NULL, NULL, NULL};
    filch_job crooked = {ends, NULL, NULL, "\xff"};
    filch_task first, second, third;
    bool sound = filch_spawn(&one, &pool, &job, &first) == FILCH_OK && filch_spawn(&one, &pool, &job, &second) == FILCH_OK &&
        filch_spawn(&one, &pool, &job, &third) == FILCH_EFULL && !dropped && !filch_is_finished(&first);
    sound &= filch_spawn(&one, &pool, NULL, NULL) == FILCH_ENULL && filch_spawn(&one, &pool, &empty, NULL) == FILCH_ENULL &&
        filch_spawn(&one, &pool, &crooked, NULL) == FILCH_EINVAL && filch_spawn(&one, NULL, &job, NULL) == FILCH_ENULL &&
        filch_spawn_pinned(&one, &pool, 2, &job, NULL) == FILCH_ENOWORKER;
    // Another executor cannot use the pool.
    static filch_worker_slot other[1];
    sound &= filch_init(&two, port->platform, NULL, other, sizeof other, 1) == FILCH_OK &&
        filch_spawn(&two, &pool, &job, NULL) == FILCH_EFOREIGN;
    if (!sound || dropped) {
        return false;
    }
    // No worker has come: the caller of a shutdown cancels them, where it may be their worker.
    size_t survived = 0;
    sound &= filch_shutdown(&one, 0, &survived) == FILCH_OK && survived == 2 && dropped && filch_is_stopped(&one);
    int32_t result = -1;
    sound &= filch_is_finished(&first) && filch_join(&first, &result) == FILCH_ECANCELED && result == -1;
    sound &= filch_join(&first, &result) == FILCH_EINIT && filch_detach(&second) == FILCH_OK;
    dropped = false;
    sound &= filch_spawn(&one, &pool, &job, NULL) == FILCH_ESHUTDOWN && !dropped && filch_run(&one, 0) != FILCH_OK;
    sound &= filch_reopen(&one) == FILCH_OK && filch_reopen(&one) == FILCH_ERUNNING;
    return sound && filch_spawn(&one, &pool, &job, NULL) == FILCH_OK && filch_shutdown(&one, 0, NULL) == FILCH_OK && dropped;
}

static bool objects(const checks_port *port)
{
    (void)port;
    filch_sleep sleep = {0}, other;
    bool sound = filch_sleep_init(&sleep, &one, 5) == FILCH_OK && filch_sleep_init(&sleep, &one, 5) == FILCH_EALREADY;
    other = sleep;
    sound &= filch_sleep_drop(&other) == FILCH_EINIT && filch_sleep_reset(&sleep, 9) == FILCH_OK;
    sound &= filch_sleep_drop(&sleep) == FILCH_OK && filch_sleep_drop(&sleep) == FILCH_EINIT;
    filch_readiness cell = {0};
    filch_event event;
    sound &= filch_readiness_init(&cell) == FILCH_OK && filch_readiness_init(&cell) == FILCH_EALREADY;
    sound &= filch_readiness_set(&cell, 64) == FILCH_EINVAL && filch_readiness_get(&cell, &event) == FILCH_OK && !event.ready;
    sound &= filch_readiness_set(&cell, FILCH_READABLE | FILCH_WRITABLE) == FILCH_OK;
    sound &= filch_readiness_get(&cell, &event) == FILCH_OK && event.ready == (FILCH_READABLE | FILCH_WRITABLE);
    event.ready = FILCH_READABLE;
    sound &= filch_readiness_clear(&cell, &event) == FILCH_OK && filch_readiness_get(&cell, &event) == FILCH_OK;
    sound &= event.ready == FILCH_WRITABLE;
    // An edge since: nothing is taken back.
    sound &= filch_readiness_set(&cell, FILCH_READABLE) == FILCH_OK && filch_readiness_clear(&cell, &event) == FILCH_OK;
    sound &= filch_readiness_get(&cell, &event) == FILCH_OK && event.ready == (FILCH_READABLE | FILCH_WRITABLE);
    event.ready = 1 << 20;
    sound &= filch_readiness_clear(&cell, &event) == FILCH_EINVAL;
    filch_wait wait = {0};
    sound &= filch_wait_init(&wait, &cell, 1 << 9) == FILCH_EINVAL && filch_wait_init(&wait, &cell, FILCH_READABLE) == FILCH_OK;
    sound &= filch_wait_init(&wait, &cell, FILCH_READABLE) == FILCH_EALREADY && filch_wait_poll(&wait, NULL, NULL) == FILCH_ENULL;
    sound &= filch_wait_drop(&wait) == FILCH_OK && filch_wait_drop(&wait) == FILCH_EINIT;
    return sound && filch_readiness_drop(&cell) == FILCH_OK && filch_readiness_drop(&cell) == FILCH_EINIT;
}

void checks_misuse(const checks_port *port)
{
    checks_that(port, "sizes and versions of header and library agree", sizes());
    checks_that(port, "every status has a text", texts());
    checks_that(port, "a table that lacks a function is refused", tables(port));
    checks_that(port, "memory that is crooked or too small is refused, and so is no worker", memory(port));
    checks_that(port, "objects that were never made are refused", before_init());
    checks_that(port, "a second init and a moved executor are refused", after_init(port));
    checks_that(port, "sleeps, cells and waits that were moved or dropped are refused", objects(port));
    checks_that(port, "what is not spawned stays the caller's, and a shutdown drops what is left", full_and_foreign(port));
}
