// QEMU's `virt` board as a platform of filch.
#ifndef BOARD_H
#define BOARD_H

#include "filch.h"

// Harts that are workers, and one that is none.
enum { WORKERS = 4, ALL = WORKERS + 1 };

extern const filch_platform board;

unsigned hart(void);
// Machine interrupts on. They are off at reset.
void unmask(void);
// Prints a line, from any context.
void print(const char *line);
// Ends QEMU with this status.
_Noreturn void board_exit(unsigned status);

// Hooks of the checks: an interrupt on this hart, now or later, whose handler calls on_interrupt.
void board_raise(void);
void board_alarm(uint32_t nanos);
void on_interrupt(void);
// How often a worker has come out of a `wfi`.
size_t board_halts(void);

#endif
