#!/usr/bin/env bash
# The bill of a live mount adds up from what was counted, and the same work elsewhere from the price book.
source "$(dirname "$0")/../lib.sh"
begin
need python3 jq

bill() { "$WEIR" bill "$MNT" --json "$@"; }
# The quantity of a line, and its amount in nano-dollars.
quantity() { jq -r ".so_far.lines[] | select(.what | startswith(\"$1\")) | .quantity" "$T/bill"; }
amount() { jq -r ".so_far.lines[] | select(.what | startswith(\"$1\")) | .amount_nano_usd" "$T/bill"; }
near() { python3 -c "import sys; sys.exit(not abs($1 - ($2)) <= max(1, abs($2)) * ${4:-0.001})" || fail "$3: $1, want $2"; }

fmt_mount --no-passthrough
for n in 1 2 3 4 5; do head -c 4M /dev/urandom >"$MNT/f$n" || fail "write"; done
"$WEIR" flush "$MNT" || fail "flush"
cold
cat "$MNT"/f* >/dev/null || fail "read"
dd if=/dev/urandom of="$MNT/new" bs=1M count=8 oflag=direct 2>/dev/null || fail "write"
"$WEIR" flush "$MNT" || fail "flush"

echo "== counted requests at list prices"
sleep 1.2 # the metadata has gone out
bill --region us-east-1 >"$T/bill" || fail "bill"
"$WEIR" status "$MNT" --json >"$T/status" || fail "status"
of() { jq "[.requests.rows[] | select(.kind as \$k | [$1] | index(\$k)) | .requests] | add // 0" "$T/status"; }
gets=$(of '"get", "head"')
near "$(quantity GET)" "$gets / 1000" "GETs of the bill" 0.01
near "$(amount GET)" "$(quantity GET) * 0.0004e9" "their price"
near "$(amount PUT)" "$(quantity PUT) * 0.005e9" "the price of PUTs"
[ "$gets" -gt 0 ] || fail "no GET was counted"
same "$(amount 'transfer')" 0 "transfer within the region"
same "$(amount 'disk')" null "a disk that nobody named"
same "$(jq .so_far.complete "$T/bill")" false "whether all is known"
"$WEIR" bill "$MNT" | grep -q "at least" || fail "the bill hides that it does not know all"

echo "== the machine and its disk"
bill --instance i3.8xlarge --disk instance-store >"$T/bill" || fail "bill with a machine"
same "$(jq .so_far.complete "$T/bill")" true "whether all is known"
hours=$(jq '(.to_unix_ms - .from_unix_ms) / 3600000' "$T/bill")
near "$(amount instance)" "$hours * 2.496e9" "an i3.8xlarge" 0.01

echo "== no month is told from seconds"
same "$(jq -r '.month, .shadow[0].month | tostring' "$T/bill" | sort -u)" null "a month of a mount this young"
"$WEIR" bill "$MNT" | head -1 | grep -q "told from 10 min" || fail "from when on a month is told"
bill --region eu-mars-9 >/dev/null 2>"$T/err" && fail "a region that nobody knows"
grep -q "known are us-east-1" "$T/err" || fail "which regions are known: $(cat "$T/err")"

echo "== prices of one's own"
cat >"$T/prices.json" <<'P'
{"schema": "weir-prices/2", "prices": [
  {"region": "here", "item": "s3.put", "usd": 1, "source": "test", "confidence": "vendor"},
  {"region": "here", "item": "s3.get", "usd": 1000, "source": "test", "confidence": "vendor"}]}
P
"$WEIR" prices --prices "$T/prices.json" --region here --json >"$T/listed" || fail "prices"
bill --region here --prices "$T/prices.json" >"$T/bill" || fail "bill with prices of one's own"
near "$(amount GET)" "$(quantity GET) * 1000e9" "GETs at a dollar each"
same "$(amount storage)" null "storage without a price"
echo '{"schema": "weir-prices/2", "prices": [{"region": "here", "item": "gold", "usd": 1, "source": "t", "confidence": "vendor"}]}' >"$T/bad.json"
bill --prices "$T/bad.json" >/dev/null 2>"$T/err" && fail "a price of what nobody sells"
grep -q "bad.json" "$T/err" || fail "which price book: $(cat "$T/err")"
bill --prices "$T/none.json" >/dev/null 2>&1 && fail "a price book that is not there"
bill --instance abacus >/dev/null 2>"$T/err" && fail "a machine that nobody knows"
grep -q i4i.8xlarge "$T/err" || fail "no known machine is named: $(cat "$T/err")"

echo "== the same work elsewhere"
bill >"$T/bill" || fail "bill"
read -r read_bytes written_bytes < <(jq -r '"\(.used.used.read_bytes) \(.used.used.written_bytes)"' "$T/bill")
same "$written_bytes" $((8 << 20)) "bytes written"
[ "$read_bytes" -ge $((20 << 20)) ] || fail "$read_bytes bytes read"
elastic=$(jq '.shadow[] | select(.name == "EFS elastic") | .so_far.lines' "$T/bill")
near "$(jq 'map(select(.item == "efs.elastic-read")) | .[0].amount_nano_usd' <<<"$elastic")" "$read_bytes / 2**30 * 0.03e9" "EFS elastic reads" 0.02
near "$(jq 'map(select(.item == "efs.elastic-write")) | .[0].amount_nano_usd' <<<"$elastic")" "$written_bytes / 2**30 * 0.06e9" "EFS elastic writes" 0.02
[ "$(jq '.shadow | length' "$T/bill")" -ge 12 ] || fail "services are missing"
same "$(jq '[.shadow[] | select(.seconds <= 0)] | length' "$T/bill")" 0 "services that take no time"
# Nobody knows what Tokyo takes for Scratch 2: unknown, never free.
bill --region ap-northeast-1 >"$T/bill" || fail "bill in Tokyo"
same "$(jq '[.shadow[] | select(.name | startswith("FSx SCRATCH_2")) | .so_far.complete] | length > 0 and (any | not)' "$T/bill")" true "an unknown price"
bill --since 1h | jq -e '.from_unix_ms > 0' >/dev/null || fail "--since"
fsck_clean
