#!/usr/bin/env bash
# The rules and the dashboard of monitoring/ beside a real Prometheus that scrapes a mount: every alert is
# tested, every expression answers, and alerts fire when the bucket goes away and when the daemon does.
# time-limit: 240
source "$(dirname "$0")/../lib.sh"
begin
need curl jq prometheus promtool
MONITORING=$TESTS/../monitoring

echo "== the rules, and the test of each"
promtool check rules "$MONITORING/rules.yml" >"$T/promtool.log" 2>&1 || fail "rules.yml"
promtool check config "$MONITORING/prometheus.yml" >"$T/promtool.log" 2>&1 || fail "prometheus.yml"
promtool test rules "$MONITORING/rules.test.yml" >"$T/promtool.log" 2>&1 || fail "rules.test.yml"
for alert in $(awk '/- alert:/ {print $3}' "$MONITORING/rules.yml"); do
    grep -q "\"$alert\"" "$MONITORING/rules.test.yml" || fail "no test of $alert"
    grep -q "\`$alert\`" "$TESTS/../docs/operations.md" || fail "docs/operations.md does not say what to do at $alert"
done
# The page has all of them, as severe as they are.
diff <(awk '/- alert:/ {alert = $3} /severity:/ {print alert, $4}' "$MONITORING/rules.yml") \
    <(sed -nE 's/^\| `(Weir[A-Za-z]+)` .* \| (critical|warning) \|$/\1 \2/p' "$TESTS/../docs/monitoring.md") >&2 ||
    fail "docs/monitoring.md has other alerts than rules.yml"

echo "== a mount with something of everything"
s3_start
mkdir -p "$T/s3/lake/db"
head -c 3000000 /dev/urandom >"$T/s3/lake/db/nt.00.nsq"
listen=127.0.0.1:$(free_port) reader=127.0.0.1:$(free_port)
jq -n '{bucket_timeout_ms: 2000, flush_age_ms: 500}' >"$T/settings.json"
fmt_mount --admin-listen "$listen" --config "$T/settings.json"
"$WEIR" link s3://lake/db "$MNT/db" --import all --export all >/dev/null || fail "link"
"$WEIR" throughput "$MNT" --mode bursting >/dev/null || fail "a mode"
"$WEIR" throughput "$MNT" --budget 5USD/h >/dev/null || fail "a budget"
mkdir "$MNT/work" && "$WEIR" quota set "$MNT/work" --bytes 1GiB --files 1000 >/dev/null || fail "a quota"
"$WEIR" snapshot schedule "$MNT" daily:2 >/dev/null || fail "a schedule"
# One that follows has no journal and sends nothing: that is no reason for an alert.
mkdir "$T/reader"
"$WEIR" flush "$MNT" && "$WEIR" mount "$URL" "$T/reader" --tier "$T/reader-tier" --log-file "$T/reader.log" \
    "${CONNECT[@]}" --read-only --admin-listen "$reader" || fail "mount --read-only"
scrape() { curl -sf "http://$listen/metrics"; }

# promtool reads the older format, in which HELP and TYPE of counters have `_total`, too.
scrape >"$T/scraped" || fail "no metrics at $listen"
awk 'NR == FNR { if ($1 == "#" && $2 == "TYPE" && $4 == "counter") counter[$3] = 1; next }
    $1 == "#" && ($3 in counter) { $3 = $3 "_total" } { print }' "$T/scraped" "$T/scraped" |
    promtool check metrics >"$T/promtool.log" 2>&1
# CloudWatch's names are as they are there, and so is one older unit.
grep -v '^weir_efs_.*snake_case\|^weir_tenant_waited_milliseconds_total' "$T/promtool.log" && fail "promtool check metrics"

echo "== Prometheus"
port=$(free_port)
# The alerts' patience is for people.
sed 's/^\( *for:\).*/\1 1s/; s/\[5m\]/[10s]/' "$MONITORING/rules.yml" >"$T/rules.yml"
sed "s/\"127.0.0.1:9464\"/\"$listen\", \"$reader\"/; s/15s/1s/" "$MONITORING/prometheus.yml" >"$T/prometheus.yml"
grep -q "$reader" "$T/prometheus.yml" || fail "prometheus.yml has another port"
prometheus --config.file="$T/prometheus.yml" --storage.tsdb.path="$T/tsdb" \
    --web.listen-address="127.0.0.1:$port" >"$T/prometheus.log" 2>&1 &
prometheus=$!
remember "$prometheus"
api() { # PATH [CURL ARGS...]
    curl -s "http://127.0.0.1:$port/api/v1/$1" "${@:2}"
}
samples() { # EXPRESSION: how many series it has
    api query --data-urlencode "query=$1" | jq -re 'if .status == "success" then .data.result | length else halt_error end'
}
scraped() { [ "$(api query --data-urlencode 'query=up{job="weir"} == 1' | jq '.data.result | length')" = 2 ]; }
poll 30 scraped || fail "Prometheus does not scrape"
for i in 1 2 3 4 5 6; do
    dd if=/dev/urandom of="$MNT/file$i" bs=300k count=1 conv=fsync status=none
    cat "$MNT/db/nt.00.nsq" >/dev/null
    sleep 1
done

echo "== every expression answers"
expressions() {
    awk '/ expr: >-/ { folded = 1; next }
        folded && /^ +(sum|>)/ { sub(/^ +/, ""); line = line " " $0; next }
        folded { print line; folded = 0; line = "" }
        / expr: / { sub(/.* expr: /, ""); print }' "$MONITORING/rules.yml"
    # Two variables of a query, as Grafana puts them in.
    jq -r '.. | .expr? // empty | gsub("\\$__rate_interval"; "20s") | gsub("\\$instance"; ".*") |
        gsub("\\$put_usd"; "0.005") | gsub("\\$get_usd"; "0.0004")' "$MONITORING/dashboard.json"
}
expressions >"$T/expressions"
empty=0 asked=0
while read -r expression; do
    count=$(samples "$expression") || fail "$expression"
    asked=$((asked + 1))
    [ "$count" = 0 ] && echo "$expression" >>"$T/empty"
done <"$T/expressions"
same "$(api rules | jq '[.data.groups[].rules[] | select(.health != "ok")] | length')" 0 "rules that Prometheus cannot evaluate"
same "$(api rules | jq '[.data.groups[].rules[]] | length')" "$(grep -c -- '- alert:' "$MONITORING/rules.yml")" "rules"
# What nothing failed for has no samples; alerts have some only while they fire. Each metric is there, but for
# those of nodes where a mount is alone.
panels=$(jq '[.. | .expr? // empty] | length' "$MONITORING/dashboard.json")
tail -n "$panels" "$T/expressions" | grep -Fxf "$T/empty" | grep -v '^weir_requests_failing{instance=~".\*"}$' |
    grep -v 'weir_actions_total_bytes' && fail "these panels are empty"
grep -oE '\bweir_[A-Za-z_]+' "$T/expressions" | sort -u | while read -r metric; do
    [[ $metric == weir_requests_failing || $metric == weir_node_* ]] || [ "$(samples "$metric")" != 0 ] || fail "no $metric"
done || exit 1
for variable in $(jq -r '.templating.list[] | select(.type == "query") | .query.query' "$MONITORING/dashboard.json" |
    grep -oE 'label_values\([a-zA-Z_]+' | sed 's/.*(//'); do
    [ "$(samples "$variable")" != 0 ] || fail "no $variable for a variable of the dashboard"
done
jq -e '.. | strings | select(test("^https?:"))' "$MONITORING/dashboard.json" && fail "the dashboard fetches something"
jq -e '[.panels[] | select(.type != "row")] | all(.fieldConfig.defaults.unit)' "$MONITORING/dashboard.json" >/dev/null ||
    fail "a panel without a unit"
jq -e '[.panels[].id] | length == (unique | length)' "$MONITORING/dashboard.json" >/dev/null || fail "a panel's id is not its own"
echo "$asked expressions"

echo "== the check of one look"
check() { # JQ: of `weir metrics --check`
    "$WEIR" metrics "$MNT" --check --json >"$T/check.json" 2>"$T/err"
    jq -cr "$1" "$T/check.json" || fail "weir metrics --check: $(cat "$T/err")"
}
"$WEIR" metrics "$MNT" >"$T/told" || fail "weir metrics"
diff <(grep '^# TYPE' "$T/told") <(scrape | grep '^# TYPE') >&2 || fail "weir metrics prints other metrics than the port answers"
"$WEIR" metrics "$MNT" --check >"$T/check" || fail "something is wrong at once: $(cat "$T/check")"
grep -q "metrics, as docs/metrics.md has them" "$T/check" || fail "weir metrics --check: $(cat "$T/check")"
same "$(check '[.wrong, .alerts]')" "[[],[]]" "what the check finds where nothing is wrong"
"$WEIR" metrics --check >/dev/null 2>"$T/err" && fail "of two mounts one is taken"
grep -q "weir metrics /mnt" "$T/err" || fail "not told to name one: $(cat "$T/err")"
check_finds() { [[ " $(check '[.alerts[].name] | join(" ")') " == *" $1 "* ]]; }

firing() { api alerts | jq -rc '[.data.alerts[] | select(.state == "firing") | .labels.alertname] | unique | join(" ")'; }
fires() { [[ " $(firing) " == *" $1 "* ]]; }
quiet() { [ "$(firing)" = "" ] && sleep 3 && [ "$(firing)" = "" ]; }
echo "== nothing is wrong"
poll 20 quiet || fail "an alert fires without need: $(firing)"

echo "== the bucket goes away"
s3_stop
dd if=/dev/urandom of="$MNT/late" bs=300k count=1 status=none
poll 60 fires WeirBucketFails || fail "no alert, but: $(firing)"
poll 60 fires WeirFlushFails || fail "no alert, but: $(firing)"
poll 20 check_finds WeirFlushFails || fail "the check finds only: $(check .)"
"$WEIR" metrics "$MNT" --check >"$T/check" && fail "exit 0 while flushes fail"
grep -q "^critical  WeirFlushFails: .* flushes in a row failed at $MNT" "$T/check" || fail "the check says: $(cat "$T/check")"
api alerts | jq -r '.data.alerts[].annotations[]' | grep -iE 'error (expanding|executing)|<no value>' && fail "an annotation"
s3_start "$S3_PORT"
poll 90 quiet || fail "still: $(firing)"

echo "== the daemon goes away"
"$WEIR" umount "$T/reader" || fail "umount of the reader"
kill9
poll 30 fires WeirDown || fail "no alert, but: $(firing)"
kill "$prometheus" && wait "$prometheus" 2>/dev/null
mount_volume
fsck_clean
