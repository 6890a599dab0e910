#!/usr/bin/env bash
# Runs the end-to-end cases, each in its own process with a time limit.
#
#   tests/run.sh                  all of tests/cases/*.sh
#   tests/run.sh posix model      these
#   tests/run.sh --soak [case…]   longer runs where a case offers them
#
# WEIR      the binary, built with `--features failpoints`
# WEIR_SEED makes random cases repeat a run; they print their seed
#
# A case may say `# time-limit: SECONDS` in its head; else it has 300. Soaking makes it ten times
# that. Ends with `N passed, N failed`, and non-zero on failures.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
source tests/lib.sh

export WEIR_SOAK=0
names=()
for word in "$@"; do
    case $word in
        --soak) WEIR_SOAK=1 ;;
        -*) sed -n '4,6s/^# *//p' "$0" >&2; exit 2 ;;
        *) word=$(basename "$word"); names+=("${word%.sh}") ;;
    esac
done
if [ ${#names[@]} -eq 0 ]; then
    for file in tests/cases/*.sh; do
        names+=("$(basename "$file" .sh)")
    done
fi
[ -x "$WEIR" ] || { echo "no binary at $WEIR: cargo build -p weir --features failpoints" >&2; exit 2; }
WEIR=$(realpath "$WEIR")
export WEIR

root=$(mktemp -d "${TMPDIR:-/tmp}/weir-test.XXXX")
chmod 755 "$root"
running=
# shellcheck disable=SC2317 # a trap's
stop() {
    [ -n "$running" ] && kill "$running" 2>/dev/null && wait "$running"
    sweep "$root"
    exit 130
}
trap stop INT TERM

passed=0 failed=0 failures=()
for name in "${names[@]}"; do
    file=tests/cases/$name.sh log=$root/$name.log
    [ -f "$file" ] || { echo "there is no case tests/cases/$name.sh" >&2; exit 2; }
    limit=$(sed -n 's/^# time-limit: *\([0-9]*\).*/\1/p' "$file" | head -1)
    limit=$((${limit:-300} * (WEIR_SOAK ? 10 : 1)))
    began=$EPOCHREALTIME
    mkdir "$root/$name"
    WEIR_TEST_DIR=$root/$name timeout -k 30 "$limit" bash "$file" </dev/null >"$log" 2>&1 &
    running=$!
    wait "$running"
    status=$?
    running=
    sweep "$root/$name"
    seconds=$(((${EPOCHREALTIME/./} - ${began/./}) / 100000))
    seconds=${seconds:0:-1}.${seconds: -1}
    if [ $status -eq 0 ]; then
        passed=$((passed + 1))
        printf 'ok    %7s s  %s\n' "${seconds/#./0.}" "$name"
    else
        failed=$((failed + 1)) failures+=("$name")
        [ $status -eq 124 ] || [ $status -eq 137 ] && echo "ended: over its $limit s" >>"$log"
        printf 'FAIL  %7s s  %s (exit %d)\n' "${seconds/#./0.}" "$name" $status
        sed 's/^/    | /' "$log" | tail -n 150
    fi
done

if [ $failed -gt 0 ]; then
    echo "failed: ${failures[*]}; logs in $root"
else
    rm -rf "$root"
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
