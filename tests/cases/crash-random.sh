#!/usr/bin/env bash
# kill -9 at random moments while four workers write; each round goes on with the same volume.
# time-limit: 400
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-crash.sh"
need python3 jq
seed
RANDOM=$((SEED % 32768))

busy_settings high_water_percent=20 low_water_percent=5
MOUNT_ARGS=(--config "$T/settings.json")
format_volume --segment-size 1MiB

rounds=$(amount 8 150)
for ((round = 1; round <= rounds; round++)); do
    mount_volume
    pid=$(daemon_pid)
    [ "$round" -eq 1 ] || verify
    work_start --seed "$SEED/$round" --workers 4
    poll 60 at_least $((20 + RANDOM % 1500)) || fail "the workload stands still: $(cat "$T/work.log")"
    kill9
    work_wait_dead "$pid"
    # Now and then a second crash comes before anything of the first is put right.
    if [ $((RANDOM % 4)) -eq 0 ]; then
        mount_volume
        kill9
    fi
    if [ $((round % 4)) -eq 0 ]; then
        mount_volume
        verify
        fsck_clean
    fi
done
mount_volume
[ $((rounds % 4)) -eq 0 ] || verify
verify_from_bucket
