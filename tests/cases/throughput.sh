#!/usr/bin/env bash
# Throughput modes on a live mount: what programs get is what the model says, within 5%.
# alone: it measures time
source "$(dirname "$0")/../lib.sh"
begin
need python3 jq curl setpriv

report() { "$WEIR" throughput "$MNT" --json | jq -r "$1"; }
volume() { report ".rules[] | select(.name == \"/\") | $1"; }
rate() { "$TESTS/tools/rate.py" "$@"; }
# A busy machine may be slower than the limit, never faster: what is measured is tried thrice.
is_rate() { # WANT WHAT KIND SECONDS [BLOCK_BYTES]
    local have try
    for try in 1 2 3; do
        # While nobody moves anything credits grow.
        [ "$1" -gt 3 ] || "$WEIR" throughput "$MNT" --credits 0 >/dev/null || fail "no credits"
        have=$(rate "$3" "$MNT/file" "$4" "${5:-65536}") || fail "$2: $3"
        python3 -c "import sys; sys.exit(not $have <= $1 * 1.05)" || fail "$2: $have MiB/s, the model says $1"
        python3 -c "import sys; sys.exit(not $have >= $1 * 0.95)" && echo "$2: $have MiB/s, the model says $1" && return
    done
    fail "$2: $have MiB/s, the model says $1"
}

fmt_mount --admin-listen 127.0.0.1:0
echo "== elastic is the default and limits nothing"
same "$(volume .mode.mode)" elastic "the mode"
same "$(volume .permitted_bytes_per_s)" null "what is permitted"
rate write "$MNT/file" 0.5 >/dev/null || fail "write"

echo "== provisioned, within a second"
"$WEIR" throughput "$MNT" --mode provisioned --mibps 20 --credits 0 >/dev/null || fail "provisioned"
is_rate 20 "provisioned 20" write 3
is_rate 60 "provisioned 20, reads count a third" read 2
rate write "$MNT/file" 4 >"$T/rate" &
writer=$!
sleep 1
"$WEIR" throughput "$MNT" --mode provisioned --mibps 40 >/dev/null || fail "more"
wait $writer
python3 -c "import sys; sys.exit(not 24 < $(cat "$T/rate") < 40)" || fail "20 and then 40 MiB/s: $(cat "$T/rate")"

echo "a directory's rule holds however much the volume has"
mkdir "$MNT/tight"
"$WEIR" throughput "$MNT" --mode elastic >/dev/null || fail "elastic"
"$WEIR" throughput "$MNT" --path "$MNT/tight" --mode provisioned --mibps 0.5 --credits 0 >/dev/null || fail "--path"
tight=$(rate write "$MNT/tight/f" 4 8192)
python3 -c "import sys; sys.exit(not $tight <= 0.55)" || fail "half a MiB a second: $tight"
# Whoever waits can be killed: this would take an hour.
dd if=/dev/zero of="$MNT/tight/f" bs=1M count=2000 oflag=direct conv=notrunc 2>/dev/null &
waiting=$!
sleep 1
kill -9 $waiting
poll 5 gone $waiting || fail "who waits for a limit cannot be killed"
dd if=/dev/zero of="$MNT/other" bs=1M count=4 2>/dev/null
before=$SECONDS
cp --reflink=never "$MNT/other" "$MNT/tight/copy" &
copying=$!
sleep 2
gone $copying && [ $((SECONDS - before)) -lt 6 ] && fail "a copy passes the limit by"
wait $copying || fail "a copy"
"$WEIR" throughput "$MNT" --path "$MNT/tight" --remove >/dev/null || fail "--remove"

echo "== burst, drained, provisioned: the experiment of 2018, small"
"$WEIR" throughput "$MNT" --mode bursting --rules 2018-09-01 --credits 500MiB >/dev/null || fail "bursting"
"$WEIR" throughput "$MNT" | grep -q "bursting, rules until 2020-06-30" || fail "old rules do not show"
is_rate 100 "with credits" write 2
credits=$(volume .credit_bytes)
python3 -c "import sys; sys.exit(not 200e6 < $credits < 420e6)" || fail "credits after the burst: $credits"
# 200 MiB of credits last for 2 s at 100 MiB/s less what is earned, and then there are 50 KiB/s (1 MiB/s with today's rules).
"$WEIR" throughput "$MNT" --rules 2026-01-01 --credits 200MiB >/dev/null || fail "200 MiB of credits"
drained=$(rate write "$MNT/file" 6)
python3 -c "import sys; sys.exit(not abs($drained / ((200 * 100 / 99 + 6 - 200 / 99) / 6) - 1) <= 0.05)" || fail "a burst that ends by itself: $drained MiB/s"
"$WEIR" throughput "$MNT" --rules 2018-09-01 --credits 0 >/dev/null || fail "no credits"
# What is stored is less than a GiB and counts as one: 50 KiB a second, with no floor then. Who writes waits.
same "$(volume .baseline_bytes_per_s)" 51200 "the baseline"
timeout 2 dd if=/dev/zero of="$MNT/file" bs=64k count=200 oflag=direct conv=notrunc 2>/dev/null && fail "nobody waits without credits"
"$WEIR" throughput "$MNT" --mode provisioned --mibps 30 >/dev/null || fail "provisioned"
is_rate 30 "provisioned after the drain" write 2
echo "today's rules have a floor"
"$WEIR" throughput "$MNT" --mode bursting --rules 2026-01-01 --credits 0 >/dev/null || fail "today"
# What may go ahead, 50 ms and one I/O, is to be little beside the whole.
is_rate 1 "without credits" write 10 8192
is_rate 3 "without credits, reads" read 8 16384
remount
same "$(volume .mode.mode)" bursting "the mode after a remount"
python3 -c "import sys; sys.exit(not $(volume .credit_bytes) < 100e6)" || fail "credits came back: $(volume .credit_bytes)"

echo "== a directory of its own, and who did what"
"$WEIR" throughput "$MNT" --mode elastic >/dev/null || fail "elastic"
mkdir "$MNT/slow" "$MNT/fast"
"$WEIR" throughput "$MNT" --path "$MNT/slow" --mode provisioned --mibps 5 --credits 0 >/dev/null || fail "--path"
rate write "$MNT/fast/file" 1 >"$T/fast" & fast=$!
slow=$(rate write "$MNT/slow/file" 3)
wait $fast
python3 -c "import sys; sys.exit(not $slow <= 5.25)" || fail "the slow directory: $slow MiB/s"
python3 -c "import sys; sys.exit(not $(cat "$T/fast") > 10)" || fail "the fast directory: $(cat "$T/fast") MiB/s"
metered=$(report '.rules[] | select(.name == "/slow") | .metered_bytes')
written=$(report '.tenants[] | select(.path == "/slow") | .bytes_written')
same "$metered" "$written" "metered bytes of the slow directory"
"$WEIR" throughput "$MNT" >"$T/report" || fail "report"
for word in "/slow" "provisioned 5 MiB/s" "no limit" "passthrough is off for /slow"; do
    grep -q -- "$word" "$T/report" || fail "the report does not say '$word': $(cat "$T/report")"
done
"$WEIR" throughput "$MNT" --path "$MNT/slow" --remove | grep -q "provisioned" && fail "the rule stays"
"$WEIR" throughput "$MNT" --path /tmp --mode elastic 2>/dev/null && fail "a directory elsewhere"
"$WEIR" throughput "$MNT" --mode provisioned 2>/dev/null && fail "provisioned without --mibps"

echo "== a user"
"$WEIR" throughput "$MNT" --user 65534 --mode provisioned --mibps 4 --credits 0 >/dev/null || fail "--user"
mkdir -m 777 "$MNT/shared"
theirs=$(setpriv --reuid 65534 --regid 65534 --clear-groups "$TESTS/tools/rate.py" write "$MNT/shared/f" 3) || fail "another user"
python3 -c "import sys; sys.exit(not $theirs <= 4.2)" || fail "another user: $theirs MiB/s"
ours=$(rate write "$MNT/shared/ours" 1)
python3 -c "import sys; sys.exit(not $ours > 10)" || fail "this user: $ours MiB/s"
"$WEIR" throughput "$MNT" --user 65534 --remove >/dev/null || fail "--remove"
"$WEIR" throughput "$MNT" --remove >/dev/null 2>&1 && fail "the volume's rule cannot go"

echo "== metrics"
"$WEIR" throughput "$MNT" --mode bursting --budget 5USD/h >/dev/null || fail "a budget"
curl -s --unix-socket "$(ls "$WEIR_RUN_DIR"/*.sock)" http://weir/metrics >"$T/metrics" || fail "metrics"
for metric in efs_BurstCreditBalance efs_PermittedThroughput efs_MeteredIOBytes_total efs_PercentIOLimit \
    budget_per_hour throughput_credit_bytes tenant_written_bytes_total; do
    grep -q "^weir_$metric{" "$T/metrics" || fail "no metric $metric"
done
while read -r name; do
    grep -q "^| \`$name\` |" "$TESTS/../docs/metrics.md" || fail "docs/metrics.md lacks $name"
done < <(awk '/^# HELP/ {print $3}' "$T/metrics")
"$WEIR" throughput "$MNT" --budget none --mode elastic >/dev/null || fail "no budget"
fsck_clean
