#!/usr/bin/env python3
"""Runs every loom model of the core, alone, and writes tests/models.md: how many schedules each has, how long it takes, and
which planted bugs of core/mutants.sh it has to catch. Five minutes or so.
"""

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# By the beginnings of their names, in the order of the table.
PROTOCOLS = {
    "queue::models::models_ring": "ring",
    "queue::models_steal": "ring",
    "queue::models::models_stack": "stack of the injector and the inboxes",
    "queue::models::models_injector": "injector",
    "memory::models::models_free": "free list of a pool",
    "memory::models_shards": "free slots of a heap, by worker",
    "queue::models_urgent": "queue of urgent tasks",
    "queue::models_deque": "deque of jobs",
    "task::models_end": "a task's end and its memory",
    "task::models": "task word, wakers, handles",
    "sleep::models::models_park": "park word",
    "sleep::models::models_two": "park word",
    "sleep::models::models_idle": "idle: bitmap and searchers",
    "scheduler::models_watch": "the watch",
    "scheduler::models_listen": "the listener",
    "scheduler::models_jobs": "jobs: sleep, wait, help",
    "scheduler::models_broadcast": "broadcast",
    "scheduler::models_classes": "classes, boosts, affinities",
    "scheduler::models_in_place": "code that blocks in place",
    "scheduler::models_resize": "workers that retire",
    "scheduler::models_single": "a worker alone",
    "scheduler::models_whole": "the whole scheduler",
    "time::": "timers",
    "io::": "readiness cell",
}


# What is run: with these features of the core, the models with these in their names.
RUNS = [([], ["models"]), (["classes"], ["models_classes", "models_urgent"])]


def build(features):
    """The program with the models."""
    command = ["cargo", "test", "-p", "filch", "--release", "--lib", "--no-run", "--target-dir", "target/loom"]
    command += [f"--features={','.join(features)}"]
    env = {**os.environ, "RUSTFLAGS": "--cfg filch_loom"}
    built = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    program = re.search(r"Executable .*\((.*)\)", built.stderr)
    if built.returncode or not program:
        sys.exit(built.stderr)
    return ROOT / program[1]


def planted():
    """For each model of the core, the bugs that core/mutants.sh says it catches; not those of narrow words, nor of other crates,
    whose models are not run here."""
    table = re.search(r"^table='\n(.*?)^'$", (ROOT / "core/mutants.sh").read_text(), flags=re.M | re.S)
    bugs = defaultdict(list)
    for row in table[1].splitlines():
        mutant, model = row.split()
        if not model.startswith(("narrow:", "platform:", "trace:")) and model != "simulation":
            bugs[model.removeprefix("classes:")].append(f"`{mutant}`")
    return bugs


def main():
    env = {**os.environ, "LOOM_MAX_PREEMPTIONS": "2", "RUST_BACKTRACE": "0"}
    found = []
    for features, names in RUNS:
        run = [build(features), *names, "--nocapture", "--test-threads", "1"]
        done = subprocess.run(run, env=env, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        said = done.stderr + done.stdout
        found += re.findall(r"(\S+): (\d+) schedules, (\d+) preemptions, (\S+) s$", said, flags=re.M)
    models = defaultdict(lambda: [0, 0, 0.0])
    for name, schedules, bound, seconds in found:
        model = models[name]
        model[:] = [model[0] + int(schedules), max(model[1], int(bound)), model[2] + float(seconds)]
    bugs = planted()
    if missing := set(bugs) - set(models):
        sys.exit(f"planted bugs name models that have not run: {' '.join(sorted(missing))}")
    order = list(PROTOCOLS)

    def protocol(name):
        return next((at for at, begin in enumerate(order) if name.startswith(begin)), len(order))

    lines = [
        "# The models of the core, one by one",
        "",
        "Written by `tests/models.py`. Schedules are those that loom looked at, with at most so many preemptions, on a machine",
        "with two cores; what a model has to catch is in `core/mutants.sh`, which plants it.",
        "",
        "| protocol | model | preemptions | schedules | seconds | planted bugs that it catches |",
        "|---|---|---|---|---|---|",
    ]
    for name in sorted(models, key=lambda name: (protocol(name), name)):
        schedules, bound, seconds = models[name]
        at = protocol(name)
        what = PROTOCOLS[order[at]] if at < len(order) else ""
        caught = ", ".join(dict.fromkeys(bugs[name])) if name in bugs else ""
        lines.append(f"| {what} | `{name}` | {bound} | {schedules:,} | {seconds:.1f} | {caught} |")
    total = [sum(model[i] for model in models.values()) for i in (0, 2)]
    lines += ["", f"{len(models)} models, {total[0]:,} schedules, {total[1]:.0f} s."]
    (ROOT / "tests/models.md").write_text("\n".join(lines) + "\n")


main()
