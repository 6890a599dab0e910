#!/usr/bin/env bash
# Runs the end-to-end cases, each in its own process with a time limit.
#
#   tests/run.sh                  all of tests/cases/*.sh
#   tests/run.sh posix model      these
#   tests/run.sh --soak [case…]   longer runs where a case offers them
#   tests/run.sh --jobs=1         one case after the other; else two run side by side
#
# WEIR      the binary, as `make e2e` builds it
# WEIR_SEED makes random cases repeat a run; they print their seed
# WEIR_TEST_TRIES=2 runs up to three failed cases once more, each alone, and names those that pass then: each is a
#           finding to look into, whose first log is shown, but no reason to give up an hour's run
#
# A case may say `# time-limit: SECONDS` in its head; else it has 300 (times the cases that run
# side by side). Soaking makes it ten times that. Ends with `N passed, N failed`, and non-zero on failures.
# needs: versitygw weed pjdfstest fsx chromium
# What unit tests call or are built with:
# needs: /usr/lib/llvm-14/lib/libclang.so.1 bwa samtools blastdbcmd /usr/share/doc/bowtie2/examples
# needs: /usr/lib/postgresql/15/bin/postgres setpriv
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
source tests/lib.sh

export WEIR_SOAK=0
names=() jobs=${WEIR_TEST_JOBS:-2}
for word in "$@"; do
    case $word in
        --soak) WEIR_SOAK=1 ;;
        --jobs=*) jobs=${word#--jobs=} ;;
        -*) sed -n '4,7s/^# *//p' "$0" >&2; exit 2 ;;
        *) word=$(basename "$word"); names+=("${word%.sh}") ;;
    esac
done
if [ ${#names[@]} -eq 0 ]; then
    for file in tests/cases/*.sh; do
        names+=("$(basename "$file" .sh)")
    done
fi
scripts/needs.sh check || exit 2
[ -x "$WEIR" ] || { echo "no binary at $WEIR: make e2e builds it" >&2; exit 2; }
WEIR=$(realpath "$WEIR")
export WEIR

root=$(mktemp -d "${TMPDIR:-/tmp}/weir-test.XXXX")
chmod 755 "$root"
# shellcheck disable=SC2317 # a trap's
stop() {
    # shellcheck disable=SC2046 # pids
    kill $(jobs -p) 2>/dev/null
    wait
    sweep "$root"
    exit 130
}
trap stop INT TERM

# Runs one case, leaves its exit code and seconds in files, and says how it ended.
run_case() { # NAME
    local name=$1 file=tests/cases/$1.sh log=$root/$1.log limit began seconds status case_pid
    limit=$(sed -n 's/^# time-limit: *\([0-9]*\).*/\1/p' "$file" | head -1)
    limit=$((${limit:-300} * jobs * (WEIR_SOAK ? 10 : 1)))
    began=$EPOCHREALTIME
    mkdir "$root/$name"
    WEIR_TEST_DIR=$root/$name timeout -k 30 "$limit" bash "$file" </dev/null >"$log" 2>&1 &
    case_pid=$!
    trap 'kill "$case_pid" 2>/dev/null; wait "$case_pid"; exit 130' TERM
    wait "$case_pid"
    status=$?
    sweep "$root/$name"
    seconds=$(((${EPOCHREALTIME/./} - ${began/./}) / 100000))
    seconds=${seconds:0:-1}.${seconds: -1}
    [ $status -eq 124 ] || [ $status -eq 137 ] && echo "ended: over its $limit s" >>"$log"
    echo $status >"$root/$name.status"
    if [ $status -eq 0 ]; then
        printf 'ok    %7s s  %s\n' "${seconds/#./0.}" "$name"
    else
        { # in one write, so that two cases do not mix
            printf 'FAIL  %7s s  %s (exit %d)\n' "${seconds/#./0.}" "$name" $status
            sed 's/^/    | /' "$log" | tail -n 150
        } >"$root/$name.shown"
        cat "$root/$name.shown"
    fi
}

# What one case may do to the machine (page cache, processor, the virtual machine's memory) the others bear; those that
# measure time say `# alone` in their head and run when no other does.
shared=() alone=()
for name in "${names[@]}"; do
    [ -f "tests/cases/$name.sh" ] || { echo "there is no case tests/cases/$name.sh" >&2; exit 2; }
    if grep -q '^# alone' "tests/cases/$name.sh"; then alone+=("$name"); else shared+=("$name"); fi
done
for name in "${shared[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
    run_case "$name" &
done
wait
for name in "${alone[@]}"; do
    run_case "$name" &
    wait
done

passed=0 failed=0 failures=()
count_failures() {
    local name
    passed=0 failed=0 failures=()
    for name in "${names[@]}"; do
        if [ "$(cat "$root/$name.status" 2>/dev/null)" = 0 ]; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1)) failures+=("$name")
        fi
    done
}
count_failures
if [ "${WEIR_TEST_TRIES:-1}" = 2 ] && [ $failed -gt 0 ] && [ $failed -le 3 ]; then
    first=("${failures[@]}")
    for name in "${first[@]}"; do
        for of in "$name" "$name.log" "$name.status"; do mv "$root/$of" "$root/first-$of"; done
        run_case "$name" &
        wait
    done
    count_failures
    for name in "${first[@]}"; do
        [ "$(cat "$root/$name.status")" = 0 ] && echo "only the second time: $name; why is worth knowing"
    done
fi
if [ $failed -gt 0 ]; then
    echo "failed: ${failures[*]}; logs in $root"
else
    rm -rf "$root"
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
