#!/usr/bin/env bash
# A short run of the example, which checks each answer itself: with and without classes, on two workers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ../../.ci/apart
cargo build --locked
picture=$CARGO_TARGET_DIR/latency.svg
rm -f "$picture"
said=$(timeout 120 "$CARGO_TARGET_DIR/debug/database" --workers 2 --seconds 2 --rows 100000 --picture "$picture")
echo "$said"
for classes in "with classes" "without classes"; do
    grep -Eq "^$classes: [1-9][0-9]* answers, .*; the file was sorted [1-9][0-9]* times$" <<<"$said"
    grep -q "$classes: p99" "$picture"
done
