#!/usr/bin/env bash
# Plants one bug at a time (cfg `filch_mutant`) and runs the loom models that must see it, one by one. Exits 0 only if
# each of them fails, and passes without the bug.
#
#   core/mutants.sh             all
#   core/mutants.sh MUTANT...   these
#
# Every `filch_mutant` in core/src must have its line here; a model behind `narrow:` is built with cfg `filch_narrow`. `LIMIT` is the time for one model, in seconds.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
dir=$PWD/target/mutants
mkdir -p "$dir"

# mutant, then the models that must fail with it, then what is planted.
table='
ring_publish    queue::models::models_ring_pushes_against_a_thief            # tasks are published before they are written
ring_publish    scheduler::models_whole::two_workers_and_two_tasks_from_outside
ring_release    queue::models::models_ring_of_four_overflows_under_a_thief   # slots are given back before they are read
ring_half       queue::models::models_ring_pushes_against_a_thief            # a thief claims more than there is
ring_room       queue::models::models_ring_thief_with_tasks_of_its_own       # a thief claims more than fits its own ring
stack_push      queue::models::models_stack_pushes_against_take_all          # a task is published before it is linked
stack_push      queue::models::models_stack_inbox_pushes_against_its_worker
job_done        scheduler::models_jobs::a_stolen_job_against_its_owner       # a job is done before its outcome is written
job_asleep      scheduler::models_jobs::a_stolen_job_against_its_owner       # its thief does not see that the owner sleeps
jobs_look       scheduler::models_jobs::jobs_become_public_against_sleep     # who parks does not look at the jobs
jobs_notify     scheduler::models_jobs::jobs_become_public_against_sleep     # nobody hears of jobs that become public
jobs_unask      scheduler::models_jobs::who_goes_to_sleep_has_asked          # an owner forgets who asks that moment
help_count      scheduler::models_jobs::who_sleeps_in_a_join_is_not_relied_on   # who goes out of the count tells nobody
attach_unseen   scheduler::models_whole::a_spare_worker_and_a_poll_that_pushes      # others never look into the slot of a spare
help_first      scheduler::models_jobs::a_context_that_comes_takes_nobody_out_of_the_count # a helper is out of a count before it is in it
help_leave      scheduler::models_jobs::who_leaves_makes_room_for_a_worker   # who leaves a worker its place tells nobody
help_leave_fence scheduler::models_jobs::who_leaves_makes_room_for_a_worker  # .. or tells it too early
call_own        scheduler::models_whole::a_claim_that_comes_too_late_looks_into_every_ring # a late claim does not look into its worker'"'"'s ring
call_done       scheduler::models_broadcast::a_broadcast_against_a_sleeper       # a broadcast'"'"'s end publishes nothing
call_leave      scheduler::models_broadcast::a_broadcast_against_a_worker_that_leaves # who leaves and who calls miss each other
deque_publish   queue::models_deque::models_deque_pushes_and_takes_against_a_thief # jobs are made public before they are written
deque_publish   queue::models_deque::models_deque_private_part_against_a_thief
deque_lower     queue::models_deque::models_deque_takes_against_a_thief      # ... by the store that lowers the split
deque_take_fence queue::models_deque::models_deque_takes_against_a_thief     # no store-load fence of the owner
deque_steal_fence queue::models_deque::models_deque_takes_against_a_thief    # ... of the thief
deque_still     queue::models_deque::models_deque_a_thief_takes_pieces_of_one_job # who waits takes jobs of other runs
deque_last      queue::models_deque::models_deque_two_thieves_and_the_last_jobs # the last job is taken without an exchange
deque_room      queue::models_deque::models_deque_of_two_is_full             # a push goes over the oldest job
deque_late      queue::models_deque::models_deque_of_two_is_full             # a thief reads its slot when it is the owner'"'"'s again
injector_unlock queue::models::models_injector_leaves_tasks_behind           # the consumers'"'"' lock publishes nothing
free_tag        queue::models::models_free_list_hands_no_slot_out_twice      # ABA on the free list
free_give       queue::models::models_free_list_hands_over                   # a slot comes back without an order
free_give       task::models_end::models_slot_is_used_again
free_look       task::models_stacks::models_stacks_overlook_no_slot           # who finds all stacks empty looks once
free_take       task::models_stacks::models_stacks_overlook_no_slot           # who leaves a stack empty does not tell what it gave before
flags_claim     narrow:queue::models::models_free_list_hands_no_slot_out_twice # on narrow words: a look and a store where one exchange belongs
flags_give      narrow:queue::models::models_free_list_hands_over            # ... a slot comes back without an order
flags_used      narrow:queue::models::models_free_list_grows_under_a_taker  # ... is looked for among those that were used before
flags_take      narrow:queue::models::models_free_list_hands_over            # ... is taken without one
state_load      task::models::models_wake_by_ref_against_poll                # a poll does not see what its wakers did
state_load      task::models::models_join_against_completion                 # ... a joiner the output
state_apply     task::models::models_wake_by_value_against_poll              # a transition publishes nothing
state_apply     task::models::models_handle_dropped_against_completion
pending_seen    task::models::models_wake_by_ref_against_poll                # wakes during a poll are taken for seen
wake_skip       task::models::models_wake_that_changes_nothing               # a wake that changes nothing is not published
join_early      task::models::models_join_against_completion                 # the waker bit comes before the waker
join_keep       task::models::models_join_against_completion                 # the waker goes, its bit stays
park_gap        scheduler::models::models_park_sees_what_came_before_unpark  # a look and a store where one exchange belongs
park_swap       scheduler::models::models_park_sees_what_came_before_unpark  # a plain store after the sleep
park_notify     scheduler::models::models_park_sees_what_came_before_unpark  # an unpark publishes nothing
spin_release    time::models::models_timer_fires_against_a_waiter            # the wheel'"'"'s lock publishes nothing
timer_fired     time::models::models_timer_fires_against_a_look              # a timer is given back before it is let go
watch_lost      scheduler::models_watch::models_watch_is_kept_or_handed_over          # a worker that watched turns to work, and wakes no other
timer_deaf      time::models::models_timer_fires_against_another_waker         # a timer goes on to wake whom it was to wake first
timer_tell      scheduler::models_whole::a_timer_from_outside_against_sleep  # a sleeper does not hear of a new timer
timer_orphan    scheduler::models_whole::a_worker_that_leaves_its_timers     # nobody hears of the timers of a worker that left
idle_recheck    scheduler::models_whole::one_worker_and_a_foreign_pusher     # who parks does not look again
idle_gap        scheduler::models_whole::two_workers_and_a_poll_that_pushes  # only searchers look again
idle_gap        scheduler::models::models_idle_a_stalled_poll_that_pushes
idle_fence      scheduler::models_whole::one_worker_and_a_foreign_pusher     # no store-load fence
idle_count      scheduler::models::models_idle_searchers_hand_over_what_they_moved   # a count-down publishes nothing
idle_early      scheduler::models::models_idle_claim_against_a_worker_that_wakes_by_itself # claims are counted too late
idle_retire     scheduler::models::models_idle_a_group_is_retired_while_one_comes_in # a group'"'"'s bit without Release
idle_hasty      scheduler::models_whole::a_worker_that_wakes_by_itself_retires_its_group # ... taken down, and nobody looks
idle_lapse      scheduler::models_whole::a_searcher_that_turns_to_its_mail_tells_a_sleeper # who sees work before its sleep is no searcher
gate_brief      scheduler::models_whole::a_refused_spawn_is_never_counted      # a refused spawn is counted for a moment
io_clear        io::models::models_edge_against_clear                        # an edge since the event is cleared with it
io_edge         io::models::models_edge_against_clear                        # a bit that is set already is no new edge
io_see          io::models::models_edge_against_clear                        # who sees the edge does not see what it tells of
io_publish      io::models::models_edge_against_clear                        # ... the edge publishes nothing
io_publish      io::models::models_set_against_ready
io_blind        io::models::models_set_against_poll_ready                    # who registers does not look again
io_blind        io::models::models_set_against_wait_ready
io_mark         io::models::models_set_against_poll_ready                    # who registers unlocks, and does not see the mark
io_mark         io::models::models_two_sets_and_a_registrant
io_again        io::models::models_two_sets_and_a_registrant                 # ... who delivers
io_rest         io::models::models_many_waiters_and_a_late_one               # a full batch, and the rest has no mark
io_lock         io::models::models_set_against_drop                          # the lock without Acquire
io_unlock       io::models::models_set_against_drop                          # ... its unlock without Release
io_delivered    io::models::models_set_against_drop                          # ... by who delivers
io_join         io::models::models_set_against_drop                          # ... taken by an edge without Acquire
'
rows() { sed -e 's/#.*//' -e '/^ *$/d' <<<"$table"; }

# The test program with this bug ("none": without), and this cfg. They go to this crate alone, so that what it depends on is
# built once.
build() {
    local wrapper="$dir/$1.sh"
    printf '#!/bin/sh\nexec "$@" --cfg '"'"'filch_mutant="%s"'"' --cfg %s\n" "$1" "$2" >"$wrapper"
    chmod +x "$wrapper"
    RUSTC_WORKSPACE_WRAPPER=$wrapper RUSTFLAGS="--cfg filch_loom" \
        cargo test -p filch --release --lib --no-run --target-dir "$dir" >"$dir/$1.log" 2>&1
    sed -n 's/^ *Executable .*(\(.*\))$/\1/p' "$dir/$1.log"
}

planted=$(grep -rhoE 'filch_mutant = "[a-z_]+"' core/src | sed 's/.*"\(.*\)"/\1/' | sort -u)
listed=$(rows | awk '{print $1}' | sort -u)
if [[ $planted != "$listed" ]]; then
    echo "planted and listed mutants differ:" >&2
    diff <(echo "$planted") <(echo "$listed") >&2
    exit 1
fi

chosen=("$@")
(($#)) || mapfile -t chosen <<<"$listed"
failures=0
declare -A passes sound
for width in filch_wide filch_narrow; do
    sound[$width]=$(build none "$width")
    [[ -n ${sound[$width]} ]] || { cat "$dir/none.log" >&2; exit 1; }
done
echo "mutant | caught by | seconds"
for mutant in "${chosen[@]}"; do
    mapfile -t models < <(rows | awk -v m="$mutant" '$1 == m {print $2}')
    ((${#models[@]})) || { echo "no such mutant: $mutant" >&2; exit 1; }
    width=filch_wide
    [[ ${models[0]} != narrow:* ]] || width=filch_narrow
    program=$(build "$mutant" "$width")
    if [[ -z $program ]]; then
        echo "$mutant | DOES NOT BUILD, see $dir/$mutant.log | -"
        failures=$((failures + 1))
        continue
    fi
    for model in "${models[@]#narrow:}"; do
        if [[ -z ${passes[$width $model]:-} ]]; then
            log=$(timeout "${LIMIT:-120}" "${sound[$width]}" --exact "$model" 2>&1)
            if (($?)) || ! grep -q '^test result: ok. 1 passed' <<<"$log"; then
                echo "- | $model FAILS WITHOUT A BUG, or is not there | -"
                failures=$((failures + 1))
                continue
            fi
            passes[$width $model]=yes
        fi
        start=$SECONDS
        log=$(timeout "${LIMIT:-120}" "$program" --exact "$model" 2>&1)
        code=$?
        verdict=$model
        if ((code == 124)); then
            verdict="NO VERDICT IN TIME by $model"
            failures=$((failures + 1))
        elif ((code == 0)); then
            verdict="SURVIVED $model"
            failures=$((failures + 1))
        elif ! grep -q panicked <<<"$log"; then
            verdict+=" (crashed)"
        fi
        echo "$mutant | $verdict | $((SECONDS - start))"
    done
done
echo "${#chosen[@]} mutants, $failures not caught"
exit $((failures > 0))
