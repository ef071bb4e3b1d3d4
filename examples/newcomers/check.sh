#!/usr/bin/env bash
# The three programs and their versions on tokio, with real clients and a PostgreSQL; and that none is longer for filch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ../../.ci/apart
for program in chat fetch store; do
    ours=$(wc -l <"$program/src/main.rs")
    theirs=$(wc -l <"$program/src/tokio.rs")
    echo "$program: $ours lines, with tokio $theirs; what differs:"
    diff "$program/src/tokio.rs" "$program/src/main.rs" || true
    ((ours <= theirs)) || { echo "$program is longer than its version on tokio" >&2; exit 1; }
done
cargo build --locked --all-targets
timeout --kill-after=10 300 ./with-postgres cargo test --locked
# A short run, which fails if a program does not answer.
timeout --kill-after=10 120 ./with-postgres "$CARGO_TARGET_DIR/debug/measure" --rounds 1 --seconds 0.5
