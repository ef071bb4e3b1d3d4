#!/usr/bin/env bash
# Plants one bug of core/mutants at a time, in a copy of the working tree, and simulates until it is seen. Exits 0 only if each
# of those that the simulation is known to see is seen, and nothing is without a bug.
#
#   tests/simulate-mutants.sh             those that it is known to see
#   tests/simulate-mutants.sh MUTANT...   these
#
# `STEPS` is how long to look, `ARGS` more arguments of the program `simulate`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
dir=$PWD/target/simulate-mutants
source core/mutants/plant.sh
steps=${STEPS:-40000000}

# What is left out are orderings, and what needs two threads between two calls of the platform: see core/mutants.sh.
known=(
    none idle_recheck idle_gap idle_lapse timer_tell timer_orphan pending_seen join_keep ring_half io_clear
    duty_search duty_watch duty_heard duty_notify duty_unwatched listen_kept urgent_skip
    share_half share_never share_rest urgent_order
)

# The program with this bug ("none": without).
build() {
    local code
    [[ $1 == none ]] || plant "$1" || exit
    (cd "$tree" && cargo build -p filch-tests --release --bin simulate --target-dir "$dir/build") \
        >"$dir/$1.log" 2>&1
    code=$?
    [[ $1 == none ]] || unplant "$1" || exit
    return $code
}

chosen=("$@")
(($#)) || chosen=("${known[@]}")
failures=0
copy_tree || exit
echo "mutant | seen after steps | as"
for mutant in "${chosen[@]}"; do
    if ! build "$mutant"; then
        echo "$mutant | DOES NOT BUILD | see $dir/$mutant.log"
        failures=$((failures + 1))
        continue
    fi
    log=$(timeout --kill-after=5 "${LIMIT:-120}" "$dir/build/release/simulate" --seed "${SEED:-1}" --steps "$steps" --shrinks 0 ${ARGS:-} 2>&1)
    code=$?
    case $code in
        0) after="NOT SEEN" what="in $steps" ;;
        124 | 137) after="NO VERDICT" what="in ${LIMIT:-120} s" ;;
        101)
            after=$(sed -n 's/^FAILED after \([0-9]*\) steps.*/\1/p' <<<"$log")
            what=$(sed -n '/^replay/{n;p;q}' <<<"$log")
            inside=$(grep -o '(step [0-9]*' <<<"$what" | grep -o '[0-9]*')
            after=$((after + inside))
            ;;
        *) after="crashed" what="status $code" ;;
    esac
    [[ $mutant == none ]] && { [[ $code == 0 ]] || failures=$((failures + 1)); }
    [[ $mutant != none && ($code == 0 || $code == 124 || $code == 137) ]] && failures=$((failures + 1))
    echo "$mutant | $after | ${what%% (step*}"
done
echo "${#chosen[@]} mutants, $failures not as they should be"
exit $((failures > 0))
