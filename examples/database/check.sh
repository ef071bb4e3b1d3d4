#!/usr/bin/env bash
# A short run of the example, which checks each answer itself: with and without classes, on two workers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
target=../../target/database
cargo clippy --locked --release --target-dir "$target" -- -D warnings
cargo build --locked --release --target-dir "$target"
picture=$target/latency.svg
rm -f "$picture"
said=$(timeout 120 "$target/release/database" --workers 2 --seconds 2 --rows 100000 --picture "$picture")
echo "$said"
for classes in "with classes" "without classes"; do
    grep -Eq "^$classes: [1-9][0-9]* answers, .*; the file was sorted [1-9][0-9]* times$" <<<"$said"
    grep -q "$classes: p99" "$picture"
done
