#!/usr/bin/env bash
# Builds the tests that are written in Rust and runs their programs side by side: most of them wait
# more than they compute.
#
#   tests/unit.sh --workspace …    options for `cargo test`
#
# WEIR_UNIT_JOBS programs run at once, three for each processor by default; those that took longest the last time
# (unit-times in WEIR_CACHE) come first. Ends non-zero on failures, with what they said.
# WEIR_TEST_TRIES=2 runs up to six failed programs once more, each alone, as tests/run.sh does with cases.
# needs: cargo jq setpriv openssl /usr/lib/postgresql/15/bin/postgres
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${WEIR_UNIT_JOBS:-$(($(nproc) * 3))}
# Tests of one program at once: the longest wait for clocks of nodes.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) * 2))}
root=$(mktemp -d "${TMPDIR:-/tmp}/weir-unit.XXXX")

# Their paths, packages' directories and names.
cargo test "$@" --no-run --message-format=json-render-diagnostics |
    jq -r 'select(.profile.test? and .executable) | [.executable,
        (.manifest_path | rtrimstr("/Cargo.toml")), .target.name] | @tsv' >"$root/built"
# One that is new may be long.
times=${WEIR_CACHE:-$HOME/.cache/weir}/unit-times
mkdir -p "${times%/*}" && touch "$times" "$root/times"
awk -F '\t' 'NR == FNR { took[$1] = $2; next } { of = $2; sub(/.*\//, "", of); of = of " " $3
    print ((of in took) ? took[of] : 1000) "\t" $0 }' <(cat "$times"; echo) "$root/built" | sort -srn | cut -f2- >"$root/programs"

# Runs one as cargo does, in its package's directory, and says how it ended.
run_program() { # PROGRAM DIRECTORY NAME
    local log=$root/${1##*/} began=$EPOCHREALTIME status=0 took passed
    (cd "$2" && exec "$1") >"$log" 2>&1 </dev/null || status=$?
    took=$(((${EPOCHREALTIME/./} - ${began/./}) / 100000))
    passed=$(sed -n 's/^test result: .* \([0-9]* passed\);.*/\1/p' "$log")
    if [ $status = 0 ]; then
        printf '%s %s\t%d\n' "${2##*/}" "$3" $took >>"$root/times"
        printf 'ok   %6d.%d s  %s %s, %s\n' $((took / 10)) $((took % 10)) "${2##*/}" "$3" "$passed"
    else
        { # in one write, so that two do not mix
            printf 'FAIL %6d.%d s  %s %s (exit %d)\n' $((took / 10)) $((took % 10)) "${2##*/}" "$3" $status
            sed 's/^/    | /' "$log"
        } >"$log.shown"
        cat "$log.shown"
        printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$root/failed"
    fi
}

while IFS=$'\t' read -r program directory name; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
    run_program "$program" "$directory" "$name" &
done <"$root/programs"
wait
awk -F '\t' '{ took[$1] = $2 } END { for (of in took) print of "\t" took[of] }' "$times" "$root/times" >"$times.new"
mv "$times.new" "$times"
count=$(wc -l <"$root/programs")
if [ "${WEIR_TEST_TRIES:-1}" = 2 ] && [ -s "$root/failed" ] && [ "$(wc -l <"$root/failed")" -le 6 ]; then
    mv "$root/failed" "$root/first"
    while IFS=$'\t' read -r program directory name; do
        run_program "$program" "$directory" "$name"
        grep -qsF "$program" "$root/failed" || echo "only the second time: ${directory##*/} $name; why is worth knowing"
    done <"$root/first"
fi
if [ -s "$root/failed" ]; then
    echo "$(wc -l <"$root/failed") of $count test programs failed; logs in $root"
    exit 1
fi
awk -F '\t' -v all="$count" -v took=$SECONDS '{ sum += $2 / 10 }
    END { printf "%d test programs passed: %d s, %d s with what was to be built\n", all, sum, took }' "$root/times"
rm -rf "$root"
