#!/usr/bin/env bash
# Runs every target over its corpus and then over new inputs, for so many seconds each (default: 10).
#
#   fuzz/smoke.sh [SECONDS]
#
# Where cargo-fuzz is not to be had, the corpora and made-up inputs by themselves, on stable.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tools.sh"

if ! build; then
    echo "no fuzzer here: the corpora alone"
    ROUNDS=3000 cargo test --release --no-default-features --test corpus -- --nocapture
    exit
fi
unpack corpus
for target in "${targets[@]}"; do
    fuzz "$target" "${1:-10}"
done
