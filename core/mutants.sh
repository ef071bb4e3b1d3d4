#!/usr/bin/env bash
# Plants one bug at a time (cfg `filch_mutant`) and runs the loom models that must see it. Exit 0 only if all are caught.
#
#   core/mutants.sh             all
#   core/mutants.sh MUTANT...   these
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS

# The planted bug, and a filter for the models that must fail with it.
declare -A models=(
    [ring_publish]=models_ring        # tasks are published before they are written
    [ring_release]=models_ring        # slots are given back before they are read
    [ring_half]=models_ring           # a thief claims more than there is
    [stack_push]=models_stack         # the injector publishes before it links
    [injector_unlock]=models_injector # the consumers' lock publishes nothing
    [free_tag]=models_free_list       # ABA on the free list
    [state_load]=task::models         # a poll does not see what its wakers did
    [state_apply]=task::models        # a transition publishes nothing
    [pending_seen]=task::models       # wakes during a poll are taken for seen
    [park_swap]=models_park           # a plain store after the sleep
    [idle_recheck]=models_idle_two    # who parks does not look again
    [idle_gap]=models_idle_a_stalled  # only searchers look again
    [idle_fence]=models_idle          # no store-load fence
    [idle_count]=models_idle_searchers # searchers count down without publishing
    [idle_early]=models_idle_claim    # a claim is counted after the bit is cleared
    [idle_retire]=models_idle_a_group # a group's bit without Release
)

chosen=("$@")
(($#)) || mapfile -t chosen < <(printf '%s\n' "${!models[@]}" | sort)
survivors=0
printf '%-16s %-24s %s\n' mutant models verdict
for mutant in "${chosen[@]}"; do
    filter=${models[$mutant]:?no such mutant: $mutant}
    start=$SECONDS
    log=$(RUSTFLAGS="--cfg filch_loom --cfg filch_mutant=\"$mutant\"" timeout 300 \
        cargo test -p filch --release --lib "$filter" --target-dir target/mutants 2>&1)
    code=$?
    if grep -q 'error: could not compile' <<<"$log"; then
        verdict="does not build"
        survivors=$((survivors + 1))
    elif ((code == 124)); then
        verdict="no verdict in time"
        survivors=$((survivors + 1))
    elif ((code)) && grep -q '^test result: FAILED' <<<"$log"; then
        verdict="caught by $(sed -n 's/^test .*::\(models_[a-z_]*\) .*FAILED$/\1/p' <<<"$log" | head -n 1)"
    elif ((code)); then
        # A crash ends the test program before it can say which test failed.
        verdict="caught: the models crashed"
    else
        verdict="SURVIVED"
        survivors=$((survivors + 1))
    fi
    printf '%-16s %-24s %s (%d s)\n' "$mutant" "$filter" "$verdict" $((SECONDS - start))
done
echo "$((${#chosen[@]} - survivors)) caught, $survivors not"
exit $((survivors > 0))
