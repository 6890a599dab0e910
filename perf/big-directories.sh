#!/usr/bin/env bash
# Large directories and large volumes: `ls -lR` and `rm -rf` of many files in many directories, a
# listing of one huge directory, and what a mount of it all costs in time and memory. Needs root and
# a release binary.
#
#   WEIR          the binary
#   BENCH_TREE (100000)   files of 1 KiB, 1,000 to a directory
#   BENCH_FLAT (1000000)  empty files in one directory
source "$(dirname "$0")/../tests/lib.sh"
tree=${BENCH_TREE:-100000} flat=${BENCH_FLAT:-1000000}
begin
need python3 jq

drop_caches() { sync && echo 3 >/proc/sys/vm/drop_caches; }

rss_mib() { awk '/^VmRSS/ {printf "%d", $2 / 1024}' "/proc/$(daemons_below "$MNT")/status"; }

measure() { # WHAT COUNT COMMAND...
    local what=$1 count=$2 begun=$EPOCHREALTIME ended
    shift 2
    "$@" >/dev/null || fail "$what: $*"
    ended=$EPOCHREALTIME
    awk -v w="$what" -v n="$count" -v b="$begun" -v e="$ended" -v m="$(rss_mib)" 'BEGIN {
        printf "%-36s %9.2f s %10.0f/s  daemon %4d MiB\n", w, e - b, n / (e - b), m }'
}

make_tree() { # DIRECTORY
    python3 - "$1" "$tree" <<'PY'
import os, sys
where, count = sys.argv[1], int(sys.argv[2])
for n in range(count):
    if n % 1000 == 0:
        os.makedirs(f"{where}/{n // 1000:04d}")
    fd = os.open(f"{where}/{n // 1000:04d}/{n:07d}", os.O_CREAT | os.O_WRONLY, 0o644)
    os.write(fd, b"x" * 1024)
    os.close(fd)
PY
}

make_flat() { # DIRECTORY
    python3 - "$1" "$flat" <<'PY'
import os, sys
where, count = sys.argv[1], int(sys.argv[2])
os.makedirs(where)
for n in range(count):
    os.mknod(f"{where}/{n:07d}")
PY
}

fmt_mount --tier-size 4GiB
echo "== the local disk"
mkdir "$T/local"
begun=$SECONDS
make_tree "$T/local/tree" && echo "made in $((SECONDS - begun)) s"
drop_caches
time ls -lR "$T/local/tree" >/dev/null
time rm -rf "$T/local/tree"

echo "== weir"
measure "create $tree files of 1 KiB" "$tree" make_tree "$MNT/tree"
drop_caches
measure "ls -lR of them" "$tree" ls -lR "$MNT/tree"
measure "rm -rf of them" "$tree" rm -rf "$MNT/tree"
measure "mknod $flat in one directory" "$flat" make_flat "$MNT/flat"
"$WEIR" flush "$MNT" || fail "flush"
drop_caches
measure "ls -U of it" "$flat" ls -U "$MNT/flat"
drop_caches
measure "ls -l of it" "$flat" ls -l "$MNT/flat"
same "$(ls -U "$MNT/flat" | wc -l)" "$flat" "entries listed"
"$WEIR" umount "$MNT" || fail "umount"
drop_caches
measure "mount a volume of $flat files" "$flat" mount_volume
measure "stat one of them" 1 stat "$MNT/flat/0000007"
