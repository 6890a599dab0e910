#!/usr/bin/env bash
# A volume on an S3 server, its segments spread over three buckets: filled, mounted again, checked.
source "$(dirname "$0")/../lib.sh"
begin
need python3 jq curl
s3_start
mkdir "$T/s3/second" "$T/s3/third"

format_volume --stripe s3://second/vol --stripe s3://third/vol --segment-size 1MiB
mount_volume
python3 - "$MNT" <<'PY' || fail "cannot fill the volume"
import os, random, sys
root, rng = sys.argv[1], random.Random(17)
for i in range(20):
    os.makedirs(f"{root}/d{i % 4}", exist_ok=True)
    with open(f"{root}/d{i % 4}/large{i}", "wb") as file:
        file.write(rng.randbytes(5_000_000))
for i in range(500):
    with open(f"{root}/d{i % 4}/small{i}", "wb") as file:
        file.write(rng.randbytes(rng.randrange(9000)))
    if i % 50 == 0:
        os.link(f"{root}/d{i % 4}/small{i}", f"{root}/link{i}")
PY
sum() { tar -C "$MNT" --sort=name --mtime=@0 -cf - . | sha256sum; }
want=$(sum)
umount_volume

segments=()
for bucket in bucket second third; do
    count=$(find "$T/s3/$bucket/vol/seg" -type f | wc -l)
    bytes=$(du -s -B1 --apparent-size "$T/s3/$bucket/vol/seg" | cut -f1)
    echo "$bucket: $count segments, $bytes bytes"
    segments+=("$count")
done
total=$((segments[0] + segments[1] + segments[2]))
[ $total -ge 80 ] || fail "only $total segments for 100 MB in segments of 1 MiB"
for count in "${segments[@]}"; do
    # By chance each has a third; so few would be four standard deviations off.
    [ $((count * 7)) -ge $total ] || fail "a bucket has $count of $total segments"
done
[ ! -e "$T/s3/second/vol/volume.json" ] || fail "the volume is described twice"

lose_tier
mount_volume
same "$(sum)" "$want" "the files, cold"
rm -rf "$MNT/d0"
umount_volume
"$WEIR" fsck --data "$URL" "${CONNECT[@]}" || fail "fsck finds problems"

# A server that is gone and back again is the same volume.
s3_stop
echo '{"bucket_timeout_ms": 2000}' >"$T/impatient.json"
"$WEIR" mount "$URL" "$MNT" --tier "$TIER" --log-file "$LOG" "${CONNECT[@]}" \
    --config "$T/impatient.json" 2>"$T/refused" && fail "mounted without a bucket"
grep -q "127.0.0.1:$S3_PORT" "$T/refused" || fail "the message does not name the server: $(cat "$T/refused")"
s3_start "$S3_PORT"
mount_volume
[ ! -e "$MNT/d0" ] && [ -e "$MNT/d1/large1" ] || fail "other files after the server's return"
fsck_clean
