#!/usr/bin/env bash
# fio writes at random with a checksum in every block; each is verified from the tier, then cold
# from the bucket.
source "$(dirname "$0")/../lib.sh"
begin
need fio jq
seed
size=$(amount 48m 512m)
cat >"$T/settings.json" <<'JSON'
{"tier_bytes": 134217728, "flush_age_ms": 500}
JSON

run() { # NAME DIRECT ENGINE ARGS...
    local name=$1 direct=$2 engine=$3
    shift 3
    fio --name="$name" --directory="$MNT" --filename="$name" --size="$size" --rw=randwrite \
        --bsrange=4k-64k --verify=crc32c --verify_fatal=1 --direct="$direct" --ioengine="$engine" \
        --randseed="$SEED" --allrandrepeat=1 --norandommap=0 --output="$T/fio.out" "$@" ||
        { cat "$T/fio.out"; fail "fio $name $*"; }
}

cd "$T" || exit 1 # fio leaves its notes where it runs
fmt_mount --config "$T/settings.json"
run buffered 0 psync --do_verify=1
run direct 1 psync --do_verify=1
run deep 1 libaio --iodepth=16 --do_verify=1
run mapped 0 mmap --do_verify=1 --bsrange=4k-4k
cold
run buffered 0 psync --verify_only
run direct 1 psync --verify_only
run deep 1 libaio --iodepth=16 --verify_only
run mapped 0 mmap --verify_only --bsrange=4k-4k
fsck_clean
