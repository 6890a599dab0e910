#!/usr/bin/env bash
# Two writers want one volume: the second is refused, or told to take over and then the first is
# fenced. Readers beside a writer see what it writes.
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-crash.sh"
need python3 jq

busy_settings flush_age_ms=600000 meta_flush_ms=100
MOUNT_ARGS=(--config "$T/settings.json")
A=$MNT B=$T/b R=$T/r
mkdir "$B" "$R"

mount_second() { # [ARGS...]
    "$WEIR" mount "$URL" "$B" --tier "$T/tier-b" --log-file "$T/b.log" --config "$T/settings.json" "$@"
}

format_volume
mount_volume
echo synced >"$A/synced"
sync "$A/synced"

echo "== a second writer is refused while the first lives"
mount_second 2>"$T/refused" && fail "two writers at once"
for word in "is mounted at $A" "weir umount $A" "--read-only"; do
    grep -q -- "$word" "$T/refused" || fail "the refusal does not say '$word': $(cat "$T/refused")"
done
"$WEIR" serve "$URL" --tier "$T/tier-b" --log-file "$T/b.log" --nbd 127.0.0.1:0 2>"$T/refused" &&
    fail "served beside its writer"
grep -q -- "mounted at $A.* --nbd" "$T/refused" || fail "serving says: $(cat "$T/refused")"
# One that is not seen from here, as on another machine, is known by its lease.
mkdir -m 700 "$T/elsewhere"
WEIR_RUN_DIR=$T/elsewhere mount_second 2>"$T/refused" && fail "two writers at once"
for word in "is mounted for writing by process $(daemon_pid) on $(hostname)" "--take-over"; do
    grep -q -- "$word" "$T/refused" || fail "the refusal does not say '$word': $(cat "$T/refused")"
done
mountpoint -q "$B" && fail "refused, but mounted"
echo still >"$A/still" || fail "the first was disturbed"

echo "== a reader beside it follows"
"$WEIR" mount "$URL" "$R" --tier "$T/tier-r" --log-file "$T/r.log" --read-only ||
    fail "no reader beside a writer"
same "$(cat "$R/synced")" synced "what the reader sees"
echo one >"$A/new" && sync "$A/new"
poll 30 test -e "$R/new" || fail "the reader does not see a new file"
same "$(cat "$R/new")" one "the new file as the reader sees it"
printf 'two, longer' >"$A/new" && sync "$A/new"
changed() { [ "$(cat "$R/new")" = 'two, longer' ]; }
poll 30 changed || fail "the reader still sees $(cat "$R/new")"
mv "$A/new" "$A/renamed" && sync "$A"
poll 30 test ! -e "$R/new" || fail "the reader still sees the old name"
same "$(cat "$R/renamed")" 'two, longer' "the renamed file as the reader sees it"
# In a subshell: a failed redirection must not end the case.
(echo x >"$R/x") 2>"$T/ro" && fail "the reader writes"
grep -qi "read-only" "$T/ro" || fail "not EROFS: $(cat "$T/ro")"

echo "== told to take over, the second fences the first"
first=$(daemons_below "$A")
dd if=/dev/urandom of="$A/unflushed" bs=100k count=1 status=none
cp "$A/unflushed" "$T/unflushed"
exec 3<"$A/unflushed"
sync "$A" # the name, not the bytes
mount_second --take-over || fail "no takeover"
same "$(cat "$B/synced")" synced "what the second sees"
echo second >"$B/from-second" && sync "$B/from-second" || fail "the second cannot write"
fenced() { ! sync "$A/still" 2>"$T/fenced" || ! (echo x >>"$A/still") 2>"$T/fenced"; }
poll 30 fenced || fail "the first still writes"
grep -qi "input/output error" "$T/fenced" || fail "not EIO: $(cat "$T/fenced")"
(echo x >"$A/late") 2>/dev/null && fail "the first still creates"
grep -q "another writer took the volume over" "$LOG" || fail "the first does not log why"
same "$("$WEIR" status "$A" --json | jq .fenced)" true "the first's status"
"$WEIR" status "$A" | grep -q FENCED || fail "status does not say FENCED"
cmp - "$T/unflushed" <&3 || fail "the fenced mount does not even serve what is open"
exec 3<&-
mountpoint -q "$A" || fail "the first is gone"
timeout 60 "$WEIR" umount "$A" 2>"$T/umount.err"
code=$?
[ $code -ne 0 ] && [ $code -ne 124 ] || fail "the fenced mount's unmount ends with $code"
mountpoint -q "$A" && fail "the fenced mount does not leave: $(cat "$T/umount.err")"
poll 30 gone "$first" || fail "the fenced daemon stays"

echo "== what the first had not flushed is set aside, and nothing of it comes back"
same "$(cat "$B/from-second")" second "the second's file"
"$WEIR" umount "$B" || fail "umount of the second"
mount_volume
grep -q "set aside" "$LOG" || fail "the log does not tell of what was set aside"
aside=$("$WEIR" status "$A" --json | jq -r .mount.set_aside.directory)
[ -d "$aside" ] || fail "status names no directory: $aside"
"$WEIR" status "$A" | grep -q "SET ASIDE" || fail "status does not tell of what was set aside"
find "$aside" -size 100k | grep -q . || fail "the unflushed file is not in $aside: $(find "$aside" -ls)"
same "$(cat "$A/from-second")" second "the second's file after all"
same "$(cat "$A/synced")" synced "the first's fsynced file after all"
[ ! -s "$A/unflushed" ] || cmp "$A/unflushed" /dev/null || fail "unflushed data of the fenced writer came back"
"$WEIR" umount "$R" || fail "umount of the reader"
fsck_clean

echo "== a writer that is dead needs no --take-over, one on a machine that is not known does"
mount_volume
kill9
mount_volume
umount_volume
mount_volume
kill9
lease_of_another
refused_mount "on elsewhere"
MOUNT_ARGS+=(--take-over)
mount_volume
fsck_clean
