// The executor on this platform: tasks, wakes, timers, interrupts, the end.
#include "common.h"

static const checks_port *the_port;
static uint32_t done, bad, dropped;

static filch_status spawn(filch_poll poll, filch_drop drop, void *state, filch_task *task)
{
    filch_job job = {poll, drop, state, NULL};
    return filch_spawn(the_port->executor, the_port->pool, &job, task);
}

static uint64_t now(void)
{
    return filch_now(the_port->executor);
}

static size_t live(void)
{
    filch_totals totals;
    return filch_metrics(the_port->executor, &totals) == FILCH_OK ? totals.live : 0;
}

// The end of a check: it holds, and nothing was bad on the way.
static void that(const char *what, bool holds)
{
    checks_that(the_port, what, holds && LOAD(&bad) == 0);
    STORE(&bad, 0);
}

static void count_drop(void *state)
{
    (void)state;
    ADD(&dropped, 1);
}

// A task that gives way so often.
struct yielder {
    int line;
    uint32_t left, number;
    int32_t worker;
};
static struct yielder yielders[CHECKS_TASKS];

static int32_t yielder(void *state, const filch_waker *waker)
{
    struct yielder *s = state;
    const filch_platform *p = the_port->platform;
    if (s->worker >= 0 && p->current_worker(p->data) != s->worker) {
        ADD(&bad, 1);
    }
    BEGIN(s)
    while (s->left > 0) {
        s->left--;
        YIELD(s, waker);
    }
    // Those that are pinned to one worker have equally many turns, so that they end in the order of their spawns.
    if (ADD(&done, 1) != s->number && s->worker >= 0) {
        ADD(&bad, 1);
    }
    END
    return 0;
}

// Two of them, each pinned to a core, take turns: each turn is a wake of a core that sleeps or is about to.
struct player {
    int line;
    uint32_t left;
    filch_readiness *mine, *other;
    filch_wait wait;
    filch_event event;
};
static struct player players[2];
static filch_readiness turn[2];

static int32_t player(void *state, const filch_waker *waker)
{
    struct player *s = state;
    filch_status status = FILCH_OK;
    BEGIN(s)
    if (filch_wait_init(&s->wait, s->mine, FILCH_READABLE) != FILCH_OK) {
        return -1;
    }
    while (s->left-- > 0) {
        AWAIT(s, status, filch_wait_poll(&s->wait, waker, &s->event));
        (void)filch_readiness_clear(s->mine, &s->event);
        (void)filch_readiness_set(s->other, FILCH_READABLE);
    }
    END
    return status;
}

static void player_over(void *state)
{
    struct player *s = state;
    (void)filch_wait_drop(&s->wait);
}

// Spawns work for others to steal.
struct heavy {
    uint32_t tasks;
};

static int32_t heavy_child(void *state, const filch_waker *waker)
{
    (void)state, (void)waker;
    spin(20000);
    ADD(&done, 1);
    return 0;
}

static int32_t heavy_parent(void *state, const filch_waker *waker)
{
    (void)waker;
    struct heavy *s = state;
    for (uint32_t i = 0; i < s->tasks; i++) {
        if (spawn(heavy_child, NULL, NULL, NULL) != FILCH_OK) {
            ADD(&bad, 1);
        }
    }
    return 0;
}

// Sleeps three times, and looks whether that was long enough.
struct sleeper {
    int line;
    uint32_t dice, round;
    uint64_t deadline;
    filch_sleep sleep;
};
static struct sleeper sleepers[CHECKS_TASKS];
static uint32_t latest;

static int32_t sleeper(void *state, const filch_waker *waker)
{
    struct sleeper *s = state;
    filch_status status;
    BEGIN(s)
    for (s->round = 0; s->round < 3; s->round++) {
        s->deadline = now() + dice_below(&s->dice, 20000) * 1000u;
        if (filch_sleep_init(&s->sleep, the_port->executor, s->deadline) != FILCH_OK) {
            return -1;
        }
        AWAIT(s, status, filch_sleep_poll(&s->sleep, waker));
        if (status != FILCH_OK || now() < s->deadline) {
            ADD(&bad, 1);
        }
        uint32_t late = (uint32_t)((now() - s->deadline) / 1000);
        if (late > LOAD(&latest)) {
            STORE(&latest, late);
        }
        (void)filch_sleep_drop(&s->sleep);
    }
    END
    return 0;
}

static void sleeper_over(void *state)
{
    struct sleeper *s = state;
    // There is none unless the task was cancelled in a sleep: that is an error code and no harm.
    (void)filch_sleep_drop(&s->sleep);
    ADD(&dropped, 1);
}

static int32_t answers(void *state, const filch_waker *waker)
{
    (void)waker;
    return *(int32_t *)state;
}

// Waits for its own end, which is refused, and for another task in sync code.
struct joiner {
    filch_task self, other;
    int32_t answer, got;
    filch_status on_itself;
};

static int32_t joiner(void *state, const filch_waker *waker)
{
    (void)waker;
    struct joiner *s = state;
    s->on_itself = filch_join(&s->self, NULL);
    if (spawn(answers, NULL, &s->answer, &s->other) != FILCH_OK) {
        return -1;
    }
    return filch_join(&s->other, &s->got);
}

// Waits for ever.
struct waiter {
    bool keeps;
    filch_waker kept;
};

static int32_t waits(void *state, const filch_waker *waker)
{
    struct waiter *s = state;
    if (s->keeps && filch_waker_clone(waker, &s->kept) != FILCH_OK) {
        ADD(&bad, 1);
    }
    s->keeps = false;
    return FILCH_PENDING;
}

static void waits_no_more(void *state)
{
    struct waiter *s = state;
    (void)filch_waker_drop(&s->kept);
    ADD(&dropped, 1);
}

// What the handler is to do, and what came of it.
static filch_readiness struck;
static uint32_t in_handler;
static filch_status codes[5];
static filch_task handled;
static filch_sleep handled_sleep;

void checks_on_interrupt(const checks_port *port)
{
    checks_note_interrupt(port);
    if (LOAD(&in_handler) == 1) {
        codes[0] = filch_join(&handled, NULL);
        codes[1] = filch_sleep_init(&handled_sleep, port->executor, 0);
        codes[2] = filch_run(port->executor, 0);
        codes[3] = filch_shutdown(port->executor, 0, NULL);
        codes[4] = spawn(heavy_child, NULL, NULL, NULL);
        STORE(&in_handler, 2);
    }
    (void)filch_readiness_set(&struck, FILCH_READABLE);
}

static void visit(void *data, const filch_task_info *info)
{
    uint32_t *seen = data;
    if (info->name && info->name[0] == 'l' && info->name[6] == 0 && info->worker == 0) {
        *seen += 1;
    }
    *seen += 1 << 16;
}

struct main_task {
    int line;
    uint32_t i, round, core, before_polls[MOST], before_steals[MOST], dice;
    filch_task a, b;
    struct heavy heavy;
    struct joiner joiner;
    struct waiter waiter;
    filch_aborter aborter;
    filch_sleep sleep;
    filch_wait wait;
    filch_event event;
    int32_t number, got;
    uint64_t began;
    size_t parks, halts;
    bool sound;
};
static struct main_task the_main;

static void spread(struct main_task *s, uint32_t *polled, uint32_t *stole)
{
    *polled = *stole = 0;
    for (uint32_t i = 0; i < the_port->workers; i++) {
        filch_worker_totals w = {0};
        (void)filch_worker_metrics(the_port->executor, i, &w);
        *polled += w.polls != s->before_polls[i];
        *stole += w.steals != s->before_steals[i];
    }
}

static size_t all_parks(void)
{
    size_t parks = 0;
    for (uint32_t i = 0; i < the_port->workers; i++) {
        filch_worker_totals w = {0};
        (void)filch_worker_metrics(the_port->executor, i, &w);
        parks += w.parks;
    }
    return parks;
}

static bool all_online(void)
{
    for (uint32_t i = 0; i < the_port->workers; i++) {
        filch_worker_totals w;
        if (filch_worker_metrics(the_port->executor, i, &w) != FILCH_OK || !w.online) {
            return false;
        }
    }
    return true;
}

static uint32_t parked(void)
{
    filch_totals totals = {0};
    (void)filch_metrics(the_port->executor, &totals);
    return (uint32_t)totals.parked;
}

static void forget_interrupts(struct main_task *s)
{
    (void)filch_readiness_get(&struck, &s->event);
    (void)filch_readiness_clear(&struck, &s->event);
}

// Waits until no task but this one lives.
#define ALONE(s, waker) \
    while (live() > 1) { \
        YIELD(s, waker); \
    }

// Sleeps so many milliseconds.
#define SLEEP(s, waker, millis) \
    do { \
        (void)filch_sleep_init(&(s)->sleep, the_port->executor, now() + (millis) * 1000000ull); \
        AWAIT(s, status, filch_sleep_poll(&(s)->sleep, waker)); \
        (void)filch_sleep_drop(&(s)->sleep); \
    } while (0)

static int32_t main_task(void *state, const filch_waker *waker)
{
    struct main_task *s = state;
    const checks_port *port = the_port;
    filch_status status = FILCH_OK;
    uint32_t polled, stole;
    BEGIN(s)
    while (!all_online()) {
        YIELD(s, waker);
    }
    that("all workers are online", true);

    for (s->i = 0; s->i < CHECKS_TASKS - 2; s->i++) {
        yielders[s->i] = (struct yielder){0, 50, s->i, -1};
        bad += spawn(yielder, count_drop, &yielders[s->i], NULL) != FILCH_OK;
    }
    ALONE(s, waker)
    that("tasks of many yields all end", LOAD(&done) == CHECKS_TASKS - 2 && LOAD(&dropped) == CHECKS_TASKS - 2);

    for (s->core = 0; s->core < port->workers; s->core++) {
        STORE(&done, 0);
        for (s->i = 0; s->i < 16; s->i++) {
            yielders[s->i] = (struct yielder){0, 20, s->i, (int32_t)s->core};
            filch_job job = {yielder, NULL, &yielders[s->i], NULL};
            bad += filch_spawn_pinned(port->executor, port->pool, s->core, &job, NULL) != FILCH_OK;
        }
        ALONE(s, waker)
        bad += LOAD(&done) != 16;
    }
    that("pinned tasks stay on their worker, and run in order", true);

    for (s->i = 0; s->i < 2; s->i++) {
        bad += filch_readiness_init(&turn[s->i]) != FILCH_OK;
        players[s->i] = (struct player){.left = port->wakes / 2, .mine = &turn[s->i], .other = &turn[1 - s->i]};
        filch_job job = {player, player_over, &players[s->i], NULL};
        uint32_t core = s->i ? port->workers - 1 : port->workers / 2;
        bad += filch_spawn_pinned(port->executor, port->pool, core, &job, s->i ? &s->b : &s->a) != FILCH_OK;
    }
    (void)filch_readiness_set(&turn[0], FILCH_READABLE);
    AWAIT(s, status, filch_join_poll(&s->a, waker, &s->got));
    bad += status != FILCH_OK || s->got != FILCH_OK;
    AWAIT(s, status, filch_join_poll(&s->b, waker, &s->got));
    bad += status != FILCH_OK || s->got != FILCH_OK;
    bad += filch_readiness_drop(&turn[0]) != FILCH_OK || filch_readiness_drop(&turn[1]) != FILCH_OK;
    checks_note(port, "", port->wakes / 2 * 2, " wakes from task to task");
    that("two tasks on two cores take turns", true);

    for (s->i = 0; s->i < port->workers; s->i++) {
        filch_worker_totals w = {0};
        (void)filch_worker_metrics(port->executor, s->i, &w);
        s->before_polls[s->i] = (uint32_t)w.polls, s->before_steals[s->i] = (uint32_t)w.steals;
    }
    s->sound = false;
    for (s->round = 0; s->round < 200 && !s->sound; s->round++) {
        STORE(&done, 0);
        s->heavy.tasks = CHECKS_TASKS - 2;
        bad += spawn(heavy_parent, NULL, &s->heavy, &s->a) != FILCH_OK;
        AWAIT(s, status, filch_join_poll(&s->a, waker, NULL));
        ALONE(s, waker)
        bad += LOAD(&done) != CHECKS_TASKS - 2;
        spread(s, &polled, &stole);
        s->sound = polled == port->workers && stole >= (port->workers > 3 ? 3 : port->workers - 1);
    }
    that("every worker polls, and cores steal from each other", s->sound);

    STORE(&dropped, 0);
    for (s->i = 0; s->i < CHECKS_TASKS - 2; s->i++) {
        sleepers[s->i] = (struct sleeper){.dice = s->i + 1};
        bad += spawn(sleeper, sleeper_over, &sleepers[s->i], NULL) != FILCH_OK;
    }
    while (live() > 1) {
        SLEEP(s, waker, 2);
    }
    checks_note(port, "the latest timer came after ", LOAD(&latest), " us");
    that("no timer comes early, and all come", LOAD(&dropped) == CHECKS_TASKS - 2);

    // A deadline that is brought forward ends the wait, and a sleep that is dropped wakes nothing that is gone.
    s->began = now();
    bad += filch_sleep_init(&s->sleep, port->executor, FILCH_NEVER) != FILCH_OK;
    bad += filch_sleep_poll(&s->sleep, waker) != FILCH_PENDING;
    bad += filch_sleep_reset(&s->sleep, s->began + 3000000) != FILCH_OK;
    AWAIT(s, status, filch_sleep_poll(&s->sleep, waker));
    bad += status != FILCH_OK || now() < s->began + 3000000 || filch_sleep_poll(&s->sleep, waker) != FILCH_OK;
    bad += filch_sleep_reset(&s->sleep, now() + 5000000) != FILCH_OK || filch_sleep_poll(&s->sleep, waker) != FILCH_PENDING;
    bad += filch_sleep_drop(&s->sleep) != FILCH_OK;
    SLEEP(s, waker, 8);
    that("a sleep is reset and dropped", true);

    s->number = -12345;
    bad += spawn(answers, count_drop, &s->number, &s->a) != FILCH_OK;
    s->b = s->a;
    AWAIT(s, status, filch_join_poll(&s->b, waker, &s->got));
    bad += status != FILCH_OK || s->got != -12345 || filch_join_poll(&s->b, waker, &s->got) != FILCH_EINIT;
    s->joiner = (struct joiner){.answer = 42};
    bad += spawn(joiner, NULL, &s->joiner, &s->joiner.self) != FILCH_OK;
    // In sync code: this worker runs the joiner on top, or another one does.
    AWAIT(s, status, filch_join_poll(&s->joiner.self, waker, &s->got));
    bad += status != FILCH_OK || s->got != FILCH_OK || s->joiner.got != 42;
    that("joins give results, in tasks and in sync code", true);

    STORE(&dropped, 0);
    s->waiter = (struct waiter){.keeps = true};
    bad += spawn(waits, waits_no_more, &s->waiter, &s->a) != FILCH_OK || filch_aborter_init(&s->aborter, &s->a) != FILCH_OK;
    SLEEP(s, waker, 2);
    bad += filch_is_finished(&s->a) || filch_aborter_abort(&s->aborter) != FILCH_OK;
    AWAIT(s, status, filch_join_poll(&s->a, waker, &s->got));
    bad += status != FILCH_ECANCELED || LOAD(&dropped) != 1 || filch_aborter_abort(&s->aborter) != FILCH_OK;
    bad += filch_aborter_drop(&s->aborter) != FILCH_OK || filch_aborter_drop(&s->aborter) != FILCH_EINIT;
    s->waiter = (struct waiter){.keeps = true};
    bad += spawn(waits, waits_no_more, &s->waiter, &s->a) != FILCH_OK || filch_abort(&s->a) != FILCH_OK;
    AWAIT(s, status, filch_join_poll(&s->a, waker, &s->got));
    bad += status != FILCH_ECANCELED || LOAD(&dropped) != 2;
    that("an aborted task says so, and is dropped once", true);

    s->waiter = (struct waiter){.keeps = false};
    bad += spawn(waits, waits_no_more, &s->waiter, &s->a) != FILCH_OK || filch_detach(&s->a) != FILCH_OK;
    while (LOAD(&dropped) != 3) {
        YIELD(s, waker);
    }
    that("a detached task that nothing can wake is dropped", true);

    bad += filch_readiness_init(&struck) != FILCH_OK || filch_wait_init(&s->wait, &struck, FILCH_READABLE) != FILCH_OK;
    s->dice = 7;
    if (port->raise) {
        for (s->i = 0; s->i < port->wakes / 20; s->i++) {
            forget_interrupts(s);
            if (filch_wait_poll(&s->wait, waker, NULL) == FILCH_PENDING) {
                port->raise();
                AWAIT(s, status, filch_wait_poll(&s->wait, waker, NULL));
            }
        }
        that("interrupt handlers wake the task that they interrupt", status == FILCH_OK);
    } else {
        checks_skip(port, "interrupt handlers wake the task that they interrupt");
    }
    if (port->alarm) {
        for (s->i = 0; s->i < port->wakes / 20; s->i++) {
            forget_interrupts(s);
            port->alarm(dice_below(&s->dice, 50000));
            AWAIT(s, status, filch_wait_poll(&s->wait, waker, NULL));
        }
        that("interrupt handlers wake tasks while their core sleeps", status == FILCH_OK);
    } else {
        checks_skip(port, "interrupt handlers wake tasks while their core sleeps");
    }
    if (port->raise) {
        STORE(&done, 0);
        s->waiter = (struct waiter){.keeps = true};
        bad += spawn(waits, waits_no_more, &s->waiter, &handled) != FILCH_OK;
        forget_interrupts(s);
        STORE(&in_handler, 1);
        port->raise();
        while (LOAD(&in_handler) != 2 || LOAD(&done) != 1) {
            YIELD(s, waker);
        }
        bad += codes[0] != FILCH_ECONTEXT || codes[1] != FILCH_ECONTEXT || codes[2] != FILCH_ECONTEXT ||
            codes[3] != FILCH_ECONTEXT || codes[4] != FILCH_OK;
        bad += filch_abort(&handled) != FILCH_OK;
        AWAIT(s, status, filch_join_poll(&handled, waker, NULL));
        bad += status != FILCH_ECANCELED;
        that("a handler may spawn, and must not wait", true);
    } else {
        checks_skip(port, "a handler may spawn, and must not wait");
    }
    bad += filch_wait_drop(&s->wait) != FILCH_OK;

    bad += filch_shutdown(port->executor, 0, NULL) != FILCH_EISWORKER;
    bad += filch_reopen(port->executor) != FILCH_ERUNNING || filch_run(port->executor, 0) != FILCH_EISWORKER;
    that("a worker does not wait for its own end", true);

    {
        s->waiter = (struct waiter){.keeps = true};
        filch_job job = {waits, waits_no_more, &s->waiter, "listed"};
        bad += filch_spawn_pinned(port->executor, port->pool, 0, &job, &s->a) != FILCH_OK;
        uint32_t seen = 0;
        bad += filch_tasks(port->executor, visit, &seen) != FILCH_OK || (seen & 0xFFFF) != 1 || seen >> 16 < 2;
        bad += filch_abort(&s->a) != FILCH_OK;
    }
    AWAIT(s, status, filch_join_poll(&s->a, waker, NULL));
    that("tasks are listed with their names", true);

    ALONE(s, waker)
    if (port->halts) {
        while (parked() < port->workers - 1) {
            SLEEP(s, waker, 5);
        }
        SLEEP(s, waker, 50);
        s->parks = all_parks(), s->halts = port->halts();
        SLEEP(s, waker, 500);
        s->parks = all_parks() - s->parks, s->halts = port->halts() - s->halts;
        checks_note(port, "", s->halts, " halts, for one timer");
        checks_that(port, "idle cores sleep for half a second", s->parks <= 2 && s->halts >= 1 && s->halts <= 2);
    } else {
        checks_skip(port, "idle cores sleep for half a second");
    }
    that("no task is left behind", live() == 1);
    END
    return 4711;
}

// In a context that is no worker.
void checks_tasks(const checks_port *port)
{
    checks_await_contracts(port);
    the_port = port;
    the_main = (struct main_task){0};
    filch_task task;
    int32_t result = 0;
    filch_job job = {main_task, NULL, &the_main, "main"};
    if (filch_spawn(port->executor, port->pool, &job, &task) != FILCH_OK) {
        checks_that(port, "the first task is spawned", false);
        return;
    }
    filch_status status = filch_join(&task, &result);
    checks_that(port, "a thread that is no worker waits for a task", status == FILCH_OK && result == 4711);

    // Workers sleep, and a context that is none of them wakes tasks, also when it lets go of the last waker.
    bad = 0;
    STORE(&dropped, 0);
    static struct waiter waiter;
    waiter = (struct waiter){.keeps = true};
    bad += spawn(waits, waits_no_more, &waiter, NULL) != FILCH_OK;
    static struct sleeper sleeping;
    sleeping = (struct sleeper){.dice = 1, .deadline = 0};
    bad += spawn(sleeper, sleeper_over, &sleeping, NULL) != FILCH_OK;
    size_t survived = 99;
    status = filch_shutdown(port->executor, now() + 300000000, &survived);
    bad += status != FILCH_OK || survived != 1 || LOAD(&dropped) != 2 || !filch_is_stopped(port->executor) || live() != 0;
    that("a shutdown lets tasks finish, and then cancels them", true);
    job.poll = heavy_child;
    bad += filch_spawn(port->executor, port->pool, &job, NULL) != FILCH_ESHUTDOWN;
    that("nothing is spawned after the end", true);
}
