#!/usr/bin/env bash
# time-limit: 300
# Generated operations against a model in memory, through clean remounts, cold ones and kill -9;
# after each the whole tree is compared: names, bytes, links, attributes, times. Requests come by
# /dev/fuse and over io_uring by turns.
source "$(dirname "$0")/../lib.sh"
begin
need python3 jq
seed

cat >"$T/settings.json" <<'JSON'
{"tier_bytes": 67108864, "flush_age_ms": 300, "high_water_percent": 70, "low_water_percent": 30,
 "collect_grace_s": 1, "collect_interval_s": 1}
JSON
model() { # run|check ARGS...
    python3 "$TESTS/tools/model.py" "$@" "$MNT" "$T/model.pickle" || fail "the model and $MNT differ"
}

fmt_mount --config "$T/settings.json"
operations=$(amount 300 1500)
for round in $(seq "$(amount 9 60)"); do
    model run $((SEED + round)) "$operations"
    case $((round % 3)) in
        0) by_turns "$round" cold ;;
        1) kill9 && by_turns "$round" mount_volume ;;
        2) by_turns "$round" remount ;;
    esac
    model check
done
fsck_clean
