#!/usr/bin/env bash
# Backups: a volume kept in another bucket, incrementally; a volume made of one when the first is lost; kills at each
# step, damage on either side, other volumes' places, and what deleting leaves.
# time-limit: 400
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-postgres.sh"
need jq python3

backup() { # ARGS...
    "$WEIR" backup "$@" "${CONNECT[@]}" --json >"$T/json" 2>"$T/err" || fail "backup $*: $(cat "$T/json" "$T/err")"
}
restored() { # ARGS...
    "$WEIR" restore-volume "$@" "${CONNECT[@]}" --json >"$T/json" 2>"$T/err" || fail "restore-volume $*: $(cat "$T/json" "$T/err")"
}
names() { "$WEIR" backups "$1" "${CONNECT[@]}" --json | jq -rc '[.[].name] | join(" ")'; }
is() { same "$(jq -r "$1" "$T/json")" "$2" "$1"; }
sums() { (cd "$1" && find . -type f ! -path './db/*' -print0 | sort -z | xargs -0 sha256sum && find . ! -path './db*' -printf '%p %y %m %U %G %T@ %l\n' | sort); }
objects() { find "$T/s3/$1" -type f 2>/dev/null | wc -l; }
snapshots() { "$WEIR" snapshot list "$MNT" --json | jq -rc '[.[].name] | join(" ")'; }
# Mounts a volume beside the other one, and holds what is in it against what was.
has() { # URL STATE
    mkdir -p "$T/other"
    "$WEIR" mount "$1" "$T/other" --tier "$T/other-tier" --log-file "$T/other.log" "${CONNECT[@]}" >/dev/null || fail "mount $1"
    sums "$T/other" | diff "$T/$2" - >"$T/diff" || fail "$1 is not as $2: $(head -10 "$T/diff")"
    "$WEIR" umount "$T/other" || fail "umount"
    rm -rf "$T/other-tier"
    "$WEIR" fsck --data "$1" "${CONNECT[@]}" >"$T/out" || fail "fsck $1: $(cat "$T/out")"
}

echo "== taken, again, and restored"
s3_start
mkdir -p "$T/s3"/{lake,backups,again} && echo object >"$T/s3/lake/object"
echo '{"collect_interval_s": 1, "collect_grace_s": 0}' >"$T/settings.json"
MOUNT_ARGS=(--config "$T/settings.json")
format_volume --segment-size 1MiB
mount_volume
B=s3://backups/genomes
mkdir -p "$MNT"/{a/b,db} && cp /bin/ls "$MNT/a/ls" && ln -s ls "$MNT/a/link" && ln "$MNT/a/ls" "$MNT/hard" && mkfifo "$MNT/pipe"
for n in $(seq 300); do echo "file $n" >"$MNT/a/b/$n"; done
head -c 20000000 /dev/urandom >"$MNT/large"
truncate -s 30M "$MNT/sparse" && printf end >>"$MNT/sparse"
chmod 640 "$MNT/large" && chown 1234:1235 "$MNT/large" && touch -d 2001-02-03 "$MNT/large"
"$WEIR" link s3://lake "$MNT/db" "${CONNECT[@]}" --import all --export all >/dev/null || fail "link"
"$WEIR" quota set "$MNT/a" --bytes 1GiB >/dev/null || fail "quota"
"$WEIR" snapshot create "$MNT" kept >/dev/null && echo gone >"$MNT/gone" && "$WEIR" snapshot create "$MNT" other >/dev/null && rm "$MNT/gone"
exec 7<>"$MNT/held" && echo held >&7 && rm "$MNT/held"
sums "$MNT" >"$T/first"
backup "$MNT" --to $B --name first
is .name first && is '.copied == .segments and .segments > 5 and .damaged == []' true
same "$(snapshots)" "kept other" "snapshots of the volume"
same "$(stat -c %a "$T/s3/backups/genomes/backups/first/backup.json" | cut -c1)" 6 "a manifest"
echo more >"$MNT/a/more" && rm "$MNT/a/b/7" && head -c 1500000 /dev/urandom >"$MNT/large2"
sums "$MNT" >"$T/second"
backup "$MNT" --to $B
is '.copied >= 2 and .copied < .segments' true
second=$(jq -r .name "$T/json")
[[ $second =~ ^20..-..-..T..:..:..\....Z$ ]] || fail "the name of a backup: $second"
same "$(names $B)" "first $second" "the backups"
"$WEIR" backups $B "${CONNECT[@]}" | grep -q "^ *first .* -$" || fail "the table: $("$WEIR" backups $B "${CONNECT[@]}")"
backup "$MNT" --to $B --snapshot other
is .name other && is '.copied < 3' true
exec 7>&-

restored $B s3://again/newest
is '.paused_links' 1 && is '.damaged' '[]' && is .backup.name "$second"
has s3://again/newest second
restored $B s3://again/first --backup first --stripe s3://again/stripe
has s3://again/first first
[ "$(objects again/stripe)" -gt 2 ] || fail "it is not spread over buckets"
mkdir -p "$T/other" && "$WEIR" mount s3://again/newest "$T/other" --tier "$T/other-tier" --log-file "$T/other.log" "${CONNECT[@]}" || fail "mount"
same "$(cat "$T/other/db/object") $("$WEIR" quota list "$T/other" --json | jq -r '.[0] | .. | numbers | select(. == 1073741824)' | head -1)" "object 1073741824" "a linked object and a quota"
echo mine >"$T/other/db/mine" && echo written >"$T/other/a/written" && "$WEIR" snapshot create "$T/other" s >/dev/null || fail "writing"
"$WEIR" links "$T/other" --json | jq -e '.. | objects | select(has("export")) | .export | (.new or .changed or .deleted) | not' >/dev/null ||
    fail "its link exports: $("$WEIR" links "$T/other" --json)"
"$WEIR" flush "$T/other" && sleep 2 && [ ! -e "$T/s3/lake/mine" ] || fail "a restored volume exports"
"$WEIR" umount "$T/other" && rm -rf "$T/other-tier" || fail "umount"

echo "== one that is mounted nowhere, to a directory, and the volume is lost"
umount_volume
mkdir "$T/disk"
backup "$URL" --to "file://$T/disk/b" --name offline --jobs 2
same "$(stat -c %a "$T/disk/b")" 700 "who may read a backup"
rm -rf "$T/s3/bucket/vol"
restored "file://$T/disk/b" "$URL"
mount_volume
sums "$MNT" | diff "$T/second" - >"$T/diff" || fail "the volume is another one: $(head -5 "$T/diff")"

echo "== refused"
refused "a second one of a name" "already" "$WEIR" backup "$MNT" --to "$B" --name first "${CONNECT[@]}"
refused "another volume's place" "another volume" "$WEIR" backup "$MNT" --to "$B" --name new "${CONNECT[@]}"
refused "a volume's place" "is a volume" "$WEIR" backup "$MNT" --to s3://again/newest "${CONNECT[@]}"
refused "a volume in a place of backups" "has backups" "$WEIR" format "$B" "${CONNECT[@]}"
refused "a volume of a backup in its place" "has backups" "$WEIR" restore-volume "$B" "$B" "${CONNECT[@]}"
refused "a name that leads away" "no name" "$WEIR" restore-volume "$B" s3://again/x --backup ../first "${CONNECT[@]}"
refused "its own place" "elsewhere" "$WEIR" backup "$MNT" --to "$URL" "${CONNECT[@]}"
refused "a name" "no name" "$WEIR" backup "$MNT" --to "file://$T/disk/b" --name a/b "${CONNECT[@]}"
refused "a snapshot that is none" "no snapshot" "$WEIR" backup "$MNT" --to "file://$T/disk/b" --snapshot none "${CONNECT[@]}"
refused "a missing bucket" "nowhere" "$WEIR" backup "$MNT" --to s3://nowhere/b "${CONNECT[@]}"
refused "over a volume" "holds a volume already" "$WEIR" restore-volume "$B" "$URL" "${CONNECT[@]}"
refused "of nothing" "no backup" "$WEIR" restore-volume s3://again/none s3://again/x "${CONNECT[@]}"
refused "a backup that is none" "weir backups" "$WEIR" restore-volume "$B" s3://again/x --backup none "${CONNECT[@]}"
refused "deleting none" "nothing was deleted" "$WEIR" backups "$B" --delete none "${CONNECT[@]}"
jq '.version = 9' "$T/s3/backups/genomes/backups/other/backup.json" >"$T/newer" && cp "$T/s3/backups/genomes/backups/other/backup.json" "$T/older"
cp "$T/newer" "$T/s3/backups/genomes/backups/other/backup.json"
refused "a newer one" "newer weir" "$WEIR" restore-volume "$B" s3://again/x --backup other "${CONNECT[@]}"
echo '{' >"$T/s3/backups/genomes/backups/other/backup.json"
refused "a damaged one" "cannot be read" "$WEIR" restore-volume "$B" s3://again/x --backup other "${CONNECT[@]}"
cp "$T/older" "$T/s3/backups/genomes/backups/other/backup.json"
same "$(snapshots)" "" "snapshots that are left"

echo "== deleted"
before=$(objects backups/genomes/seg)
"$WEIR" backups $B --delete first --delete other "${CONNECT[@]}" --json >"$T/json" || fail "delete"
is '.segments >= 1' true
same "$(names $B) $((before - $(objects backups/genomes/seg)))" "$second $(jq .segments "$T/json")" "what is left"
restored $B s3://again/left
has s3://again/left second
[ ! -e "$T/s3/backups/genomes/writer.json" ] || fail "somebody still has it in hand"

echo "== killed at each step"
D="file://$T/disk/k"
die() { # POINT COMMAND...
    WEIR_FAILPOINTS="$1=1" "${@:2}" "${CONNECT[@]}" >"$T/out" 2>&1
    same $? 137 "killed at $1: $(cat "$T/out")"
}
for point in engine::backup-copied engine::backup-rows; do
    die "$point" "$WEIR" backup "$MNT" --to "$D" --name "k-${point##*-}"
    same "$(names "$D")" "" "backups after $point"
    [[ $(snapshots) == backup-* ]] || fail "no snapshot is left to be cleaned up: $(snapshots)"
done
backup "$MNT" --to "$D" --name whole
is '.copied' 0
same "$(snapshots)" "" "snapshots after those that were killed"
die engine::backup-unnamed "$WEIR" backups "$D" --delete whole
same "$(names "$D")" "" "a backup that was being deleted"
backup "$MNT" --to "$D" --name again
"$WEIR" backups "$D" --delete whole "${CONNECT[@]}" >"$T/out" 2>&1 || grep -q "no backup" "$T/out" || fail "what is left of it: $(cat "$T/out")"
sums "$MNT" >"$T/now"
for point in engine::restore-loading engine::restore-loaded; do
    die "$point" "$WEIR" restore-volume "$D" "file://$T/disk/vol-$point"
    refused "a volume that is not whole" "not a Weir volume" "$WEIR" mount "file://$T/disk/vol-$point" "$T/other" --tier "$T/other-tier"
    # Before anything of it is durable the place is an empty one.
    [ "$point" = engine::restore-loading ] || refused "a new volume over it" "restore-volume" "$WEIR" format "file://$T/disk/vol-$point"
    restored "$D" "file://$T/disk/vol-$point"
    has "file://$T/disk/vol-$point" now
done
WEIR_BUCKET_FAULTS="op=put,p=0.05,seed=7" "$WEIR" backup "$MNT" --to "file://$T/disk/f" "${CONNECT[@]}" >"$T/out" 2>&1 || fail "with failing PUTs: $(cat "$T/out")"
refused "two at once" "in the hands" bash -c "
    python3 - '$T/disk/f/writer.json' $$ <<'PY'
import json, os, sys
pid = int(sys.argv[2])
ticks = int(open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[19])
read = lambda path: open(path).read().strip() if os.path.exists(path) else ''
host = dict(name='here', machine_id=read('/etc/machine-id'), hardware_id='', boot_id=read('/proc/sys/kernel/random/boot_id'),
            pid_namespace=os.readlink('/proc/self/ns/pid'), pid=pid, started_ticks=ticks)
json.dump(dict(id='x', host=host), open(sys.argv[1], 'w'))
PY
    '$WEIR' backup '$MNT' --to 'file://$T/disk/f' --name second ${CONNECT[*]}"
rm "$T/disk/f/writer.json"

echo "== to a database"
pg_make
restored "$D" "file://$T/disk/pg" --meta "$META"
same "$(jq -r .metadata "$T/disk/pg/volume.json")" "$META" "where the metadata is"
has "file://$T/disk/pg" now
backup "file://$T/disk/pg" --to "file://$T/disk/pg-b"
restored "file://$T/disk/pg-b" "file://$T/disk/from-pg"
has "file://$T/disk/from-pg" now

echo "== damage"
damage() { # FILE
    python3 - "$1" <<'PY'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(1000)
    byte = file.read(1)
    file.seek(1000)
    file.write(bytes([byte[0] ^ 1]))
PY
}
one=$(find "$T/disk/k/seg" -type f -size +500k | head -1)
key=${one#"$T/disk/k/"}
cp "$one" "$T/sound" && damage "$one"
# Told by a restore, and mended by --verify from the volume, which has it.
"$WEIR" restore-volume "$D" "file://$T/disk/hurt" >"$T/out" 2>&1 && fail "a damaged backup is restored without a word"
grep -q "1 segments are damaged" "$T/out" || fail "does not say what is damaged: $(cat "$T/out")"
"$WEIR" fsck --data "file://$T/disk/hurt" >"$T/out" 2>&1 && fail "fsck finds nothing"
backup "$MNT" --to "$D" --name verified --verify
is '.copied' 1
cmp "$one" "$T/sound" || fail "--verify does not mend a backup"
rm "$one"
backup "$MNT" --to "$D" --name refilled
is '.copied' 1
# Damaged in the volume: told, kept as it is, and the rest is there.
damage "$T/s3/bucket/vol/$key"
"$WEIR" backup "$MNT" --to "file://$T/disk/new" --name hurt "${CONNECT[@]}" >"$T/out" 2>&1 && fail "a damaged volume is backed up without a word"
grep -q "1 segments are damaged" "$T/out" || fail "does not say what is damaged: $(cat "$T/out")"
"$WEIR" backups "file://$T/disk/new" --json | jq -e '.[0].damaged | length == 1' >/dev/null || fail "the backup does not know"
cp "$T/sound" "$T/s3/bucket/vol/$key"
# Rows that are damaged or gone make no volume.
damage "$T/disk/k/backups/verified/rows/00000000"
refused "damaged rows" "damaged" "$WEIR" restore-volume "$D" "file://$T/disk/x" --backup verified
rm "$T/disk/k/backups/verified/rows/00000000"
refused "missing rows" "missing" "$WEIR" restore-volume "$D" "file://$T/disk/x" --backup verified
[ ! -e "$T/disk/x/volume.json" ] || fail "half a volume"
rm "$T/disk/k/backups/again/segments/00000000"
refused "deleting where a list is lost" "" "$WEIR" backups "$D" --delete refilled
fsck_clean
