#!/usr/bin/env bash
# Processes at work on the same files in every way there is, on a tier smaller than the data, with
# flushes, releases, hydrations and archives at random: checked live, after the end, after kill -9,
# and from an empty tier. Prints its seed.
source "$(dirname "$0")/../lib.sh"
begin
need python3
seed

hammer() { # WHAT [ARGS...]
    timeout $((120 + $(amount 0 900))) python3 "$TESTS/tools/hammer.py" "$1" "$MNT" "$T/state" "${@:2}"
}

checked() { # WHEN
    hammer check || fail "$1 (seed $SEED)"
}

fmt_mount --flush-age 500ms --tier-size 64MiB
for round in $(seq "$(amount 1 12)"); do
    [ "$round" = 1 ] || echo "round $round"
    rm -rf "$T/state" "${MNT:?}"/*
    mkdir "$T/state"
    hammer run --seed $((SEED + 2 * round)) --seconds "$(amount 12 120)" --weir "$WEIR" ||
        fail "beside each other (seed $SEED)"
    checked "after the end"

    # Killed at work: what had returned is there.
    rm -rf "$T/state" "${MNT:?}"/*
    mkdir "$T/state"
    hammer run --seed $((SEED + 2 * round + 1)) --seconds 60 --weir "$WEIR" &
    hammering=$!
    sleep "$(amount 6 30)"
    kill9
    wait $hammering
    [ $? = 3 ] || fail "the workers did not end with the mount (seed $SEED)"
    mount_volume
    checked "after kill -9"
    cold
    checked "from an empty tier"
done
fsck_clean
