#!/usr/bin/env bash
# Small local disks: a journal that its disk cannot hold, a tier out of inodes, a tier on a disk of
# 700 MB, and a tree that the tier has half the room for. All of it goes on as long as the bucket
# takes what the disks do not.
source "$(dirname "$0")/../lib.sh"
begin
need python3 jq mkfs.ext4 losetup

# An ext4 of its own at $T/NAME.
small_disk() { # NAME SIZE [MKFS ARGS...]
    local name=$1 size=$2 loop
    shift 2
    mkdir "$T/$name"
    truncate -s "$size" "$T/$name.img"
    mkfs.ext4 -qF -m 0 "$@" "$T/$name.img" || fail "mkfs.ext4"
    loop=$(losetup -f --show "$T/$name.img") || fail "losetup"
    mount "$loop" "$T/$name" || fail "mount $loop"
}

# Writes files of noise, `fsync`ing each if told; the time of the slowest one must be small.
files() { # DIR COUNT BYTES SECONDS_MOST [fsync]
    python3 - "$@" <<'PY' || fail "$2 files of $3 bytes in $1"
import os, random, sys, time
directory, count, size, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
noise = random.Random(7).randbytes(size + count)
slowest = 0
for n in range(count):
    began = time.monotonic()
    with open(f"{directory}/f{n}", "wb") as file:
        file.write(noise[n:n + size])
        if len(sys.argv) > 5:
            file.flush()
            os.fsync(file.fileno())
    slowest = max(slowest, time.monotonic() - began)
print(f"{count} files of {size} bytes, slowest {slowest:.2f} s")
if slowest > most:
    sys.exit(f"one took {slowest:.1f} s")
PY
}

same_files() { # DIR COUNT BYTES
    python3 - "$@" <<'PY' || fail "files in $1"
import random, sys
directory, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
noise = random.Random(7).randbytes(size + count)
for n in range(count):
    with open(f"{directory}/f{n}", "rb") as file:
        if file.read() != noise[n:n + size]:
            sys.exit(f"f{n} differs")
PY
}

another_volume() { # NAME
    MNT=$T/$1.mnt TIER=$T/$1 BUCKET=$T/bucket URL=file://$T/bucket/$1 LOG=$T/$1.log
    mkdir "$MNT" "$BUCKET/$1"
}

echo "== a journal on a disk of 256 MiB"
small_disk journal 256M
another_volume journaled
mkdir "$TIER"
fmt_mount --journal "$T/journal"
files "$MNT" 400 1048576 20 fsync
[ "$(status .journal.limit_bytes)" -lt $((256 << 20)) ] || fail "the journal's size is beyond its disk"
[ "$(status .journal.used_bytes)" -le "$(status .journal.limit_bytes)" ] || fail "a journal over its size"
kill9
mount_volume
same_files "$MNT" 400 1048576
umount_volume
[ "$(du -sm "$T/journal" | cut -f1)" -lt 16 ] || fail "a clean journal that is not empty"

echo "== a journal on a disk that others filled"
mount_volume
dd if=/dev/zero of="$T/journal/others" bs=1M 2>/dev/null
files "$MNT" 20 1048576 20 fsync
mkdir "$MNT/more" && files "$MNT/more" 200 100 20 fsync
fsck_clean
rm "$T/journal/others"

echo "== a tier of 3,000 inodes"
small_disk inodes 2G -N 3000
another_volume inodes
fmt_mount
files "$MNT" 4000 5000 20
[ "$(status .tier.limit_files)" -lt 3000 ] || fail "more files than there are inodes"
same_files "$MNT" 4000 5000
fsck_clean

echo "== a tier on a disk of 700 MB"
small_disk small 700M
another_volume small
fmt_mount
mkdir "$MNT/tree" && files "$MNT/tree" 81 1048576 20
"$WEIR" flush "$MNT" && "$WEIR" release -r "$MNT/tree" || fail "release"
"$WEIR" hydrate -r "$MNT/tree" --wait || fail "81 MiB do not come"
began=$SECONDS
for n in 1 2 3 4 5; do
    dd if=/dev/urandom of="$MNT/big$n" bs=1M count=150 2>/dev/null || fail "dd into a small tier"
done
[ $((SECONDS - began)) -lt 30 ] || fail "writes stall: $((SECONDS - began)) s"
[ "$(status .tier.limit_bytes)" -lt 700000000 ] || fail "a tier larger than its disk"
grep -q "WARN.*tier" "$LOG" || fail "nobody was told that the disk is smaller than the tier"

echo "== a tree that the tier has half the room for"
umount_volume
small_disk half 64M
TIER=$T/half
mount_volume
out=$("$WEIR" hydrate -r "$MNT/tree" --wait --json 2>"$T/hydrate.log") && fail "it says that all is here"
here=$("$WEIR" residency "$MNT"/tree/* --json | jq '[.[] | select(.released == 0)] | length')
said=$(jq '.[0] | .files_done - .refused' <<<"$out")
echo "$here of 81 files are here, $said are said to be"
same "$said" "$here" "files that are here"

echo "== a tier on a disk that others filled"
dd if=/dev/zero of="$T/half/others" bs=1M 2>/dev/null
echo more 2>/dev/null >"$MNT/none" && sync "$MNT/none" 2>/dev/null
mkdir "$MNT"/d{1..300} || fail "names cannot be made"
"$WEIR" flush "$MNT" || fail "flush"
rm "$T/half/others"
dd if=/dev/urandom of="$MNT/again" bs=1M count=80 2>/dev/null || fail "there is room again"
fsck_clean
