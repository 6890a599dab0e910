#!/usr/bin/env bash
# Advice before and after: the example, choices that nobody sells, a recorded workload, the page, the backtest.
source "$(dirname "$0")/../lib.sh"
begin
need python3 jq
EXAMPLE=$TESTS/../docs/examples/blast.toml

echo "== the example"
"$WEIR" advise "$EXAMPLE" --storage fsx:SCRATCH_2:3600 --html "$T/advice.html" >"$T/advice" || fail "advise"
for word in "Run it on" "It wins by" "EFS beside FSx for Lustre" "It costs least" "EFS elastic" "FSx SCRATCH_2" "SCRATCH_2 has no capacity of 3600 GiB" "2400 GiB and 4800 GiB" \
    "On Spot instances" "of memory hold at least half of the data set"; do
    grep -q -- "$word" "$T/advice" || fail "the advice does not say '$word': $(cat "$T/advice")"
done
"$WEIR" advise "$EXAMPLE" --json >"$T/advice.json" || fail "advise --json"
# Where two choices cost the same, they do.
python3 - "$T/advice.json" <<'P' || fail "break-even points"
import json, sys
advice = json.load(open(sys.argv[1]))
assert len(advice["choices"]) > 10 and advice["break_even"], advice.keys()
assert all(point["runs_per_month"] > 0 for point in advice["break_even"])
assert advice["recommendation"]["reasons"]
P
grep -q "<svg" "$T/advice.html" || fail "a page without plots"
grep -Eq "(src|href)=\"http" "$T/advice.html" && fail "the page needs others"
sed 's/us-east-1/moon-1/' "$EXAMPLE" >"$T/moon.toml"
"$WEIR" advise "$T/moon.toml" 2>"$T/err" && fail "advice for a region that nobody knows"
grep -q "known are us-east-1" "$T/err" || fail "which regions are known: $(cat "$T/err")"
"$WEIR" advise "$EXAMPLE" --region ap-northeast-1 >"$T/tokyo" || fail "advice in Tokyo"
for word in "no recommendation" "unknown prices"; do
    grep -q "$word" "$T/tokyo" || fail "advice without prices does not say '$word': $(cat "$T/tokyo")"
done
"$WEIR" advise "$EXAMPLE" --region ap-northeast-2 --json >"$T/seoul.json" || fail "advice in Seoul"
jq -e '.recommendation.summary' "$T/seoul.json" >/dev/null || fail "no recommendation in Seoul"
sed 's/runs_per_day = 10/runs_per_day = -1/' "$EXAMPLE" >"$T/bad.toml"
"$WEIR" advise "$T/bad.toml" 2>"$T/err" && fail "a negative number of runs"
grep -q runs_per_day "$T/err" || fail "what is wrong: $(cat "$T/err")"
"$WEIR" advise 2>/dev/null && fail "advice on nothing"

echo "== the backtest"
"$WEIR" advise --backtest --json >"$T/backtest.json" || fail "backtest"
python3 - "$T/backtest.json" <<'P' || fail "the models are too far off"
import json, sys
report = json.load(open(sys.argv[1]))
tested = [abs(row["error"]) for row in report["rows"] if row["used"]["used"] == "test"]
tested.sort()
assert len(tested) >= 25, len(tested)
median = tested[len(tested) // 2]
assert median < 0.15, median
P
"$WEIR" advise --backtest | grep -q "its own numbers break even at 6.99 runs a month" || fail "the break-even of 4 runs a day"

echo "== recorded"
fmt_mount
"$WEIR" throughput "$MNT" --exact-meter on >/dev/null || fail "--exact-meter"
head -c 8M /dev/urandom >"$MNT/data"
cold
cat "$MNT/data" >/dev/null
"$WEIR" advise --record "$MNT" >"$T/recorded.toml" || fail "--record"
same "$(sed -n 's/^read_bytes_per_run = //p' "$T/recorded.toml")" $((8 << 20)) "recorded reads"
grep -q "past the daemon" "$T/recorded.toml" && fail "the exact meter is not exact"
"$WEIR" advise "$T/recorded.toml" | grep -q "It costs least" || fail "advice on a recorded workload"
