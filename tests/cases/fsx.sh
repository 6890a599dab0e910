#!/usr/bin/env bash
# time-limit: 300
# fsx: random reads, writes, mappings, truncates, holes and copies of one file, each read checked.
# Several run at once in a tier that cannot hold them, with flushes all the time, by /dev/fuse and over
# io_uring by turns.
source "$(dirname "$0")/../lib.sh"
begin
need fsx jq
seed

operations=$(amount 1500 40000)
cat >"$T/settings.json" <<'JSON'
{"tier_bytes": 67108864, "flush_age_ms": 200, "high_water_percent": 60, "low_water_percent": 20,
 "collect_grace_s": 2, "collect_interval_s": 2}
JSON

weights='[weights]
close_open = 2
invalidate = 2
mapread = 10
mapwrite = 10
read = 10
write = 10
truncate = 4
fsync = 1
fdatasync = 1
posix_fallocate = 3
punch_hole = 5
sendfile = 5
posix_fadvise = 2
copy_file_range = 5'
printf 'flen = 300000\n[opsize]\nmax = 65536\n%s\n' "$weights" >"$T/small.toml"
printf 'flen = 50331648\n[opsize]\nmax = 1500000\n%s\n' "$weights" >"$T/large.toml"
# Aligned, fsx asks for allocations of no length at all, which is an error everywhere.
printf 'flen = 33554432\n[opsize]\nmax = 262144\nalign = 4096\n%s\n' \
    "${weights/posix_fallocate = 3/posix_fallocate = 0}" >"$T/pages.toml"

run() { # SHAPE SEED: in the background; leaves what it said in a log
    fsx -f "$T/$1.toml" -N "$operations" -S "$2" -P "$T" "$MNT/$1-$2" >"$T/fsx-$1-$2.log" 2>&1
}

fmt_mount --config "$T/settings.json"
for round in $(seq "$(amount 2 6)"); do
    pids=()
    for shape in small large pages; do
        run $shape $((SEED + round)) &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || fail "fsx failed in round $round: see its log"
    done
    by_turns "$round" remount
done
rm -f "$MNT"/*
fsck_clean
