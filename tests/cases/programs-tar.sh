#!/usr/bin/env bash
# time-limit: 600
# A tree of many small files: the same bytes back, warm and cold, and few objects for it.
source "$(dirname "$0")/../lib.sh"
begin
need tar python3 jq
files=$(amount 10000 100000)

python3 - "$T/tree" "$files" <<'PY'
import os, random, sys
root, count, rng = sys.argv[1], int(sys.argv[2]), random.Random(5)
for i in range(count):
    where = f"{root}/d{i % 97}/e{i % 11}"
    if i < 97 * 11:
        os.makedirs(where)
    with open(f"{where}/f{i}", "wb") as file:
        file.write(rng.randbytes(rng.choice([0, 100, 1000, 5000])))
PY
sum() { tar -C "$1" --sort=name --mtime=@0 -cf - . | sha256sum; }
want=$(sum "$T/tree")

fmt_mount
mkdir "$MNT/tree"
tar -C "$T/tree" -cf - . | tar -C "$MNT/tree" -xf - || fail "tar into the mount"
same "$(sum "$MNT/tree")" "$want" "the tree, warm"
"$WEIR" flush "$MNT" || fail "weir flush"
segments=$(status .since_mount.segments_written)
puts=$(requests data put)
# A full segment holds 16 MiB; a flush of some age may leave one of each stripe not full.
bytes=$(status .since_mount.bytes_flushed)
echo "$files files, $bytes bytes: $segments segments, $puts PUTs of data"
[ "$segments" -ge 1 ] || fail "nothing was flushed"
[ "$segments" -le $((bytes / (16 << 20) + 10)) ] || fail "$segments segments for $bytes bytes"
[ "$puts" -le $((segments + 2)) ] || fail "$puts PUTs for $segments segments"

cold
same "$(sum "$MNT/tree")" "$want" "the tree, cold"
gets=$(requests data get)
echo "read cold with $gets GETs"
# Small files lie side by side: a request brings many of them.
[ "$gets" -le $((files / 20)) ] || fail "$gets GETs for $files files"
rm -rf "$MNT/tree" || fail "rm -rf"
same "$(ls -A "$MNT")" "" "what is left"
fsck_clean
