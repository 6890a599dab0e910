#!/usr/bin/env bash
# Linked objects in archive classes: a hydration says what is there, has it restored when it is told to, waits for it without
# holding up others, outlives a kill, and brings it when it can be read.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
need jq python3 curl
CONTROL=$T/archive
mkdir "$CONTROL"

hydrate() { # ARGS...
    "$WEIR" hydrate "$@" >"$T/out" 2>"$T/err"
}
said() { grep -q -- "$1" "$T/out" "$T/err" || fail "it does not say '$1': $(cat "$T/out" "$T/err")"; }
asked() { cut -d' ' -f2- "$CONTROL/asked" 2>/dev/null | sort | uniq -c | sed 's/^ *//'; }
action() { # ID JQ
    "$WEIR" actions "$MNT" --all --json | jq -cr ".[] | select(.id == $1) | $2"
}
waits_for() { [ "$(action "$1" .archived.waiting)" = "$2" ]; }
is_done() { [ "$(action "$1" .state)" = done ]; }
here() { [ "$("$WEIR" state "$DIR/$1" --json | jq '.released')" = false ]; }

lake_start
answers() { curl -s -o /dev/null "http://127.0.0.1:$1/"; }
port=$(free_port)
"$TESTS/tools/archive_s3.py" "$port" "$S3_PORT" "$CONTROL" </dev/null &
remember $!
poll 10 answers "$port" || fail "the store with archives does not answer"
CONNECT=(--endpoint "http://127.0.0.1:$port")
DIR=$MNT/lake
for name in a b c d e; do
    head -c 300000 /dev/urandom >"$T/$name"
    lake put "data/$name" <"$T/$name"
done
head -c 20000000 /dev/urandom >"$T/big"
lake put data/big <"$T/big"
printf '%s\n' "lake/data/a GLACIER" "lake/data/big GLACIER" "lake/data/b DEEP_ARCHIVE" >"$CONTROL/archived"
format_volume
mount_volume
"$WEIR" link s3://lake/data "$DIR" >/dev/null || fail "link"

echo "== without a word nothing is restored, and what can be read comes"
hydrate "$DIR/a" "$DIR/b" "$DIR/c" "$DIR/big" --wait && fail "archived objects came"
said "3 files could not be hydrated"
said "weir hydrate --restore standard"
here c || fail "what is not archived did not come"
same "$(asked)" "" "what was asked for"
timeout 20 cat "$DIR/a" >/dev/null 2>&1 && fail "an archived file can be read"
[ $? -ne 124 ] || fail "a read of an archived file hangs"

echo "== what makes no sense"
hydrate -r "$DIR" --restore soon && fail "a tier that is none"
said "expedited (minutes)"
hydrate -r "$DIR" --restore-days 2 && fail "days of nothing"
hydrate -r "$DIR" --restore bulk --restore-days 0 && fail "no days"
hydrate -r "$DIR" --restore bulk --spread && fail "spread"

echo "== a class that has no such tier is refused, the others are asked for once, with their price"
hydrate "$DIR/a" "$DIR/b" "$DIR/c" "$DIR/big" --restore expedited --restore-days 2 || fail "hydrate --restore: $(cat "$T/err")"
id=$("$WEIR" actions "$MNT" --json | jq '.[0].id')
poll 20 waits_for "$id" 2 || fail "it waits for $(action "$id" .archived), not for 2"
same "$(asked)" "2 Expedited 2" "what was asked for"
same "$(action "$id" '[.state, .refused, .archived.asked[0].class, .archived.asked[0].objects, .archived.asked[0].bytes]')" \
    '["running",1,"GLACIER",2,20300000]' "how it stands"
"$WEIR" actions "$MNT" >"$T/out" || fail actions
said "asked to restore 2 of GLACIER (19.4 MiB), expedited: \$0.02"
said "2 files to come, 1 to 5 minutes"
bill() { # LINE JQ: of the lines that begin with it
    "$WEIR" bill "$MNT" --region us-east-1 --json | jq -cr "[.so_far.lines[] | select(.what | startswith(\"$1\"))] | $2"
}
# 20,300,000 bytes at 3 cents a GB, two requests at 10 dollars a thousand, and copies for two of 30.4 days at 2.3 cents.
same "$(bill "restored from" 'map([.what, .amount_nano_usd])')" '[["restored from GLACIER, expedited",567175]]' "the bill for bytes"
same "$(bill "asked of" 'map([.what, .quantity, .amount_nano_usd])')" '[["asked of GLACIER, expedited",0.002,20000000]]' "the bill for requests"
same "$(bill "copies of" 'map([.what, .amount_nano_usd])')" '[["copies of GLACIER",28592]]' "the bill for copies"
"$WEIR" bill "$MNT" | grep -q "restored from GLACIER, expedited" || fail "the bill for people does not show it"

echo "== others do not wait for it, and it outlives a kill without asking again"
for n in 1 2 3 4 5 6 7 8 9; do hydrate "$DIR/a" --restore expedited || fail "hydration $n"; done
hydrate "$DIR/d" --wait || fail "another hydration"
kill9
mount_volume
poll 20 waits_for "$id" 2 || fail "after a kill it waits for $(action "$id" .archived)"
same "$(asked)" "2 Expedited 2" "what was asked for after a kill"

echo "== it brings each as it can be read"
echo lake/data/a >"$CONTROL/restored"
poll 40 here a || fail "what was restored did not come"
cmp "$DIR/a" "$T/a" || fail "a is not what it was"
same "$(action "$id" .state)" running "its state while one is to come"
echo lake/data/big >>"$CONTROL/restored"
poll 40 is_done "$id" || fail "it does not end: $(action "$id" .)"
cmp "$DIR/big" "$T/big" || fail "big is not what it was"
same "$(action "$id" '[.refused, .archived.waiting]')" '[1,0]' "how it ended"

echo "== who may not restore is told what is missing, and a cancelled one waits no more"
echo yes >"$CONTROL/denied"
hydrate "$DIR/b" --restore bulk --wait && fail "restored without leave"
said "s3:RestoreObject"
rm "$CONTROL/denied"
hydrate "$DIR/b" --restore bulk || fail "hydrate --restore bulk"
id=$("$WEIR" actions "$MNT" --json | jq 'map(select(.request.restore.tier == "bulk")) | last | .id')
poll 20 waits_for "$id" 1 || fail "bulk waits for $(action "$id" .archived)"
same "$(asked)" "$(printf '1 Bulk 1\n2 Expedited 2')" "what was asked for in the end"
same "$(bill "asked of" 'map([.what, .amount_nano_usd])')" '[["asked of DEEP_ARCHIVE, bulk",null]]' "what nobody has a price for"
"$WEIR" cancel "$id" "$MNT" >/dev/null || fail cancel
same "$(action "$id" .state)" cancelled "its state"

echo "== one that says that it is restored and is not is given up"
echo "lake/data/e GLACIER" >>"$CONTROL/archived"
for control in restored stubborn; do echo lake/data/e >>"$CONTROL/$control"; done
hydrate "$DIR/e" --restore expedited --wait && fail "what cannot be read came"
said "over and over"
umount_volume
