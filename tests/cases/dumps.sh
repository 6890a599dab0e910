#!/usr/bin/env bash
# Dumps of the metadata in the volume's own bucket, and a volume whose metadata is lost: in the bucket, in a database that
# is gone, moved from one to the other; kills at each step; and what may not be lost is not.
# time-limit: 300
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-postgres.sh"
need jq python3

run() { "$WEIR" "$@" >"$T/out" 2>&1 || fail "$*: $(cat "$T/out")"; }
sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum && find . -printf '%p %y %m %U %G %s %l\n' | sort); }
names() { "$WEIR" backups "$URL" --json | jq -rc '[.[].name] | join(" ")'; }
dumped() { "$WEIR" snapshot list "$MNT" --json | jq -rc '[.[] | select(.dumped) | .name] | join(" ")'; }
restore() { "$WEIR" restore-volume "$URL" --metadata-from "$@" --json >"$T/json" 2>"$T/err" || fail "restore: $(cat "$T/json" "$T/err")"; }
as() { # STATE
    sums "$MNT" | diff "$T/$1" - >"$T/diff" || fail "the volume is not as $1: $(head -5 "$T/diff")"
}
sound() { "$WEIR" fsck --data "$URL" >"$T/out" || fail "fsck: $(cat "$T/out")"; }
objects() { find "$BUCKET/vol/$1" -type f 2>/dev/null | wc -l; }

echo "== dumped, and gone with its snapshot"
echo '{"collect_interval_s": 1, "collect_grace_s": 0}' >"$T/settings.json"
MOUNT_ARGS=(--config "$T/settings.json")
format_volume --segment-size 1MiB
mount_volume
mkdir -p "$MNT/a/b" && cp /bin/ls "$MNT/a/ls" && ln -s ls "$MNT/a/link" && ln "$MNT/a/ls" "$MNT/hard"
for n in $(seq 200); do echo "file $n" >"$MNT/a/b/$n"; done
head -c 9000000 /dev/urandom >"$MNT/large"
chmod 640 "$MNT/large" && chown 1234:1235 "$MNT/large"
run quota set "$MNT/a" --bytes 1GiB
run snapshot create "$MNT" monday
sums "$MNT" >"$T/monday"
run snapshot dump "$MNT" monday
rm "$MNT/a/b/7" && echo changed >"$MNT/a/b/8" && head -c 3000000 /dev/urandom >"$MNT/a/second"
run snapshot create "$MNT" tuesday
sums "$MNT" >"$T/tuesday"
run snapshot dump "$MNT" tuesday --json
same "$(jq -r '.[0].dumped' "$T/out")" true "what dump says"
run snapshot create "$MNT" plain
same "$(dumped) / $(names)" "monday tuesday / monday tuesday" "the dumps"
"$WEIR" snapshot list "$MNT" | grep -q "^ *monday .*dumped" || fail "the list does not say what is dumped"
refused "a dump of none" "no snapshot" "$WEIR" snapshot dump "$MNT" sunday
run snapshot create "$MNT" short && run snapshot dump "$MNT" short
run snapshot hold "$MNT" short
refused "deleting what is held" "held" "$WEIR" snapshot delete "$MNT" short
same "$(names)" "monday tuesday short" "dumps after a deletion that was refused"
run snapshot release "$MNT" short && run snapshot delete "$MNT" short
same "$(names)" "monday tuesday" "dumps after a deletion"
rm "$MNT/large" && echo later >"$MNT/later"
run flush "$MNT"
sleep 3

echo "== what is not lost stays"
refused "while it is mounted" "belongs to" "$WEIR" restore-volume "$URL" --metadata-from newest
umount_volume
refused "metadata that is there" "accept-loss" "$WEIR" restore-volume "$URL" --metadata-from newest
refused "a dump that is none" "no dump" "$WEIR" restore-volume "$URL" --metadata-from sunday --accept-loss
mkdir "$T/none"
refused "no volume" "not a Weir volume" "$WEIR" restore-volume "file://$T/none" --metadata-from newest
mount_volume
same "$(cat "$MNT/later")" later "the volume after what was refused"

echo "== unflushed, and the metadata is gone"
# The tier has what the bucket has not: it is of the volume that is lost, and must not get into the other one.
echo unflushed >"$MNT/unflushed" && echo unflushed >"$MNT/a/b/9"
before=$(jq -r .id "$BUCKET/vol/volume.json")
kill9
mv "$BUCKET/vol/meta" "$T/lost"
"$WEIR" mount "$URL" "$MNT" --tier "$T/tier" >"$T/out" 2>&1 && fail "a volume without metadata is mounted"
restore newest
same "$(jq -r '.dump.name, .before, (.missing | length)' "$T/json" | tr '\n' ' ')" "tuesday $before 0 " "what restore says"
[ "$(jq -r .id "$BUCKET/vol/volume.json")" = "$(jq -r .volume "$T/json")" ] && [ "$(jq -r .volume "$T/json")" != "$before" ] || fail "its id"
sound
mount_volume
as tuesday
same "$("$WEIR" quota list "$MNT" --json | jq length)" 1 "quotas"
[ -n "$(find "$T/tier/$before/mirror" -type f)" ] || fail "what the tier had is gone"
echo written >"$MNT/written" && run snapshot create "$MNT" wednesday && run snapshot dump "$MNT" wednesday
same "$(names)" "monday tuesday wednesday" "dumps, also of before"
sums "$MNT" >"$T/wednesday"
umount_volume

echo "== an older one, and kills at each step"
die() { # POINT COMMAND...
    WEIR_FAILPOINTS="$1=1" "${@:2}" >"$T/out" 2>&1
    same $? 137 "killed at $1: $(cat "$T/out")"
}
for point in removed loaded named; do
    die "engine::metadata-$point" "$WEIR" restore-volume "$URL" --metadata-from wednesday --accept-loss
    refused "a volume that is not whole" "run .weir restore-volume --metadata-from. again" "$WEIR" mount "$URL" "$MNT" --tier "$T/tier"
    "$WEIR" fsck "$URL" >"$T/out" 2>&1 && fail "fsck finds nothing after $point"
    restore wednesday
    mount_volume
    as wednesday
    umount_volume
done
mount_volume
run snapshot create "$MNT" thursday
umount_volume
killed() { # POINT COMMAND...
    WEIR_FAILPOINTS="$1=1" mount_volume
    local pid
    pid=$(daemon_pid)
    "${@:2}" >"$T/out" 2>&1 && fail "$1 is not reached"
    poll 60 gone "$pid" || fail "$1 is not reached"
    kill9
}
killed engine::dump-rows "$WEIR" snapshot dump "$MNT" thursday
same "$(names)" "monday tuesday wednesday" "a dump that is not whole"
mount_volume
run snapshot dump "$MNT" thursday
umount_volume
killed engine::dump-removed "$WEIR" snapshot delete "$MNT" thursday
mount_volume
same "$(names) / $("$WEIR" snapshot list "$MNT" --json | jq -r '.[0].name')" "monday tuesday wednesday / thursday" "killed while it was deleted"
same "$(dumped)" "" "dumps that it tells of"
run snapshot delete "$MNT" thursday

echo "== as scheduled"
run snapshot schedule "$MNT" hourly:2 --dump
poll 60 eval '[[ $(dumped) == hourly-* ]]' || fail "no dump is made by itself: $("$WEIR" snapshot schedule "$MNT")"
"$WEIR" snapshot schedule "$MNT" | grep -q "dumped to the bucket" || fail "the schedule does not say so"
sums "$MNT" >"$T/hourly"
umount_volume

echo "== damage"
manifest=$(grep -l '"name": "hourly' "$BUCKET"/vol/dumps/*/*/backup.json)
rows=$(dirname "$manifest")/rows/00000000
cp "$rows" "$T/rows" && python3 - "$rows" <<'PY'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(100)
    byte = file.read(1)
    file.seek(100)
    file.write(bytes([byte[0] ^ 1]))
PY
refused "a damaged dump" "damaged" "$WEIR" restore-volume "$URL" --metadata-from newest --accept-loss
mount_volume
as hourly
cp "$T/rows" "$rows"
umount_volume
segment=$(find "$BUCKET/vol/seg" -type f -size +900k | head -1)
mv "$segment" "$T/segment"
"$WEIR" restore-volume "$URL" --metadata-from newest --accept-loss >"$T/out" 2>&1 && fail "a missing segment is not told of"
grep -q "1 segments are damaged or missing" "$T/out" || fail "it does not say what is missing: $(cat "$T/out")"
mv "$T/segment" "$segment"
mount_volume
as hourly
umount_volume

echo "== to a database, which is lost, and back"
pg_make
schema() { sql weir "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'weir%'"; }
restore newest --meta "$META" --accept-loss
same "$(jq -r .metadata "$BUCKET/vol/volume.json") $(schema)" "$META weir_$(jq -r .volume "$T/json")" "where the metadata is"
same "$(objects meta)" 0 "objects of metadata that is not there any more"
mount_volume
as hourly
run snapshot create "$MNT" database && run snapshot dump "$MNT" database
echo unflushed >"$MNT/unflushed"
kill9
sql weir "DROP SCHEMA \"$(schema)\" CASCADE"
"$WEIR" mount "$URL" "$MNT" --tier "$T/tier" >"$T/out" 2>&1 && fail "a volume without metadata is mounted"
restore newest
same "$(jq -r .dump.name "$T/json") $(schema)" "database weir_$(jq -r .volume "$T/json")" "the dump, and where the metadata is"
mount_volume
as hourly
umount_volume
pg_stop
refused "a database that is away" "may not be lost" "$WEIR" restore-volume "$URL" --metadata-from newest
restore database --meta slate --accept-loss
mount_volume
as hourly
umount_volume
sound
