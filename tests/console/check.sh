#!/usr/bin/env bash
# filch's tasks as tokio-console sees them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
target=../../target/console
cargo clippy --locked --all-targets --target-dir "$target" -- -D warnings
cargo test --locked --target-dir "$target"
