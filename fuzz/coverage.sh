#!/usr/bin/env bash
# How much of the core the corpora reach: lines, functions and regions for each file, by the compiler's own counters.
# Needs llvm-22.
#
#   fuzz/coverage.sh            the table
#   fuzz/coverage.sh FILE...    these sources of the core, line by line
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tools.sh"

profiles=$PWD/target/coverage/profiles
rm -rf "$profiles"
core=${PWD%/*}/core
# A file of the core that the harness mounts is one with the core's own.
flags="-Cinstrument-coverage --remap-path-prefix=$core/harness/src/../../src=$core/src"
log=$(RUSTFLAGS=$flags LLVM_PROFILE_FILE="$profiles/%p-%m.profraw" \
    cargo test --no-default-features --test corpus --target-dir target/coverage corpora 2>&1) || { echo "$log"; exit 1; }
program=$(sed -n 's/^ *Running tests.*(\(.*\))$/\1/p' <<<"$log")
llvm-profdata-22 merge -sparse "$profiles"/*.profraw -o target/coverage/all.profdata
if (($#)); then
    llvm-cov-22 show "$program" -instr-profile=target/coverage/all.profdata --sources "${@/#/$core/src/}"
else
    llvm-cov-22 report "$program" -instr-profile=target/coverage/all.profdata \
        --ignore-filename-regex='/(rustc|registry|tests|fuzz|harness)/' --show-branch-summary=false
fi
