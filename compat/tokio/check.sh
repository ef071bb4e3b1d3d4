#!/usr/bin/env bash
# tokio's own published tests on filch-tokio.
#
#   compat/tokio/check.sh            all of them, and whether exactly those fail that compat/tokio/expected.txt names
#   compat/tokio/check.sh WORD...    further words go to cargo nextest, such as a part of a test's name; nothing is compared
#
# The sources are the registry's, in the version of the workspace's lock file. They are copied under target/, into a workspace of
# their own, where `tokio` is filch-tokio. Files become modules of a few programs, as each program takes long to link.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
work=$root/target/tokio-check
export CARGO_TARGET_DIR=$work/target

tokio=$(cargo metadata --locked --format-version 1 |
    grep -o '"manifest_path":"[^"]*/registry/src/[^"]*/tokio-1[0-9.]*/Cargo.toml"' | head -n 1 |
    sed 's/.*:"//; s/\/Cargo.toml"$//')
[[ $tokio ]] || { echo "tokio is not among the workspace's packages" >&2; exit 1; }
echo "the tests of $(basename "$tokio")"

mkdir -p "$work/src" "$work/tests"
rm -rf "$work/upstream"
cp -r "$tokio/tests" "$work/upstream"
chmod -R u+w "$work/upstream"
cp "$root/compat/tokio/check/Cargo.toml" "$work/Cargo.toml"
cp "$root/compat/tokio/check/Cargo.lock" "$work/Cargo.lock" 2>/dev/null || true
: >"$work/src/lib.rs"
# A crate's root is not there in a module.
sed -i 's/crate::time::/tokio::time::/' "$work/upstream/task_blocking.rs"

# Those of other systems, and of what is unstable in tokio, are not compiled by their own words.
skip=$(sed -n 's/^file \([a-z0-9_]*\) .*/\1/p' "$root/compat/tokio/expected.txt")
rm -f "$work"/tests/*.rs
for path in "$work"/upstream/*.rs; do
    file=$(basename "$path" .rs)
    grep -qx "$file" <<<"$skip" && continue
    case $file in
        fs* | process* | signal*) group=system ;;
        io* | net* | tcp* | udp* | uds* | unix*) group=io ;;
        rt* | task* | time* | coop* | join* | test*) group=rt ;;
        *) group=rest ;;
    esac
    echo "#[path = \"../upstream/$file.rs\"] mod $file;" >>"$work/tests/$group.rs"
done
for group in system io rt rest; do
    sed -i '1i #![allow(warnings)]' "$work/tests/$group.rs"
    printf '\n[[test]]\nname = "%s"\npath = "tests/%s.rs"\n' "$group" "$group" >>"$work/Cargo.toml"
done

cd "$work"
# A hang ends a test, not all.
nextest=(cargo nextest run --config-file "$root/compat/tokio/check/nextest.toml")
if [[ $# -gt 0 ]]; then
    exec "${nextest[@]}" "$@"
fi
# The result is compared below.
timeout --kill-after=10 "${STAGE_LIMIT:-900}" "${nextest[@]}" --no-fail-fast >"$work/log" 2>&1 || true
grep -aE '^ *(Summary|Starting)' "$work/log" || { tail -n 50 "$work/log"; exit 1; }

# Exactly those fail that are named; those that are named as `may` depend on the machine.
failed=$(LC_ALL=C sed -nE 's/^ *(FAIL|TIMEOUT|SIG[A-Z]+|ABORT) +\[[^]]*\] +(\([^)]*\) +)?tokio-check::[a-z]+ ([a-z0-9_:]+).*/\3/p' "$work/log" | sort -u)
named=$(sed -n 's/^test \([a-z0-9_:]*\) .*/\1/p' "$root/compat/tokio/expected.txt" | sort -u)
may=$(sed -n 's/^may \([a-z0-9_:]*\) .*/\1/p' "$root/compat/tokio/expected.txt" | sort -u)
worse=$(comm -23 <(echo "$failed") <(printf '%s\n%s\n' "$named" "$may" | sort -u))
better=$(comm -13 <(echo "$failed") <(echo "$named"))
[[ -z $worse ]] || printf 'fails, and compat/tokio/expected.txt does not name it: %s\n' $worse
[[ -z $better ]] || printf 'passes, or is no test, and compat/tokio/expected.txt names it: %s\n' $better
[[ -z $worse && -z $better ]]
