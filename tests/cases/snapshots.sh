#!/usr/bin/env bash
# Snapshots over a real mount: made, read, copied from, held and deleted; by root and by others; over
# remounts, upgrades of nothing, a bucket that is away, and kills at each step.
# time-limit: 600
source "$(dirname "$0")/../lib.sh"
begin
need jq setpriv

snapshot() { # COMMAND ARGS...
    local command=$1
    shift
    "$WEIR" snapshot "$command" "$MNT" "$@" || fail "snapshot $command $*"
}
names() { "$WEIR" snapshot list "$MNT" --json | jq -rc '[.[].name] | join(" ")'; }
of() { "$WEIR" snapshot list "$MNT" --json | jq -r ".[] | select(.name == \"$1\") | $2"; }
past() { echo "$MNT/.snapshots/$1"; }
sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
objects() { find "$BUCKET/vol/seg" -type f 2>/dev/null | wc -l; }
eager() {
    echo '{"collect_interval_s": 1, "collect_grace_s": 0}' >"$T/settings.json"
    MOUNT_ARGS=(--config "$T/settings.json")
}

echo "== every file as it was"
eager
format_volume --segment-size 1MiB
mount_volume
mkdir -p "$MNT/d/e" && cp /bin/ls "$MNT/d/ls" && ln -s ls "$MNT/d/link" && ln "$MNT/d/ls" "$MNT/hard"
head -c 5000000 /dev/urandom >"$MNT/d/e/large"
echo one >"$MNT/small"
chmod 640 "$MNT/small" && chown 1234:1235 "$MNT/small" && touch -d 2001-02-03 "$MNT/small"
same "$(find "$MNT/.snapshots" -mindepth 1 | wc -l)" 0 "snapshots before there are any"
snapshot create monday | grep -q "$(past monday)" || fail "create does not say where"
sums "$MNT" >"$T/monday"
stat -c '%a %u %g %Y %s' "$MNT/small" >"$T/small"
echo two >"$MNT/small" && rm -r "$MNT/d" && head -c 3000000 /dev/urandom >"$MNT/new"
snapshot create tuesday --json | jq -e '.name == "tuesday" and .files > 3' >/dev/null || fail "--json"
sums "$MNT" >"$T/tuesday"
rm "$MNT/new" "$MNT/hard"
check_all() {
    local name
    for name in "$@"; do
        sums "$(past "$name")" | diff - "$T/$name" || fail "$name is not as it was"
    done
}
check_all monday tuesday
same "$(stat -c '%a %u %g %Y %s' "$(past monday)/small")" "$(cat "$T/small")" "attributes"
same "$(readlink "$(past monday)/d/link")" ls "a symlink"
same "$(stat -c %h "$(past monday)/hard")" 2 "a hard link"
same "$(ls -A "$MNT")" small "what a listing of the root shows"
same "$(ls "$MNT/.snapshots" | tr '\n' ' ')" "monday tuesday " "the snapshots"
(cd "$(past monday)/d/e/.." && cmp ls /bin/ls) || fail "a path with .."
[ "$(cd "$(past monday)/.." && ls | wc -l)" = 2 ] || fail "above a snapshot are all of them"
[ "$(stat -c %i "$(past monday)/small")" != "$(stat -c %i "$MNT/small")" ] || fail "inodes mix"
same "$(stat -c %i "$(past monday)/small")" "$(stat -c %i "$(past monday)/small")" "an inode number"

echo "== what is different"
differs() { "$WEIR" snapshot diff "$MNT" "$@" || fail "diff $*"; }
same "$(differs monday monday)" "" "one and itself"
same "$(differs monday tuesday | tr '\n' ' ')" "- /d/ - /d/e/ - /d/e/large - /d/link - /d/ls A /hard + /new M /small " \
    "monday and tuesday"
mv "$MNT/small" "$MNT/renamed" && chmod 600 "$MNT/renamed" && mkdir "$MNT/sub" && touch "$MNT/sub/line
break"
same "$(differs tuesday | tr '\n' '|')" '- /hard|- /new|R /small -> /renamed|+ /sub/|+ /sub/line\nbreak|' "tuesday and now"
same "$(differs tuesday --json | jq -r '.[] | select(.change == "renamed") | .from')" /small "as JSON"
rm -r "$MNT/sub" && chmod 640 "$MNT/renamed" && mv "$MNT/renamed" "$MNT/small"
refused "a difference to nothing" "no snapshot" "$WEIR" snapshot diff "$MNT" monday sunday

echo "== nobody changes it"
for command in "touch $(past monday)/small" "rm $(past monday)/small" "mkdir $(past monday)/x" \
    "mkdir $MNT/.snapshots/x" "rmdir $(past tuesday)" "mv $(past monday)/small $MNT/x" \
    "ln $(past monday)/small $MNT/x" "chmod 777 $(past monday)/small" "truncate -s 0 $(past monday)/small" \
    "cp /bin/ls $(past monday)/small" "mv $MNT/small $(past monday)/small"; do
    # shellcheck disable=SC2086 # words
    $command 2>"$T/err" && fail "$command is done"
    grep -qE "Read-only|cross-device|Invalid cross" "$T/err" || fail "$command: $(cat "$T/err")"
done
mkdir "$MNT/.snapshots" 2>/dev/null && fail "the name is taken by others"
cat "$(past monday)/small" >/dev/null # changes no time
same "$(stat -c '%a %u %g %Y %s' "$(past monday)/small")" "$(cat "$T/small")" "attributes after reading"
if setpriv --reuid 65534 --clear-groups cat "$(past monday)/small" 2>/dev/null; then
    fail "permissions of then do not count"
fi

echo "== copied back without moving a byte"
sent() { "$WEIR" status "$MNT" --json | jq '.since_mount.bytes_flushed'; }
"$WEIR" flush "$MNT" >/dev/null
before=$(sent)
cp --reflink=auto "$(past monday)/d/e/large" "$MNT/restored" || fail "cp"
cmp "$MNT/restored" "$(past monday)/d/e/large" || fail "what was copied is another one"
"$WEIR" flush "$MNT" >/dev/null
[ $(($(sent) - before)) -lt 1000000 ] || fail "a copy moved $(($(sent) - before)) bytes"
sums "$MNT" >"$T/now"

echo "== names"
for name in -x "a b" a/b ../x "" "$(printf 'a%.0s' $(seq 129))"; do
    refused "the name '$name'" "no name for a snapshot\|unexpected argument" \
        "$WEIR" snapshot create "$MNT" "$name"
done
refused "what the newest dump is asked for by" "another name" "$WEIR" snapshot create "$MNT" newest
refused "a name that is taken" "already" "$WEIR" snapshot create "$MNT" monday
refused "one that is not there" "no snapshot" "$WEIR" snapshot delete "$MNT" wednesday
refused "a place without a volume" "weir" "$WEIR" snapshot list "$T"
snapshot hold monday | grep -q held || fail "hold says nothing"
same "$(of monday .held)" true "held"
refused "deleting what is held" "is held" "$WEIR" snapshot delete "$MNT" monday
snapshot release monday >/dev/null

echo "== the collector leaves what a snapshot holds, and takes what none does"
# What was copied back is the volume's as well, until it goes again.
rm "$MNT/restored"
sums "$MNT" >"$T/now"
poll 60 eval '[ "$(of monday .past_bytes)" -gt 4000000 ]' || fail "monday holds $(of monday .past_bytes)"
[ "$(of monday .alone_bytes)" -le "$(of monday .past_bytes)" ] || fail "alone more than at all"
sleep 3
remount
check_all monday tuesday
sums "$MNT" | diff - "$T/now" || fail "the volume is not as it was"
many=$(objects)
snapshot delete tuesday >/dev/null
same "$(names)" monday "snapshots"
poll 60 eval '[ "$(objects)" -lt '"$many"' ]' || fail "what only tuesday had stays: $(objects)"
check_all monday

echo "== somebody reads in one that is deleted"
exec 7<"$(past monday)/d/e/large"
snapshot create friday >/dev/null
snapshot delete friday >/dev/null
ls "$(past friday)" 2>/dev/null && fail "friday is there"
cmp /dev/fd/7 "$(past monday)/d/e/large" || fail "what is open"
exec 7<&-

echo "== without a mount, and read-only"
umount_volume
"$WEIR" snapshot create "$URL" thursday >/dev/null || fail "create by URL"
same "$("$WEIR" snapshot list "$URL" --json | jq -rc '[.[].name] | join(" ")')" "monday thursday" "by URL"
"$WEIR" snapshot diff "$URL" monday thursday | grep -q '^- /d/e/large$' || fail "diff by URL"
# Killed, it leaves nothing that anybody has to mount or to give up, and nobody needs its tier.
passing() { find "$T" -maxdepth 1 -name 'weir-passing-*' | wc -l; }
for point in begun kept finished; do
    TMPDIR=$T WEIR_FAILPOINTS="engine::snapshot-$point=1" "$WEIR" snapshot create "$URL" "killed-$point" >/dev/null 2>&1
    same $? 137 "a command that is killed at $point"
    same "$(passing)" 1 "temporary tiers of a killed command"
    rm -r "$T"/weir-passing-*
    "$WEIR" snapshot create "$URL" after >/dev/null || fail "the next command after a kill at $point"
    "$WEIR" snapshot delete "$URL" after >/dev/null || fail "delete by URL"
done
TMPDIR=$T WEIR_FAILPOINTS="engine::snapshot-begun=1" "$WEIR" snapshot create "$URL" killed-last >/dev/null 2>&1
rm -r "$T"/weir-passing-*
mount_volume
umount_volume
TMPDIR=$T WEIR_FAILPOINTS=engine::snapshot-kept=stop "$WEIR" snapshot create "$URL" told >/dev/null 2>&1 &
told=$!
is_stopped() { grep -q '^State:.T' "/proc/$told/status"; }
poll 30 is_stopped || fail "it does not come to the fail point"
kill -TERM $told && kill -CONT $told
wait $told
[ $? -lt 128 ] || fail "SIGTERM ends a command at once"
same "$(passing)" 0 "temporary tiers after SIGTERM"
for name in $("$WEIR" snapshot list "$URL" --json | jq -r '.[].name | select(test("^(killed|told)"))'); do
    "$WEIR" snapshot delete "$URL" "$name" >/dev/null || fail "delete $name"
done
refused "moving the metadata" "has snapshots" "$WEIR" migrate "$URL" --to postgres://u@127.0.0.1:9/x
"$WEIR" mount "$URL" "$MNT" --tier "$T/reader" --log-file "$T/reader.log" --read-only || fail "mount"
check_all monday
refused "one of a read-only mount" "read-only" "$WEIR" snapshot create "$MNT" x
"$WEIR" umount "$MNT" || fail "umount"
"$WEIR" fsck --data "$URL" --json | jq -e '.snapshots == 2 and .problems == []' >/dev/null || fail "fsck"
mount_volume

echo "== two at once, and many"
for n in 1 2 3 4; do "$WEIR" snapshot create "$MNT" "at-once-$n" >/dev/null & done
wait
same "$(names | wc -w)" 6 "snapshots made at once"
for n in $(seq "$(amount 20 1000)"); do "$WEIR" snapshot create "$MNT" "n$n" --no-flush >/dev/null || fail "$n"; done
same "$(ls "$MNT/.snapshots" | wc -l)" $((6 + $(amount 20 1000))) "many"
check_all monday
# shellcheck disable=SC2046 # words
snapshot delete $(names | tr ' ' '\n' | grep -E '^(n[0-9]|at-once)') >/dev/null
same "$(names)" "monday thursday" "those that stay"

echo "== killed at each step"
for point in begun kept finished ended handed-over released; do
    umount_volume
    WEIR_FAILPOINTS="engine::snapshot-$point=1" mount_volume
    echo "$point" >"$MNT/small"
    pid=$(daemon_pid)
    "$WEIR" snapshot create "$MNT" "k-$point" >/dev/null 2>&1
    "$WEIR" snapshot delete "$MNT" "k-$point" >/dev/null 2>&1
    poll 60 gone "$pid" || fail "$point is not reached"
    kill9
    mount_volume
    check_all monday
    same "$(cat "$MNT/small")" "$point" "the volume after a kill at $point"
    "$WEIR" snapshot delete "$MNT" "k-$point" >/dev/null 2>&1
    poll 60 eval '[ "$(names)" = "monday thursday" ]' || fail "after $point: $(names)"
    ls "$MNT/.snapshots/k-$point" 2>/dev/null && fail "half a snapshot shows after $point"
done

echo "== by themselves, as scheduled"
schedule() { "$WEIR" snapshot schedule "$MNT" "$@"; }
schedule | grep -q "no snapshot is made by itself" || fail "a schedule before there is one: $(schedule)"
for wrong in hourly hourly:0 yearly:3 hourly:1,hourly:2 on; do
    refused "the schedule '$wrong'" "rule" "$WEIR" snapshot schedule "$MNT" "$wrong"
done
umount_volume
"$WEIR" snapshot schedule "$URL" daily:2,monthly:12 >/dev/null || fail "schedule by URL"
# Killed when it is made, and not noted yet.
echo 0 >"$T/ahead"
WEIR_CLOCK_AHEAD=$T/ahead WEIR_FAILPOINTS="engine::snapshot-scheduled=1" mount_volume
pid=$(daemon_pid)
poll 40 gone "$pid" || fail "no snapshot is made by itself"
kill9
export WEIR_CLOCK_AHEAD=$T/ahead
mount_volume
has() { [ "$(schedule --json | jq -rc '[.rules[] | .snapshots] | join(" ")')" = "$1" ]; } # DAILY MONTHLY
poll 40 has "1 1" || fail "one of each rule: $(schedule --json)"
same "$(names | tr ' ' '\n' | grep -cE '^(daily|monthly)-20[0-9-]+$')" 2 "their names: $(names)"
"$WEIR" snapshot hold "$MNT" "$(names | tr ' ' '\n' | grep daily)" >/dev/null || fail "hold"
# A month may begin meanwhile.
dailies() { [ "$(schedule --json | jq '.rules[0].snapshots')" = "$1" ]; } # COUNT
for day in 1 2 3; do
    echo $((day * 86400)) >"$T/ahead"
    poll 40 dailies $((day < 3 ? day + 1 : 3)) || fail "day $day: $(schedule --json)"
done
same "$(names | tr ' ' '\n' | grep -c ^daily)" 3 "two, and the one that is held: $(names)"
same "$(names | tr ' ' '\n' | grep -cE '^(monday|thursday)$')" 2 "those that somebody made"
mv "$BUCKET" "$BUCKET.away"
echo $((4 * 86400)) >"$T/ahead"
poll 40 eval 'schedule | grep -q "^ *daily.*due for"' || fail "it does not say that one is due: $(schedule)"
mv "$BUCKET.away" "$BUCKET"
poll 90 eval 'schedule --json | jq -e ".trouble == null and .rules[0].overdue_s == 0" >/dev/null' ||
    fail "it is not made when the bucket is back: $(schedule --json)"
check_all monday
schedule off | grep -q "no snapshot is made by itself" || fail "off"
unset WEIR_CLOCK_AHEAD
remount
scheduled() { names | tr ' ' '\n' | grep -E '^(daily|monthly)-'; }
for name in $(scheduled); do "$WEIR" snapshot release "$MNT" "$name" >/dev/null || fail "release"; done
# shellcheck disable=SC2046 # words
snapshot delete $(scheduled) >/dev/null

echo "== the last one goes, and nothing is left of it"
snapshot delete monday thursday >/dev/null
rm -rf "${MNT:?}"/*
poll 120 eval '[ "$(objects)" = 0 ]' || fail "objects are left: $(objects)"
umount_volume
"$WEIR" fsck --data "$URL" --json | jq -e '.snapshots == 0 and .problems == []' >/dev/null || fail "fsck"
