#!/usr/bin/env bash
# One tokio for a whole program: patch/ in the place of tokio, as a user has it.
#
#   compat/tokio/patch/check.sh             `path` and `graph`
#   compat/tokio/patch/check.sh path        the program, with patch/ by its path, and tests of what is kept of the real tokio
#   compat/tokio/patch/check.sh graph       what is in its graph with the repository by its address, as a user writes it
#   compat/tokio/patch/check.sh git         the same, and the program is built and runs
#   compat/tokio/patch/check.sh features    patch/ and filch-tokio with each of their features alone
#   compat/tokio/patch/check.sh lock        writes check/Cargo.lock, with the newest versions
#
# The program in check/ is copied to a folder outside of any workspace. There is no network but the registry: repositories are made of what cargo
# has fetched, and of this tree, and git itself has them in the place of the real addresses. Cargo keeps what it has of them apart from the user's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
root=$PWD
patch=$root/compat/tokio/patch
export CARGO_TARGET_DIR=$root/target/tokio-patch
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$*" >&2
    exit 1
}

# Where cargo has put a package of the registry, in the version of the workspace's lock file.
source_of() {
    cargo metadata --locked --format-version 1 |
        grep -o '"manifest_path":"[^"]*/registry/src/[^"]*/'"$1"'-[0-9.]*/Cargo.toml"' | head -n 1 |
        sed 's/.*:"//; s/\/Cargo.toml"$//'
}

# A repository of what lies in folder $1, with tag $2. Always the same commits.
commit() {
    export GIT_AUTHOR_DATE="2026-01-01T00:00:00Z" GIT_COMMITTER_DATE="2026-01-01T00:00:00Z"
    local git=(git -C "$1" -c user.name=check -c user.email=check@localhost -c commit.gpgsign=false)
    "${git[@]}" init --quiet --initial-branch=main
    "${git[@]}" add --all --force
    "${git[@]}" commit --quiet --message="as it is"
    "${git[@]}" tag "$2"
}

# tokio's repository: a workspace, with the package in a folder.
real=$(source_of tokio)
version=${real##*-}
[[ $version ]] || fail "tokio is not among the workspace's packages"
grep -q "^version = \"$version\"" "$patch/Cargo.toml" || fail "the version of patch/ is not that of the real tokio, $version"
grep -q "tag = \"tokio-$version\"" "$patch/Cargo.toml" || fail "the tag in patch/ is not that of the real tokio, $version"
mkdir -p "$work/tokio"
cp -r "$real" "$work/tokio/tokio"
chmod -R u+w "$work/tokio"
(
    cd "$work/tokio/tokio"
    rm -rf Cargo.lock tests .cargo*
    mv Cargo.toml.orig Cargo.toml
)
printf '[workspace]\nresolver = "2"\nmembers = ["tokio"]\n[workspace.lints.rust]\n' >"$work/tokio/Cargo.toml"
commit "$work/tokio" "tokio-$version"

# This repository, as it is now.
mkdir "$work/filch"
GIT_INDEX_FILE=$work/index git add --all
git archive "$(GIT_INDEX_FILE=$work/index git write-tree)" | tar --extract --directory "$work/filch"
commit "$work/filch" now

# git's own configuration leads to them.
export GIT_CONFIG_COUNT=2
export GIT_CONFIG_KEY_0="url.file://$work/tokio.insteadOf" GIT_CONFIG_VALUE_0="https://github.com/tokio-rs/tokio"
export GIT_CONFIG_KEY_1="url.file://$work/filch.insteadOf" GIT_CONFIG_VALUE_1="https://github.com/filch-rs/filch"
export CARGO_NET_GIT_FETCH_WITH_CLI=true
home=${CARGO_HOME:-$HOME/.cargo}
mkdir -p "$work/home" "$home/registry"
for shared in registry .package-cache config.toml; do
    [[ ! -e $home/$shared ]] || ln -s "$home/$shared" "$work/home/$shared"
done
export CARGO_HOME=$work/home
export CARGO_INCREMENTAL=0

# The packages of a lock file that are the registry's.
locked() {
    awk '/^name = / { name = $3 } /^version = / { version = $3 } /^source = "registry/ { print name, version }' "$1" | sort
}

# The program in a folder of its own, `tokio` by $2 and filch's other packages by $3.
lay() {
    cp -r "$patch/check" "$work/$1"
    cd "$work/$1"
    sed -i "s|^\[dependencies\]|&\nfilch-linux = { $3 }|; s|^\[dev-dependencies\]|&\nfilch-test-support = { $4 }|" Cargo.toml
    printf '\n[patch.crates-io]\ntokio = { %s }\n' "$2" >>Cargo.toml
    # What is written for filch-tokio, of which this is another package.
    mkdir tests
    sed 's/\bfilch_tokio\b/tokio/' "$root/compat/tokio/tests/parts.rs" >tests/parts.rs
}

# What is in the program's graph. The patched package is from $1.
graph() {
    local tree
    tree=$(cargo tree --quiet --prefix none --format '{p}' | sed 's/ (\*)$//; s/ (proc-macro)//' | sort -u | grep '^tokio v') || true
    echo "$tree"
    grep -q "^tokio v$version (.*$1" <<<"$tree" || fail "the tokio of the program is not the patched one"
    ! grep -q "^tokio v$version$" <<<"$tree" || fail "the real tokio of the registry is in the program"
    (($(wc -l <<<"$tree") == 2)) || fail "there should be the patched tokio, and the one from its repository"
    # Versions are pinned, or another crate's release would be a failure of this check.
    diff <(locked "$patch/check/Cargo.lock") <(locked Cargo.lock) ||
        fail "check/Cargo.lock does not fit: compat/tokio/patch/check.sh lock"
}

run_program() {
    cargo build --quiet
    timeout --kill-after=10 "${STAGE_LIMIT:-120}" "$CARGO_TARGET_DIR/debug/one-tokio"
}

lay_by_path() {
    lay "$1" "path = \"$patch\"" "path = \"$root/platform-linux\"" "path = \"$root/tests/support\""
}

check_path() {
    lay_by_path path
    graph "$patch"
    run_program
    timeout --kill-after=10 "${STAGE_LIMIT:-300}" cargo test --quiet --test parts
}

check_graph() {
    local from='git = "https://github.com/filch-rs/filch"'
    lay git "$from" "$from" "$from"
    graph "https://github.com/filch-rs/filch#"
}

check_git() {
    check_graph
    run_program
}

# Not what is made here, or has the commit of a repository that is made here.
check_lock() {
    rm -f "$patch/check/Cargo.lock"
    lay_by_path lock
    cargo generate-lockfile --quiet
    awk 'BEGIN { RS = ""; ORS = "\n\n" } !/name = "(tokio|filch[a-z-]*)"\n/' Cargo.lock >"$patch/check/Cargo.lock"
}

# The features of a manifest, in one line each; those of tokio's that have no effect aside, and what the manifests say of `companion`.
features() {
    awk '/^\[features\]$/ { on = 1; next } /^\[/ { on = 0 } on && !/^#/' "$1" | tr -d '\n' | sed 's/\]/]\n/g' | tr -d ' ' |
        sed 's/^time=.*/time=["_runtime"]/' | grep -v '^default=\|^companion=\|=\[\]$'
}

# Each feature alone, in both packages: no module is there by the grace of another.
check_features() {
    local feature
    diff <(features "$patch/Cargo.toml") <(features "$root/compat/tokio/Cargo.toml") || fail "the two packages differ in their features"
    mkdir -p "$work/features/src"
    cd "$work/features"
    : >src/lib.rs
    printf '[package]\nname = "features"\nedition = "2024"\n[dependencies]\ntokio = "1"\n' >Cargo.toml
    printf '[patch.crates-io]\ntokio = { path = "%s" }\n[features]\n' "$patch" >>Cargo.toml
    for feature in $(features "$patch/Cargo.toml" | sed 's/=.*//' | grep -v '^_'); do
        echo "$feature = [\"tokio/$feature\"]" >>Cargo.toml
    done
    cp "$patch/check/Cargo.lock" .
    for feature in $(sed '1,/^\[features\]/d; s/ =.*//' Cargo.toml) full,test-util; do
        echo "$feature"
        cargo check --quiet --features "$feature"
        cargo check --quiet --manifest-path "$root/Cargo.toml" -p filch-tokio --no-default-features --features "$feature"
    done
}

(($#)) || set -- path graph
for part in "$@"; do
    echo "--- $part"
    (set -e; "check_$part")
done
