#!/usr/bin/env bash
# filch's tasks as tokio-console sees them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ../../.ci/apart
# What .cargo/config.toml says, in whose place RUSTFLAGS comes.
RUSTFLAGS+=" --cfg console_without_tokio_unstable"
cargo test --locked
