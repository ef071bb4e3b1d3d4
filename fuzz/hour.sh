#!/usr/bin/env bash
# An hour in all: half of it scripts of executor operations, the rest shared by the other targets. Then the corpora take in
# what was found, as small as they can be: `git status` says whether there is something to commit.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/tools.sh"

build
unpack corpus
seconds=${SECONDS_IN_ALL:-3600}
others=$((${#targets[@]} - 1))
for target in "${targets[@]}"; do
    if [[ $target == executor ]]; then fuzz "$target" $((seconds / 2)); else fuzz "$target" $((seconds / 2 / others)); fi
done
for target in "${targets[@]}"; do
    # By edges, not by how often each is taken: some tens of inputs a target.
    merged=target/merged/$target
    rm -rf "$merged"
    mkdir -p "$merged"
    "$programs/$target" -set_cover_merge=1 -use_counters=0 "$merged" "corpus/$target" "target/found/$target" 2>&1 |
        grep -E 'MERGE-OUTER.*(new files|covered)' || true
    rm -rf "corpus/$target"
    mkdir -p corpus
    cp -r "$merged" "corpus/$target"
done
pack corpus
