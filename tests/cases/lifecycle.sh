#!/usr/bin/env bash
# `weir lifecycle`: what is not used moves into cheaper storage classes of a store that has them; plans and prices; kills at each
# moment; the bill; stores that have none.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
need jq python3 curl

lifecycle() { # ARGS...: what it says is in $T/json
    "$WEIR" lifecycle "$@" --json >"$T/json" 2>"$T/err"
}
is() { same "$(jq -cr "$1" "$T/json")" "$2" "$1"; }
says() { grep -q -- "$1" "$T/err" || fail "it does not say '$1': $(cat "$T/err")"; }
RULE='cold after 30d: STANDARD_IA; after 180d: GLACIER_IR'
# A day of the daemon, and of the commands.
days() { echo $(($1 * 86400)) >"$T/ahead"; }
classes() { # CLASS: how many segments the store has in it
    grep -c "/seg/.* $1\$" "$T/classes"
}
answers() { curl -s -o "$T/answer" "http://127.0.0.1:$1/"; }
ends_well() { # the pass of this moment
    "$WEIR" lifecycle run "$MNT" --wait >"$T/out" 2>"$T/err" || fail "run: $(cat "$T/err")"
}

echo "== stores without classes take no rule"
s3_start
format_volume
mount_volume
head -c 3000000 /dev/urandom >"$MNT/a"
lifecycle set "$MNT" "$RULE" --yes && fail "a store without classes"
says "no storage class STANDARD_IA"
lifecycle show "$MNT" || fail "show"
is '.rules' '[]'
lifecycle run "$MNT" && fail "a pass without a rule"
says "there is no rule"
umount_volume
lose_tier

echo "== rules that are none"
export WEIR_CLOCK_AHEAD=$T/ahead
days 0
port=$(free_port)
"$TESTS/tools/classes_s3.py" "$port" "$S3_PORT" "$T/classes" </dev/null &
remember $!
poll 10 answers "$port" || fail "the store with classes does not answer"
CONNECT=(--endpoint "http://127.0.0.1:$port")
URL=s3://bucket/aging
echo '{"collect_interval_s": 1, "collect_grace_s": 0}' >"$T/settings.json"
MOUNT_ARGS=(--config "$T/settings.json")
format_volume --segment-size 1MiB
mount_volume
mkdir "$MNT/raw" "$MNT/ref"
for rule in '' 'cold' 'cold after 30d: DEEP_ARCHIVE' 'cold after 30d: GLACIER_IR; after 60d: STANDARD_IA'; do
    lifecycle set "$MNT" "$rule" --yes && fail "'$rule' is a rule"
    grep -qE "write 'cold after|take GLACIER_IR|from warm to cold" "$T/err" || fail "why '$rule' is none: $(cat "$T/err")"
done
lifecycle set "$MNT/nothing" "$RULE" --yes && fail "a directory that is not there"

echo "== the price comes first"
for n in 1 2 3; do head -c 3000000 /dev/urandom >"$MNT/raw/f$n"; done
head -c 3000000 /dev/urandom >"$MNT/ref/g"
"$WEIR" flush "$MNT" || fail "flush"
(cd "$MNT" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$T/sums"
lifecycle set "$MNT" "$RULE" --dry-run || fail "plan: $(cat "$T/err")"
is '[.plan.moves, .set]' '[[],false]'
lifecycle set "$MNT/ref" never || fail "set: $(cat "$T/err")"
is '.set' true
days 31
lifecycle set "$MNT" "$RULE" --dry-run || fail "plan: $(cat "$T/err")"
is '[.set, .plan.moves[0].to, .price.month_after.total_nano_usd < .price.month_before.total_nano_usd, .price.even_gb_a_month > 0]' '[false,"STANDARD_IA",true,true]'
lifecycle set "$MNT" "$RULE" </dev/null && fail "nobody was asked"
says "say --yes"
[ ! -s "$T/classes" ] || fail "something moved: $(cat "$T/classes")"
"$WEIR" lifecycle set "$MNT" "$RULE" --yes >"$T/out" || fail "set"
grep -q "STANDARD -> STANDARD_IA: " "$T/out" && grep -q "a month for what was" "$T/out" || fail "what it says: $(cat "$T/out")"

echo "== what is old moves, and reads as before"
ends_well
moved=$(classes STANDARD_IA)
[ "$moved" -ge 6 ] || fail "$moved moved"
lifecycle show "$MNT" || fail "show"
is '[.rules[].path]' '["/","/ref"]'
is '[.classes[].class]' '["STANDARD","STANDARD_IA"]'
cold
(cd "$MNT" && sha256sum -c --quiet "$T/sums") || fail "bytes changed"
"$WEIR" bill "$MNT" >"$T/out" || fail "bill"
for line in "storage in STANDARD_IA" "GET requests of STANDARD_IA" "read from STANDARD_IA"; do
    grep -q "$line" "$T/out" || fail "no '$line' on the bill: $(cat "$T/out")"
done

echo "== killed at each moment, it goes on"
for point in engine::lifecycle-moved engine::lifecycle-page; do
    umount_volume
    days $((31 + 200))
    WEIR_FAILPOINTS="$point=1" mount_volume
    pid=$(daemon_pid)
    "$WEIR" lifecycle run "$MNT" >/dev/null 2>&1
    poll 30 gone "$pid" || fail "it was not killed at $point"
    kill9
    mount_volume
    (cd "$MNT" && sha256sum -c --quiet "$T/sums") || fail "bytes changed at $point"
done
ends_well
same "$(classes GLACIER_IR)" "$moved" "what moved on"
same "$(classes STANDARD_IA)" 0 "they moved on"
cold
(cd "$MNT" && sha256sum -c --quiet "$T/sums") || fail "bytes changed"

echo "== rules go, what moved stays; a removed file goes"
"$WEIR" lifecycle remove "$MNT" >/dev/null && "$WEIR" lifecycle remove "$MNT/ref" >"$T/out" || fail "remove"
grep -q "There is no rule" "$T/out" || fail "a rule is left: $(cat "$T/out")"
lifecycle remove "$MNT" && fail "a rule that is not there goes"
says "has no rule of its own"
rm "$MNT/raw/f1"
"$WEIR" flush "$MNT"
gone() { [ "$(classes GLACIER_IR)" -lt "$moved" ]; }
poll 60 gone || fail "segments of a removed file stay"

echo "== objects of a link move in their own bucket, also when it is killed on the way"
LAKE=$MNT/lake LAKE_RULE='cold after 30d: STANDARD_IA'
"$WEIR" link s3://bucket/lake "$LAKE" --import new,changed,deleted >/dev/null || fail "link"
lifecycle set "$LAKE" "$LAKE_RULE" --yes && fail "a rule for a bucket in which nothing may be changed"
says "does not export"
"$WEIR" unlink "$LAKE" >/dev/null && rmdir "$LAKE" || fail "unlink"
"$WEIR" link s3://bucket/lake "$LAKE" --import new,changed,deleted --export new,changed,deleted >/dev/null || fail "link"
for n in 1 2 3; do head -c 2000000 /dev/urandom >"$LAKE/o$n"; done
echo small >"$LAKE/small"
exported() { [ "$("$WEIR" links "$LAKE" --json | jq '.[0].export_waiting')" = 0 ]; }
poll 30 exported || fail "they are not exported"
(cd "$LAKE" && sha256sum ./*) >"$T/lake.sums"
days $((31 + 200 + 31))
lifecycle set "$LAKE" "$LAKE_RULE" --dry-run || fail "plan: $(cat "$T/err")"
is '[.plan.moves[] | [.from, .to, .objects]]' '[["STANDARD","STANDARD_IA",3]]'
lakes() { grep -c "/lake/o. $1\$" "$T/classes"; } # CLASS
for point in engine::class-changed engine::lifecycle-objects; do
    umount_volume
    WEIR_FAILPOINTS="$point=1" mount_volume
    pid=$(daemon_pid)
    "$WEIR" lifecycle set "$LAKE" "$LAKE_RULE" --yes >/dev/null 2>&1
    poll 30 gone "$pid" || fail "it was not killed at $point"
    kill9
    mount_volume
    (cd "$LAKE" && sha256sum -c --quiet "$T/lake.sums") || fail "bytes changed at $point"
done
ends_well
same "$(lakes STANDARD_IA)" 3 "objects of the link that moved"
lifecycle show "$MNT" || fail "show"
is '[.rules[] | [.path, .link != null]]' '[["/lake",true]]'
is '[.object_classes[] | [.class, .bytes]]' '[["STANDARD_IA",6000000]]'
billed() { [ "$("$WEIR" bill "$MNT" --json | jq -c .used.used.linked_bytes)" = '[6,6000000,0,0]' ]; }
poll 10 billed || fail "objects of the link on the bill: $("$WEIR" bill "$MNT" --json | jq -c .used)"
"$WEIR" bill "$MNT" | grep -q 'linked objects in STANDARD' || fail "the bill has no line for them: $("$WEIR" bill "$MNT")"
scraped='weir_linked_class_bytes{.*class="STANDARD_IA"} 6000000'
"$WEIR" metrics "$MNT" | grep -q "$scraped" || fail "metrics: $("$WEIR" metrics "$MNT" | grep linked)"
cold
"$WEIR" refresh "$LAKE" --wait >/dev/null || fail "refresh"
(cd "$LAKE" && sha256sum -c --quiet "$T/lake.sums") || fail "bytes changed"
same "$(find "$LAKE" -type f | wc -l)" 4 "files"
echo changed >>"$LAKE/o1" && rm "$LAKE/o2"
poll 30 exported || fail "they are not exported"
same "$(lakes STANDARD_IA)" 1 "objects that are as they were"
"$WEIR" unlink "$LAKE" >/dev/null || fail "unlink"
unbilled() { [ "$("$WEIR" bill "$MNT" --json | jq -c .used.used.linked_bytes)" = '[0,0,0,0]' ]; }
poll 10 unbilled || fail "objects of a link that ended: $("$WEIR" bill "$MNT" --json | jq -c .used)"
umount_volume
"$WEIR" fsck "$URL" "${CONNECT[@]}" --data >"$T/out" || fail "fsck: $(cat "$T/out")"
