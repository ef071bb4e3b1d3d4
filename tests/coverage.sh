#!/usr/bin/env bash
# How much of the core its tests reach: lines, functions and regions for each file, by the compiler's own counters. The unit
# tests and programs in core/tests/, and what runs the core on threads: the tests of filch-std and of this folder. Without
# doctests, models and simulated memory. Needs llvm-22.
#
#   tests/coverage.sh            the table
#   tests/coverage.sh FILE...    these sources of the core, line by line
#   NEW=no tests/coverage.sh ... of the last run
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_DIR

dir=$PWD/target/coverage
if [[ ${NEW:-yes} != no ]]; then
    rm -rf "$dir/profiles"
    mkdir -p "$dir"
    RUSTFLAGS="-Cinstrument-coverage" LLVM_PROFILE_FILE="$dir/profiles/%p-%m.profraw" \
        cargo test -p filch -p filch-std -p filch-tests --lib --bins --tests --no-fail-fast --target-dir "$dir" 2>&1 |
        tee "$dir/tests.log" | grep -E '^test result|FAILED|panicked|^error' || { tail -n 40 "$dir/tests.log"; exit 1; }
    llvm-profdata-22 merge -sparse "$dir"/profiles/*.profraw -o "$dir/all.profdata"
fi
mapfile -t programs < <(sed -n 's/^ *Running .*(\(.*\))$/-object=\1/p' "$dir/tests.log")
if (($#)); then
    llvm-cov-22 show "${programs[@]}" -instr-profile="$dir/all.profdata" --sources "${@/#/$PWD/core/src/}"
else
    llvm-cov-22 report "${programs[@]}" -instr-profile="$dir/all.profdata" --show-branch-summary=false \
        --ignore-filename-regex='/(rustc|registry|tests|platform-std|platform-linux)/|_tests\.rs'
fi
