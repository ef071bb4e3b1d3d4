// The contract of the platform, function by function, and the books of all checks.
#include "common.h"

static uint32_t passed, failed;

static char *put(char *at, const char *end, const char *text)
{
    while (*text && at < end) {
        *at++ = *text++;
    }
    *at = 0;
    return at;
}

static char *put_number(char *at, const char *end, size_t number)
{
    char digits[24];
    char *first = digits + sizeof digits - 1;
    *first = 0;
    do {
        *--first = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    return put(at, end, first);
}

void checks_that(const checks_port *port, const char *what, bool holds)
{
    char line[160], *end = line + sizeof line - 1;
    put(put(line, end, holds ? "ok   " : "FAIL "), end, what);
    port->print(line);
    ADD(holds ? &passed : &failed, 1);
}

void checks_note(const checks_port *port, const char *what, size_t number, const char *more)
{
    char line[160], *end = line + sizeof line - 1;
    put(put_number(put(put(line, end, "     "), end, what), end, number), end, more);
    port->print(line);
}

void checks_skip(const checks_port *port, const char *what)
{
    char line[160], *end = line + sizeof line - 1;
    put(put(put(line, end, "skip "), end, what), end, ": no hook");
    port->print(line);
}

unsigned checks_verdict(const checks_port *port)
{
    char line[80], *end = line + sizeof line - 1;
    char *at = put(put_number(line, end, LOAD(&passed)), end, " passed, ");
    put(put_number(at, end, LOAD(&failed)), end, " failed");
    port->print(line);
    return LOAD(&failed);
}

// The word that a core waits on, and its answers.
static struct {
    filch_word word;
    uint32_t data, seen, interrupts;
} lanes[MOST];

// A meeting of all cores.
static uint32_t arrived, held;

static void meet(const checks_port *port)
{
    uint32_t number = LOAD(&held);
    if (ADD(&arrived, 1) + 1 == port->workers) {
        STORE(&arrived, 0);
        STORE(&held, number + 1);
        return;
    }
    while (LOAD(&held) == number) {
        if (port->platform->relax) {
            port->platform->relax(port->platform->data, UINT32_MAX);
        }
    }
}

static uint32_t broken;

// A check that each core makes at the same time.
static void on_each(const checks_port *port, uint32_t me, const char *what, bool (*check)(const checks_port *, uint32_t))
{
    meet(port);
    if (!check(port, me)) {
        ADD(&broken, 1);
    }
    meet(port);
    if (me == 0) {
        checks_that(port, what, __atomic_exchange_n(&broken, 0, __ATOMIC_ACQ_REL) == 0);
    }
}

static uint64_t now(const checks_port *port)
{
    return port->platform->now(port->platform->data);
}

static void wait(const checks_port *port, uint32_t me, const filch_word *word, uint32_t expected, uint64_t deadline)
{
    port->platform->wait(port->platform->data, me, word, expected, deadline);
}

static void wake(const checks_port *port, uint32_t core, const filch_word *word)
{
    port->platform->wake(port->platform->data, core, word);
}

static bool is_itself(const checks_port *port, uint32_t me)
{
    const filch_platform *p = port->platform;
    return p->current_worker(p->data) == (int32_t)me && p->context(p->data) == FILCH_THREAD;
}

static bool clock_goes_on(const checks_port *port, uint32_t me)
{
    (void)me;
    uint64_t first = now(port), last = first;
    bool steady = true;
    // If the clock stands still, this hangs.
    for (uint32_t reads = 0; reads < 1000 || last == first; reads++) {
        uint64_t next = now(port);
        steady &= last <= next;
        last = next;
    }
    return steady;
}

static bool changed_word_returns(const checks_port *port, uint32_t me)
{
    // The word is 0. If a wait does not return, this hangs.
    for (int i = 0; i < 100; i++) {
        wait(port, me, &lanes[me].word, 1, FILCH_NEVER);
    }
    return true;
}

static bool deadlines(const checks_port *port, uint32_t me)
{
    static const uint64_t millis[] = {0, 1, 5, 20};
    bool slept = true;
    for (int i = 0; i < 4; i++) {
        uint64_t deadline = now(port) + millis[i] * 1000000;
        uint32_t waits = 0;
        do {
            wait(port, me, &lanes[me].word, 0, deadline);
            waits++;
        } while (now(port) < deadline);
        // It may return early, but must sleep sometimes.
        slept &= waits < 2000;
    }
    return slept;
}

static uint32_t target;

static uint32_t chases(const checks_port *port)
{
    return port->wakes / port->workers;
}

// The core that is woken, and sleeps again as soon as it has seen the wake: most wakes come while it goes to sleep.
static bool be_chased(const checks_port *port, uint32_t me)
{
    bool ordered = true;
    uint32_t at = 0;
    while (at < chases(port)) {
        while (filch_load(&lanes[me].word) == at) {
            wait(port, me, &lanes[me].word, at, FILCH_NEVER);
        }
        at = filch_load(&lanes[me].word);
        ordered &= __atomic_load_n(&lanes[me].data, __ATOMIC_RELAXED) == at * 3;
        STORE(&lanes[me].seen, at);
    }
    return ordered;
}

static bool chased(const checks_port *port, uint32_t me)
{
    if (me == target) {
        return be_chased(port, me);
    }
    uint32_t dice = target + 1;
    for (uint32_t round = 1; me == (target + 1) % port->workers && round <= chases(port); round++) {
        __atomic_store_n(&lanes[target].data, round * 3, __ATOMIC_RELAXED);
        STORE(&lanes[target].word.value, round);
        wake(port, target, &lanes[target].word);
        if (dice_below(&dice, 4) == 0) {
            wake(port, target, &lanes[target].word);
        }
        while (LOAD(&lanes[target].seen) != round) {
        }
        spin(dice_below(&dice, 1000));
    }
    // The others sleep, as a machine may have fewer processors than cores.
    while (LOAD(&lanes[target].seen) < chases(port)) {
        wait(port, me, &lanes[me].word, 0, now(port) + 10000000);
    }
    return true;
}

// Every core wakes all others, and each sleeps until all have.
static bool crowd(const checks_port *port, uint32_t me)
{
    uint32_t dice = me + 17, rounds = port->wakes / 100, others = port->workers - 1;
    for (uint32_t round = 1; round <= rounds; round++) {
        spin(dice_below(&dice, 300));
        for (uint32_t other = 0; other < port->workers; other++) {
            if (other != me) {
                ADD(&lanes[other].word.value, 1);
                wake(port, other, &lanes[other].word);
            }
        }
        for (uint32_t seen; (seen = filch_load(&lanes[me].word)) < round * others;) {
            wait(port, me, &lanes[me].word, seen, FILCH_NEVER);
        }
    }
    meet(port);
    return filch_load(&lanes[me].word) == rounds * others;
}

static void reset(const checks_port *port, uint32_t me)
{
    meet(port);
    STORE(&lanes[me].word.value, 0);
    STORE(&lanes[me].seen, 0);
    meet(port);
}

void checks_note_interrupt(const checks_port *port)
{
    int32_t me = port->platform->current_worker(port->platform->data);
    if (me >= 0 && me < (int32_t)port->workers) {
        ADD(&lanes[me].interrupts, 1);
        ADD(&lanes[me].word.value, 1);
        wake(port, (uint32_t)me, &lanes[me].word);
    }
}

static bool kept_before_wait(const checks_port *port, uint32_t me)
{
    for (int i = 0; i < 200; i++) {
        uint32_t at = filch_load(&lanes[me].word);
        port->raise();
        while (filch_load(&lanes[me].word) == at) {
            wait(port, me, &lanes[me].word, at, FILCH_NEVER);
        }
    }
    return true;
}

static bool ends_own_wait(const checks_port *port, uint32_t me)
{
    uint32_t dice = me + 31;
    for (uint32_t i = 0; i < port->wakes / 20; i++) {
        uint32_t at = filch_load(&lanes[me].word);
        port->alarm(dice_below(&dice, 20000));
        spin(dice_below(&dice, 1500));
        while (filch_load(&lanes[me].word) == at) {
            wait(port, me, &lanes[me].word, at, FILCH_NEVER);
        }
    }
    return true;
}

static int32_t nothing(void *state, const filch_waker *waker)
{
    (void)state, (void)waker;
    return 0;
}

static int32_t parent(void *state, const filch_waker *waker)
{
    (void)waker;
    const checks_port *port = state;
    filch_job job = {nothing, NULL, NULL, NULL};
    // In a poll, so that they go to this worker's own queue.
    for (int i = 0; i < 4; i++) {
        if (filch_spawn(port->executor, port->pool, &job, NULL) != FILCH_OK) {
            return -1;
        }
    }
    return 0;
}

// The last worker leaves with four tasks in its queue; the first one runs them.
static bool offline(const checks_port *port, uint32_t me)
{
    filch_worker worker;
    bool sound = true;
    if (me == port->workers - 1) {
        filch_job job = {parent, NULL, (void *)(uintptr_t)port, NULL};
        sound = filch_spawn_pinned(port->executor, port->pool, me, &job, NULL) == FILCH_OK &&
            filch_worker_enter(port->executor, me, &worker) == FILCH_OK && filch_worker_step(&worker) == FILCH_OK &&
            filch_worker_leave(&worker) == FILCH_OK && filch_worker_leave(&worker) == FILCH_EINIT;
    }
    meet(port);
    if (me != 0) {
        return sound;
    }
    if (filch_worker_enter(port->executor, me, &worker) != FILCH_OK) {
        return false;
    }
    int polls = 0;
    while (filch_worker_step(&worker) == FILCH_OK) {
        polls++;
    }
    filch_totals totals;
    sound &= polls == 4 && filch_metrics(port->executor, &totals) == FILCH_OK && totals.live == 0;
    return sound && filch_worker_leave(&worker) == FILCH_OK;
}

static int32_t leaves(void *state, const filch_waker *waker)
{
    (void)waker;
    // In the very step that it would take away.
    return filch_worker_leave(state) == FILCH_ECONTEXT ? FILCH_OK : -1;
}

// A loop of one's own: steps, and the two halves of a sleep, here around the platform's `wait`.
static bool own_loop(const checks_port *port, uint32_t me)
{
    filch_worker worker, again;
    if (filch_worker_enter(port->executor, me, &worker) != FILCH_OK) {
        return false;
    }
    // Each context is one worker, and each worker is one context.
    bool sound = filch_worker_enter(port->executor, me, &again) == FILCH_EISWORKER &&
        filch_run(port->executor, me) == FILCH_EISWORKER && filch_worker_end_park(&worker) == FILCH_OK;
    meet(port);
    filch_job job = {nothing, NULL, NULL, NULL};
    sound &= filch_spawn_pinned(port->executor, port->pool, me, &job, NULL) == FILCH_OK;
    uint64_t deadline = 0;
    sound &= filch_worker_begin_park(&worker, &deadline) == FILCH_BUSY;
    while (filch_worker_step(&worker) == FILCH_OK) {
    }
    filch_job leave = {leaves, NULL, &worker, NULL};
    filch_task task;
    int32_t left = -1;
    sound &= filch_spawn_pinned(port->executor, port->pool, me, &leave, &task) == FILCH_OK;
    sound &= filch_worker_turn(&worker, 1, &deadline) == FILCH_BUSY;
    sound &= filch_join(&task, &left) == FILCH_OK && left == FILCH_OK;
    meet(port);
    if (filch_worker_turn(&worker, 8, &deadline) == FILCH_OK) {
        sound &= deadline == FILCH_NEVER;
        sound &= filch_worker_end_park(&worker) == FILCH_OK;
    }
    meet(port);
    return sound && filch_worker_step(&worker) == FILCH_IDLE && filch_worker_leave(&worker) == FILCH_OK;
}

static bool wrong_workers(const checks_port *port, uint32_t me)
{
    filch_executor *e = port->executor;
    uint32_t n = port->workers;
    bool sound = filch_run(e, n) == FILCH_ENOWORKER && filch_run(e, 70000) == FILCH_ENOWORKER;
    // One worker takes all; the others find that it is there, or that the number is not theirs.
    static filch_worker worker;
    if (me == 0) {
        sound &= filch_worker_enter(e, 0, &worker) == FILCH_OK;
    }
    meet(port);
    if (me != 0) {
        filch_worker other;
        filch_status status = filch_worker_enter(e, 0, &other);
        sound &= status == FILCH_ENOTWORKER || status == FILCH_ERUNNING;
        sound &= filch_worker_step(&worker) == FILCH_ENOTWORKER && filch_worker_leave(&worker) == FILCH_ENOTWORKER;
    }
    meet(port);
    return sound && (me != 0 || filch_worker_leave(&worker) == FILCH_OK);
}

// How many cores have been through.
static filch_word through;

void checks_await_contracts(const checks_port *port)
{
    for (uint32_t seen; (seen = filch_load(&through)) < port->workers;) {
        if (port->platform->block) {
            port->platform->block(port->platform->data, &through, seen, now(port) + 10000000);
        }
    }
}

void checks_contracts(const checks_port *port, uint32_t me)
{
    const filch_platform *p = port->platform;
    if (p->set_worker) {
        p->set_worker(p->data, (int32_t)me);
    }
    on_each(port, me, "each context is the worker of its number", is_itself);
    on_each(port, me, "the clock goes on, and never back", clock_goes_on);
    on_each(port, me, "a wait for a word that has changed returns", changed_word_returns);
    on_each(port, me, "a wait ends at its deadline, and sleeps until then", deadlines);
    static const char *const names[MOST] = {
        "wakes from core to core all arrive: core 0", "wakes from core to core all arrive: core 1",
        "wakes from core to core all arrive: core 2", "wakes from core to core all arrive: core 3",
        "wakes from core to core all arrive: core 4", "wakes from core to core all arrive: core 5",
        "wakes from core to core all arrive: core 6", "wakes from core to core all arrive: core 7",
    };
    for (uint32_t core = 0; core < port->workers && port->workers > 1; core++) {
        if (me == 0) {
            target = core;
        }
        on_each(port, me, names[core], chased);
        reset(port, me);
    }
    if (port->workers > 1) {
        on_each(port, me, "wakes of all by all arrive", crowd);
        reset(port, me);
    }
    if (port->raise) {
        on_each(port, me, "an interrupt handler's wake before the wait is kept", kept_before_wait);
    } else if (me == 0) {
        checks_skip(port, "an interrupt handler's wake before the wait is kept");
    }
    if (port->alarm) {
        on_each(port, me, "an interrupt handler's wake ends the wait of its own core", ends_own_wait);
    } else if (me == 0) {
        checks_skip(port, "an interrupt handler's wake ends the wait of its own core");
    }
    if (p->set_worker) {
        p->set_worker(p->data, FILCH_NO_WORKER);
    }
    on_each(port, me, "a worker that goes offline leaves its tasks to others", offline);
    on_each(port, me, "a worker is stepped by a loop of one's own, and parks in two halves", own_loop);
    on_each(port, me, "a worker is run by one context at a time, of its own number", wrong_workers);
    ADD(&through.value, 1);
}
