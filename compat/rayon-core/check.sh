#!/usr/bin/env bash
# rayon's own published tests, and those of the real rayon-core, on this rayon-core.
#
#   compat/rayon-core/check.sh           all of it
#   compat/rayon-core/check.sh tests     without rayon's doctests
#
# The sources are the registry's, in the versions of the workspace's lock file. They are copied under target/, into a
# workspace of their own: a patch in ours would also hide the real rayon from filch-linux's tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
work=$root/target/rayon-check
export CARGO_TARGET_DIR=$work/target
# A pool of one thread would hide much.
export RAYON_NUM_THREADS=${RAYON_NUM_THREADS:-4}

limit() {
    timeout --kill-after=10 "${STAGE_LIMIT:-600}" "$@"
}

# Where cargo has put a package of the registry.
source_of() {
    cargo metadata --locked --format-version 1 |
        grep -o '"manifest_path":"[^"]*/registry/src/[^"]*/'"$1"'-[0-9.]*/Cargo.toml"' | head -n 1 |
        sed 's/.*:"//; s/\/Cargo.toml"$//'
}

rayon=$(source_of rayon)
core=$(source_of rayon-core)
[[ $rayon && $core ]] || { echo "rayon is not among the workspace's packages" >&2; exit 1; }
echo "$(basename "$rayon") and the tests of $(basename "$core")"

rm -rf "$work/rayon" "$work/core-tests"
mkdir -p "$work/core-tests/src" "$work/core-tests/tests/unit"
cp -r "$rayon" "$work/rayon"
chmod -R u+w "$work/rayon"
rm -f "$work/rayon/Cargo.lock"
# Ours, without what is not needed, and with what only these tests need.
cp Cargo.lock "$work/Cargo.lock"

cat >"$work/Cargo.toml" <<EOF
[workspace]
resolver = "3"
members = ["rayon", "core-tests"]

[patch.crates-io]
rayon-core = { path = "$root/compat/rayon-core" }

# Some of rayon's tests compute for minutes without.
[profile.dev]
opt-level = 1
debug = false
EOF

cat >"$work/core-tests/Cargo.toml" <<EOF
[package]
name = "core-tests"
version = "0.0.0"
edition = "2021"

[dependencies]
rayon-core = "1"

[dev-dependencies]
crossbeam-utils = "0.8"
libc = "0.2"
rand = "0.9"
rand_xorshift = "0.4"
scoped-tls = "1"
EOF

# What must not compile stands in the documentation of modules.
cp -r "$core/src/compile_fail" "$work/core-tests/src/"
echo "mod compile_fail;" >"$work/core-tests/src/lib.rs"

# Tests through the public interface, as they are.
cp "$core"/tests/*.rs "$work/core-tests/tests/"
# Unit tests, in modules of the same names, with stand-ins for the two private functions that they call. Two look into
# rayon's registry, and are left out.
unit=$work/core-tests/tests/unit
for module in broadcast join scope spawn thread_pool; do
    cp "$core/src/$module/test.rs" "$unit/$module.rs"
done
cp "$core/src/test.rs" "$unit/all.rs"
chmod u+w "$unit"/*.rs
perl -0pi -e '
    for my $name (qw(workers_stop sleeper_stop)) {
        s/#\[test\]\n(?:#\[[^\n]*\n)*fn $name\(\).*?\n\}\n//s or die "no $name";
    }
' "$unit/thread_pool.rs"
{
    echo '#![allow(dead_code, unused_imports)]'
    echo 'pub use rayon_core::*;'
    for module in broadcast join scope spawn thread_pool all; do
        echo "mod $module { pub use rayon_core::*; use crate::unwind; #[path = \"$unit/$module.rs\"] mod test; }"
    done
    cat <<'EOF'
mod unwind {
    pub fn halt_unwinding<R>(f: impl FnOnce() -> R) -> std::thread::Result<R> {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(f))
    }
}
mod registry {
    pub fn in_worker<R: Send>(f: impl FnOnce(&(), bool) -> R + Send) -> R {
        rayon_core::scope(|_| f(&(), false))
    }
}
EOF
} >"$work/core-tests/tests/units.rs"

cd "$work"
limit cargo test -p core-tests
limit cargo test -p rayon --lib --tests
[[ ${1-} == tests ]] && exit
# From this edition on all doctests are one program, which takes a third of the time.
sed -i 's/^edition = .*/edition = "2024"/; s/^rust-version = .*/rust-version = "1.85"/' rayon/Cargo.toml
limit cargo test -p rayon --doc
