#!/usr/bin/env bash
# Plants one bug at a time, in a copy of the working tree, and runs the loom models that must see it, one by one. Exits 0 only
# if each of them fails, and passes without the bug.
#
#   core/mutants.sh             all
#   core/mutants.sh MUTANT...   these
#   core/mutants.sh --check     builds nothing: every patch applies to this tree, and the table below names it and its models
#
# The bugs are patches, core/mutants/MUTANT.patch, which say what is wrong and which models see it. A model behind `narrow:` is
# built with cfg `filch_narrow`, one behind `classes:` with that feature, one behind `trace:` is of the crate filch-trace, one
# behind `platform:` of filch-linux-models; those behind `simulation`
# are for tests/simulate-mutants.sh. `LIMIT` is the time for one model, in seconds.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
dir=$PWD/target/mutants
source core/mutants/plant.sh

# mutant, then a model that must fail with it.
table='
boost_asleep      classes:scheduler::models_classes::models_classes_a_boost_against_a_wake
outside_early    scheduler::models_in_place::a_poll_outside_of_the_workers_spawns_against_the_end
outside_place    scheduler::models_in_place::a_poll_outside_of_the_workers_spawns_against_the_end
outside_spawn    scheduler::models_in_place::a_poll_outside_of_the_workers_spawns_against_the_end
outside_fence    scheduler::models_in_place::the_last_task_completes_outside_of_the_workers
outside_last     scheduler::models_in_place::the_last_task_completes_outside_of_the_workers
in_place_fence       scheduler::models_in_place::a_timer_for_a_worker_that_begins_to_block
in_place_told        scheduler::models_in_place::a_worker_that_blocks_with_a_timer_against_sleep
single_glance    scheduler::models_single::a_task_for_a_single_worker_that_goes_to_sleep
park_unarmed     scheduler::models_single::a_worker_that_is_driven_by_its_wake_callback
ring_publish     queue::models::models_ring_pushes_against_a_thief
ring_publish     scheduler::models_whole::two_workers_and_two_tasks_from_outside
ring_release     queue::models::models_ring_of_four_overflows_under_a_thief
ring_half        queue::models::models_ring_pushes_against_a_thief
ring_room        queue::models::models_ring_thief_with_tasks_of_its_own
stack_push       queue::models::models_stack_pushes_against_take_all
stack_push       queue::models::models_stack_inbox_pushes_against_its_worker
job_done         scheduler::models_jobs::a_stolen_job_against_its_owner
job_asleep       scheduler::models_jobs::a_stolen_job_against_its_owner
jobs_look        scheduler::models_jobs::jobs_become_public_against_sleep
jobs_notify      scheduler::models_jobs::jobs_become_public_against_sleep
jobs_open        scheduler::models_jobs::an_open_job_against_sleep
jobs_unask       scheduler::models_jobs::who_goes_to_sleep_has_asked
help_count       scheduler::models_jobs::who_sleeps_in_a_join_is_not_relied_on
attach_unseen    scheduler::models_whole::a_spare_worker_and_a_poll_that_pushes
help_first       scheduler::models_jobs::a_context_that_comes_takes_nobody_out_of_the_count
help_leave       scheduler::models_jobs::who_leaves_makes_room_for_a_worker
help_leave_fence scheduler::models_jobs::who_leaves_makes_room_for_a_worker
retire_count       scheduler::models_resize::a_pinned_task_against_a_worker_that_retires
retire_wake        scheduler::models_resize::a_pinned_task_against_a_worker_that_retires
retire_glance      scheduler::models_resize::a_worker_is_asked_back_as_it_leaves
retire_once        scheduler::models_resize::two_numbers_at_once
retire_order       scheduler::models_resize::two_numbers_at_once
retire_told        scheduler::models_resize::the_last_task_ends_elsewhere
retire_kept        scheduler::models_resize::a_worker_is_asked_back_for_a_task
retire_brief       scheduler::models_resize::a_task_comes_while_a_worker_may_stay
retire_call        scheduler::models_resize::a_start_that_comes_too_early
call_own         scheduler::models_whole::a_claim_that_comes_too_late_looks_into_every_ring
call_done        scheduler::models_broadcast::a_broadcast_against_a_sleeper
call_leave       scheduler::models_broadcast::a_broadcast_against_a_worker_that_leaves
deque_publish    queue::models_deque::models_deque_pushes_and_takes_against_a_thief
deque_publish    queue::models_deque::models_deque_private_part_against_a_thief
deque_open       queue::models_deque::models_deque_open_jobs_against_a_thief
deque_lower      queue::models_deque::models_deque_takes_against_a_thief
deque_take_fence queue::models_deque::models_deque_takes_against_a_thief
deque_take_fence queue::models_deque::models_deque_takes_from_the_middle_against_a_thief
deque_steal_fence queue::models_deque::models_deque_takes_against_a_thief
deque_still      queue::models_deque::models_deque_a_thief_takes_pieces_of_one_job
deque_last       queue::models_deque::models_deque_two_thieves_and_the_last_jobs
deque_last       queue::models_deque::models_deque_takes_the_oldest_first_against_a_thief
deque_middle     queue::models_deque::models_deque_takes_from_the_middle_against_a_thief
deque_restore    queue::models_deque::models_deque_takes_the_oldest_first_against_a_thief
deque_empty      queue::models_deque::models_deque_of_empty_slots_against_a_thief
deque_room       queue::models_deque::models_deque_of_two_is_full
deque_late       queue::models_deque::models_deque_of_two_is_full
free_tag         memory::models::models_free_list_hands_no_slot_out_twice
free_give        memory::models::models_free_list_hands_over
free_give        task::models_end::models_slot_is_used_again
free_look        memory::models_shards::models_shards_overlook_no_slot
free_take        memory::models_shards::models_shards_overlook_no_slot
flags_claim      narrow:memory::models::models_free_list_hands_no_slot_out_twice
flags_give       narrow:memory::models::models_free_list_hands_over
flags_used       narrow:memory::models::models_free_list_grows_under_a_taker
flags_take       narrow:memory::models::models_free_list_hands_over
state_load       task::models::models_wake_by_ref_against_poll
state_load       task::models::models_join_against_completion
state_apply      task::models::models_wake_by_value_against_poll
state_apply      task::models::models_handle_dropped_against_completion
pending_seen     task::models::models_wake_by_ref_against_poll
wake_skip        task::models::models_wake_that_changes_nothing
join_early       task::models::models_join_against_completion
join_keep        task::models::models_join_against_completion
keep_last        task::models_end::models_last_references_dropped_against_an_abort
keep_last        task::models_end::models_unreachable_task_is_kept
park_gap         sleep::models::models_park_sees_what_came_before_unpark
park_swap        sleep::models::models_park_sees_what_came_before_unpark
park_notify      sleep::models::models_park_sees_what_came_before_unpark
spin_release     time::models::models_timer_fires_against_a_waiter
spin_release     queue::models::models_injector_leaves_tasks_behind
timer_fired      time::models::models_timer_fires_against_a_look
watch_lost       scheduler::models_watch::models_watch_is_kept_or_handed_over
watch_search     scheduler::models_watch::models_watch_of_a_searcher_that_turns_to_work
listen_wake      scheduler::models_listen::models_each_sleeper_is_woken_where_it_sleeps
listen_begin     scheduler::models_listen::models_the_reactor_goes_from_one_worker_to_the_next
listen_end       scheduler::models_listen::models_the_reactor_goes_from_one_worker_to_the_next
listen_leave     scheduler::models_listen::models_a_listener_that_leaves_has_another_listen
listen_kept      simulation
duty_search      simulation
duty_watch       simulation
duty_heard       simulation
duty_notify      simulation
duty_unwatched   simulation
timer_unheard       time::models::models_timer_fires_against_another_waker
timer_tell       scheduler::models_whole::a_timer_from_outside_against_sleep
timer_orphan     scheduler::models_whole::a_worker_that_leaves_its_timers
idle_recheck     scheduler::models_whole::one_worker_and_a_foreign_pusher
idle_gap         scheduler::models_whole::two_workers_and_a_poll_that_pushes
idle_gap         sleep::models::models_idle_a_stalled_poll_that_pushes
idle_fence       scheduler::models_whole::one_worker_and_a_foreign_pusher
idle_count       sleep::models::models_idle_searchers_hand_over_what_they_moved
idle_early       sleep::models::models_idle_claim_against_a_worker_that_wakes_by_itself
idle_lapse       scheduler::models_whole::a_searcher_that_turns_to_its_mail_tells_a_sleeper
gate_brief       scheduler::models_whole::a_refused_spawn_is_never_counted
io_clear         io::models::models_edge_against_clear
io_edge          io::models::models_edge_against_clear
io_see           io::models::models_edge_against_clear
io_publish       io::models::models_edge_against_clear
io_publish       io::models::models_set_against_ready
io_blind         io::models::models_set_against_poll_ready
io_blind         io::models::models_set_against_wait_ready
io_mark          io::models::models_set_against_poll_ready
io_mark          io::models::models_two_sets_and_a_registrant
io_again         io::models::models_two_sets_and_a_registrant
io_rest          io::models::models_many_waiters_and_a_late_one
io_lock          io::models::models_set_against_drop
io_unlock        io::models::models_set_against_drop
io_delivered     io::models::models_set_against_drop
io_join          io::models::models_set_against_drop
spin_acquire     classes:queue::models_urgent::models_urgent_order_is_handed_over
urgent_waiting   classes:queue::models_urgent::models_urgent_is_empty_after_the_last
urgent_skip      simulation
urgent_order     simulation
affine_pass        simulation
share_half       simulation
share_never      simulation
share_rest       simulation
urgent_notify    classes:scheduler::models_classes::models_classes_a_sleeper_and_an_urgent_task
epoch_late       classes:scheduler::models_classes::models_classes_pressure_on_a_poll_that_begins
epoch_early      classes:scheduler::models_classes::models_classes_pressure_on_a_poll_that_begins
urgent_taking    classes:queue::models_urgent::models_urgent_is_not_empty_while_one_is_taken
affine_more        classes:scheduler::models_classes::models_classes_an_affine_task_against_a_look
affine_boost        classes:scheduler::models_classes::models_classes_a_boost_against_a_look_for_affine_tasks
affine_wake        classes:scheduler::models_classes::models_classes_two_workers_and_two_affine_tasks
affine_late        classes:scheduler::models_classes::models_classes_an_affine_task_against_a_look
affine_early       classes:scheduler::models_classes::models_classes_an_affine_task_against_a_look
jobs_mark        classes:scheduler::models_classes::models_classes_jobs_for_a_set_become_public_against_sleep
jobs_marked      classes:scheduler::models_classes::models_classes_jobs_for_a_set_become_public_against_sleep
lane_claim       trace:models::models_a_worker_against_a_reader
lane_lap         trace:models::models_a_worker_against_a_reader
lane_look        trace:models::models_a_worker_against_a_reader
lane_busy        trace:models::models_two_contexts_and_a_reader
name_ready       trace:models::models_names_are_whole
blocking_leave   platform:blocking::models_a_job_that_comes_as_the_last_thread_leaves
blocking_late    platform:blocking::models_a_job_that_comes_as_the_last_thread_leaves
blocking_rely    platform:blocking::models_a_job_that_relies_on_a_thread_that_is_not_started
blocking_sleeper platform:blocking::models_a_thread_for_each_job
blocking_end     platform:blocking::models_a_job_against_the_end
'
rows() { sed '/^ *$/d' <<<"$table"; }

# The test program of the copy as it is now, for `wide` or `narrow` words, with `classes`, of `trace` or of `platform`; its output goes to the log $2. The cfg goes to this
# crate alone, so that what it depends on is built once.
build() {
    local wrapper="$dir/$1.sh" crate=(-p filch)
    case $1 in classes) crate+=(--features classes) ;; trace) crate=(-p filch-trace) ;; platform) crate=(-p filch-linux-models) ;; esac
    printf '#!/bin/sh\nexec "$@" --cfg filch_%s\n' "$1" >"$wrapper"
    chmod +x "$wrapper"
    (
        cd "$tree" && RUSTC_WORKSPACE_WRAPPER=$wrapper RUSTFLAGS="--cfg filch_loom" \
            cargo test "${crate[@]}" --release --lib --no-run --target-dir "$dir/build"
    ) >"$2" 2>&1
    sed -n 's/^ *Executable .*(\(.*\))$/\1/p' "$2"
}

# Whether patches and table name the same mutants, and each patch its models; and whether these apply.
check() {
    local mutant listed planted good=0
    planted=$(printf '%s\n' core/mutants/*.patch | sed 's|.*/||; s|\.patch$||' | sort)
    listed=$(rows | awk '{print $1}' | sort -u)
    if [[ $planted != "$listed" ]]; then
        echo "patches (<) and table (>) differ:" >&2
        diff <(echo "$planted") <(echo "$listed") >&2
        return 1
    fi
    for mutant in "$@"; do
        if [[ $(sed -n 's/^Caught by: //p' "core/mutants/$mutant.patch") != "$(models_of "$mutant")" ]]; then
            echo "core/mutants/$mutant.patch: the table names other models" >&2
            good=1
        fi
        applies "$mutant" || { echo "core/mutants/$mutant.patch does not apply" >&2; good=1; }
    done
    return $good
}
models_of() { rows | awk -v m="$1" '$1 == m {print $2}'; }

only_check=
[[ ${1-} != --check ]] || { only_check=yes; shift; }
chosen=("$@")
(($#)) || mapfile -t chosen < <(rows | awk '$2 != "simulation" || only {print $1}' only="$only_check" | sort -u)
for mutant in "${chosen[@]}"; do
    [[ $(models_of "$mutant") ]] || { echo "no such mutant: $mutant" >&2; exit 1; }
done
check "${chosen[@]}" || exit
if [[ $only_check ]]; then
    echo "${#chosen[@]} patches apply"
    exit
fi

copy_tree || exit
failures=0
declare -A sound passes
for mutant in "${chosen[@]}"; do
    case $(models_of "$mutant") in
    narrow:*) sound[narrow]= ;;
    classes:*) sound[classes]= ;;
    trace:*) sound[trace]= ;;
    platform:*) sound[platform]= ;;
    *) sound[wide]= ;;
    esac
done
for width in "${!sound[@]}"; do
    program=$(build "$width" "$dir/$width.log")
    [[ $program ]] || { cat "$dir/$width.log" >&2; exit 1; }
    sound[$width]=$dir/$width
    cp "$program" "${sound[$width]}" || exit
done
echo "mutant | caught by | seconds"
for mutant in "${chosen[@]}"; do
    mapfile -t models < <(models_of "$mutant")
    width=wide
    case ${models[0]} in narrow:* | classes:* | trace:* | platform:*) width=${models[0]%%:*} ;; esac
    plant "$mutant" || exit
    program=$(build "$width" "$dir/$mutant.log")
    unplant "$mutant" || exit
    if [[ -z $program ]]; then
        echo "$mutant | DOES NOT BUILD, see $dir/$mutant.log | -"
        failures=$((failures + 1))
        continue
    fi
    for model in "${models[@]#"$width":}"; do
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
