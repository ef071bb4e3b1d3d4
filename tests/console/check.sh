#!/usr/bin/env bash
# filch's tasks as tokio-console sees them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source ../../.ci/apart
cargo test --locked
