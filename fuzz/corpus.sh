#!/usr/bin/env bash
# The corpora, which are kept in one archive, corpus.tar.gz: TARGET/INPUT.
#
#   fuzz/corpus.sh unpack               puts them into corpus/, beside what is there
#   fuzz/corpus.sh add TARGET FILE...   takes these inputs in, under the names that the fuzzer would give them
#   fuzz/corpus.sh pack                 makes the archive of corpus/
set -euo pipefail
files=("$@")
for i in "${!files[@]}"; do
    ((i < 2)) || files[i]=$(realpath "${files[i]}")
done
source "$(dirname "${BASH_SOURCE[0]}")/tools.sh"

case ${1-} in
unpack)
    unpack corpus
    ;;
add)
    [[ " ${targets[*]} " == *" ${2-} "* ]] || { echo "a target is one of: ${targets[*]}" >&2; exit 2; }
    # Without what a fuzzer has left in corpus/.
    rm -rf target/pack
    unpack target/pack
    for file in "${files[@]:2}"; do
        cp "$file" "target/pack/$2/$(sha1sum <"$file" | cut -d ' ' -f 1)"
    done
    pack target/pack
    ;;
pack)
    pack corpus
    ;;
*)
    sed -n '2,/^set /{ /^#/s/^# \{0,1\}//p }' "${BASH_SOURCE[0]##*/}" >&2
    exit 2
    ;;
esac
