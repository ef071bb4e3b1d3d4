#!/usr/bin/env python3
"""Weakens every memory ordering of the queues, the sleep protocol, the free lists and the state word, one at a time, and runs
the loom models that should see it.

    tests/orderings.py                  all
    tests/orderings.py ring park        these files
    tests/orderings.py --list           what would be done; fails if the argument for one that is gone is still there

A weakening that no model sees must be argued for in tests/orderings.md, by the name that is printed here; one that is not
there, or one there that is seen or gone, is a failure. `LIMIT` is the time for one set of models, in seconds.

All weakenings are built into one program, from a copy of the sources in target/orderings: there, each ordering is asked for
at run time, and an environment variable says which one is weak.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "orderings"
SOURCE = Path("core") / "src"
WHOLE = ["scheduler::models_whole"]
# Which models look at which file, in the order in which they are asked.
FILES = {
    "task/state.rs": ["task::models", *WHOLE],
    "memory/free_list.rs": ["memory::models"],
    "sleep/park.rs": ["sleep::models::models_park", "sleep::models::models_two", *WHOLE],
    "queue/ring.rs": ["queue::models_steal", "queue::models::models_ring", *WHOLE],
    "queue/injector.rs": ["queue::models::models_injector", *WHOLE],
    "lock.rs": ["queue::models::models_injector", "time::models", *WHOLE],
    "queue/deque.rs": ["queue::models_deque", "scheduler::models_jobs"],
    "queue/chain.rs": ["queue::models::models_stack", "queue::models::models_injector", *WHOLE],
    "sleep/idle.rs": ["sleep::models::models_idle", *WHOLE, "scheduler::models_jobs"],
}
WEAKER = {"SeqCst": ["AcqRel"], "AcqRel": ["Acquire", "Release"], "Acquire": ["Relaxed"], "Release": ["Relaxed"]}
HELPER = """
/// The ordering of a place, unless it is the one to weaken.
#[cfg(test)]
pub(crate) fn weaken(place: usize, ordering: Ordering) -> Ordering {
    static WEAK: std::sync::OnceLock<Option<(usize, Ordering)>> = std::sync::OnceLock::new();
    let weak = WEAK.get_or_init(|| {
        let weak = std::env::var("FILCH_WEAK").ok()?;
        let (place, ordering) = weak.split_once(' ')?;
        let ordering = match ordering {
            "AcqRel" => Ordering::AcqRel,
            "Acquire" => Ordering::Acquire,
            "Release" => Ordering::Release,
            _ => Ordering::Relaxed,
        };
        Some((place.parse().ok()?, ordering))
    });
    match weak {
        Some((weak, instead)) if *weak == place => *instead,
        _ => ordering,
    }
}
"""


def rewrite(name, text, first):
    """The source with every ordering asked for, and what there is: (number, name of the place, ordering)."""
    lines, places, function, counts = text.split("\n"), [], "", {}
    for i, line in enumerate(lines):
        if line.startswith("mod tests"):
            break
        if found := re.search(r"\bfn (\w+)", line):
            function = found[1]
        if line.lstrip().startswith(("//", "use ")):
            continue

        def ask(found):
            ordering = found[1]
            counts[function] = counts.get(function, 0) + 1
            number = first + len(places)
            places.append((number, f"{name} {function} {counts[function]}", ordering))
            return f"crate::atomic::weaken({number}, Ordering::{ordering})"

        changed = re.sub(r"\bOrdering::(SeqCst|AcqRel|Acquire|Release)\b", ask, line)
        if changed != line:
            changed = re.sub(r"\bconst (\w+): Ordering", r"#[allow(non_snake_case)] let \1: Ordering", changed)
        lines[i] = changed
    return "\n".join(lines), places


def build(files):
    """The program with the weakenings of these files; it, and the places."""
    tree = WORK / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    # What the core depends on, if only under another cfg, is there too.
    for folder in ["core", "tests/support", "tests/weakmem"]:
        shutil.copytree(ROOT / folder, tree / folder)
    shutil.copy(ROOT / "Cargo.lock", tree)
    manifest = (ROOT / "Cargo.toml").read_text()
    # The core alone, without what it denies.
    manifest = re.sub(r"^members = .*$", 'members = ["core"]', manifest, flags=re.M)
    (tree / "Cargo.toml").write_text(re.sub(r'"deny"', '"allow"', manifest))
    shutil.copy(ROOT / "README.md", tree)
    places = []
    for name in files:
        path = tree / SOURCE / name
        text, found = rewrite(name, path.read_text(), len(places))
        path.write_text(text)
        places += found
    with (tree / SOURCE / "atomic.rs").open("a") as atomic:
        atomic.write(HELPER)
    command = ["cargo", "test", "-p", "filch", "--release", "--lib", "--no-run"]
    env = {**os.environ, "RUSTFLAGS": "--cfg filch_loom", "CARGO_TARGET_DIR": str(WORK / "build")}
    built = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True)
    program = re.search(r"Executable .*\((.*)\)", built.stderr)
    if built.returncode or not program:
        sys.exit(built.stderr)
    return tree / program[1], places


def ask(program, filters, weak):
    """The first model that fails, or None; and what else came of it."""
    env = {"LOOM_MAX_PREEMPTIONS": "2", "LOOM_MAX_BRANCHES": "20000", **os.environ, "RUST_BACKTRACE": "0"}
    if weak:
        env["FILCH_WEAK"] = weak
    for models in filters:
        command = [program, models, "--test-threads", "2"]
        try:
            limit = float(os.environ.get("LIMIT", 300))
            run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return models, "no verdict in time"
        if run.returncode:
            failed = re.findall(r"^test (\S+) \.\.\. FAILED", run.stdout, flags=re.M)
            return (failed or [models])[0], "caught"
        if not re.search(r"^test result: ok\. [1-9]", run.stdout, flags=re.M):
            sys.exit(f"no model is named {models}")
    return None, "SURVIVED"


def argued():
    """The names of the weakenings that the list argues for."""
    text = (ROOT / "tests" / "orderings.md").read_text()
    return set(re.findall(r"^\| `([^`]+)` \|", text, flags=re.M))


def main():
    chosen = [a for a in sys.argv[1:] if a != "--list"]
    files = {f: m for f, m in FILES.items() if not chosen or Path(f).stem in chosen}
    if not files:
        sys.exit(f"no such file; there are: {' '.join(Path(f).stem for f in FILES)}")
    if "--list" in sys.argv:
        listed = set()
        for name in files:
            for _, place, ordering in rewrite(name, (ROOT / SOURCE / name).read_text(), 0)[1]:
                names = [f"{place} {ordering}->{w}" for w in WEAKER[ordering]]
                print(*names, sep="\n")
                listed.update(names)
        if not chosen and (gone := argued() - listed):
            sys.exit(f"argued for, and not there: {', '.join(sorted(gone))}")
        return
    program, places = build(files)
    known, failures, seen = argued(), 0, set()
    sound = dict.fromkeys(models for filters in files.values() for models in filters)
    model, verdict = ask(program, sound, None)
    if model:
        sys.exit(f"{model}: {verdict} without a weakening")
    print("| weakening | verdict | seconds |\n|---|---|---|")
    for number, place, ordering in places:
        for weak in WEAKER[ordering]:
            name, start = f"{place} {ordering}->{weak}", time.time()
            seen.add(name)
            model, verdict = ask(program, files[place.split()[0]], f"{number} {weak}")
            wanted = verdict == ("SURVIVED" if name in known else "caught")
            failures += not wanted
            verdict += f" by {model}" if model else " (argued)" if name in known else ""
            print(f"| {name} | {verdict}{'' if wanted else ' !'} | {time.time() - start:.0f} |", flush=True)
    if not chosen:
        for name in sorted(known - seen):
            print(f"{name}: argued for, and not there")
            failures += 1
    print(f"{len(seen)} weakenings, {failures} not as they should be")
    sys.exit(failures > 0)


main()
