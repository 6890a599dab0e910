#!/usr/bin/env bash
# What people get wrong and what disks do: each has a clear message and a non-zero exit, and nothing
# panics or hangs.
# time-limit: 400
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-crash.sh"
need jq mkfs.xfs losetup unshare python3

# The command must fail within its time, and say all of the words.
refused() { # WHAT COMMAND... -- WORDS...
    local what=$1 words=() command=() code word
    shift
    while [ "$1" != -- ]; do command+=("$1"); shift; done
    shift
    words=("$@")
    timeout 60 "${command[@]}" >"$T/out" 2>&1
    code=$?
    [ $code -ne 0 ] || fail "$what: exit 0"
    [ $code -lt 100 ] || fail "$what: exit $code: $(cat "$T/out")"
    grep -q "panicked" "$T/out" "$LOG" 2>/dev/null && fail "$what: panic: $(cat "$T/out")"
    for word in "${words[@]}"; do
        grep -qi -- "$word" "$T/out" || fail "$what: does not say '$word': $(cat "$T/out")"
    done
    [ "$(wc -l <"$T/out")" -le 8 ] || fail "$what: says too much: $(cat "$T/out")"
    # A dead mount stays one until it is cleared away.
    [ -n "${DEAD:-}" ] || ! mountpoint -q "$MNT" || fail "$what: mounted all the same"
    echo "ok: $what: $(head -c 300 "$T/out" | head -1)"
}

at=(--tier "$TIER" --log-file "$LOG")
on=("$WEIR" mount "$URL" "$MNT" "${at[@]}")

echo "== names of errors"
"$WEIR" explain tier-in-use | grep -q "weir status" || fail "explain"
same "$("$WEIR" explain | wc -l)" "$(grep -c '^## ' "$TESTS/../docs/errors.md")" "names of errors"
refused "an error without a name" "$WEIR" explain none -- "tier-full"

echo "== URLs, sizes and settings"
refused "no scheme" "$WEIR" format "$BUCKET" -- "not a bucket URL" "file://$BUCKET"
refused "an unknown scheme" "$WEIR" format "ftp://x/y" -- ftp
refused "an empty bucket" "$WEIR" format "s3://" -- "s3://"
refused "a relative file URL" "$WEIR" format "file://x/y" -- "file:///"
refused "a directory that cannot be made" "$WEIR" format "file:///proc/none/vol" -- "/proc/none/vol"
refused "a file above the bucket" "$WEIR" format "file://$WEIR/vol" -- "$WEIR/vol" "not a directory"
refused "a file for a bucket" "$WEIR" format "file://$WEIR" -- "not a directory"
refused "a record size of 5" "$WEIR" format "$URL" --record-size 5 -- "power of two"
refused "a record size in words" "$WEIR" format "$URL" --record-size big -- "100GiB"
refused "a segment of 1 GiB" "$WEIR" format "$URL" --segment-size 1GiB -- "256 MiB"
refused "an unknown codec" "$WEIR" format "$URL" --codec gzip -- lz4
refused "a place that is no volume" "${on[@]}" -- "not a Weir volume" "weir format" "weir explain not-a-volume"
format_volume --segment-size 1MiB
refused "format over a volume" "$WEIR" format "$URL" -- "already"
refused "a tier of 1 MiB" "${on[@]}" --tier-size 1MiB -- tier_bytes "67108864"
refused "a flush age without a unit" "${on[@]}" --flush-age 30 -- "30"
refused "a settings file that is not there" "${on[@]}" --config "$T/none.json" -- "none.json"
echo '{"tier_bites": 1}' >"$T/bad.json"
refused "an unknown setting" "${on[@]}" --config "$T/bad.json" -- tier_bites
echo '{' >"$T/bad.json"
refused "settings that are no JSON" "${on[@]}" --config "$T/bad.json" -- bad.json
echo '{"high_water_percent": 10, "low_water_percent": 90}' >"$T/bad.json"
refused "water marks the wrong way round" "${on[@]}" --config "$T/bad.json" -- "water marks"

echo "== mount points"
mkdir "$T/full" && touch "$T/full/file"
refused "no mount point" "$WEIR" mount "$URL" "$T/none" "${at[@]}" -- "$T/none" mkdir "weir explain mountpoint"
refused "a file as mount point" "$WEIR" mount "$URL" "$T/full/file" "${at[@]}" -- "not a directory"
refused "a full mount point" "$WEIR" mount "$URL" "$T/full" "${at[@]}" -- "not empty"
# shellcheck disable=SC2016 # for the inner shell
refused "no /dev/fuse" unshare -m sh -c 'mount -t tmpfs none /dev && exec "$0" mount "$@"' \
    "$WEIR" "$URL" "$MNT" "${at[@]}" -- /dev/fuse modprobe "weir explain no-fuse"
refused "umount of what is no mount" "$WEIR" umount "$T/full" -- "no Weir volume"
refused "umount of another file system" "$WEIR" umount /proc -- "no Weir volume"
refused "umount of what is not there" "$WEIR" umount "$T/none" -- "$T/none"
mountpoint -q /proc || fail "it unmounted /proc"
mount_volume
busy() { "$WEIR" mount "$URL" "$MNT" --tier "$T/tier2" --log-file "$T/second.log" >"$T/out" 2>&1; }
busy && fail "mounted twice on one mount point"
grep -q "mounted here already" "$T/out" || fail "a busy mount point: $(cat "$T/out")"
mkdir "$T/mnt2"
"$WEIR" mount "$URL" "$T/mnt2" --tier "$TIER" --log-file "$T/second.log" --read-only >"$T/out" 2>&1 &&
    fail "two daemons on one tier"
grep -q "in use by another weir" "$T/out" || fail "a tier in use: $(cat "$T/out")"
grep -q "weir explain tier-in-use" "$T/out" || fail "the name of a tier in use: $(cat "$T/out")"

echo "== a daemon that hangs, and one that is dead"
pid=$(daemon_pid)
kill -STOP "$pid"
timeout 60 "$WEIR" status >"$T/out"
same $? 1 "the end of weir status beside a daemon that hangs"
grep -q "does not answer" "$T/out" || fail "nobody says that a daemon hangs: $(cat "$T/out")"
kill -CONT "$pid"
kill -KILL "$pid"
poll 30 gone "$pid" || fail "the daemon survives kill -9"
dead="the daemon of $MNT is dead (kill -9 or crash): \`weir umount $MNT\`, then mount again"
"$WEIR" status >"$T/out"
same $? 1 "the end of weir status beside a dead daemon"
grep -qF "$dead" "$T/out" || fail "weir status of a dead daemon: $(cat "$T/out")"
for words in "status $MNT" "flush $MNT" "df $MNT" "hydrate $MNT/x" "mount $URL $MNT --tier $TIER --log-file $LOG"; do
    # shellcheck disable=SC2086 # they are words
    DEAD=1 refused "weir $words on a dead mount" "$WEIR" $words -- "$dead" "weir explain mount-dead"
done
"$WEIR" umount "$MNT" || fail "a dead mount cannot be cleared away"
mount_volume
umount_volume

echo "== tiers"
mkdir "$T/memory" && mount -t tmpfs none "$T/memory"
refused "a tier in memory" "$WEIR" mount "$URL" "$MNT" --tier "$T/memory" --log-file "$LOG" -- tmpfs
refused "a journal in memory" "${on[@]}" --journal "$T/memory" -- tmpfs
umount "$T/memory"
refused "a tier that cannot be made" "$WEIR" mount "$URL" "$MNT" --tier /proc/tier --log-file "$LOG" -- /proc/tier

echo "== volume.json"
json=$BUCKET/vol/volume.json
cp "$json" "$T/volume.json"
jq '.format_version = 999' "$T/volume.json" >"$json"
refused "a newer format" "${on[@]}" -- "999" "newer weir"
refused "fsck of a newer format" "$WEIR" fsck "$URL" -- "newer weir"
same "$("$WEIR" fsck "$URL" >/dev/null 2>&1; echo $?)" 2 "exit code of an fsck that cannot check"
head -c 300 /dev/urandom >"$json"
refused "garbage for volume.json" "${on[@]}" -- "volume.json" "cannot be read"
: >"$json"
refused "an empty volume.json" "${on[@]}" -- "volume.json"
echo '[]' >"$json"
refused "a list for volume.json" "${on[@]}" -- "volume.json"
jq 'del(.stripe_set)' "$T/volume.json" >"$json"
refused "a volume.json without its buckets" "${on[@]}" -- "stripe_set"
jq '.stripe_set = []' "$T/volume.json" >"$json"
refused "a volume.json with no bucket" "${on[@]}" -- "volume.json"
cp "$T/volume.json" "$json"

echo "== metadata"
mv "$BUCKET/vol/meta" "$T/meta"
refused "a volume without its metadata" "${on[@]}" -- "meta"
rm -rf "$BUCKET/vol/meta" && mv "$T/meta" "$BUCKET/vol/meta"

echo "== an S3 server"
s3_start
endpoint=("${CONNECT[@]}")
refused "no such bucket" "$WEIR" format s3://nobucket/vol "${endpoint[@]}" -- "nobucket" "no such bucket"
refused "wrong keys" env AWS_SECRET_ACCESS_KEY=wrong "$WEIR" format s3://bucket/vol "${endpoint[@]}" -- "keys"
refused "an unknown key" env AWS_ACCESS_KEY_ID=nobody "$WEIR" format s3://bucket/vol "${endpoint[@]}" -- "keys"
refused "an unreachable endpoint" "$WEIR" format s3://bucket/vol --endpoint "http://127.0.0.1:$(free_port)" -- "endpoint"
echo '{"bucket_timeout_ms": 1000}' >"$T/hasty.json"
refused "mount at an unreachable endpoint" "$WEIR" mount s3://bucket/vol "$MNT" "${at[@]}" \
    --config "$T/hasty.json" --endpoint "http://127.0.0.1:$(free_port)" -- "endpoint"
s3_stop
CONNECT=() URL=file://$BUCKET/vol

echo "== damaged segments"
busy_settings collect_grace_s=3600 collect_interval_s=3600 read_ahead_bytes=0
MOUNT_ARGS=(--config "$T/settings.json")
mount_volume
for name in flipped short missing sound; do
    dd if=/dev/urandom of="$MNT/$name" bs=300k count=1 status=none
    "$WEIR" flush "$MNT" || fail flush
    segment=$(find "$BUCKET/vol/seg" -type f -newer "$T/mark" 2>/dev/null || find "$BUCKET/vol/seg" -type f)
    [ "$(wc -l <<<"$segment")" = 1 ] || fail "one segment expected: $segment"
    declare "segment_$name=$segment"
    touch "$T/mark"
    sleep 0.05 # times of files are coarse
done
cp "$MNT/sound" "$T/sound"
umount_volume
lose_tier
python3 - "${segment_flipped:?}" <<'PY'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(150_000)
    byte = file.read(1)[0] ^ 1
    file.seek(150_000)
    file.write(bytes([byte]))
PY
truncate -s 1000 "${segment_short:?}"
rm "${segment_missing:?}"
mount_volume
for name in flipped short missing; do
    : >"$T/err"
    timeout 60 cat "$MNT/$name" >/dev/null 2>"$T/err" && fail "a $name segment reads without error"
    grep -q "Input/output error" "$T/err" || fail "a $name segment is not EIO: $(cat "$T/err")"
    id=segment_$name id=$(basename "${!id}")
    grep -q "$id" "$LOG" || fail "the log does not name the $name segment $id: $(tail -3 "$LOG")"
    cmp "$MNT/sound" "$T/sound" || fail "a $name segment harms another file"
done
echo fine >"$MNT/written" && sync "$MNT/written" || fail "writing beside damaged segments"
umount_volume
"$WEIR" fsck --data "$URL" >"$T/fsck" 2>&1
same $? 1 "exit code of fsck with problems"
for name in flipped short missing; do
    id=segment_$name id=$(basename "${!id}")
    grep -q "^problem: .*$id" "$T/fsck" || fail "fsck does not name the $name segment: $(cat "$T/fsck")"
done
grep -q "$(basename "${segment_sound:?}")" "$T/fsck" && fail "fsck blames the sound segment"
"$WEIR" fsck --data --json "$URL" >"$T/fsck"
jq -e '.problems | length >= 3' "$T/fsck" >/dev/null || fail "fsck --json with problems: $(cat "$T/fsck")"
"$WEIR" fsck "$URL" >"$T/fsck" 2>&1
same $? 1 "exit code of fsck without --data"

echo "== a full disk below the tier"
truncate -s 320M "$T/small.img"
mkfs.xfs -q "$T/small.img" || fail "mkfs.xfs"
mkdir "$T/small"
mount "$(losetup -f --show "$T/small.img")" "$T/small" || fail "mount of the small disk"
BUCKET=$T/bucket2 URL=file://$T/bucket2 TIER=$T/small/tier
mkdir -p "$BUCKET" "$TIER"
# The tier may take more than the disk has: the floor under the free space must hold writers back.
busy_settings tier_bytes=10737418240 free_floor_bytes=100000000 flush_age_ms=60000 bucket_timeout_ms=5000
fmt_mount --config "$T/settings.json"
dd if=/dev/urandom of="$T/big" bs=1M count=400 status=none
timeout 120 cp "$T/big" "$MNT/big" || fail "writing more than the tier's disk holds"
cmp "$MNT/big" "$T/big" || fail "wrong bytes through a small tier"
mv "$BUCKET" "$BUCKET.away"
timeout 120 dd if=/dev/zero of="$MNT/more" bs=1M count=400 status=none 2>"$T/err" && fail "400 MiB fit into a full tier"
grep -q "Input/output error" "$T/err" || fail "not EIO: $(cat "$T/err")"
mv "$BUCKET.away" "$BUCKET"
works() { echo again >"$MNT/again" && sync "$MNT/again"; }
poll 60 works || fail "writing does not work again"
grep -q panicked "$LOG" && fail "panic: $(grep panicked "$LOG")"
cmp "$MNT/big" "$T/big" || fail "wrong bytes after the disk was full"
fsck_clean
umount "$T/small"
