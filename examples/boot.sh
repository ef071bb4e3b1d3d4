#!/usr/bin/env bash
# Builds a kernel with filch in it and boots it in QEMU, without a display: the conformance suite, a demonstration, and
# a shell on the serial line.
#
#   examples/boot.sh KERNEL [FEATURE]...
#   examples/boot.sh KERNEL recorder [panic]
#                                       The shell prints what the flight recorder has, or a task panics, and the trace adds up
#   examples/boot.sh --lint KERNEL      Clippy, and no boot
#
#   riscv64      four harts of rv64imac, and one that is no worker, QEMU's virt board
#   riscv64-sbi  the same source in supervisor mode, under the firmware OpenSBI; the firmware sets the timers with `delay`, the
#                harts themselves (Sstc) without
#   hypervisor   the same source, on harts with the H extension: eight guests on four harts. No suite: its checks are of the guests
#   riscv32      the same source: as many harts of rv32imac
#   riscv32imc   the same source: one hart without compare-and-swap
#   x86_64       four cores of a PC, and one that is no worker
#   aarch64      four 64-bit Arm cores, QEMU's virt board; a fifth one starts them as workers
#   armv7a       the same source: as many 32-bit cores, ARMv7-A
#   thumbv7m     one Cortex-M3: Arm's mps2-an385
#   thumbv6m     one Cortex-M0 without compare-and-swap, 16 KiB of memory: micro:bit
#   c            a kernel in C on the machine of riscv64, with the checks that can be said in C and no shell
#   net          riscv64-sbi's board with a network card, as an HTTP server: no suite; kernel-net/check.sh is its client,
#                and prints requests a second and delays, with four harts and with one
#
# Features: `delay` lets time pass between the last check and the halt; `defaults` leaves the executor its default configuration,
# with the watchdog that could hide a lost wake-up; `lossy` (only net) is a card that loses packets; `hostile` runs all over a
# platform that is as unhelpful as the contract allows; `mutant` is a platform that loses wake-ups in the gap before the halt, `deaf` (where
# there are several cores) one that loses some from core to core: both must hang. `recorder` is a flight recorder; not on hypervisor, c
# and net. What the host's program says of its trace is printed, and in KERNEL-recorder.summary. The last line is "N passed, N failed",
# and the exit status says the same; another number of checks than this kernel has is a failure too, and 124 is a hang:
# after BOOT_LIMIT seconds. BOOT_QEMU has more of QEMU's options. What goes to the shell is in BOOT_INPUT; BOOT_INPUT=- is the terminal. Installs what is
# missing (Debian). Binary, log and the seconds that the machine ran are under target/kernels/, by kernel and features.
set -eEuo pipefail
trap 'echo "boot: ${kernel-}: status $? of line $LINENO: $BASH_COMMAND" >&2' ERR
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

lint=
if [[ ${1-} == --lint ]]; then
    lint=1
    shift
fi
kernel=${1:?which kernel? See the head of this file}
shift
# It is none of the kernel's: a command of its shell.
panic=
if [[ ,$(IFS=,; echo "$*") == *,recorder,panic ]]; then
    panic=panic
    set -- "${@:1:$#-1}"
fi
features=$(IFS=,; echo "$*")
shell=$'spawn 20\nsleep 5\nmetrics\nexit\n'
# How many tasks the shell spawns, so that all their records have room.
spawns=
if [[ ,$features, == *,recorder,* ]]; then
    spawns=5
    shell=$'spawn 5\ntrace\nexit\n'
    [[ ! $panic ]] || shell=$'panic\n'
fi
# QEMU's statuses, at a verdict without failures and at a panic.
success=0 panicked=101
# What else it has to say: regular expressions.
says=()
# How many checks there are to pass, and how many that a port has no hooks for.
checks=40 skips=4
# No network card: that of a board would need its ROM, which is in a package of its own.
machine=(-display none -monitor none -serial stdio -no-reboot -nic none)
case $kernel in
riscv64)
    package=qemu-system-misc folder=kernel-riscv64 target=riscv64imac-unknown-none-elf
    qemu=(qemu-system-riscv64 -M virt -smp 5 -m 64M -bios none "${machine[@]}")
    ;;
riscv64-sbi)
    package=qemu-system-misc folder=kernel-riscv64 target=riscv64imac-unknown-none-elf mode=sbi
    sstc=on says=("its timer is set by stimecmp")
    [[ ,$features, != *,delay,* ]] || sstc=off says=("its timer is set by SBI")
    # The firmware throws away what has been typed by then.
    shell=$'\n'$shell
    qemu=(qemu-system-riscv64 -M virt -cpu "rv64,sstc=$sstc" -smp 5 -m 64M -bios default "${machine[@]}")
    ;;
hypervisor)
    package=qemu-system-misc folder=kernel-riscv64 target=riscv64imac-unknown-none-elf mode=hypervisor image=guest
    checks=8 skips=0
    for guest in {0..5}; do
        says+=("^guest $guest: $((10 + guest)) ticks waiting" "^guest $guest: $((10 + 5 * guest)) ticks computing"
            "^guest $guest: halts" "^guest $guest has halted")
    done
    for guest in 4 5; do
        says+=("^guest $guest: its own page tables have held")
    done
    says+=("^guest 6 is killed: it wrote to 0x80000000, which is not its memory"
        "^guest 7 is killed: it has no handler for its exception 2")
    qemu=(qemu-system-riscv64 -M virt -cpu rv64,h=true -smp 4 -m 64M -bios default "${machine[@]}")
    ;;
riscv32)
    package=qemu-system-misc folder=kernel-riscv64 target=riscv32imac-unknown-none-elf
    qemu=(qemu-system-riscv32 -M virt -smp 5 -m 64M -bios none "${machine[@]}")
    ;;
riscv32imc)
    package=qemu-system-misc folder=kernel-riscv64 target=riscv32imc-unknown-none-elf
    checks=29 skips=7
    qemu=(qemu-system-riscv32 -M virt -cpu rv32,a=off -smp 1 -m 64M -bios none "${machine[@]}")
    ;;
x86_64)
    package=qemu-system-x86 folder=kernel-x86_64 target=x86_64-unknown-none
    qemu=(qemu-system-x86_64 -M q35 -smp 5 -m 64M -nodefaults "${machine[@]}"
        -device isa-debug-exit,iobase=0xf4,iosize=4)
    success=33 panicked=3 checks=40 skips=3
    ;;
net)
    package=qemu-system-misc folder=kernel-net target=riscv64imac-unknown-none-elf
    qemu=(qemu-system-riscv64 -M virt -cpu rv64,sstc=on -m 64M -bios default "${machine[@]}"
        -global virtio-mmio.force-legacy=false)
    ;;
aarch64)
    package=qemu-system-arm folder=kernel-aarch64 target=aarch64-unknown-none-softfloat
    checks=41 skips=3
    qemu=(qemu-system-aarch64 -M virt,gic-version=2 -cpu cortex-a72 -smp 5 -m 64M
        -semihosting-config enable=on,target=native "${machine[@]}")
    ;;
armv7a)
    package=qemu-system-arm folder=kernel-aarch64 target=armv7a-none-eabi
    checks=41 skips=3
    qemu=(qemu-system-arm -M virt,gic-version=2 -cpu cortex-a15 -smp 5 -m 64M
        -semihosting-config enable=on,target=native "${machine[@]}")
    ;;
thumbv7m)
    package=qemu-system-arm folder=cortex-m target=thumbv7m-none-eabi script=link.x
    panicked=1 checks=29 skips=7
    qemu=(qemu-system-arm -M mps2-an385 -semihosting-config enable=on,target=native "${machine[@]}")
    ;;
thumbv6m)
    package=qemu-system-arm folder=cortex-m target=thumbv6m-none-eabi script=link.x
    panicked=1 checks=29 skips=7
    qemu=(qemu-system-arm -M microbit -semihosting-config enable=on,target=native "${machine[@]}")
    ;;
c)
    package=qemu-system-misc folder=kernel-c target=riscv64imac-unknown-none-elf
    checks=44 skips=0
    qemu=(qemu-system-riscv64 -M virt -smp 5 -m 64M -bios none "${machine[@]}")
    ;;
*)
    echo "no such kernel: $kernel (have: riscv64 riscv64-sbi hypervisor riscv32 riscv32imc x86_64 aarch64 armv7a thumbv7m thumbv6m c net)" >&2
    exit 2
    ;;
esac
if [[ ,$features, == *,hostile,* ]]; then
    # It wakes up for no reason.
    checks=$((checks - 2)) skips=$((skips + 2))
fi

# A machine of one core runs by the count of its instructions: on a busy host, an interrupt that the planted bug loses would come
# at other moments than on an idle one.
if [[ ,$features, == *,mutant,* && $kernel =~ ^(thumbv[67]m|riscv32imc)$ ]]; then
    qemu+=(-icount shift=3)
fi

# What else the caller wants of QEMU.
read -ra more <<<"${BOOT_QEMU-}"
qemu+=("${more[@]}")

install rustc-web cargo-web rust-web-src rust-web-llvm lld-22
out=$PWD/../target/kernels
name=$kernel${features:+-${features//,/-}}${panic:+-$panic}
mkdir -p "$out"

# Debian's cargo, which finds its own Clippy and not rustup's.
kernel_cargo() (
    cd "$folder"
    # In place of what the configurations say, see cortex-m/.cargo/config.toml.
    [[ ! ${script-} ]] || export RUSTFLAGS="-Clink-arg=-T$script"
    local command=$1
    shift
    PATH=/usr/bin:$PATH RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc \
        /usr/bin/cargo "$command" --quiet --profile "${profile-release}" --features "$features,${mode-}" --target "$target" --target-dir "$out" "$@"
)

# The library by the script that C programs use, and the C code by clang.
build_c() {
    install clang-22
    local library=$out/filch-c feature defines=() sources=(kernel-c/*.c ../platform-c/checks/{contracts,misuse,tasks}.c)
    RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc CARGO=/usr/bin/cargo CARGO_TARGET_DIR=$out BUILD_STD=1 \
        ../platform-c/build.sh "$target" "$library" >/dev/null
    for feature in ${features//,/ }; do
        defines+=("-D${feature^^}")
    done
    local compile=(clang-22 --target=riscv64-unknown-elf -march=rv64imac -mabi=lp64 -mcmodel=medany -std=c11 -O2 -g
        -ffreestanding -ffunction-sections -Wall -Wextra -Werror -pedantic -I"$library" -I../platform-c/checks)
    local objects=$out/$name.objects source
    mkdir -p "$objects"
    for source in "${sources[@]}" kernel-c/boot.S; do
        "${compile[@]}" "${defines[@]}" -c "$source" -o "$objects/$(basename "$source").o"
    done
    ld.lld-22 --gc-sections -T kernel-c/link.ld "$objects"/*.o "$library/libfilch_c.a" -o "$out/$name"
}

# The kernel of docs/embedding.md, by its own commands, in an empty folder.
page_runs() (
    local page=$PWD/../docs/embedding.md
    rm -rf "$out/page"
    mkdir "$out/page"
    cd "$out/page"
    ln -s ../filch-c lib
    awk '
        /^<!-- file: / { name = $3 }
        /^<!-- run -->$/ { name = "run.sh" }
        /^```/ && name { if (open) { close(name); name = "" } open = !open; next }
        name && open { print > name }
    ' "$page"
    clang() { clang-22 "$@"; }
    ld.lld() { ld.lld-22 "$@"; }
    qemu-system-riscv64() { timeout 30 env qemu-system-riscv64 "$@"; }
    clang -std=c11 -Wall -Wextra -Werror -pedantic -fsyntax-only -Ilib loop.c
    set -x
    . ./run.sh >printed
    diff printed <(printf 'on\noff\non\noff\non\noff\ndone\n')
)

# What the kernel has in it: a program of its own, of which it takes the bytes in memory.
build_image() {
    [[ ${image-} ]] || return 0
    kernel_cargo rustc --bin "$image" -- -Clink-arg=--oformat=binary
    export GUEST=$out/$image-$kernel
    cmp --quiet "$out/$target/release/$image" "$GUEST" || cp "$out/$target/release/$image" "$GUEST"
}

if [[ $lint ]]; then
    build_image
    install rust-web-clippy
    lints=(-D warnings -D unsafe_op_in_unsafe_fn -D clippy::undocumented_unsafe_blocks -D clippy::std_instead_of_core)
    if [[ $kernel == c ]]; then
        # The panic handler is part of no other build; clang's warnings are errors in every build.
        folder=../platform-c profile=library
        kernel_cargo clippy -p filch-c --lib --features panic-handler -Zbuild-std=core -- "${lints[@]}"
        exit
    fi
    kernel_cargo clippy -- "${lints[@]}"
    # Not those that choose the kernel. Where there is one core, no wake can be lost on its way to another.
    features=delay,mutant
    if [[ $kernel == net ]]; then features+=,lossy; else features+=,hostile; fi
    [[ $folder == cortex-m ]] || features+=,deaf
    [[ $kernel == net ]] || features+=,recorder
    kernel_cargo clippy -- "${lints[@]}"
    exit
fi
install "$package"
# Another set of features is built to the same file, perhaps at the same time.
(
    flock 9
    if [[ $kernel == c ]]; then
        build_c
    else
        build_image
        kernel_cargo build --bin "kernel-${folder#kernel-}"
        # In one go: a machine may just load the last one.
        cp "$out/$target/release/kernel-${folder#kernel-}" "$out/$name.new"
        mv "$out/$name.new" "$out/$name"
    fi
) 9>"$out/lock"

if [[ $kernel == net ]]; then
    install curl
    began=$SECONDS
    kernel-net/check.sh "$out/$name" "$out/$name.log" "${qemu[@]}"
    echo "$((SECONDS - began))" >"$out/$name.seconds"
    exit
fi

# The log is one boot's: another of the same kernel waits.
exec {booting}>"$out/$name.booting"
flock "$booting"

# What is typed. The line stays open, as this very shell holds both ends of it.
log=$out/$name.log
if [[ ${BOOT_INPUT-} == - ]]; then
    exec {typed}<&0
else
    fifo=$(mktemp -u)
    mkfifo "$fifo"
    exec {typed}<>"$fifo"
    rm "$fifo"
    printf %s "${BOOT_INPUT-$shell}" >&"$typed"
fi

# The trace in the log, as the host's program tells it; and it adds up.
decode() {
    local host=(env RUSTC=/usr/bin/rustc /usr/bin/cargo run --quiet --release --target-dir "$out")
    "${host[@]}" -p filch-trace --features cli -- summary --serial "$log" | tee "$out/$name.summary"
    if [[ $panic ]]; then
        "${host[@]}" -p filch-kernel --example recorded -- panic "$log"
    else
        "${host[@]}" -p filch-kernel --example recorded -- shell "$log" "$spawns"
    fi
}

# A lost wake-up is a hang: the limit turns it into a failure.
status=0
began=$SECONDS
timeout --foreground "${BOOT_LIMIT:-200}" "${qemu[@]}" -kernel "$out/$name" \
    <&"$typed" | tee "$log" || status=${PIPESTATUS[0]}
verdict=$(tail -n 1 "$log")
if [[ $panic ]]; then
    ((status == panicked)) || { echo "boot: $kernel ended with status $status, not with that of a panic" >&2; exit 1; }
    decode
    exit
fi
if ((status != success)); then
    echo "boot: $kernel ended with status $status" >&2
    exit $((status ? status : 1))
fi
[[ $verdict =~ ^([1-9][0-9]*)\ passed,\ 0\ failed ]] || { echo "boot: no verdict" >&2; exit 1; }
passed=${BASH_REMATCH[1]} skipped=$(grep -c '^skip ' "$log" || true)
if ((passed != checks || skipped != skips)); then
    echo "boot: $passed checks passed and $skipped skipped; $kernel has $checks and $skips" >&2
    exit 1
fi
for line in "${says[@]}"; do
    grep -q "$line" "$log" || { echo "boot: $kernel did not say: $line" >&2; exit 1; }
done
echo "$((SECONDS - began))" >"$out/$name.seconds"
if [[ $spawns ]]; then
    decode
fi
if [[ $name == c ]]; then
    page_runs
fi
