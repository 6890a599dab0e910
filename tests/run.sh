#!/usr/bin/env bash
# Runs the end-to-end cases, each in its own process with a time limit.
#
#   tests/run.sh                  all of tests/cases/*.sh
#   tests/run.sh posix model      these
#   tests/run.sh --soak [case…]   longer runs where a case offers them
#   tests/run.sh --jobs=1         one case after the other; else five for two processors run side by side,
#                                 for most of them wait more than they compute
#
# WEIR      the binary, as `make e2e` builds it
# WEIR_SEED makes random cases repeat a run; they print their seed
# WEIR_TEST_TRIES=2 runs up to six failed cases once more, each alone, and names those that pass then: each is a
#           finding to look into, whose first log is shown, but no reason to give up an hour's run
#
# A case may say `# time-limit: SECONDS` in its head; else it has 300; twice that on a slow machine, three times beside
# others. Soaking makes it ten times that. One that measures time says `# alone`, one that needs a machine with
# little else to do `# quiet`: of those one runs for each processor, when no others do. One that keeps
# processors busy, as an emulated machine does, says `# busy`: of these two run at a time. Those that took longest the last
# time (case-times in WEIR_CACHE) come first. Ends with the ten longest, how busy the processors were, and
# `N passed, N failed`; and non-zero on failures.
# needs: versitygw weed pjdfstest fsx chromium
# What unit tests call or are built with:
# needs: /usr/lib/llvm-14/lib/libclang.so.1 bwa samtools blastdbcmd /usr/share/doc/bowtie2/examples
# needs: /usr/lib/postgresql/15/bin/postgres setpriv
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
source tests/lib.sh

export WEIR_SOAK=0
names=() jobs=${WEIR_TEST_JOBS:-$(($(nproc) * 5 / 2))}
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
# Where `python3` is a script that looks for one, each of thousands of calls would cost a tenth of a second.
mkdir "$root/bin" && ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$root/bin/python3" || exit 2
PATH=$root/bin:$PATH
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
run_case() { # NAME TIMES-ITS-LIMIT
    local name=$1 file=tests/cases/$1.sh log=$root/$1.log limit began seconds status case_pid
    limit=$(sed -n 's/^# time-limit: *\([0-9]*\).*/\1/p' "$file" | head -1)
    limit=$((${limit:-300} * $2 * (WEIR_SOAK ? 10 : 1)))
    began=$EPOCHREALTIME
    mkdir "$root/$name"
    # In a mount namespace of its own: those that cases make have no copies of other cases' mounts then, by which
    # these would live on after their end.
    WEIR_TEST_DIR=$root/$name unshare --mount bash -c "$DROP_COPIES"'; exec "$@"' case \
        timeout -k 30 "$limit" bash "$file" </dev/null >"$log" 2>&1 &
    case_pid=$!
    trap 'kill "$case_pid" 2>/dev/null; wait "$case_pid"; exit 130' TERM
    wait "$case_pid"
    status=$?
    sweep "$root/$name"
    seconds=$(((${EPOCHREALTIME/./} - ${began/./}) / 100000))
    seconds=${seconds:0:-1}.${seconds: -1}
    [ $status -eq 124 ] || [ $status -eq 137 ] && echo "ended: over its $limit s" >>"$log"
    echo $status >"$root/$name.status"
    echo "$seconds" >"$root/$name.seconds"
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

says() { grep -q "^# $2" "tests/cases/$1.sh"; } # CASE WORD
for name in "${names[@]}"; do
    [ -f "tests/cases/$name.sh" ] || { echo "there is no case tests/cases/$name.sh" >&2; exit 2; }
done

# Cases, with what each took the last time; one that is new may be long.
TIMES=$WEIR_CACHE/case-times
with_times() { # CASE...
    printf '%s\n' "$@" | awk 'NR == FNR { took[$1] = $2; next } { print ($1 in took) ? took[$1] : 100, $1 }' \
        <(cat "$TIMES" 2>/dev/null; echo) -
}

# What one case may do to the machine (page cache, processor, the virtual machine's memory) the others bear; those that
# measure time run when no other does. Those of which few run at a time take the longest together, so they begin.
busy=() shared=() quiet=() alone=()
while read -r _ name; do
    if says "$name" alone; then alone+=("$name"); elif says "$name" quiet; then quiet+=("$name")
    elif says "$name" busy; then busy+=("$name"); else shared+=("$name"); fi
done < <(with_times "${names[@]}" | sort -srn)
shared=("${busy[@]}" "${shared[@]}")
declare -A running=() # cases, by the pids of those who run them
busy_run() { # whether two do
    local name count=0
    for name in "${running[@]}"; do says "$name" busy && count=$((count + 1)); done
    [ $count -ge 2 ]
}
# The first of the shared that may start now, at `at`.
find_next() {
    for at in "${!shared[@]}"; do
        says "${shared[at]}" busy && busy_run || return 0
    done
    return 1
}
run_shared() { # JOBS
    while [ ${#shared[@]} -gt 0 ]; do
        if [ ${#running[@]} -lt "$1" ] && find_next; then
            run_case "${shared[at]}" 3 &
            running[$!]=${shared[at]}
            unset "shared[at]"
        else
            wait -n -p ended
            unset "running[$ended]"
        fi
    done
    wait
    running=()
}
began=$EPOCHREALTIME
read -r -a cpu_before </proc/stat
run_shared "$jobs"
shared=("${quiet[@]}")
run_shared $((jobs < $(nproc) ? jobs : $(nproc)))
for name in "${alone[@]}"; do
    run_case "$name" 2 &
    wait
done
read -r -a cpu_after </proc/stat

# Where the time went, for who wants less of it; and for the order of the next run.
sum_up() {
    local idle total=0 at name
    for at in {1..8}; do total=$((total + cpu_after[at] - cpu_before[at])); done
    idle=$((cpu_after[4] + cpu_after[5] - cpu_before[4] - cpu_before[5]))
    for name in "${names[@]}"; do
        [ "$(cat "$root/$name.status")" != 0 ] || echo "$name $(cat "$root/$name.seconds")"
    done >"$root/times"
    awk -v took=$(((${EPOCHREALTIME/./} - ${began/./}) / 1000000)) -v busy=$((total ? 100 - 100 * idle / total : 0)) \
        '{ sum += $2 } END { printf "%d cases took %d s, %d s side by side, processors %d%% busy\n", NR, sum, took, busy }' \
        "$root/times"
    echo "longest: $(sort -rnk2 "$root/times" | head | awk '{ printf "%s%s %d", (NR > 1 ? ", " : ""), $1, $2 }')"
    [ $WEIR_SOAK = 0 ] || return
    awk '{ took[$1] = $2 } END { for (name in took) print name, took[name] }' \
        <(cat "$TIMES" 2>/dev/null) "$root/times" >"$TIMES.new" && mv "$TIMES.new" "$TIMES"
}
sum_up

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
if [ "${WEIR_TEST_TRIES:-1}" = 2 ] && [ $failed -gt 0 ] && [ $failed -le 6 ]; then
    first=("${failures[@]}")
    for name in "${first[@]}"; do
        for of in "$name" "$name.log" "$name.status"; do
            [ ! -e "$root/$of" ] || mv "$root/$of" "$root/first-$of"
        done
        run_case "$name" 2 &
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
