// A kernel in C on filch: four harts are workers, the fifth waits for what they do. First the checks, then a demonstration.
#include "board.h"
#include "checks.h"

static filch_executor executor;
static filch_worker_slot slots[WORKERS];
static filch_pool pool;
static filch_task_slot tasks[CHECKS_TASKS];

static const checks_port port = {
    .executor = &executor,
    .platform = &board,
    .workers = WORKERS,
    .pool = &pool,
    .print = print,
    .raise = board_raise,
    .alarm = board_alarm,
    .halts = board_halts,
#ifdef DELAY
    .wakes = 2000,
#else
    .wakes = 20000,
#endif
};

void on_interrupt(void)
{
    checks_on_interrupt(&port);
}

// A lamp that blinks: a state machine, a timer, and a result.
struct lamp {
    const char *on, *off;
    uint32_t period_ms, times;
    filch_sleep sleep;
};

static int32_t lamp_poll(void *state, const filch_waker *waker)
{
    struct lamp *lamp = state;
    while (lamp->times > 0) {
        filch_status status = filch_sleep_poll(&lamp->sleep, waker);
        if (status != FILCH_OK) {
            // Pending; or an error, which ends the task and is its result.
            return status;
        }
        lamp->times--;
        print(lamp->times % 2 ? lamp->on : lamp->off);
        (void)filch_sleep_reset(&lamp->sleep, filch_now(&executor) + lamp->period_ms * 1000000ull);
    }
    return FILCH_OK;
}

static void lamp_drop(void *state)
{
    struct lamp *lamp = state;
    (void)filch_sleep_drop(&lamp->sleep);
}

static bool demonstrate(void)
{
    static struct lamp lamps[2] = {
        {.on = "     red on", .off = "     red off", .period_ms = 20, .times = 4},
        {.on = "     green on", .off = "     green off", .period_ms = 30, .times = 4},
    };
    filch_task handles[2];
    bool sound = true;
    for (int i = 0; i < 2; i++) {
        filch_job job = {lamp_poll, lamp_drop, &lamps[i], "lamp"};
        sound &= filch_sleep_init(&lamps[i].sleep, &executor, filch_now(&executor)) == FILCH_OK;
        sound &= filch_spawn(&executor, &pool, &job, &handles[i]) == FILCH_OK;
    }
    for (int i = 0; i < 2; i++) {
        int32_t result = -1;
        sound &= filch_join(&handles[i], &result) == FILCH_OK && result == FILCH_OK;
    }
    return sound;
}

static void need(filch_status status)
{
    if (status != FILCH_OK) {
        print(filch_strerror(status));
        print("0 passed, 1 failed");
        board_exit(1);
    }
}

static bool is_made;

// The first hart makes the executor.
static void make(void)
{
    filch_config config;
    checks_misuse(&port);
    need(filch_config_init(&config));
    // No timeouts: a lost wake-up stays lost, and the boot hangs.
    config.watchdog_short_ns = config.watchdog_long_ns = 0;
    config.spin_rounds = 0;
    need(filch_init(&executor, &board, &config, slots, sizeof slots, WORKERS));
    need(filch_pool_init(&pool, tasks, sizeof tasks, CHECKS_TASKS));
    __atomic_store_n(&is_made, true, __ATOMIC_RELEASE);
}

// The hart that is no worker waits for what the others do, and ends the machine.
static void boss(void)
{
    checks_tasks(&port);
    // The workers have left, and enter again.
    checks_that(&port, "an executor is opened again", filch_reopen(&executor) == FILCH_OK);
    checks_that(&port, "lamps blink", demonstrate());
    need(filch_shutdown(&executor, FILCH_NEVER, NULL));
    board_exit(checks_verdict(&port));
}

// Every hart, from boot.S.
void hart_main(uint32_t me)
{
    unmask();
    if (me == 0) {
        make();
    }
    while (!__atomic_load_n(&is_made, __ATOMIC_ACQUIRE)) {
    }
    if (me == WORKERS) {
        boss();
    }
    checks_contracts(&port, me);
    for (;;) {
        need(filch_run(&executor, me));
        // It has shut down, and may be opened again.
        while (filch_is_stopped(&executor)) {
        }
    }
}
