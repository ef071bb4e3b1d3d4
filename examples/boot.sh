#!/usr/bin/env bash
# Builds a kernel with filch in it and boots it in QEMU, without a display.
#
#   examples/boot.sh riscv64 [FEATURE]...    four RISC-V harts, QEMU's virt board
#
# Features: `delay` lets time pass between the last check and the halt; `mutant` is a platform that loses wake-ups, and
# must fail. The last line is "N passed, N failed", and the exit status says the same. Installs what is missing (Debian).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET

install() {
    local missing=() p
    for p in "$@"; do
        [[ $(dpkg-query -W -f '${Status}' "$p" 2>/dev/null) == "install ok installed" ]] || missing+=("$p")
    done
    ((${#missing[@]})) || return 0
    local sudo=()
    ((EUID == 0)) || sudo=(sudo)
    "${sudo[@]}" apt-get update
    DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y --no-install-recommends "${missing[@]}"
}

kernel=${1:?which kernel? riscv64}
shift
features=$(IFS=,; echo "$*")
case $kernel in
riscv64)
    install rustc-web cargo-web rust-web-src rust-web-llvm lld-22 qemu-system-misc
    folder=kernel-riscv64 target=riscv64imac-unknown-none-elf
    qemu=(qemu-system-riscv64 -M virt -smp 4 -m 64M -bios none)
    ;;
*)
    echo "no such kernel: $kernel (have: riscv64)" >&2
    exit 2
    ;;
esac

out=$PWD/../target/kernels
(
    cd "$folder"
    RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc \
        /usr/bin/cargo build --quiet --release --features "$features" --target-dir "$out"
)
# A lost wake-up is a hang: the limit turns it into a failure.
status=0
timeout --foreground "${BOOT_LIMIT:-60}" "${qemu[@]}" -nographic -no-reboot \
    -kernel "$out/$target/release/$folder" </dev/null | tee "$out/$kernel.log" || status=${PIPESTATUS[0]}
verdict=$(tail -n 1 "$out/$kernel.log")
if ((status)); then
    echo "boot: $kernel ended with status $status" >&2
    exit "$status"
fi
[[ $verdict =~ ^[1-9][0-9]*\ passed,\ 0\ failed ]] || { echo "boot: no verdict" >&2; exit 1; }
