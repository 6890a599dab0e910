# What the crash, power cut and fault cases share: a workload that remembers what was acknowledged.
# Sourced after lib.sh and `begin`.
# shellcheck shell=bash

need jq python3
STATE=$T/state
WORKLOAD=$TESTS/tools/workload.py

# Settings under which everything happens soon: flushes, durable points, release, collection.
busy_settings() { # NAME=VALUE ...
    local json='{"flush_age_ms": 100, "meta_flush_ms": 50, "collect_interval_s": 1,
        "collect_grace_s": 5, "bucket_timeout_ms": 4000, "tier_bytes": 67108864}' pair
    for pair in "$@"; do
        json=$(jq ".${pair%%=*} = ${pair#*=}" <<<"$json") || fail "settings $*"
    done
    echo "$json" >"$T/settings.json"
}

# Works in the background until the mount dies or it is ended: `work_start ARGS… ; … ; work_wait`.
work_start() { # [WORKLOAD ARGS...]
    python3 "$WORKLOAD" run "$MNT" "$STATE" "$@" >"$T/work.log" 2>&1 &
    WORK=$!
    remember "$WORK"
}

# Waits for the workload; it must have met no wrong byte, nor an error but that of a dead mount.
work_wait() {
    wait "$WORK" || fail "the workload ends with $?: $(cat "$T/work.log")"
    rm -f "$T/$WORK.pid"
    cat "$T/work.log"
}

# The dead daemon's process may still be on its way out.
work_wait_dead() { # PID
    work_wait
    poll 30 gone "$1" || fail "the workload ended, but the daemon $1 did not"
}

# Operations acknowledged so far by all workers.
acknowledged() { cat "$STATE"/*.journal 2>/dev/null | grep -c '^ack$'; }
at_least() { [ "$(acknowledged)" -ge "$1" ]; }

# What is mounted must be what was acknowledged.
verify() { # [--lossy] [--manifest FILE]
    python3 "$WORKLOAD" check "$MNT" "$STATE" "$@" || fail "the volume is not what was acknowledged"
}

# The volume read from the bucket alone must be as it was read through the tier.
verify_from_bucket() { # unmounts
    local dir=$T/from-bucket
    verify --manifest "$T/through-tier"
    fsck_clean
    mkdir -p "$dir"
    "$WEIR" mount "$URL" "$MNT" --tier "$dir" --log-file "$LOG" "${CONNECT[@]}" --read-only ||
        fail "mount $URL with an empty tier"
    verify --manifest "$T/from-bucket.txt"
    diff "$T/through-tier" "$T/from-bucket.txt" >&2 || fail "tier and bucket differ"
    umount_volume
    rm -rf "$dir"
}
