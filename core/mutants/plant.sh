# For scripts that source this, from the root of the repository: a copy of the working tree in which bugs are planted. They set
# `dir`, the folder that has it, under target.
tree=$dir/tree

# Makes the copy equal to the working tree, and takes a bug out that was left in it. A file that has not changed keeps its time,
# so that cargo builds no more than it must. The copy is this process's until it ends; another one waits.
copy_tree() {
    local lock file files=()
    mkdir -p "$tree"
    exec {lock}>"$dir/lock"
    flock "$lock" || return
    while IFS= read -r -d '' file; do
        [[ -f $file ]] || continue
        files+=("$file")
        cmp -s "$file" "$tree/$file" && continue
        mkdir -p "$(dirname "$tree/$file")" && cp "$file" "$tree/$file" || return
    done < <(git ls-files -z --cached --others --exclude-standard)
    comm -z -13 <(printf '%s\0' "${files[@]}" | sort -z) <(cd "$tree" && find . -type f -printf '%P\0' | sort -z) |
        (cd "$tree" && xargs -0 -r rm --)
}

# Plants this bug in the copy; fails unless the patch fits exactly. Git must not take the copy for a part of this repository.
plant() {
    GIT_CEILING_DIRECTORIES=$dir git -C "$tree" apply "${@:2}" "$PWD/core/mutants/$1.patch"
}

# Takes it out again.
unplant() {
    plant "$1" --reverse
}

# Whether this bug's patch applies to the working tree, and each of its hunks in one place alone.
applies() {
    local patch=core/mutants/$1.patch line text='' hunk='' left=0
    git apply --check "$patch" || return
    while IFS= read -r line; do
        if ((left)); then
            [[ $line == +* ]] || hunk+=$'\n'${line:1} left=$((left - 1))
            ((left)) || once "$text" "$hunk"$'\n' || { echo "$patch: a hunk fits in two places" >&2; return 1; }
        elif [[ $line == '--- a/'* ]]; then
            text=$'\n'$(<"${line#--- a/}")$'\n'
        elif [[ $line =~ ^@@\ -[0-9]+,([0-9]+)\  ]]; then
            left=${BASH_REMATCH[1]} hunk=
        fi
    done <"$patch"
}

# Whether the text $1 has $2 once.
once() {
    local rest=${1#*"$2"}
    [[ $rest != "$1" && $'\n'$rest != *"$2"* ]]
}
