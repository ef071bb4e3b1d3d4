#!/usr/bin/env bash
# The C interface on this machine: the header compiles as C and as C++ without a warning, and the checks in checks/ pass on
# threads, with the library and the C code under AddressSanitizer and UndefinedBehaviorSanitizer.
#
#   platform-c/check.sh          as above: needs clang-22, libclang-rt-22-dev, and rustup's nightly
#   platform-c/check.sh plain    the library as it is shipped; C code under UndefinedBehaviorSanitizer
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
mode=${1:-asan}
out=$PWD/../target/c/$mode
host=$(rustc -vV | sed -n 's/^host: //p')
warnings=(-Wall -Wextra -Werror -pedantic)
for language in "c -std=c11" "c -std=c23" "c++ -std=c++11" "c++ -std=c++20"; do
    # shellcheck disable=SC2086
    clang-22 -x $language "${warnings[@]}" -ffreestanding -fsyntax-only include/filch.h -Wno-pragma-once-outside-header
done

sanitize=undefined
if [[ $mode == asan ]]; then
    sanitize=address,undefined
    RUSTFLAGS="-Zsanitizer=address" CARGO="cargo" RUSTUP_TOOLCHAIN=nightly ./build.sh "$host" "$out" >/dev/null
else
    ./build.sh "$host" "$out" >/dev/null
fi
clang-22 -std=c11 "${warnings[@]}" -g -O1 -fsanitize=$sanitize -fno-sanitize-recover=all -I"$out" \
    checks/contracts.c checks/misuse.c checks/tasks.c checks/host.c "$out/libfilch_c.a" -pthread -o "$out/checks"
# A lost wake-up is a hang.
timeout --kill-after=10 "${CHECK_LIMIT:-120}" "$out/checks" | tee "$out/checks.log"
[[ $(tail -n 1 "$out/checks.log") =~ ^[1-9][0-9]*\ passed,\ 0\ failed$ ]]
