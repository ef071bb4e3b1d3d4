// What the files of the checks share.
#ifndef CHECKS_COMMON_H
#define CHECKS_COMMON_H

#include "checks.h"

enum { MOST = 8 };

// Atomics of 32 bits, by name and not by type, as C++ has no _Atomic.
#define LOAD(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define ADD(p, v) __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)

void checks_note(const checks_port *port, const char *what, size_t number, const char *more);
void checks_note_interrupt(const checks_port *port);
// Waits until all cores have been through checks_contracts.
void checks_await_contracts(const checks_port *port);
void checks_skip(const checks_port *port, const char *what);

// A task as a function that goes on where it waited: `line` says where that was. Variables that live across a wait are in the state.
#define BEGIN(s) switch ((s)->line) { case 0:
#define END }
#define FALLS __attribute__((fallthrough))
// Polls `call` until it is not pending, and puts what it returned into `status`.
#define AWAIT(s, status, call) \
    do { \
        (s)->line = __LINE__; \
        FALLS; \
    case __LINE__: \
        (status) = (call); \
        if ((status) == FILCH_PENDING) { \
            return FILCH_PENDING; \
        } \
    } while (0)
// Gives way once.
#define YIELD(s, waker) \
    do { \
        (s)->line = __LINE__; \
        (void)filch_waker_wake_by_ref(waker); \
        return FILCH_PENDING; \
    case __LINE__:; \
    } while (0)

// Pseudo-random numbers: xorshift.
static inline uint32_t dice_below(uint32_t *dice, uint32_t limit)
{
    *dice ^= *dice << 13;
    *dice ^= *dice >> 17;
    *dice ^= *dice << 5;
    return *dice % limit;
}

static inline void spin(uint32_t rounds)
{
    for (volatile uint32_t i = 0; i < rounds; i++) {
    }
}

#endif
