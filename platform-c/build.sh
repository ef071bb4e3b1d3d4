#!/usr/bin/env bash
# Builds the static library for C programs: libfilch_c.a, and beside it filch.h.
#
#   platform-c/build.sh                          for this machine
#   platform-c/build.sh TARGET [OUT]             for TARGET (riscv64imac-unknown-none-elf), into the folder OUT
#
# It needs Rust with that target (`rustup target add TARGET`), or a Rust that has the sources of `core`: BUILD_STD=1 makes
# `core` too. Other variables of cargo's work as ever: RUSTFLAGS, CARGO, RUSTC, CARGO_TARGET_DIR.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cargo=${CARGO:-cargo}
target=${1:-$("${RUSTC:-rustc}" -vV | sed -n 's/^host: //p')}
out=$PWD/${2:-filch}
[[ ${2-} != /* ]] || out=$2
mkdir -p "$out"
cd "$here"
folder=${CARGO_TARGET_DIR:-$here/../target/c}
flags=()
[[ ! ${BUILD_STD-} ]] || flags+=(-Zbuild-std=core)
# A panic aborts, and the panic handler is this library's: see the profile in ../Cargo.toml.
"$cargo" rustc --quiet --locked -p filch-c --lib --crate-type staticlib --features panic-handler --profile library \
    --target "$target" --target-dir "$folder" "${flags[@]}"
cp "$folder/$target/library/libfilch_c.a" include/filch.h "$out/"
ls -l "$out/libfilch_c.a" "$out/filch.h"
