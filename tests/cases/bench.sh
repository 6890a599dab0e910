#!/usr/bin/env bash
# weir bench on a mount beside a plain directory: what it measures, what it leaves, Ctrl-C, comparing.
source "$(dirname "$0")/../lib.sh"
begin
need jq script
s3_start
fmt_mount
PLAIN=$T/plain
mkdir "$PLAIN" "$MNT/here"

has_begun() { [ -n "$(find "$PLAIN" "$MNT/here" -name 'file-*' -print -quit)" ]; }
left() { find "$PLAIN" "$MNT/here" -mindepth 1 | wc -l; }

echo "== suites"
"$WEIR" bench suites >"$T/suites" || fail "bench suites"
for suite in $("$WEIR" bench suites --json | jq -r '.[].name'); do
    grep -q "^$suite: " "$T/suites" || fail "$suite is not listed"
done
"$WEIR" bench --suite dd "$PLAIN" 2>"$T/err" && fail "a suite that is not there"
grep -q "choose dd-large" "$T/err" || fail "which suites there are: $(cat "$T/err")"
"$WEIR" bench --size published "$PLAIN" 2>"$T/err" </dev/null && fail "hours without having been asked"
grep -q -- "--yes" "$T/err" || fail "how to agree: $(cat "$T/err")"
# On a terminal it asks, however little it is; a script goes on.
echo n | script -qec "'$WEIR' bench --suite metadata '$PLAIN'" /dev/null >"$T/asked" && fail "it went on after a no"
grep -q "Go on?" "$T/asked" || fail "it does not ask: $(cat "$T/asked")"
same "$(left)" 0 "files of a run that nobody wanted"
"$WEIR" bench --suite metadata --copies 1 --repeats 1 "$PLAIN" >/dev/null 2>"$T/err" </dev/null ||
    fail "a small run of a script: $(cat "$T/err")"

echo "== side by side"
"$WEIR" bench --suite dd-large,metadata --copies 1 --repeats 1 --yes "$PLAIN" "$MNT/here" \
    --json "$T/report.json" --html "$T/report.html" >"$T/out" 2>"$T/err" || fail "bench: $(cat "$T/err")"
grep -q "PUT and .* GET requests" "$T/err" || fail "what the requests cost: $(cat "$T/err")"
same "$(left)" 0 "files that stayed"
same "$(jq -r '[.measurements[] | select(.suite == "dd-large" and .target == 1) | .phase] | join(" ")' "$T/report.json")" \
    "create read-cold read-warm read-512" "phases"
same "$(jq '[.measurements[] | select(.suite == "dd-large") | .bytes] | unique | tostring' "$T/report.json")" \
    '"[167772160]"' "bytes of each phase"
same "$(jq '.skipped | length' "$T/report.json")" 0 "skipped suites"
same "$(jq '.targets[1].is_weir' "$T/report.json")" true "the mount is known"
[ "$(jq '[.measurements[] | select(.phase == "read-cold").warnings[] | select(.kind == "cached")] | length' "$T/report.json")" = 0 ] ||
    fail "a cold phase that is none: $(jq -c '.measurements[].warnings' "$T/report.json")"
grep -q "<svg" "$T/report.html" || fail "a page without plots"
for word in read-cold list "$PLAIN" "$MNT/here"; do
    grep -q -- "$word" "$T/out" || fail "the table does not say $word: $(cat "$T/out")"
done

echo "== a bucket itself"
"$WEIR" bench s3://vol 2>"$T/err" && fail "a URL among directories"
grep -q -- "--suite bucket" "$T/err" || fail "how a bucket is measured: $(cat "$T/err")"
"$WEIR" bench --suite bucket --copies 8 --repeats 1 --json "$T/bucket.json" "${CONNECT[@]}" "$URL/tmp" >"$T/out" 2>"$T/err" ||
    fail "a bucket: $(cat "$T/err")"
grep -q "about .* PUT and .* GET requests" "$T/err" || fail "what the requests cost: $(cat "$T/err")"
same "$(jq -r '[.measurements[].phase] | join(" ")' "$T/bucket.json")" \
    "put-8MiB get-8MiB get-1MiB-range get-4KiB-range head list delete" "phases"
grep -Eq "^ *get-4KiB-range +8 .*p50 .* ms, p99" "$T/out" || fail "latencies are not told: $(cat "$T/out")"
same "$(find "$T/s3" -path '*weir-probe*' -type f | wc -l)" 0 "objects that are left"

echo "== comparing"
"$WEIR" bench compare "$T/report.json" "$T/report.json" >"$T/out" && fail "one repeat says something"
grep -q "too few" "$T/out" || fail "what too few repeats say: $(cat "$T/out")"
# Three repeats that differ a little; the same; all but one phase twice as slow; one phase gone.
jq '.repeats = 3 | .measurements |= [.[] as $m | range(3) as $n | $m | .repeat = $n | .seconds *= (1 + $n / 1000)]' \
    "$T/report.json" >"$T/three.json"
"$WEIR" bench compare "$T/three.json" "$T/three.json" >"$T/out" || fail "a report beside itself: $(cat "$T/out")"
grep -q read-cold "$T/out" || fail "what was compared: $(cat "$T/out")"
jq '.measurements |= [.[] | if .phase == "create" then .seconds *= 2 else . end]' "$T/three.json" >"$T/slow.json"
"$WEIR" bench compare "$T/three.json" "$T/slow.json" >"$T/out" && fail "what takes twice as long is not slower"
grep -q slower "$T/out" || fail "what became slower: $(cat "$T/out")"
"$WEIR" bench compare "$T/slow.json" "$T/three.json" >/dev/null || fail "what became faster is no regression"
jq '.measurements |= [.[] | select(.phase != "create")]' "$T/three.json" >"$T/less.json"
"$WEIR" bench compare "$T/three.json" "$T/less.json" >/dev/null && fail "a phase that is missing"
"$WEIR" bench --suite metadata "$PLAIN" "$PLAIN/" 2>"$T/err" && fail "the same directory twice"
grep -q "named twice" "$T/err" || fail "a directory twice: $(cat "$T/err")"
echo '{}' >"$T/none.json"
"$WEIR" bench compare "$T/report.json" "$T/none.json" 2>/dev/null && fail "a report that is none"

echo "== Ctrl-C"
# A shell has background commands ignore it, so it is a terminal's job that is played here.
set -m
"$WEIR" bench --suite small-files --yes "$PLAIN" "$MNT/here" --json "$T/stopped.json" >/dev/null 2>"$T/err" &
BENCH=$!
set +m
poll 30 has_begun || fail "it does not begin"
kill -INT $BENCH
wait $BENCH
same $? 130 "exit code after Ctrl-C"
same "$(left)" 0 "files that stayed after Ctrl-C"
same "$(jq .stopped "$T/stopped.json")" true "the report of a stopped run"
fsck_clean
