// The checks that a platform in C must pass, and that the library passes on it: the meaning of tests/conformance, as far as it can
// be said in C. Freestanding: they need no C library.
//
// 1. Each context that will be a worker calls checks_contracts, all in step.
// 2. All of them then call filch_run; a context that is no worker calls checks_tasks, at any time. That ends with a shutdown, so
//    that filch_run returns.
// 3. That context then calls checks_verdict.
//
// A lost wake-up is a hang: run with a time limit.
#ifndef CHECKS_H
#define CHECKS_H

#include "filch.h"

// What the checks need of the program around them.
typedef struct checks_port {
    filch_executor *executor;
    const filch_platform *platform;
    // Workers, 8 at most.
    uint32_t workers;
    // A pool of CHECKS_TASKS slots.
    filch_pool *pool;
    // Prints a line, from any context.
    void (*print)(const char *line);
    // Raises an interrupt on the calling core now, whose handler calls checks_on_interrupt; null: none.
    void (*raise)(void);
    // As raise, after so many nanoseconds; null: none.
    void (*alarm)(uint32_t nanos);
    // How often all workers together have come out of their halt; null: not known, and idleness is not checked.
    size_t (*halts)(void);
    // Wakes from core to core in each check that counts them.
    uint32_t wakes;
} checks_port;

enum { CHECKS_TASKS = 72 };

// What is wrong with arguments, objects and memory gets a code. From one context that may be worker 0, before filch_init of the
// port's executor.
void checks_misuse(const checks_port *port);
// The contract of the platform. From the context that may be worker `me`, which is not one yet: all of them at once.
void checks_contracts(const checks_port *port, uint32_t me);
// The executor on this platform. From a context that is no worker; it waits until all workers are through checks_contracts.
void checks_tasks(const checks_port *port);
// From the handler of the interrupts above.
void checks_on_interrupt(const checks_port *port);
// One check more.
void checks_that(const checks_port *port, const char *what, bool holds);
// Prints "N passed, N failed"; returns how many have failed.
unsigned checks_verdict(const checks_port *port);

#endif
