#!/usr/bin/env bash
# One bucket request in twenty fails, before, in or after it was carried out: no operation fails, no
# byte is wrong. On a directory, then on an S3 server.
# time-limit: 400
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-crash.sh"
need python3 jq
seed

# A small tier, so that bytes are fetched all the time; time enough to try again.
busy_settings high_water_percent=3 low_water_percent=1 bucket_timeout_ms=60000 collect_grace_s=70 \
    flush_age_ms=300 meta_flush_ms=200
for kind in file s3; do
    STATE=$T/state-$kind MOUNT_ARGS=(--config "$T/settings.json")
    [ $kind = s3 ] && s3_start
    format_volume --segment-size 1MiB
    for ((round = 1; round <= $(amount 2 30); round++)); do
        echo "== $kind, round $round"
        export WEIR_BUCKET_FAULTS="p=0.05,seed=$((SEED + round))"
        mount_volume
        # The workload reads back as well, and --survive lets no operation fail.
        work_start --seed "$SEED/$round" --workers 2 --ops "$(amount 350 1500)" --max-size 400000 --survive
        work_wait
        failed=$(status '[.requests.rows[].failed] | add')
        [ "$failed" -gt 0 ] || fail "no request failed: the faults are not there"
        echo "$failed requests failed"
        verify
        if [ $((round % 2)) -eq 1 ]; then
            kill9
        else
            umount_volume
        fi
        unset WEIR_BUCKET_FAULTS
        mount_volume
        verify
        verify_from_bucket
    done
done
s3_stop
