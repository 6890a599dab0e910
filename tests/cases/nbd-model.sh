#!/usr/bin/env bash
# Random requests to disks over NBD, many at once, while their daemon is killed and its tier lost:
# everything that was promised is there, and snapshots and clones are what the disk was.
# time-limit: 400
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-crash.sh"
need jq
[ -e /usr/lib/python3/dist-packages/nbd.py ] || fail "python3-libnbd is not here: run make test-tools"
seed

busy_settings high_water_percent=20 low_water_percent=5 bucket_timeout_ms=60000 collect_grace_s=70 \
    flush_age_ms=1500

model() { # NAME ROUNDS [ARGS...]
    local name=$1 rounds=$2
    shift 2
    echo "== $name"
    mkdir -p "$T/$name" "$BUCKET/$name"
    URL=file://$BUCKET/$name
    format_volume --segment-size 1MiB
    "$TESTS/tools/disk_model.py" --seed "$SEED" --rounds "$rounds" --url "$URL" --dir "$T/$name" \
        --config "$T/settings.json" "$@" || fail "$name, WEIR_SEED=$SEED"
    "$WEIR" fsck --data "$URL" || fail "fsck of $name"
    rm -rf "${T:?}/$name" "${BUCKET:?}/$name"
}

model none "$(amount 4 100)"
model tier "$(amount 4 100)" --cache tier
model small-records "$(amount 2 100)" --record 131072
model journal "$(amount 3 100)" --journal
model tier-journal "$(amount 2 100)" --journal --cache tier --record 65536
model faults "$(amount 2 60)" --faults 0.05
