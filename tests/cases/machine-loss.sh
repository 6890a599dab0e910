#!/usr/bin/env bash
# The machine is gone with its tier: what was fsynced is in the bucket, or with --journal in the
# journal, which lies on a disk that outlives the machine.
# time-limit: 400
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-crash.sh"
need python3 jq
seed

busy_settings flush_age_ms=2000 meta_flush_ms=500 'journal_bytes=33554432'
for kind in bucket journal; do
    MOUNT_ARGS=(--config "$T/settings.json")
    [ $kind = bucket ] || MOUNT_ARGS+=(--journal "$T/journal")
    URL=file://$BUCKET/$kind STATE=$T/state-$kind
    mkdir -p "$BUCKET/$kind"
    format_volume --segment-size 1MiB
    for ((round = 1; round <= $(amount 4 60); round++)); do
        echo "== $kind, round $round"
        mount_volume
        pid=$(daemon_pid)
        # Every other time with few fsyncs, so that there is something to lose.
        few=
        [ $((round % 2)) -eq 1 ] || few=--few-syncs
        work_start --seed "$SEED/$round" --workers 3 --max-size 300000 $few
        poll 60 at_least $((100 * round)) || fail "the workload stands still: $(cat "$T/work.log")"
        kill9
        work_wait_dead "$pid"
        lose_tier
        KEPT=("${MOUNT_ARGS[@]}")
        if [ $((round % 2)) -eq 1 ]; then
            refused_mount "--accept-loss tier" # its own tier is not here, and that must be said
            MOUNT_ARGS+=(--accept-loss tier)
        else
            lease_of_another
            refused_mount "--take-over" # another machine cannot know that this one is gone
            MOUNT_ARGS+=(--take-over)
        fi
        mount_volume
        MOUNT_ARGS=("${KEPT[@]}")
        verify --lossy
        fsck_clean
    done
done
