#include "board.h"

// The registers of the board: CLINT, UART, power switch. Any hart may write to all of them.
#define MSIP(hart) ((volatile uint32_t *)(0x02000000 + 4 * (uintptr_t)(hart)))
#define MTIMECMP(hart) ((volatile uint64_t *)(0x02004000 + 8 * (uintptr_t)(hart)))
#define MTIME ((volatile uint64_t *)0x0200BFF8)
#define UART ((volatile uint8_t *)0x10000000)
#define POWER ((volatile uint32_t *)0x00100000)
// Nanoseconds in a tick of MTIME, which counts at 10 MHz.
#define TICK 100
#define OFF UINT64_MAX

// Each hart's own, touched with interrupts masked: when its sleep ends, and when a check wants an interrupt. Its timer fires for the
// earlier of the two.
static struct {
    uint64_t deadline, alarm;
    bool in_handler;
} harts[ALL] = {{OFF, OFF, false}, {OFF, OFF, false}, {OFF, OFF, false}, {OFF, OFF, false}, {OFF, OFF, false}};

// A check wants an interrupt of this hart.
static bool raised[ALL];
static size_t halts;

unsigned hart(void)
{
    uintptr_t id;
    __asm__ volatile("csrr %0, mhartid" : "=r"(id));
    return (unsigned)id;
}

// Bit 3 of mstatus: machine interrupts.
static void mask(void)
{
    __asm__ volatile("csrci mstatus, 8" ::: "memory");
}

void unmask(void)
{
    __asm__ volatile("csrsi mstatus, 8" ::: "memory");
}

static uint64_t now(void *data)
{
    (void)data;
    return *MTIME * TICK;
}

static int32_t current_worker(void *data)
{
    (void)data;
    return hart() < WORKERS ? (int32_t)hart() : FILCH_NO_WORKER;
}

static int32_t context(void *data)
{
    (void)data;
    return harts[hart()].in_handler ? FILCH_HANDLER : FILCH_THREAD;
}

static void set_timer(unsigned me)
{
    *MTIMECMP(me) = harts[me].deadline < harts[me].alarm ? harts[me].deadline : harts[me].alarm;
}

static void set_software(unsigned target, uint32_t on)
{
    // Memory before the interrupt, and the interrupt before memory.
    __asm__ volatile("fence rw, ow" ::: "memory");
    *MSIP(target) = on;
    __asm__ volatile("fence ow, rw" ::: "memory");
}

// Masks interrupts, checks, and halts. An interrupt that comes in between stays pending, and ends the `wfi` although it is masked.
// For one that came before the check, the check sees the changed word.
static void sleep_on(unsigned me, const filch_word *word, uint32_t expected, uint64_t deadline)
{
    mask();
    if (filch_load(word) == expected) {
        harts[me].deadline = deadline == FILCH_NEVER ? OFF : deadline / TICK + (deadline % TICK != 0);
        set_timer(me);
#ifdef MUTANT
        // A broken platform, on purpose: it halts with interrupts enabled.
        unmask();
#endif
#ifdef DELAY
        // Time for the interrupts that the checks have raised to come.
        for (uint64_t end = *MTIME + 2000; *MTIME < end;) {
        }
#endif
        __asm__ volatile("wfi" ::: "memory");
        mask();
        __atomic_fetch_add(&halts, me < WORKERS, __ATOMIC_RELAXED);
        harts[me].deadline = OFF;
        set_timer(me);
    }
    unmask();
}

static void wait(void *data, uint32_t worker, const filch_word *word, uint32_t expected, uint64_t deadline)
{
    (void)data;
    sleep_on(worker, word, expected, deadline);
}

static void wake(void *data, uint32_t worker, const filch_word *word)
{
    (void)data, (void)word;
#ifdef DEAF
    // A broken platform, on purpose: it does not send each wake.
    static uint32_t wakes;
    if (worker != hart() && __atomic_fetch_add(&wakes, 1, __ATOMIC_RELAXED) % 64 == 63) {
        return;
    }
#endif
    set_software(worker, 1);
}

// The hart that is no worker.
static void block(void *data, const filch_word *word, uint32_t expected, uint64_t deadline)
{
    (void)data;
    sleep_on(hart(), word, expected, deadline);
}

static void unblock(void *data, const filch_word *word)
{
    (void)data, (void)word;
    set_software(WORKERS, 1);
}

void print(const char *line)
{
    static bool locked;
    uintptr_t before;
    // A handler on this hart must not wait for the line that it has interrupted.
    __asm__ volatile("csrrci %0, mstatus, 8" : "=r"(before)::"memory");
    while (__atomic_exchange_n(&locked, true, __ATOMIC_ACQUIRE)) {
    }
    // QEMU's transmit register is always ready.
    while (*line) {
        *UART = (uint8_t)*line++;
    }
    *UART = '\n';
    __atomic_store_n(&locked, false, __ATOMIC_RELEASE);
    if (before & 8) {
        unmask();
    }
}

_Noreturn void board_exit(unsigned status)
{
    *POWER = status ? status << 16 | 0x3333 : 0x5555;
    for (;;) {
    }
}

static void die(void *data, const char *message)
{
    (void)data;
    print(message);
    print("0 passed, 1 failed");
    board_exit(101);
}

const filch_platform board = {
    .abi = FILCH_ABI,
    .now = now,
    .current_worker = current_worker,
    .context = context,
    .wait = wait,
    .wake = wake,
    .block = block,
    .unblock = unblock,
    .panic = die,
};

static void on_timer(unsigned me)
{
    uint64_t time = *MTIME;
    bool alarmed = harts[me].alarm <= time;
    if (alarmed) {
        harts[me].alarm = OFF;
    }
    if (harts[me].deadline <= time) {
        harts[me].deadline = OFF;
    }
    set_timer(me);
    if (alarmed) {
        on_interrupt();
    }
}

// A wake: the word has changed already, so this only acknowledges the interrupt.
static void on_software(unsigned me)
{
    set_software(me, 0);
    if (__atomic_exchange_n(&raised[me], false, __ATOMIC_ACQUIRE)) {
        on_interrupt();
    }
}

// From boot.S.
void on_trap(uintptr_t cause, uintptr_t at)
{
    unsigned me = hart();
    (void)at;
    harts[me].in_handler = true;
    switch (cause) {
    case (uintptr_t)1 << 63 | 3:
        on_software(me);
        break;
    case (uintptr_t)1 << 63 | 7:
        on_timer(me);
        break;
    default:
        die(NULL, "trap: an exception");
    }
    harts[me].in_handler = false;
}

void board_raise(void)
{
    unsigned me = hart();
    __atomic_store_n(&raised[me], true, __ATOMIC_RELEASE);
    set_software(me, 1);
}

void board_alarm(uint32_t nanos)
{
    mask();
    unsigned me = hart();
    harts[me].alarm = *MTIME + nanos / TICK;
    set_timer(me);
    unmask();
}

size_t board_halts(void)
{
    return __atomic_load_n(&halts, __ATOMIC_RELAXED);
}
