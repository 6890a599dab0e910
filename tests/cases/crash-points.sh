#!/usr/bin/env bash
# The daemon dies by SIGKILL at each fail point, early and late; what was acknowledged is there.
# time-limit: 600
source "$(dirname "$0")/../lib.sh"
begin
source "$TESTS/lib-crash.sh"
need python3 jq
seed

# Low water marks make the tier let go of pages all the time; collecting needs dead records.
busy_settings high_water_percent=1 low_water_percent=0
MOUNT_ARGS=(--config "$T/settings.json")
format_volume --segment-size 1MiB

round=0
for point in tier::written tier::released engine::segment-put engine::flush-committed \
    engine::truncate-committed engine::commit-logged engine::records-moved; do
    for nth in 1 $((2 + (SEED + round) % 7)) $(amount "" "20 53 117"); do
        round=$((round + 1))
        echo "== $point, pass $nth"
        # The first passes happen while mounting or before any work: those count as well.
        WEIR_FAILPOINTS="$point=$nth" "$WEIR" mount "$URL" "$MNT" --tier "$TIER" --log-file "$LOG" \
            "${MOUNT_ARGS[@]}" || echo "(dead before it was mounted)"
        if mountpoint -q "$MNT"; then
            pid=$(daemons_below "$MNT")
            work_start --seed "$SEED/$round" --ops "$(amount 20000 200000)" --max-size 700000
            work_wait_dead "$pid"
        fi
        kill9
        mount_volume
        [ -d "$STATE" ] && verify
        fsck_clean
    done
done
