#!/usr/bin/env bash
# From an interrupt handler to the task that it wakes: boots kernels with four cores and with one, and prints the rows of the
# table in docs/porting.md, section "From an interrupt to its task". Microseconds: least, median and most of 50.
#
#   examples/delays.sh                           riscv64 and riscv32imc
#   examples/delays.sh KERNEL...                 these
#   examples/delays.sh --instructions KERNEL...  to a task that preempts the poll, in instructions
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
if [[ ${1-} == --instructions ]]; then
    shift
    for kernel in "$@"; do
        # So slow a machine that its clocks tick at each instruction: 128 ns.
        BOOT_LIMIT=400 BOOT_QEMU="-icount shift=7" ./boot.sh "$kernel" delay 2>&1 |
            awk -v kernel="$kernel" '/^from a handler to the urgent poll/ { printf "%s: %d %d %d\n", kernel, $8 / 128, $9 / 128, $10 / 128; on = 1 } END { exit !on }'
    done
    exit
fi
kernels=("$@")
(($#)) || kernels=(riscv64 riscv32imc)
for kernel in "${kernels[@]}"; do
    BOOT_INPUT=$'delays\nexit\n' ./boot.sh "$kernel" 2>&1 |
        awk -v kernel="$kernel" '/^from a handler/ { print kernel ": " $0; on = 1 } on && /^busy/ { print } END { exit !on }'
done
