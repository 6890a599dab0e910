#!/usr/bin/env bash
# The power is cut: the local disk (XFS on a loop device) loses what it had not synced. What was
# fsynced is there, nothing is torn, and no page of the tier is older than the bucket.
# time-limit: 600
source "$(dirname "$0")/../lib.sh"
own_mounts
begin
source "$TESTS/lib-crash.sh"
need python3 jq mkfs.xfs xfs_io losetup
seed

source "$TESTS/lib-disk.sh"

busy_settings flush_age_ms=1000 meta_flush_ms=200 high_water_percent=30 low_water_percent=10
attach
for variant in tier tier+bucket tier+journal journal-tier-lost; do
    TIER=$DISK/tier-$variant STATE=$T/state-$variant BUCKET=$T/bucket/$variant
    [ $variant = tier+bucket ] && BUCKET=$DISK/bucket
    URL=file://$BUCKET
    MOUNT_ARGS=(--config "$T/settings.json")
    case $variant in *journal*) MOUNT_ARGS+=(--journal "$DISK/journal") ;; esac
    mkdir -p "$TIER" "$BUCKET"
    sync -f "$DISK"
    format_volume --segment-size 1MiB
    for ((round = 1; round <= $(amount 3 40); round++)); do
        echo "== $variant, cut $round"
        mount_volume
        pid=$(daemon_pid)
        # Every other time with few fsyncs, so that there is something to lose.
        few=
        [ $((round % 2)) -eq 1 ] || few=--few-syncs
        work_start --seed "$SEED/$variant/$round" --workers 2 --max-size 300000 $few
        poll 60 at_least $((60 + 150 * (round - 1))) || fail "it stands still: $(cat "$T/work.log")"
        cut
        work_wait_dead "$pid"
        reboot
        if [ $variant = journal-tier-lost ]; then
            rm -rf "$TIER"
            refused_mount "--accept-loss tier"
            MOUNT_ARGS+=(--accept-loss tier)
            mount_volume
            unset 'MOUNT_ARGS[-1]' 'MOUNT_ARGS[-1]'
        else
            mount_volume
        fi
        verify --lossy
        verify_from_bucket
    done
done
umount "$DISK"
