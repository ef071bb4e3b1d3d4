#!/usr/bin/env bash
# The C interface on this machine: the header compiles as C and as C++ without a warning, and the checks in checks/ pass on
# threads. A limit of time turns a lost wake-up into a failure.
#
#   platform-c/check.sh [asan]   library and C code under AddressSanitizer, C code under UndefinedBehaviorSanitizer too
#   platform-c/check.sh tsan     library and C code under ThreadSanitizer
#   platform-c/check.sh plain    the library as it is shipped, C code under UndefinedBehaviorSanitizer
#
# It needs clang-22 and libclang-rt-22-dev, and rustup's nightly for the first two.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET CARGO_TARGET_DIR
mode=${1:-asan}
out=$PWD/../target/c/$mode
host=$(rustc -vV | sed -n 's/^host: //p')
warnings=(-Wall -Wextra -Werror -pedantic)
for language in "c -std=c11" "c -std=c23" "c++ -std=c++11" "c++ -std=c++20"; do
    # shellcheck disable=SC2086
    clang-22 -x $language "${warnings[@]}" -ffreestanding -fsyntax-only include/filch.h
done

defines=()
case $mode in
asan)
    sanitize=address,undefined
    export RUSTUP_TOOLCHAIN=nightly RUSTFLAGS="-Zsanitizer=address"
    ;;
tsan)
    sanitize=thread defines=(-DNO_ALARM)
    # `core` itself is not instrumented: what of it matters here is inlined. Fences are not modelled, see .ci/run.
    export RUSTUP_TOOLCHAIN=nightly
    export RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg filch_tsan"
    ;;
plain) sanitize=undefined ;;
*)
    echo "no such mode: $mode (have: asan tsan plain)" >&2
    exit 2
    ;;
esac
./build.sh "$host" "$out" >/dev/null
clang-22 -std=c11 "${warnings[@]}" "${defines[@]}" -g -O1 -fsanitize=$sanitize -fno-sanitize-recover=all -I"$out" \
    checks/contracts.c checks/misuse.c checks/tasks.c checks/host.c "$out/libfilch_c.a" -pthread -o "$out/checks"
timeout --kill-after=10 "${CHECK_LIMIT:-120}" "$out/checks" | tee "$out/checks.log"
[[ $(tail -n 1 "$out/checks.log") =~ ^[1-9][0-9]*\ passed,\ 0\ failed$ ]]
