#!/usr/bin/env bash
# What `weir doctor` says of a machine, a disk, a bucket, a mount, and of what is wrong with them.
source "$(dirname "$0")/../lib.sh"
begin
need jq mount umount
s3_start

# Of a run with --json: the verdict of NAME.
verdict() { jq -r --arg name "$1" '[.findings[] | select(.name == $name) | .verdict][0]' "$T/json"; }
none_answers() { ! timeout 2 stat -f "$MNT" >/dev/null 2>&1; }
doctor() { "$WEIR" doctor --json "$@" >"$T/json" 2>"$T/err"; }

echo "== a machine, a disk and a bucket that are right"
doctor "$URL" "${CONNECT[@]}" --tier "$TIER/new" --journal "$TIER" || fail "doctor: $(cat "$T/json" "$T/err")"
same "$(jq -r .schema_version "$T/json")" 1 "the schema's version"
for name in kernel FUSE io_uring "file system" room fsync holes list credentials "conditional PUT" checksums read write bytes \
    clock delete; do
    [ "$(verdict "$name")" != null ] || fail "nothing is said of $name: $(cat "$T/json")"
    [ "$(verdict "$name")" != bad ] || fail "$name is bad: $(cat "$T/json")"
done
same "$(verdict checksums)" good "checksums that the server looks at"
jq -r '.findings[].found' "$T/json" | grep -q "^access key weirtest of the environment$" || fail "whose keys: $(cat "$T/json")"
[ ! -e "$TIER/new" ] || fail "doctor made the directory"
same "$(find "$TIER" -type f | wc -l)" 0 "files that doctor leaves in the tier"
same "$(find "$T/s3/bucket" -type f | wc -l)" 0 "objects that doctor leaves in the bucket"
"$WEIR" doctor "$URL" "${CONNECT[@]}" >"$T/text" || fail "doctor for people"
for word in "ok    bucket" "weir format $URL" "MB/s"; do
    grep -q -- "$word" "$T/text" || fail "doctor does not say '$word': $(cat "$T/text")"
done
[ "$(wc -L <"$T/text")" -le 200 ] || fail "a line of $(wc -L <"$T/text")"

echo "== what is wrong with them"
doctor --tier /dev/shm && fail "a tier in memory is right"
jq -r '.findings[].found' "$T/json" | grep -q tmpfs || fail "tmpfs is not named: $(cat "$T/json")"
doctor s3://nobody-has-this/vol "${CONNECT[@]}" && fail "a bucket that is not there is right"
same "$(verdict list)" bad "no bucket"
s3_stop
SECONDS=0
doctor "$URL" "${CONNECT[@]}" && fail "a server that is not there is right"
[ $SECONDS -le 20 ] || fail "$SECONDS s to see that nobody listens"
jq -r '.findings[].found' "$T/json" | grep -q "127.0.0.1:$S3_PORT" || fail "the server is not named"
s3_start "$S3_PORT"

echo "== a mount"
fmt_mount
doctor "$MNT" || fail "doctor of a mount: $(cat "$T/json")"
same "$(verdict place) $(verdict daemon)" "good good" "a mount"
mount -t tmpfs over "$MNT/" || fail "mount over it"
doctor "$MNT" && fail "what hides a volume is right"
jq -r '.findings[].found' "$T/json" | grep -q "tmpfs was mounted over" || fail "over it: $(cat "$T/json")"
umount "$MNT"
kill -KILL "$(daemon_pid)"
poll 30 none_answers || fail "the mount is not dead"
doctor "$MNT" && fail "a dead mount is right"
jq -r '.findings[].advice // empty' "$T/json" | grep -q "weir umount $MNT" || fail "dead: $(cat "$T/json")"
"$WEIR" umount "$MNT" || fail "clear the dead mount away"
doctor "$MNT" && fail "no mount is right"
same "$(verdict place)" bad "no mount"
