#!/usr/bin/env bash
# All files of a fresh clone are of now, and cargo, which goes by their times, would build all of it anew. Gives those
# that are as they were when this was called last, for the same directory and build directory, the times of then.
#
#   keep-times.sh            before a build in a fresh clone
#
# CARGO_TARGET_DIR   keeps the times, too: where the build is gone they are
# needs: awk git
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-${WEIR_CACHE:-$HOME/.cache/weir}/target}
kept=$target/times-$(pwd | git hash-object --stdin)
mkdir -p "$target"
touch "$kept"
ls=(git -c core.quotePath=false ls-files)
# A line for each file that is as the index has it: what it holds, its time, its name.
now() {
    awk -F '\t' '
        FILENAME == ARGV[1] { changed[$1]; next }
        FILENAME == ARGV[2] { at[$2] = $1; next }
        !/^120000/ && !($2 in changed) && ($2 in at) { split($1, of, " "); print of[2] "\t" at[$2] "\t" $2 }' \
        <("${ls[@]}" --modified --deleted) <("${ls[@]}" | xargs -d '\n' stat --printf '%.9Y\t%n\n' 2>/dev/null) <("${ls[@]}" --stage)
}
now >"$kept.new"
awk -F '\t' 'NR == FNR { was[$3] = $1; at[$3] = $2; next } was[$3] == $1 && at[$3] != $2 { print at[$3] "\t" $3 }' "$kept" "$kept.new" |
    while IFS=$'\t' read -r at name; do touch -d "@$at" "$name"; done
now >"$kept.new"
mv "$kept.new" "$kept"
